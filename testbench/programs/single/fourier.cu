// The discrete Fourier transform of 64 complex numbers, by 32 threads: six steps of radix 2 in shared memory.
extern "C" __global__ void k(float2 *out, const float2 *in, const float2 *roots)
{
    __shared__ float2 held[2][64];
    unsigned t = threadIdx.x;
    held[0][t] = in[t];
    held[0][t + 32] = in[t + 32];
    __syncthreads();
    unsigned from = 0;
    for (unsigned length = 1; length < 64; length *= 2) {
        unsigned part = t & (length - 1);
        float2 root = roots[part * (32 / length)], a = held[from][t], b = held[from][t + 32], turned;
        turned.x = __fmaf_rn(b.x, root.x, -__fmul_rn(b.y, root.y));
        turned.y = __fmaf_rn(b.x, root.y, __fmul_rn(b.y, root.x));
        unsigned to = 2 * t - part;
        held[from ^ 1][to] = make_float2(__fadd_rn(a.x, turned.x), __fadd_rn(a.y, turned.y));
        held[from ^ 1][to + length] = make_float2(__fsub_rn(a.x, turned.x), __fsub_rn(a.y, turned.y));
        from ^= 1;
        __syncthreads();
    }
    out[t] = held[from][t];
    out[t + 32] = held[from][t + 32];
}
