// Backtracking: permutations of a structure's digits that a test lets through, counted by recursion with a visitor.

struct State {
    unsigned char digits[4];
    unsigned char used;
    unsigned short found;
};

typedef bool (*Test)(const State &, int);

static __device__ bool rising(const State &state, int place) {
    return place < 2 || state.digits[place] + 1 > state.digits[place - 2];
}
static __device__ bool apart(const State &state, int place) {
    return place < 1 || (state.digits[place] - state.digits[place - 1] + 9) % 9 > 1;
}

static __device__ __noinline__ void search(State &state, int place, Test test) {
    if (place == 3) {
        state.found = state.found * 3 + state.digits[2] + 1;
        return;
    }
    for (int digit = 0; digit < 4; digit++) {
        if (state.used >> digit & 1) continue;
        state.digits[place] = digit;
        if (!test(state, place)) continue;
        state.used |= 1 << digit;
        search(state, place + 1, test);
        state.used &= ~(1 << digit);
    }
}

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t];
    State state = {};
    state.digits[0] = x % 4;
    state.used = 1 << x % 4;
    search(state, 1, x & 16 ? rising : apart);
    out[t] = state.found | state.digits[2] << 16;
}
