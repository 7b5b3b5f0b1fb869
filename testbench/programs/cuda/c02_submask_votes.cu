// Votes on the sides of branches, with the threads of the side as mask; loops that some threads of a side leave earlier.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t], found = 0;
    unsigned odd = __ballot_sync(0xffffffff, x & 1);
    if (x & 1) {
        found = __ballot_sync(odd, x & 2) + (x & 4 ? __popc(odd) : 0);
        found += __any_sync(odd, (x & 0x70) == 0x30) << 30;
    } else {
        unsigned even = ~odd;
        if (__any_sync(even, (x & 12) == 12)) found = __ballot_sync(even, (x & 12) == 12);
        found ^= __all_sync(even, (x & 12) != 8) ? 0x80000000 : 0x40000000;
    }
    out[t] = found;
    unsigned rounds = x >> 3 & 7, living = 0xffffffff, seen = 0;
    for (unsigned round = 0;; round++) {
        unsigned next = __ballot_sync(living, round < rounds);
        if (round >= rounds) break;
        living = next;
        seen = seen * 5 + __popc(living) + (__all_sync(living, rounds > 2) << 6);
    }
    out[64 + t] = seen;
}
