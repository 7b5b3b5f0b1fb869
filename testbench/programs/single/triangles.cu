// A matrix of 8 by 8 as a product of two triangular ones, in place, by 64 threads.
extern "C" __global__ void k(float *out, const float *in)
{
    __shared__ float a[8][8];
    unsigned x = threadIdx.x, y = threadIdx.y;
    a[y][x] = in[y * 8 + x];
    __syncthreads();
    for (unsigned step = 0; step < 7; step++) {
        if (x == step && y > step)
            a[y][x] = __fdiv_rn(a[y][x], a[step][step]);
        __syncthreads();
        if (x > step && y > step)
            a[y][x] = __fmaf_rn(-a[y][step], a[step][x], a[y][x]);
        __syncthreads();
    }
    out[y * 8 + x] = a[y][x];
}
