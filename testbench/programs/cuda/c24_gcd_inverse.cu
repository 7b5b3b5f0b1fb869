// Euclid's algorithm in three widths; the inverse modulo a number by the extended one, checked by a product.

template <class T> static __device__ T gcd(T x, T y) {
    while (y) {
        T rest = x % y;
        x = y, y = rest;
    }
    return x;
}

static __device__ long long inverse(long long x, long long modulus) {
    long long old = modulus, rest = x % modulus, previous = 0, factor = 1;
    while (rest) {
        long long quotient = old / rest, next = old - quotient * rest;
        old = rest, rest = next;
        next = previous - quotient * factor, previous = factor, factor = next;
    }
    return old != 1 ? 0 : previous < 0 ? previous + modulus : previous;
}

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t] * (t % 3 + 1) | 1, y = in[t + 32] & ~t | 3;
    out[4 * t] = gcd(x, y);
    out[4 * t + 1] = gcd<unsigned long long>(static_cast<unsigned long long>(x & 0xff) * y, 6ull * x);
    long long found = inverse(x % 1009, 1009);
    out[4 * t + 2] = found;
    out[4 * t + 3] = found * (x % 1009) % 1009;
}
