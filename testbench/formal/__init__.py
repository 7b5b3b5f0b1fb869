"""Theorems about the hardware, one in each file, stated in its docstring. ``python -m sim.prove``
proves them.
"""
