// Logic and shifts of 128 bits; bits that branches ask for.

typedef unsigned __int128 wide;

extern "C" __global__ void k(wide *out, const wide *in) {
    unsigned t = threadIdx.x;
    wide x = in[t], y = in[(t + 11) % 32];
    wide *mine = out + 5 * t;
    mine[0] = (x & y) | (~x & y << 1);
    mine[1] = x << t * 4 ^ y >> (t * 5 & 127);
    mine[2] = static_cast<__int128>(x) >> (t * 3 + 32);
    wide lowest = x & -x, left = x & y >> 5 & y << 9 & x >> 17;
    unsigned count = 0;
    while (left & ~(y | y >> 1 | y << 2)) {
        left &= left - 1;
        count++;
    }
    mine[3] = lowest | count;
    unsigned found = 0;
    if ((x & y & 0xff) == 0) found |= 1;
    if (x >> (t * 7 & 127) & 1) found |= 2;
    if ((x ^ y) >> 64 > x >> 64) found |= 4;
    if (x == (y | x)) found |= 8;
    mine[4] = found;
}
