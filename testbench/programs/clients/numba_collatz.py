"""Counts the steps of Collatz's sequence: each thread leaves the loop on its own."""

import numpy as np
from numba import cuda  # type: ignore[import-not-found]


@cuda.jit
def collatz(numbers, steps):
    i = cuda.grid(1)
    if i < numbers.size:
        n, count = numbers[i], 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        steps[i] = count


numbers, steps = np.arange(1, 41, dtype=np.int64), np.zeros(40, np.int32)
collatz[2, 32](numbers, steps)  # type: ignore[reportIndexIssue]
assert steps[26] == 111
