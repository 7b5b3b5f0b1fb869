// A kernel that prints, allocates, frees and asserts through addresses in a constant bank, as CUDA 12.9 compiles it.
extern "C" __device__ void __assertfail(const char *text, const char *file, unsigned line, const char *function, size_t);

extern "C" __global__ void k(unsigned *out, unsigned n)
{
    unsigned *place = (unsigned *)malloc(8);
    *place = 100 * threadIdx.x;
    out[threadIdx.x] = printf("thread %d: %s, %u\n", threadIdx.x, threadIdx.x & 1 ? "odd" : "even", *place);
    free(place);
    if (threadIdx.x >= n)
        __assertfail("threadIdx.x < n", "bank.cu", 11, "k", 1);
}
