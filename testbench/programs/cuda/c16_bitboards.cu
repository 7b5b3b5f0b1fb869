// Games on 64-bit boards: knights' moves, a flood between walls, flips that a move of Othello makes.

static __device__ unsigned long long knight(unsigned long long from) {
    const unsigned long long a = 0xfefefefefefefefeull, ab = 0xfcfcfcfcfcfcfcfcull, h = 0x8080808080808080ull, gh = h | h >> 1;
    return (from << 17 & a) | (from << 10 & ab) | (from >> 6 & ab) | (from >> 15 & a)
         | (from << 15 & ~h) | (from << 6 & ~gh) | (from >> 10 & ~gh) | (from >> 17 & ~h);
}

static __device__ unsigned long long flood(unsigned long long from, unsigned long long free) {
    for (;;) {
        unsigned long long next = from | from << 8 | from >> 8 | (from << 1 & 0xfefefefefefefefeull)
                                | (from >> 1 & 0x7f7f7f7f7f7f7f7full);
        next &= free;
        if (next == from) return from;
        from = next;
    }
}

static __device__ unsigned long long flips(unsigned long long move, unsigned long long own, unsigned long long other) {
    unsigned long long all = 0;
    for (int direction = -9; direction <= 9; direction++) {
        if (direction == 0 || (direction > 1 && direction < 7) || (direction < -1 && direction > -7)) continue;
        unsigned long long edge = direction % 8 == 0 ? ~0ull : (direction + 64) % 8 == 1 ? 0xfefefefefefefefeull
                                                                                         : 0x7f7f7f7f7f7f7f7full;
        unsigned long long line = 0, at = move;
        for (;;) {
            at = (direction > 0 ? at << direction : at >> -direction) & edge;
            if (!(at & other)) break;
            line |= at;
        }
        if (at & own) all |= line;
    }
    return all;
}

extern "C" __global__ void k(unsigned long long *out, const unsigned long long *in) {
    unsigned t = threadIdx.x;
    unsigned long long walls = in[t] & in[(t + 1) % 32], start = 1ull << t * 2;
    out[t] = knight(start) ^ knight(walls & 0x1818000000ull);
    out[32 + t] = flood(start & ~walls, ~walls);
    unsigned long long own = in[t] & ~walls & ~start;
    out[64 + t] = flips(start, own, ~own & ~start & in[(t + 2) % 32]);
}
