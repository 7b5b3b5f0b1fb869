// Arrays in a structure that is the kernel's parameter, at places that are known only when the kernel runs.

struct Tables {
    unsigned char steps[12];
    unsigned words[5];
    unsigned long long wide[3];
};

extern "C" __global__ void k(unsigned *out, Tables tables, const unsigned *in) {
    unsigned t = threadIdx.x, at = in[t];
    unsigned long long sum = 0;
    for (unsigned i = 0; i < 4; i++) {
        at = at * 5 + tables.steps[(at + i) % 12];
        sum = sum * 3 + tables.words[at % 5] + tables.wide[(at >> 4) % 3];
    }
    out[2 * t] = sum;
    out[2 * t + 1] = sum >> 32;
}
