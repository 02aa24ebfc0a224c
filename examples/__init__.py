"""Small clients to read and to copy from."""
