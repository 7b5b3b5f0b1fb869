"""Theorems about the hardware, one a file: its docstring says what is proved. ``python -m sim.prove`` proves them."""
