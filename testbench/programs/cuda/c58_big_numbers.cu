// Numbers of 128 bits: sums with carries, products and a quotient by a small number.

struct Big { unsigned words[4]; };

static __device__ unsigned add(Big &x, const Big &y) {
    unsigned long long carry = 0;
    for (int i = 0; i < 4; i++) {
        carry += static_cast<unsigned long long>(x.words[i]) + y.words[i];
        x.words[i] = carry, carry >>= 32;
    }
    return carry;
}

static __device__ Big product(const Big &x, const Big &y) {
    Big result = {};
    for (int i = 0; i < 4; i++) {
        unsigned long long carry = 0;
        for (int j = 0; i + j < 4; j++) {
            carry += static_cast<unsigned long long>(x.words[i]) * y.words[j] + result.words[i + j];
            result.words[i + j] = carry, carry >>= 32;
        }
    }
    return result;
}

static __device__ unsigned divide(Big &x, unsigned by) {
    unsigned long long rest = 0;
    for (int i = 3; i >= 0; i--) {
        rest = rest << 32 | x.words[i];
        x.words[i] = rest / by, rest %= by;
    }
    return rest;
}

extern "C" __global__ void k(Big *out, unsigned *numbers, const Big *in) {
    unsigned t = threadIdx.x;
    Big x = in[t], y = in[(t + 1) % 8], sum = x;
    unsigned found = add(sum, y);
    Big result = product(sum, x);
    found = found * 31 + divide(result, 1000000007 - t);
    out[t] = result;
    numbers[t] = found;
}
