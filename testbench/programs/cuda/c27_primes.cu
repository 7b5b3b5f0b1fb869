// Miller and Rabin's test, with squares of 64 bits; the next number that passes it.

static __device__ unsigned power(unsigned base, unsigned exponent, unsigned modulus) {
    unsigned result = 1, square = base % modulus;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result = result * square % modulus;
        square = square * square % modulus;
    }
    return result;
}

static __device__ bool witness(unsigned base, unsigned n) {
    unsigned odd = n - 1, twos = 0;
    while (odd % 2 == 0) odd /= 2, twos++;
    unsigned long long x = power(base, odd, n);
    if (x == 1 || x == n - 1) return false;
    while (--twos) {
        x = x * x % n;
        if (x == n - 1) return false;
    }
    return true;
}

static __device__ __noinline__ bool prime(unsigned n) {
    if (n < 2 || n % 2 == 0) return n == 2;
    if (n % 3 == 0 || n % 5 == 0 || n % 7 == 0) return n == 3 || n == 5 || n == 7;
    return n < 121 || !witness(2, n);
}

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, n = in[t];
    out[2 * t] = prime(n);
    n |= 1;
    for (int tries = 0; tries < 2 && !prime(n); tries++) n += 2;
    out[2 * t + 1] = n;
}
