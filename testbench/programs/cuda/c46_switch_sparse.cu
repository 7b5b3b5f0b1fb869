// Switches with cases far apart, negative ones, of 64 bits, and one within another.

extern "C" __global__ void k(int *out, const int *in) {
    unsigned t = threadIdx.x;
    int x = in[t] % 12 - 6, result = 0;
    switch (x * x * x) {
    case -216: case -125: result = 1; break;
    case -64: result = 2;   // goes on
    case -27: result += 30; break;
    case 0:
        switch (t % 5) {
        case 0: result = 100; break;
        case 4: result = 400; // goes on
        case 3: result++; break;
        default: result = -1;
        }
        break;
    case 8: case 27: result = x; break;
    case 125: result = 5000;
    }
    switch (static_cast<long long>(in[t] % 4) << 32 | (t & 3)) {
    case 0: result += 7; break;
    case 1ll << 32: result *= 3; break;
    case (1ll << 32) + 1: case (2ll << 32) + 2: result -= 1000; break;
    case (3ll << 32) + 3: result = ~result; break;
    default: result ^= 0x40;
    }
    switch (static_cast<unsigned char>(in[t])) {
    case 1: case 2: case 3: case 5: case 8: case 13: case 21: result |= 0x10000; break;
    case 'a': case 'A': result |= 0x20000; break;
    case 200: case 210: case 220: case 230: case 240: case 250: result |= 0x40000; break;
    case 255: result = 0;
    }
    out[t] = result;
}
