// The sum of 256 numbers and the largest, by 64 threads: four numbers each, then a tree in shared memory, then shuffles.
extern "C" __global__ void k(float *out, const float *in)
{
    __shared__ float sums[64], most[64];
    unsigned t = threadIdx.x;
    float sum = 0.0f, largest = in[t];
    for (unsigned at = t; at < 256; at += 64) {
        sum += in[at];
        largest = fmaxf(largest, in[at]);
    }
    sums[t] = sum;
    most[t] = largest;
    __syncthreads();
    if (t < 32) {
        sum += sums[t + 32];
        largest = fmaxf(largest, most[t + 32]);
        for (int step = 16; step; step /= 2) {
            sum += __shfl_down_sync(~0u, sum, step);
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
        }
        if (t == 0) {
            out[0] = sum;
            out[1] = largest;
        }
    }
}
