// Barriers that count, all and any over the whole CTA, in a loop whose end they decide; the last warp is partly there.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    __shared__ unsigned heap[48];
    unsigned t = threadIdx.x, round = 0;
    heap[t] = in[blockIdx.x * 48 + t] & 0xff;
    do {
        __syncthreads();
        unsigned next = heap[(t * 3 + round) % 48];
        unsigned even = __syncthreads_count((next & 1) == 0);
        heap[t] = next / 2 + (even > 24);
        round++;
    } while (__syncthreads_or(heap[t] > 1) && round < 4);
    unsigned all = __syncthreads_and(heap[t] < 2);
    out[blockIdx.x * 48 + t] = heap[t] | round << 8 | all << 16 | __syncthreads_count(heap[t]) << 20;
}
