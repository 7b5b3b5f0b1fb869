// A constant table of structures with texts: pointers into constant memory that lie in constant memory.

struct Month {
    const char *name;
    unsigned char days;
    short sum;
};

__constant__ char january[] = "january", february[] = "february", march[] = "march", april[] = "april";
__constant__ Month months[4] = {{january, 31, 0}, {february, 28, 31}, {march, 31, 59}, {april, 30, 90}};

static __device__ unsigned hash(const char *text) {
    unsigned sum = 5381;
    while (*text) sum = sum * 33 ^ *text++;
    return sum;
}

extern "C" __global__ void k(unsigned *out, const unsigned *in) {
    unsigned t = threadIdx.x;
    const Month &month = months[in[t] % 4];
    out[t] = hash(month.name) + month.days + month.sum;
    unsigned day = in[t] % 120, found = 0;
    while (found < 3 && day >= months[found].sum + months[found].days) found++;
    out[32 + t] = found << 16 | months[found].name[day - months[found].sum & 3];
}
