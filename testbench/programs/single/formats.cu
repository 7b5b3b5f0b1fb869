// Numbers of 16, 32 and 64 bits as numbers of the other formats, and half precision from and to integers: the bits of what
// an instruction of PTX makes of a word of 64 bits, of its lower half, of its lowest 16 bits.

typedef unsigned long long u64;

template <typename T, typename S> __device__ T bits_of(S value) {
    union { S value; T bits; } both;
    both.value = value;
    return both.bits;
}

extern "C" __global__ void __launch_bounds__(64) k(u64 *out, const u64 *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u64 word = in[i];
    double d = bits_of<double>(word);
    float f = bits_of<float>((unsigned)word);
    unsigned short h = word;
    int n = word;
    unsigned short h0, h1, h2, h3;
    float f0, f1, f2;
    double d0, d1, d2;
    int n0;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h0) : "f"(f));
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h1) : "f"(f));
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h2) : "d"(d));
    asm("cvt.rn.f16.s32 %0, %1;" : "=h"(h3) : "r"(n));
    asm("cvt.f32.f16 %0, %1;" : "=f"(f0) : "h"(h));
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(f1) : "d"(d));
    asm("cvt.rp.f32.f64 %0, %1;" : "=f"(f2) : "d"(d));
    asm("cvt.f64.f16 %0, %1;" : "=d"(d0) : "h"(h));
    asm("cvt.f64.f32 %0, %1;" : "=d"(d1) : "f"(f));
    asm("cvt.rmi.f64.f64 %0, %1;" : "=d"(d2) : "d"(d));
    asm("cvt.rni.s32.f16 %0, %1;" : "=r"(n0) : "h"(h));
    out[8 * i] = h0 | (u64)h1 << 16 | (u64)h2 << 32 | (u64)h3 << 48;
    out[8 * i + 1] = bits_of<unsigned>(f0) | (u64)bits_of<unsigned>(f1) << 32;
    out[8 * i + 2] = bits_of<unsigned>(f2) | (u64)(unsigned)n0 << 32;
    out[8 * i + 3] = bits_of<u64>(d0);
    out[8 * i + 4] = bits_of<u64>(d1);
    out[8 * i + 5] = bits_of<u64>(d2);
}
