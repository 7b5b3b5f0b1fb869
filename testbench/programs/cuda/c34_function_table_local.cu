// A local array of functions that is sorted into another order in every thread, and a structure of functions by value.

typedef unsigned (*Function)(unsigned);

static __device__ unsigned f(unsigned x) { return x * 5 + 1; }
static __device__ unsigned g(unsigned x) { return x >> 3 ^ x; }
static __device__ unsigned h(unsigned x) { return __brev(x) + 7; }

struct Operations {
    Function before, after;
    unsigned times;
};

static __device__ __noinline__ unsigned apply(Operations operations, unsigned x) {
    x = operations.before(x);
    for (unsigned i = 0; i < operations.times; i++) x = operations.after(x);
    return x;
}

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t];
    Function order[3] = {f, g, h};
    for (int i = 2; i > 0; i--) {
        int place = (x >> i * 4) % (i + 1);
        Function kept = order[i];
        order[i] = order[place], order[place] = kept;
    }
    for (Function function : order) x = function(x);
    out[t] = apply({order[t % 3], order[(t + 1) % 3], t % 5}, x);
}
