// 32-bit quotients and remainders, signed and not, by variables and by constants.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t], y = in[(t + 7) % 32] >> t % 29 | 1;
    int a = static_cast<int>(x), b = t & 1 ? static_cast<int>(y) : -static_cast<int>(y >> 1) - 1;
    unsigned *mine = out + 8 * t;
    mine[0] = x / y;
    mine[1] = x % y;
    if (a != -0x7fffffff - 1 || b != -1) {
        mine[2] = a / b;
        mine[3] = a % b;
    }
    mine[4] = x / 3 ^ x / 7 ^ x % 10 ^ x / 641 ^ x % 1000000007;
    mine[5] = a / 3 ^ a % 7 ^ a / -10 ^ a / 16 ^ a % 64;
    mine[6] = 0xffffffffu / y + 1000000 % y;
    mine[7] = x / y / (y % 97 + 1) % 255;
}
