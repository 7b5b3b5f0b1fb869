// Each thread prints by a format and with arguments that it is given.
extern "C" __device__ int vprintf(const char *format, void *arguments);

extern "C" __global__ void k(int *printed, const unsigned *places, char *formats, char *arguments) {
    int i = threadIdx.x;
    printed[i] = vprintf(formats + places[2 * i], arguments + places[2 * i + 1]);
}
