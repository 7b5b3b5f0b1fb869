// What printf is used for: formats that lie in global memory and in local memory, strings from both and from shared memory,
// values that are needed again behind the call.
extern "C" __global__ void k(int *out) {
    __shared__ char word[8];
    int i = threadIdx.x, kept[12];
    for (int j = 0; j < 12; j++)
        kept[j] = out[j] * (i + j);
    char own[16];
    for (int j = 0; j < 8; j++)
        own[j] = j < 3 ? 'a' + (i + j) % 26 : j == 3 ? '%' : j == 4 ? 'd' : j == 5 ? '\n' : 0;
    if (i == 0)
        for (int j = 0; j < 8; j++)
            word[j] = j < 6 ? "shared"[j] : 0;
    __syncthreads();
    int printed = printf("thread %2d of block %d: %s, %s, %lld\n", i, blockIdx.x, word, "global", 1LL << (i + 30));
    if (i % 2)
        printed += printf(own, i);
    if (i == 2)
        printed += printf("nothing but text\n");
    int sum = printed;
    for (int j = 0; j < 12; j++)
        sum += kept[j];
    out[16 + i + blockIdx.x * blockDim.x] = sum;
}
