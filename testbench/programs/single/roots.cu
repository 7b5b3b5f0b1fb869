// Single precision: square roots and reciprocals of any number, rounded as IEEE 754 says; not-a-number is written as one
// word whatever made it.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float root = sqrtf(in[i]), inverse = 1.0f / in[i];
    out[2 * i] = root != root ? -1.0f : root;
    out[2 * i + 1] = inverse != inverse ? -1.0f : inverse;
}
