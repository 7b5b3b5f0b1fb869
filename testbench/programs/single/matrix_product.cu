// Single precision: a product of matrices by tiles in shared memory, each sum a chain of fused multiply-adds.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *a, const float *b) {
    __shared__ float left[8][8], right[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, column = blockIdx.x * 8 + x;
    float sum = 0.0f;
    for (int tile = 0; tile < 2; tile++) {
        left[y][x] = a[row * 16 + tile * 8 + x];
        right[y][x] = b[(tile * 8 + y) * 16 + column];
        __syncthreads();
        for (int i = 0; i < 8; i++) sum = fmaf(left[y][i], right[i][x], sum);
        __syncthreads();
    }
    out[row * 16 + column] = sum;
}
