// Copies in 8 and 16 bytes between global, shared, dynamic shared and local memory; pointers that lead to any of them.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

static __device__ __noinline__ unsigned long long folded(const ulonglong2 *from, int n) {
    unsigned long long sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 31 + (from[i].x ^ from[i].y >> 1);
    return sum;
}

static __device__ __noinline__ void moved(uint2 *to, const uint2 *from) {
    to[0] = from[1];
    to[1] = make_uint2(from[0].y, from[0].x);
}

extern "C" __global__ void k(uint4 *out, unsigned long long *sums, const uint4 *in) {
    __shared__ uint4 fixed[16];
    DYNAMIC_SHARED(uint4, dynamic);
    unsigned t = threadIdx.x;
    uint4 local[2] = {in[t], in[15 - t]};
    fixed[t] = in[t];
    dynamic[15 - t] = make_uint4(local[1].w, local[0].z + t, local[1].y, local[0].x);
    __syncthreads();
    const uint4 *from = t % 4 == 0 ? in : t % 4 == 1 ? fixed : t % 4 == 2 ? dynamic : local;
    unsigned place = t % 4 == 3 ? 0 : t / 2;
    sums[t] = folded(reinterpret_cast<const ulonglong2 *>(from + place), 2);
    __syncthreads();
    uint4 *to = t & 1 ? &fixed[t] : &dynamic[t];
    moved(reinterpret_cast<uint2 *>(to), reinterpret_cast<const uint2 *>(t & 2 ? &local[t >> 3] : &in[t]));
    __syncthreads();
    out[t] = fixed[t ^ 1];
    out[16 + t] = dynamic[t ^ 2];
}
