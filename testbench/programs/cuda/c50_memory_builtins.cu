// Copies, fills and moves of structures and bytes with sizes that are known and sizes that are not.

struct Seven { unsigned char bytes[7]; };
struct Odd { unsigned short half; Seven seven[3]; unsigned long long wide; unsigned char last; };

static __device__ __noinline__ int compared(const void *x, const void *y, size_t size) {
    const unsigned char *first = static_cast<const unsigned char *>(x), *second = static_cast<const unsigned char *>(y);
    for (size_t i = 0; i < size; i++)
        if (first[i] != second[i]) return first[i] - second[i];
    return 0;
}

extern "C" __global__ void k(unsigned char *out, int *results, const unsigned char *in) {
    unsigned t = threadIdx.x;
    unsigned char local[48];
    Odd odd;
    memset(&odd, 0, sizeof odd);
    memcpy(&odd.seven[t % 3], in + t, sizeof(Seven));
    memcpy(&odd.half, in + 2 * t + 1, 2);
    memcpy(&odd.wide, in + 40 + t, 8);
    Odd copy = odd;
    memset(copy.seven[1].bytes + 2, 0xa5, 4);
    memset(local, t, sizeof local);
    memcpy(local + 1, in + t, t % 16);
    memcpy(local + 20, &copy.seven, sizeof copy.seven);
    memset(local + 44 - t % 4, 0x77, t % 4);
    memcpy(out + 48 * t, local, 48);
    results[2 * t] = compared(&copy, &odd, sizeof odd);
    results[2 * t + 1] = compared(local, in, 3) + static_cast<int>(copy.wide >> 40);
}
