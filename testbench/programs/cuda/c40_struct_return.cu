// Functions that are really called, with structures of many sizes as results and arguments; a matrix of 2 by 2 to the n.

struct Matrix { unsigned long long a, b, c, d; };
struct Small { signed char x, y, z; };
struct Mixed { Small small; int count; unsigned long long sum; };

static __device__ __noinline__ Matrix product(Matrix x, Matrix y) {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
}

static __device__ __noinline__ Small rotated(Small x) { return {x.z, x.x, static_cast<signed char>(x.y / 2 - 1)}; }

static __device__ __noinline__ Mixed gathered(Small x, Matrix y, int times) {
    Mixed mixed = {x, 0, y.a ^ y.d};
    while (mixed.count < times) {
        mixed.small = rotated(mixed.small);
        mixed.count++;
        mixed.sum += mixed.small.x * mixed.count;
    }
    return mixed;
}

extern "C" __global__ void k(Mixed *out, const unsigned *in) {
    unsigned t = threadIdx.x, n = in[t] % 4;
    Matrix power = {1, 0, 0, 1}, base = {1, 1, 1, 0};
    for (; n; n >>= 1) {
        if (n & 1) power = product(power, base);
        base = product(base, base);
    }
    signed char x = static_cast<signed char>(in[t] >> 8), y = static_cast<signed char>(in[t] >> 16);
    Mixed mixed = gathered({x, y, static_cast<signed char>(t)}, power, t % 6);
    out[t].small = mixed.small, out[t].count = mixed.count, out[t].sum = mixed.sum;
}
