// Packed structures, whose members lie anywhere: read, changed and written back.

struct __attribute__((packed)) Record {
    unsigned char kind;
    unsigned number;
    short delta;
    unsigned long long stamp;
    unsigned char text[4];
};

static __device__ __noinline__ unsigned checksum(const Record &record) {
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(&record);
    unsigned sum = 1, twice = 0;
    for (unsigned i = 0; i < sizeof record; i++) sum += bytes[i], twice += sum;
    return twice << 16 | (sum & 0xffff);
}

extern "C" __global__ void k(Record *out, unsigned *sums, const Record *in) {
    unsigned t = threadIdx.x;
    Record record = in[t];
    record.number = record.number * 3 + record.kind;
    record.delta = static_cast<short>(record.delta - static_cast<int>(t) * 100);
    record.stamp ^= static_cast<unsigned long long>(record.number) << 20;
    record.text[t % 4] = 'a' + t;
    record.kind++;
    out[t] = record;
    out[t + 16] = in[15 - t];
    out[t + 16].stamp += t;
    sums[t] = checksum(record) + in[t].number;
}
