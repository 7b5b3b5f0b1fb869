// Blocks that live at the same time, their places in out: round by round all threads allocate, fill, compare and free.
extern "C" __global__ void k(unsigned long long *out, const unsigned *sizes, int rounds, int most) {
    int i = threadIdx.x + blockIdx.x * blockDim.x, n = gridDim.x * blockDim.x;
    unsigned char *blocks[4];
    for (int round = 0; round < rounds; round++) {
        for (int j = 0; j < most; j++) {
            unsigned size = sizes[(i * most + j + round) % n];
            blocks[j] = (unsigned char *)malloc(size);
            out[i * most + j] = (unsigned long long)blocks[j];
            for (unsigned at = 0; blocks[j] && at < size; at += 5)
                blocks[j][at] = (unsigned char)(i * 7 + j + round);
        }
        for (int j = 0; j < most; j++) {
            unsigned size = sizes[(i * most + j + round) % n];
            for (unsigned at = 0; blocks[j] && at < size; at += 5)
                if (blocks[j][at] != (unsigned char)(i * 7 + j + round))
                    out[i * most + j] = 1;
            if (round + 1 < rounds)
                free(blocks[j]);
        }
    }
}
