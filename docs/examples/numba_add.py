"""Adds two arrays with numba: ``python -m sim.cuda -- python docs/examples/numba_add.py``."""

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    """Each thread adds one element."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


x = np.arange(1000, dtype=np.float32)
y = np.ones_like(x)
out = np.zeros_like(x)
add[8, 128](x, y, out)
assert (out == x + y).all()
print(out[:4])
