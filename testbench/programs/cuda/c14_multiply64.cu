// Products: 32 by 32 to 64 bits, high halves, 64 by 64, with addends, signed and not; averages and sums of differences.

extern "C" __global__ void k(unsigned long long *out, const unsigned long long *in) {
    unsigned t = threadIdx.x;
    unsigned long long x = in[t], y = in[31 - t];
    int a = x >> 40, b = static_cast<int>(y), c = static_cast<int>(x);
    unsigned ub = b, uc = c;
    unsigned long long *mine = out + 8 * t;
    mine[0] = x * y + 12345678901ull;
    mine[1] = __umul64hi(x, y);
    mine[2] = __mul64hi(x, y);
    mine[3] = static_cast<long long>(a) * b + c;
    mine[4] = static_cast<unsigned long long>(ub) * uc + x;
    mine[5] = static_cast<unsigned long long>(__umulhi(ub, uc)) << 32 | static_cast<unsigned>(__mulhi(b, c));
    mine[6] = static_cast<unsigned long long>(__umul24(ub, uc)) << 32 | static_cast<unsigned>(__mul24(b, c));
    mine[7] = static_cast<unsigned long long>(__sad(b, c, 5) ^ __usad(ub, uc, t)) << 32
            | (__hadd(b, c) ^ __rhadd(b, c) ^ __uhadd(ub, uc) ^ __urhadd(ub, uc));
}
