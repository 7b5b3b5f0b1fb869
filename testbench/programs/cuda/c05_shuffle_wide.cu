// Shuffles of 64-bit numbers: a butterfly of sums and of minima with the place of the minimum, a rotation, a broadcast.

extern "C" __global__ void k(unsigned long long *out, const unsigned long long *in) {
    unsigned t = threadIdx.x;
    unsigned long long x = in[t], sum = x, least = x;
    int place = t;
    for (int distance = 16; distance; distance >>= 1) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
        unsigned long long other = __shfl_xor_sync(0xffffffff, least, distance);
        int other_place = __shfl_xor_sync(0xffffffff, place, distance);
        if (other < least || (other == least && other_place < place)) least = other, place = other_place;
    }
    out[t] = sum;
    out[32 + t] = least + place;
    out[64 + t] = __shfl_sync(0xffffffff, x, t + 1) - __shfl_up_sync(0xffffffff, x, 3, 16);
    long long negative = -static_cast<long long>(x >> 1);
    out[96 + t] = __shfl_down_sync(0xffffffff, negative, 2, 4);
}
