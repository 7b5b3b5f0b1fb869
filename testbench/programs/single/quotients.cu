// Single precision: quotients of any two numbers, rounded as IEEE 754 says, with infinities, zeros and subnormal numbers;
// not-a-number is written as one word whatever made it. Comparisons and minima of the same numbers.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[2 * i], b = in[2 * i + 1], quotient = a / b;
    out[4 * i] = quotient != quotient ? -1.0f : quotient;
    out[4 * i + 1] = a < b ? 1.0f : a > b ? 2.0f : a == b ? 3.0f : 4.0f;
    out[4 * i + 2] = a == a && b == b && a != b ? fminf(a, b) : 0.0f;
    out[4 * i + 3] = a == a && b == b && a != b ? fmaxf(fabsf(a), 2.0f) : 0.0f;
}
