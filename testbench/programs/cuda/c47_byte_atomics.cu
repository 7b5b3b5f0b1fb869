// Atomic operations on bytes and on 16 bits, by compare and swap of the word around: sums, maxima, exchanges.

template <class F> static __device__ unsigned change(unsigned char *bytes, unsigned place, F changed) {
    unsigned *word = reinterpret_cast<unsigned *>(bytes + (place & ~3u)), shift = (place & 3) * 8;
    unsigned old = *word, seen;
    do {
        seen = old;
        unsigned next = changed(seen >> shift & 0xff) & 0xff;
        old = atomicCAS(word, seen, (seen & ~(0xffu << shift)) | next << shift);
    } while (old != seen);
    return seen >> shift & 0xff;
}

static __device__ void add_half(unsigned short *place, unsigned short x) {
    unsigned long long address = reinterpret_cast<unsigned long long>(place);
    unsigned *word = reinterpret_cast<unsigned *>(address & ~3ull), shift = (address & 2) * 8, seen, old = *word;
    do {
        seen = old;
        old = atomicCAS(word, seen, (seen & ~(0xffffu << shift)) | ((seen >> shift) + x & 0xffff) << shift);
    } while (old != seen);
}

extern "C" __global__ void k(unsigned char *sums, unsigned char *greatest, unsigned short *halves, unsigned *in) {
    __shared__ __align__(4) unsigned char counts[16];
    unsigned t = threadIdx.x, x = in[t];
    if (t < 4) reinterpret_cast<unsigned *>(counts)[t] = 0;
    __syncthreads();
    change(sums, x % 8, [=](unsigned old) { return old + (x >> 8); });
    change(greatest, x % 12, [=](unsigned old) { return max(old, x >> 12 & 0xff); });
    change(counts, x >> 4 & 15, [](unsigned old) { return old + 1; });
    add_half(&halves[x >> 20 & 3], x >> 3);
    __syncthreads();
    if (t < 16) sums[8 + t] = counts[t];
}
