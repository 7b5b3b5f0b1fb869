// Constants at places that each thread computes, of every width, and in two dimensions.

__constant__ unsigned char bytes[40] = {9, 200, 31, 7, 255, 0, 128, 77, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233};
__constant__ short halves[20] = {-1, 300, -3000, 12345, -32768, 32767, 6, 7, 8, -9};
__constant__ unsigned words[3][5] = {{1, 10, 100, 1000, 10000}, {0xdeadbeef, 2, 3, 4, 5}, {6, 7, 8, 9, 0xfeedface}};
__constant__ long long doubles[6] = {1, -1, 0x123456789abcdefll, -0x7fffffffffffffffll, 77, 1ll << 40};
__constant__ uint4 quads[3] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {0x90000000, 10, 11, 12}};

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t];
    unsigned long long wide = static_cast<unsigned long long>(doubles[x % 6]) * halves[(x >> 3) % 20];
    uint4 quad = quads[(x >> 9) % 3];
    out[3 * t] = bytes[x % 40] << 16 ^ static_cast<unsigned>(wide) ^ static_cast<unsigned>(wide >> 32);
    out[3 * t + 1] = words[x % 3][(x >> 5) % 5] + quad.x * quad.z - quad.w;
    unsigned sum = 0;
    for (unsigned i = 0; i < 5; i++) sum = sum * 7 + words[i % 3][i] + bytes[i + t % 16] + halves[i];
    out[3 * t + 2] = sum + quad.y;
}
