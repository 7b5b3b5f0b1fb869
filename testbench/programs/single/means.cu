// Four means of 64 points of a plane: each point takes the nearest, each mean becomes the middle of its points; three times.
extern "C" __global__ void k(float *out, const float2 *points)
{
    __shared__ float2 means[4], held[64];
    __shared__ int chosen[64];
    unsigned t = threadIdx.x;
    float2 own = points[t];
    held[t] = own;
    if (t < 4)
        means[t] = points[t];
    __syncthreads();
    int nearest = 0;
    for (int turn = 0; turn < 3; turn++) {
        float least = 1e30f;
        for (int m = 0; m < 4; m++) {
            float x = __fsub_rn(own.x, means[m].x), y = __fsub_rn(own.y, means[m].y);
            float distance = __fmaf_rn(x, x, __fmul_rn(y, y));
            if (distance < least) {
                least = distance;
                nearest = m;
            }
        }
        chosen[t] = nearest;
        __syncthreads();
        if (t < 4) {
            float x = 0.0f, y = 0.0f, count = 0.0f;
            for (int p = 0; p < 64; p++)
                if (chosen[p] == t) {
                    x = __fadd_rn(x, held[p].x);
                    y = __fadd_rn(y, held[p].y);
                    count += 1.0f;
                }
            if (count > 0.0f)
                means[t] = make_float2(__fdiv_rn(x, count), __fdiv_rn(y, count));
        }
        __syncthreads();
    }
    out[t] = nearest;
    if (t < 4) {
        out[64 + 2 * t] = means[t].x;
        out[65 + 2 * t] = means[t].y;
    }
}
