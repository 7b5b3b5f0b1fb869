// The n-th smallest number of a warp, bit by bit by ballots, and how many are smaller; every warp has its own n.

static __device__ unsigned nth(unsigned x, unsigned n, unsigned &below) {
    unsigned candidates = 0xffffffff, result = 0;
    below = 0;
    for (int bit = 31; bit >= 0; bit--) {
        unsigned zeros = candidates & ~__ballot_sync(0xffffffff, x >> bit & 1);
        unsigned count = __popc(zeros);
        if (n < count) {
            candidates = zeros;
        } else {
            n -= count, below += count;
            candidates &= ~zeros;
            result |= 1u << bit;
        }
    }
    return result;
}

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, below;
    unsigned found = nth(in[t], 3 + 11 * (t / 32), below);
    out[t] = found + below;
}
