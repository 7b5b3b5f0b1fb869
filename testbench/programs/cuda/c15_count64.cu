// Counted, found and reversed bits of 32 and 64; bytes put together; interleaved bits.

static __device__ unsigned long long spread(unsigned x) {
    unsigned long long wide = x;
    wide = (wide | wide << 16) & 0x0000ffff0000ffffull;
    wide = (wide | wide << 8) & 0x00ff00ff00ff00ffull;
    wide = (wide | wide << 4) & 0x0f0f0f0f0f0f0f0full;
    wide = (wide | wide << 2) & 0x3333333333333333ull;
    return (wide | wide << 1) & 0x5555555555555555ull;
}

extern "C" __global__ void k(unsigned long long *out, const unsigned long long *in) {
    unsigned t = threadIdx.x;
    unsigned long long x = in[t] >> t * 2;
    unsigned low = x, high = x >> 32;
    unsigned long long *mine = out + 5 * t;
    mine[0] = __popcll(x) | __clzll(x) << 8 | __ffsll(x) << 16 | __popc(low) << 24;
    mine[1] = __clz(high) | __ffs(low) << 8 | (63 - __clzll(x | 1)) << 16;
    mine[2] = __brevll(x) + __brev(low);
    mine[3] = spread(low) | spread(high) << 1;
    mine[4] = static_cast<unsigned long long>(__byte_perm(low, high, 0x0123)) << 32
            | __byte_perm(low, high, (t * 0x1357 + 0x6420) & 0x7777);
}
