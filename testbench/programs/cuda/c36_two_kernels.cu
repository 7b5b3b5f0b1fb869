// Two kernels that call through the same table of functions.

typedef int (*Function)(int, int);

static __device__ int more(int x, int y) { return x * 7 + y; }
static __device__ int less(int x, int y) { return x - y * 5; }
static __device__ int same(int x, int y) { return x ^ y & 0xff; }

__device__ Function table[3] = {more, less, same};

extern "C" __global__ void k(int *out, const int *in) {
    unsigned t = threadIdx.x;
    out[t] = table[t % 3](in[t], t);
}

extern "C" __global__ void other(int *out, const int *in) {
    unsigned t = threadIdx.x;
    int x = in[t];
    for (unsigned i = 0; i < 4; i++) x = table[(t + i) % 3](x, in[(t + i) % 32]);
    out[t] = x;
}
