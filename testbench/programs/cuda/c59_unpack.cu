// Unpacking: bits of a stream choose literals of two lengths, and copies of what was unpacked before, which may overlap.

struct Bits {
    const unsigned char *bytes;
    unsigned held, count;
    __device__ unsigned take(unsigned n) {
        while (count < n) held |= static_cast<unsigned>(*bytes++) << count, count += 8;
        unsigned taken = held & (1u << n) - 1;
        held >>= n, count -= n;
        return taken;
    }
};

extern "C" __global__ void k(unsigned char *out, unsigned *sums, const unsigned char *in) {
    unsigned t = threadIdx.x, length = 0, sum = 0;
    Bits bits = {in + 32 * t, 0, 0};
    unsigned char *unpacked = out + 16 * t;
    while (length < 8) {
        if (bits.take(1)) {
            unpacked[length++] = 'a' + bits.take(4);
        } else if (length == 0 || bits.take(1)) {
            unpacked[length++] = bits.take(7);
        } else {
            unsigned distance = bits.take(4) % length + 1, count = bits.take(3) + 2;
            for (; count && length < 16; count--, length++) unpacked[length] = unpacked[length - distance];
        }
    }
    for (unsigned i = 0; i < length; i++) sum = (sum >> 1 | sum << 31) + unpacked[i];
    sums[t] = sum + (length << 24);
}
