// Pointers that lead to a constant table in one thread, to a global one or to local memory in the next.

__constant__ int constant_table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__constant__ short constant_shorts[8] = {-1, 2, -300, 4000, -5, 6, 7, -32768};
__device__ int global_table[16] = {2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9, 0, 4, 5};

static __device__ __noinline__ int weighted(const int *table, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 3 + table[i];
    return sum;
}

static __device__ __noinline__ int pick(const short *from, int place) { return from[place & 7]; }

extern "C" __global__ void k(int *out, const int *in) {
    unsigned t = threadIdx.x;
    int local_table[16];
    for (int i = 0; i < 16; i++) local_table[(i * 5 + t) % 16] = in[i] % 10 + i;
    const int *chosen = t % 3 == 0 ? constant_table : t % 3 == 1 ? global_table : local_table;
    out[t] = weighted(chosen + (t & 3), 4 + t % 9);
    out[32 + t] = weighted(constant_table + t % 8, 3) - pick(constant_shorts, t);
    const int *ends[2] = {&constant_table[15], &global_table[t % 16]};
    out[64 + t] = *ends[in[t % 16] & 1] - *(t & 4 ? constant_table + t % 16 : global_table + 2);
}
