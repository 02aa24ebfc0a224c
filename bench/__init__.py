"""What is measured, as ratios against something raw in the same run; never a test. `python -m bench`."""
