// How many steps points of a picture of 16 by 8 stay within a radius of 2, at most 40, and where they are then.
extern "C" __global__ void k(float4 *out)
{
    unsigned x = threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y;
    float cx = __fmaf_rn(x, 0.1875f, -2.25f), cy = __fmaf_rn(y, 0.34375f, -1.25f), zx = 0.0f, zy = 0.0f;
    int steps = 0;
    while (steps < 40) {
        float xx = __fmul_rn(zx, zx), yy = __fmul_rn(zy, zy);
        if (__fadd_rn(xx, yy) > 4.0f)
            break;
        zy = __fmaf_rn(__fadd_rn(zx, zx), zy, cy);
        zx = __fadd_rn(__fsub_rn(xx, yy), cx);
        steps++;
    }
    out[y * 16 + x] = make_float4(steps, zx, zy, __fsqrt_rn(__fmaf_rn(zx, zx, __fmul_rn(zy, zy))));
}
