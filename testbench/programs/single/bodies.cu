// Single precision: accelerations of 64 bodies by each other's gravity, a body a thread.

extern "C" __global__ void __launch_bounds__(64) k(float *out, const float *in) {
    __shared__ float4 bodies[64];
    int i = threadIdx.x;
    float4 own = reinterpret_cast<const float4 *>(in)[i];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    bodies[i] = own;
    __syncthreads();
    for (int j = 0; j < 64; j++) {
        float4 other = bodies[j];
        float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
        float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
        float pull = other.w * inverse * inverse * inverse;
        x += pull * dx;
        y += pull * dy;
        z += pull * dz;
    }
    out[3 * i] = x;
    out[3 * i + 1] = y;
    out[3 * i + 2] = z;
}
