// Single precision: integers beside a number, in every direction, and the number kept within 0 and 1.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    out[8 * i] = floorf(x);
    out[8 * i + 1] = ceilf(x);
    out[8 * i + 2] = truncf(x);
    out[8 * i + 3] = rintf(x);
    out[8 * i + 4] = __saturatef(x);
    out[8 * i + 5] = floorf(-x);
    out[8 * i + 6] = ceilf(fabsf(x));
    out[8 * i + 7] = x - floorf(x);
}
