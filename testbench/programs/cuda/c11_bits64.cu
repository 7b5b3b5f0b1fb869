// Bits of 64-bit numbers that branches and choices ask for.

static __device__ unsigned asked(unsigned long long x, unsigned long long y, unsigned n) {
    unsigned found = 0;
    if ((x & y) == 0) found |= 1;
    if (x & (x - 1)) found |= 2;
    if ((x >> n) & 1) found |= 4;
    if (x & 1ull << n) found |= 8;
    if ((x | y) == ~0ull) found |= 16;
    if ((x ^ y) != 0) found |= 32;
    if ((x & ~y) == 0) found |= 64;
    if (!(x & 0xff00ff0000ff00ffull)) found |= 128;
    found |= (x & 0x8000000080000000ull ? n : n + 3) << 8;
    found |= ((x & y) == y) << 16 | ((x | 1) == 1) << 17 | ((x ^ 1ull << n) < x) << 18;
    while (x & y) x &= x - 1, found += 1 << 20;
    return found;
}

extern "C" __global__ void k(unsigned *out, const unsigned long long *in) {
    unsigned t = threadIdx.x;
    unsigned long long x = in[t] & in[(t + 5) % 32], y = in[(t + 1) % 32] & in[(t + 9) % 32] & in[(t + 14) % 32];
    out[t] = asked(x, y, t * 5 % 64);
    out[32 + t] = asked(1ull << t * 2, x & -x, t * 2 ^ (t & 1));
    out[64 + t] = asked(x & 0xffffffff00000000ull, x >> 32, 63 - t);
    out[96 + t] = asked(t == 3 ? 0 : ~y, y, t);
}
