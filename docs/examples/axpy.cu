// Scales and adds in C++: nvcc -arch sm_50 --cudart shared axpy.cu -o axpy && python -m sim.cuda -- ./axpy
#include <cstdio>

__global__ void axpy(float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] += a * x[i];
}

int main() {
    const int count = 256;
    float *x, *y;
    cudaMallocManaged(&x, count * sizeof *x);
    cudaMallocManaged(&y, count * sizeof *y);
    for (int i = 0; i < count; i++) {
        x[i] = i;
        y[i] = 1;
    }
    axpy<<<2, 128>>>(2, x, y);
    cudaError_t result = cudaDeviceSynchronize();
    printf("%s: %g %g %g\n", cudaGetErrorString(result), y[0], y[1], y[255]);
    return result;
}
