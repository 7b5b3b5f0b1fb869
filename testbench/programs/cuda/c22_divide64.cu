// 64-bit quotients and remainders, with operands of every length, so that every path of the division is taken.

typedef unsigned long long wide;

extern "C" __global__ void k(wide *out, const wide *in) {
    unsigned t = threadIdx.x;
    wide x = in[t] >> (t * 11 & 63), y = in[t + 1] >> (t * 23 & 63) | 1;
    long long a = x, b = t & 2 ? static_cast<long long>(y >> 1) + 1 : -static_cast<long long>(y >> 2) - 2;
    wide *mine = out + 5 * t;
    mine[0] = x / y;
    mine[1] = x % y;
    mine[2] = a / b;
    mine[3] = a % b;
    mine[4] = x / 10 ^ x % 1000000007 ^ a / 1000 ^ a % -12345678901ll;
}
