"""The lanes and the registers."""
