// Single precision: a row's exponentials divided by their sum, a row a block; maximum and sum as trees in shared memory.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    __shared__ float part[64];
    int i = threadIdx.x, at = blockIdx.x * 64 + i;
    float x = in[at];
    part[i] = x;
    __syncthreads();
    for (int step = 32; step; step >>= 1) {
        if (i < step) part[i] = fmaxf(part[i], part[i + step]);
        __syncthreads();
    }
    float power = __expf(x - part[0]);
    __syncthreads();
    part[i] = power;
    __syncthreads();
    for (int step = 32; step; step >>= 1) {
        if (i < step) part[i] += part[i + step];
        __syncthreads();
    }
    out[at] = __fdividef(power, part[0]);
}
