// Double precision: a * x + y with a from the parameters, beside what else compiled code has of it: sums and products
// rounded in all directions, minima, comparisons that choose.

extern "C" __global__ void __launch_bounds__(64) k(double *out, const double *x, const double *y, double a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double p = x[i], q = y[i];
    out[8 * i] = a * p + q;
    out[8 * i + 1] = p + a;
    out[8 * i + 2] = __dadd_rd(p, q);
    out[8 * i + 3] = __dmul_ru(p, q);
    out[8 * i + 4] = __fma_rz(p, q, a);
    out[8 * i + 5] = p < q ? p - 1.5 : q * a;
    out[8 * i + 6] = fmin(p, -fabs(q));
    out[8 * i + 7] = fmax(p, a);
}
