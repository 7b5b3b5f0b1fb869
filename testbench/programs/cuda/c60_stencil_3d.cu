// A grid and CTAs of three dimensions: cells with a rim of neighbours in dynamic shared memory, two rounds of a rule.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

extern "C" __global__ void __launch_bounds__(32) k(int *out, const int *in, int3 size) {
    DYNAMIC_SHARED(int, cells);
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    int X = blockIdx.x * blockDim.x + x, Y = blockIdx.y * blockDim.y + y, Z = blockIdx.z * blockDim.z + z;
    int row = blockDim.x + 2, layer = row * (blockDim.y + 2), own = (z + 1) * layer + (y + 1) * row + x + 1;
    for (int i = x + blockDim.x * (y + blockDim.y * z); i < layer * static_cast<int>(blockDim.z + 2);
         i += blockDim.x * blockDim.y * blockDim.z)
        cells[i] = -1;
    __syncthreads();
    bool inside = X < size.x && Y < size.y && Z < size.z;
    if (inside) cells[own] = in[(Z * size.y + Y) * size.x + X] & 0xff;
    for (int round = 0; round < 2; round++) {
        __syncthreads();
        int next = cells[own - 1] + cells[own + 1] - cells[own - row] - cells[own + row] + cells[own - layer] * 2
                 + cells[own + layer] + (cells[own] >> 1);
        __syncthreads();
        if (inside) cells[own] = next;
    }
    if (inside) out[(Z * size.y + Y) * size.x + X] = cells[own];
}
