// Sums, differences and products that stay at the ends of their types: 8, 16, 32 and 64 bits, signed and not.

template <class T, class WIDE> static __device__ T clamped(WIDE x, WIDE least, WIDE most) {
    return static_cast<T>(x < least ? least : x > most ? most : x);
}

static __device__ long long sum(long long x, long long y) {
    unsigned long long wrapped = static_cast<unsigned long long>(x) + y;
    if (((x ^ wrapped) & (y ^ wrapped)) >> 63) return x < 0 ? -0x7fffffffffffffffll - 1 : 0x7fffffffffffffffll;
    return wrapped;
}

extern "C" __global__ void k(unsigned *out, const long long *in) {
    unsigned t = threadIdx.x;
    long long x = in[t], y = in[(t + 13) % 32], both = sum(x, y);
    int a = static_cast<int>(x), b = static_cast<int>(y);
    unsigned *mine = out + 6 * t;
    mine[0] = clamped<signed char, int>((a & 0xff) - (b & 0x1ff), -128, 127) & 0xff;
    mine[0] |= clamped<unsigned char, int>((a & 0xff) + (b & 0xff) - 100, 0, 255) << 8;
    mine[1] = clamped<short, int>((a & 0xffff) - (b & 0x1ffff), -32768, 32767) & 0xffff;
    mine[1] |= static_cast<unsigned>(clamped<unsigned short, int>((a >> 8 & 0xffff) * 3 - (b & 0xffff), 0, 65535)) << 16;
    mine[2] = clamped<int, long long>(static_cast<long long>(a) + b, -0x80000000ll, 0x7fffffffll);
    mine[3] = clamped<unsigned, long long>(static_cast<long long>(a) - b, 0, 0xffffffffll);
    mine[4] = both;
    mine[5] = both >> 32;
}
