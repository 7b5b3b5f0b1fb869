// Products of 128 bits, a sum of products with its carries, Montgomery's multiplication modulo a 64-bit number.

typedef unsigned long long word;
typedef unsigned __int128 wide;

static __device__ word montgomery(word x, word y, word modulus, word inverse) {
    wide product = static_cast<wide>(x) * y;
    word factor = static_cast<word>(product) * inverse;
    wide reduced = static_cast<wide>(factor) * modulus;
    word high = (product >> 64) - (reduced >> 64);
    return product >> 64 < reduced >> 64 ? high + modulus : high;
}

extern "C" __global__ void k(wide *out, const word *in) {
    unsigned t = threadIdx.x;
    word x = in[2 * t], y = in[2 * t + 1], modulus = y | 1ull << 63 | 1, inverse = modulus;
    for (int i = 0; i < 5; i++) inverse *= 2 - modulus * inverse;
    out[4 * t] = static_cast<wide>(x) * y;
    out[4 * t + 1] = (static_cast<wide>(x) << 64 | y) * (static_cast<wide>(y) << 64 | x);
    wide sum = 0;
    for (int i = 0; i < 4; i++) sum += static_cast<wide>(in[(t + i) % 32]) * in[i] - (static_cast<wide>(x) << i * 16);
    out[4 * t + 2] = sum;
    word power = x % 2 ? 5 : 3;
    for (int i = 0; i < 6; i++) power = montgomery(power, x >> i & 1 ? power : x, modulus, inverse);
    out[4 * t + 3] = static_cast<wide>(-static_cast<__int128>(power)) - montgomery(1, power, modulus, inverse);
}
