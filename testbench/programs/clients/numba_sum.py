"""Sums numbers: a tree in shared memory for each block, then an atomic addition."""

import numpy as np
from numba import cuda, int32  # type: ignore[import-not-found]

THREADS = 64


@cuda.jit
def block_sum(values, total):
    tile = cuda.shared.array(THREADS, int32)
    i, me = cuda.grid(1), cuda.threadIdx.x
    tile[me] = values[i] if i < values.size else 0
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if me < width:
            tile[me] += tile[me + width]
        cuda.syncthreads()
        width //= 2
    if me == 0:
        cuda.atomic.add(total, 0, tile[0])


values, total = np.arange(150, dtype=np.int32), np.zeros(1, np.int32)
block_sum[3, THREADS](values, total)  # type: ignore[reportIndexIssue]
assert total[0] == values.sum()
