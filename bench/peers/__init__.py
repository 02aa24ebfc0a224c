"""Agent frameworks behind SSE, as their documentation says; run by bench/frameworks.py in a venv of their own."""
