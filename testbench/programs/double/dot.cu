// A dot product in double precision: a chain of fused multiply-adds in each thread, then a tree in shared memory.

extern "C" __global__ void __launch_bounds__(64) k(double *out, const double *x, const double *y, int n) {
    __shared__ double part[64];
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += 64) sum = fma(x[i], y[i], sum);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 32; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (!threadIdx.x) out[0] = part[0];
}
