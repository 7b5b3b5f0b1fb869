// Sums, maxima and exclusive sums within tiles, the width a template's parameter.

template <int WIDTH> static __device__ unsigned inclusive_sum(unsigned x, unsigned mask) {
    for (int distance = 1; distance < WIDTH; distance *= 2) {
        unsigned below = __shfl_up_sync(mask, x, distance, WIDTH);
        if ((threadIdx.x & (WIDTH - 1)) >= distance) x += below;
    }
    return x;
}

template <int WIDTH> static __device__ int maximum(int x, unsigned mask) {
    for (int distance = WIDTH / 2; distance; distance /= 2) x = max(x, __shfl_xor_sync(mask, x, distance, WIDTH));
    return x;
}

extern "C" __global__ void k(unsigned *out, const int *in) {
    unsigned t = threadIdx.x, lane = t & 31;
    int x = in[t];
    unsigned tile8 = 0xffu << (lane & 24), tile4 = 0xfu << (lane & 28);
    out[t] = inclusive_sum<32>(x, 0xffffffff);
    out[64 + t] = inclusive_sum<8>(x, tile8) - x;
    out[128 + t] = maximum<16>(x, 0xffffffff);
    out[192 + t] = maximum<4>(-x, tile4);
}
