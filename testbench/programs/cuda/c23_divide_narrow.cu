// Signed quotients of 8 and 16 bits, and unsigned ones by constants.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t], y = in[(t + 3) % 32];
    signed char a = x, b = y;
    short c = x >> 8, d = y >> 5;
    unsigned char e = x >> 3;
    unsigned short f = x >> 4;
    if (b == 0) b = 1;
    if (d == 0) d = -1;
    unsigned *mine = out + 4 * t;
    mine[0] = (a / b & 0xffff) | (a % b & 0xff) << 16;
    mine[1] = (c / d & 0x1ffff) ^ (c % d & 0x1ffff) << 15;
    mine[2] = e / 3 | e % 10 << 8 | e / 13 << 16;
    mine[3] = f / 5 | f % 1000 << 16;
}
