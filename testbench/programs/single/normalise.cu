// Single precision: vectors of three numbers, divided by their lengths.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    int i = 3 * (blockIdx.x * blockDim.x + threadIdx.x);
    float x = in[i], y = in[i + 1], z = in[i + 2], scale = rsqrtf(x * x + y * y + z * z);
    out[i] = x * scale;
    out[i + 1] = y * scale;
    out[i + 2] = z * scale;
}
