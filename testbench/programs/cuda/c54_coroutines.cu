// Switches that jump into loops: a copy in steps of eight, and generators that go on where they stopped.

struct Generator {
    int place, i, j;
    __device__ int next() {
        switch (place) {
        case 0:
            for (i = 1;; i++) {
                for (j = 0; j < i; j++) {
                    place = 1;
                    return i * 10 + j;
        case 1:;
                }
                if (i % 3 == 0) {
                    place = 2;
                    return -i;
        case 2:;
                }
            }
        }
        return 0;
    }
};

static __device__ void copy(unsigned char *to, const unsigned char *from, int count) {
    int rounds = (count + 7) / 8;
    switch (count % 8) {
    case 0: do { *to++ = *from++;
    case 7: *to++ = *from++;
    case 6: *to++ = *from++ + 1;
    case 5: *to++ = *from++;
    case 4: *to++ = *from++;
    case 3: *to++ = *from++ ^ 3;
    case 2: *to++ = *from++;
    case 1: *to++ = *from++;
            } while (--rounds > 0);
    }
}

extern "C" __global__ void k(int *out, unsigned char *bytes, const unsigned char *in) {
    unsigned t = threadIdx.x;
    copy(bytes + 20 * t, in + t, 1 + t);
    Generator first = {0, 0, 0}, second = {0, 0, 0};
    int sum = 0;
    for (unsigned i = 0; i < 4 + t % 3; i++) {
        sum = sum * 3 + first.next();
        if ((in[t] >> i & 1) != 0) sum ^= second.next() << 8;
    }
    out[t] = sum;
}
