// Comparisons of 64-bit numbers, signed and not, with each other, with constants, and with narrower numbers.

template <class T> static __device__ unsigned compared(T x, T y) {
    return (x < y) + (x <= y) * 3 + (x > y) * 5 + (x >= y) * 9 + (x == y) * 17 + (x != y) * 26;
}

extern "C" __global__ void k(unsigned *out, const long long *in) {
    unsigned t = threadIdx.x;
    long long x = in[t], y = in[(t * 7 + 1) % 40];
    unsigned long long ux = x, uy = y;
    unsigned found = compared(x, y) | compared(ux, uy) << 6;
    found |= (x < 0) << 12 | (x >= 1ll << 32) << 13 | (ux > 0xffffffffull) << 14 | (x == -1) << 15;
    found |= (x < static_cast<int>(y)) << 16 | (ux >= static_cast<unsigned>(y)) << 17 | (x > -2 && y < 2) << 18;
    out[t] = found;
    long long least = min(x, y), most = max(x, y);
    unsigned long long unsigned_least = min(ux, uy), unsigned_most = max(ux, uy);
    out[40 + t] = static_cast<unsigned>((least ^ most) >> 32) + static_cast<unsigned>(unsigned_least - unsigned_most);
    long long clamped = x < -5 ? -5 : x > 5000000000ll ? 5000000000ll : x;
    out[80 + t] = clamped ^ clamped >> 32;
    if (x < y) found *= 3;
    else if (ux > uy) found += 7;
    else if (x != y) found = ~found;
    out[120 + t] = found;
}
