// Shifts, rotations and fields of 64 bits by amounts that are known only when the kernel runs.

static __device__ unsigned long long rotated(unsigned long long x, unsigned by) {
    return x << (by & 63) | x >> (-by & 63);
}

static __device__ unsigned long long field(unsigned long long x, unsigned place, unsigned width) {
    return x >> place & ((width == 64 ? 0 : 1ull << width) - 1);
}

extern "C" __global__ void k(unsigned long long *out, const unsigned long long *in) {
    unsigned t = threadIdx.x, by = t * 9 & 63;
    unsigned long long x = in[t];
    unsigned long long *mine = out + 8 * t;
    mine[0] = x << by;
    mine[1] = x >> by;
    mine[2] = static_cast<long long>(x) >> by;
    mine[3] = rotated(x, t * 5) ^ rotated(x, 32) ^ rotated(x, 13);
    mine[4] = field(x, t, 64 - t) + field(x, 64 - t - 1, t % 20 + 1);
    unsigned low = x, high = x >> 32;
    mine[5] = static_cast<unsigned long long>(__funnelshift_l(low, high, t * 3)) << 32 | __funnelshift_r(low, high, t * 3);
    mine[6] = static_cast<unsigned long long>(__funnelshift_lc(low, high, t * 2)) << 32 | __funnelshift_rc(low, high, t * 2);
    mine[7] = static_cast<long long>(x) >> 63 ^ static_cast<int>(x) >> 7 ^ (x >> 32 << t);
}
