// Single precision: approximations of functions, of any number and of one that has a logarithm and is a power's exponent.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    out[8 * i] = __sinf(x);
    out[8 * i + 1] = __cosf(x);
    out[8 * i + 2] = exp2f(x);
    out[8 * i + 3] = __log2f(x);
    out[8 * i + 4] = rsqrtf(x);
    out[8 * i + 5] = root;
    out[8 * i + 6] = __fdividef(1.0f, x);
    out[8 * i + 7] = __expf(x);
}
