// Numbers that pass a test are kept in order: ballots within warps, a scan of the warps' counts in shared memory.

extern "C" __global__ void k(unsigned *out, const unsigned *in, unsigned *count) {
    __shared__ unsigned counts[4], total;
    unsigned t = threadIdx.x, warp = t / 32, base = 0;
    for (unsigned first = 0; first < 256; first += blockDim.x) {
        unsigned x = in[first + t];
        bool keep = (x & 0x11) != 0x11 && x > 1000;
        unsigned ballot = __ballot_sync(0xffffffff, keep);
        if (t % 32 == 0) counts[warp] = __popc(ballot);
        __syncthreads();
        if (t < 4) {
            unsigned sum = counts[t];
            for (int distance = 1; distance < 4; distance *= 2) {
                unsigned other = __shfl_up_sync(0xf, sum, distance, 4);
                if (t >= distance) sum += other;
            }
            counts[t] = sum - counts[t];
            if (t == 3) total = sum;
        }
        __syncthreads();
        if (keep) out[base + counts[warp] + __popc(ballot & (1u << t % 32) - 1)] = x;
        base += total;
        __syncthreads();
    }
    if (t == 0) *count = base;
}
