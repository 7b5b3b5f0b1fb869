// Frees what is no block any more, or never was one: by an offset from a block.
extern "C" __global__ void k(int offset, int again) {
    char *block = (char *)malloc(100);
    free(0);
    free(block + offset);
    if (again)
        free(block);
}
