"""The write side: what to capture, when, and until it is safe. Reads nothing for people."""
