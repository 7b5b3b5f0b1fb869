"""Theorems about the hardware, one a file: its docstring states what is proved. ``python -m
sim.prove`` proves them."""
