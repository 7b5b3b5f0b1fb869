// 128-bit numbers in order: every comparison, the least and the greatest, a sort, saturating sums.

static __device__ __int128 saturating_sum(__int128 x, __int128 y) {
    const __int128 most = static_cast<__int128>(~static_cast<unsigned __int128>(0) >> 1);
    __int128 sum = static_cast<unsigned __int128>(x) + static_cast<unsigned __int128>(y);
    if (x >= 0 && y >= 0 && sum < 0) return most;
    if (x < 0 && y < 0 && sum >= 0) return -most - 1;
    return sum;
}

extern "C" __global__ void k(__int128 *out, const __int128 *in) {
    unsigned t = threadIdx.x;
    __int128 x = in[t], y = in[(t * 3 + 1) % 16];
    unsigned __int128 ux = x, uy = y;
    unsigned found = (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5
                   | (ux < uy) << 6 | (ux <= uy) << 7 | (ux > uy) << 8 | (ux >= uy) << 9 | (x < 0) << 10
                   | (x == static_cast<long long>(x)) << 11;
    out[t] = found;
    out[16 + t] = saturating_sum(x, y);
    __int128 sorted[4];
    for (int i = 0; i < 4; i++) {
        __int128 next = in[(t + i * 5) % 16];
        int place = i;
        for (; place > 0 && sorted[place - 1] > next; place--) sorted[place] = sorted[place - 1];
        sorted[place] = next;
    }
    for (int i = 0; i < 4; i++) out[32 + t * 4 + i] = sorted[i];
}
