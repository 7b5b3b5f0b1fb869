// Shuffles of every kind over segments of 4, 8, 16 and 32 threads, sources that each thread chooses, and sources outside of
// the segment, which leave a thread its own value.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t];
    unsigned *mine = out + 10 * t;
    mine[0] = __shfl_sync(0xffffffff, x, t * 7 + 3);
    mine[1] = __shfl_sync(0xffffffff, x, x >> 5, 8);
    mine[2] = __shfl_sync(0xffffffff, x, 2, 4);
    mine[3] = __shfl_up_sync(0xffffffff, x, 1);
    mine[4] = __shfl_up_sync(0xffffffff, x, 5, 16);
    mine[5] = __shfl_down_sync(0xffffffff, x, 1, 8);
    mine[6] = __shfl_down_sync(0xffffffff, x, t & 3);
    mine[7] = __shfl_xor_sync(0xffffffff, x, 16);
    mine[8] = __shfl_xor_sync(0xffffffff, x, 5, 8);
    unsigned tile = 0xffu << (t & 24);
    mine[9] = __shfl_xor_sync(tile, x, 3, 4) + __shfl_sync(tile, x, 7, 8);
}
