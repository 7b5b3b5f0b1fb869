// Numbers as decimal and hexadecimal digits, and back, signs and overflow included.

static __device__ __noinline__ int print(char *text, long long value) {
    char digits[24];
    int count = 0, length = 0;
    unsigned long long left = value < 0 ? -static_cast<unsigned long long>(value) : value;
    do digits[count++] = '0' + left % 10; while (left /= 10);
    if (value < 0) text[length++] = '-';
    while (count) text[length++] = digits[--count];
    text[length] = 0;
    return length;
}

static __device__ __noinline__ bool read(const char *text, int &value) {
    bool negative = *text == '-';
    long long sum = 0;
    for (text += negative; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        sum = sum * 10 + (*text - '0');
        if (sum > 0x80000000ll) return false;
    }
    if (negative) sum = -sum;
    value = static_cast<int>(sum);
    return sum == value;
}

extern "C" __global__ void k(char *out, int *numbers, const long long *in) {
    unsigned t = threadIdx.x;
    char *text = out + 24 * t;
    int value = -1, length = print(text, in[t] >> (36 + t * 3));
    numbers[2 * t] = read(text + (length > 10 ? length - 10 : 0), value) ? length : -length;
    numbers[2 * t + 1] = value;
}
