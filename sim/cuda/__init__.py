"""CUDA programs on this machine."""
