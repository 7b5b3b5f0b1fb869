// Sorts 128 numbers by 64 threads, a bitonic network in shared memory.
extern "C" __global__ void k(float *out, const float *in)
{
    __shared__ float held[128];
    unsigned t = threadIdx.x;
    held[t] = in[t];
    held[t + 64] = in[t + 64];
    for (unsigned length = 2; length <= 128; length *= 2)
        for (unsigned apart = length / 2; apart; apart /= 2) {
            __syncthreads();
            unsigned low = 2 * t - (t & (apart - 1)), high = low + apart;
            float a = held[low], b = held[high];
            bool up = (low & length) == 0;
            if ((a > b) == up) {
                held[low] = b;
                held[high] = a;
            }
        }
    __syncthreads();
    out[t] = held[t];
    out[t + 64] = held[t + 64];
}
