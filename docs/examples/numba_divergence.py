"""What divergence costs, in a kernel of numba.

    python -m sim.cuda --launch 1 --timeline rounds.html -- python docs/examples/numba_divergence.py

Each thread of the kernel goes through a loop as often as it is told. The block has four warps with 128 rounds each: in
the first one every thread has 4 of them, in the last one four threads have 32 and the others none. A warp is in the
loop until its last thread has left it, so the same work takes 4, 8, 16, and 32 rounds.
"""

import numpy as np
from numba import cuda

WARP = 32
ROUNDS = 128
"""Of all threads of a warp."""
THREADS = (32, 16, 8, 4)
"""How many threads of each warp share them."""


@cuda.jit
def iterate(rounds: np.ndarray, values: np.ndarray) -> None:
    """Iterates the logistic map as often as each thread is told."""
    i = cuda.grid(1)
    value = values[i]
    for _ in range(rounds[i]):
        value = np.float32(3.7) * value * (np.float32(1) - value)
    values[i] = value


def main() -> None:
    """Runs the kernel once."""
    rounds = np.concatenate([np.where(np.arange(WARP) < threads, ROUNDS // threads, 0) for threads in THREADS])
    values = cuda.to_device(np.full(rounds.size, 0.5, dtype=np.float32))
    iterate[1, rounds.size](cuda.to_device(rounds.astype(np.int32)), values)
    for threads, found in zip(THREADS, values.copy_to_host().reshape(-1, WARP), strict=True):
        print(f"{threads:2} threads, {ROUNDS // threads:2} rounds each: {found[0]:.4f}")


if __name__ == "__main__":
    main()
