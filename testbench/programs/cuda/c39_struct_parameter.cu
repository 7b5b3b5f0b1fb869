// A structure as the kernel's parameter, with arrays that each thread indexes, and passed on to functions by value.

struct Settings {
    int weights[6];
    unsigned char order[8];
    short offset;
    long long scale;
};

static __device__ __noinline__ long long scaled(Settings settings, int place) {
    settings.weights[place % 6] += settings.offset;
    long long sum = 0;
    for (int i = 0; i < 6; i++) sum = sum * 3 + settings.weights[i];
    return sum * settings.scale;
}

extern "C" __global__ void k(long long *out, Settings settings, unsigned last) {
    unsigned t = threadIdx.x, place = settings.order[t % 8];
    out[t] = settings.weights[place % 6] * settings.scale + settings.order[last - t % 8];
    const int *from = &settings.weights[t % 4];
    out[32 + t] = from[0] - from[t & 1] * from[2] + scaled(settings, t);
}
