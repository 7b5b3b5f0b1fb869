// Bit fields, signed and not, across bytes and in 64 bits.

struct Fields {
    unsigned low : 3;
    int small : 5;
    unsigned middle : 11;
    unsigned flag : 1;
    int rest : 12;
    unsigned long long wide : 37;
    long long high : 27;
};

extern "C" __global__ void k(Fields *out, int *numbers, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t];
    Fields fields = {};
    fields.low = x;
    fields.small = static_cast<int>(x >> 3);
    fields.middle = x >> 8;
    fields.flag = x >> 5;
    fields.rest = static_cast<int>(x >> 20);
    fields.wide = static_cast<unsigned long long>(x) * x;
    fields.high = static_cast<int>(x) / 3;
    numbers[t] = fields.small * 1000 + fields.rest + (fields.flag ? -7 : static_cast<int>(fields.middle));
    fields.low += 3;
    fields.small -= fields.low;
    fields.wide -= fields.middle;
    fields.high = fields.high / 5 - fields.small;
    if (fields.rest < 0) fields.rest = -(fields.rest / 2);
    out[t] = fields;
}
