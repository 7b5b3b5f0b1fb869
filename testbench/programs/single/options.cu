// Black and Scholes: prices of options to buy and to sell, of a price, a strike price and a time.
__device__ float below(float d)
{
    float t = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float sum = t * (0.31938153f + t * (-0.356563782f + t * (1.781477937f + t * (-1.821255978f + t * 1.330274429f))));
    float above = 0.39894228f * expf(-0.5f * d * d) * sum;
    return d > 0.0f ? 1.0f - above : above;
}

extern "C" __global__ void k(float2 *out, const float4 *in)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    const float rate = 0.02f, change = 0.3f;
    float price = in[at].x, strike = in[at].y, time = in[at].z, root = sqrtf(time);
    float first = (logf(price / strike) + (rate + 0.5f * change * change) * time) / (change * root);
    float second = first - change * root, worth = strike * expf(-rate * time), p = below(first), q = below(second);
    out[at] = make_float2(price * p - worth * q, worth * (1.0f - q) - price * (1.0f - p));
}
