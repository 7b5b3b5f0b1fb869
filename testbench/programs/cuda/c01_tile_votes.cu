// Votes of tiles of 4, 8 and 16 threads of one converged warp: each thread names its own tile.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, lane = t & 31, x = in[t];
    unsigned *mine = out + 6 * t;
    unsigned tile8 = 0xffu << (lane & 24), tile16 = 0xffffu << (lane & 16), tile4 = 0xfu << (lane & 28);
    mine[0] = __ballot_sync(tile8, 1);
    mine[1] = __ballot_sync(tile8, x & 1);
    mine[2] = __ballot_sync(tile16, x % 3 == 0);
    mine[3] = __any_sync(tile4, (x & 6) == 6) << 1 | __all_sync(tile4, x & 8 || x & 1);
    mine[4] = __any_sync(tile16, x > 0xf0000000) << 1 | __all_sync(tile8, x > 0x10000000);
    mine[5] = __popc(__ballot_sync(0xffffffff, x >> 31)) << 8 | __popc(__ballot_sync(tile4, x >> 31) & (1u << lane) - 1);
}
