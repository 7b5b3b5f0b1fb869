// A machine of labels and gotos with loops that can be entered at several places.

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t], fuel = 3 + t % 3, trace = 0;
    if (x & 1) goto odd;
    if (x & 2) goto twice;
even:
    trace = trace * 3 + 1;
    if (fuel-- == 0) goto end;
    x = x >> 1 ^ 0x80000000;
    if (x & 1) goto odd;
    if ((x & 6) == 6) goto twice;
    goto even;
odd:
    trace = trace * 3 + 2;
    if (fuel-- == 0) goto end;
    x = x * 5 + 1;
    if (x & 4) goto twice;
    if (x & 8) goto even;
    goto odd;
twice:
    trace = trace * 5 + 3;
    for (int i = 0; i < 3; i++) {
        if (fuel-- == 0) goto end;
        x += x << 3;
        if ((x >> 7 & 7) == i) goto even;
        if ((x >> 11 & 7) == 5) goto odd;
    }
    if (x & 0x100) goto twice;
    goto odd;
end:
    out[2 * t] = x;
    out[2 * t + 1] = trace;
}
