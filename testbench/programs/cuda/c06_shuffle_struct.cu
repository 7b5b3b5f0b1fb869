// A structure of 20 bytes goes from thread to thread, word by word: the members of a tile are sorted by a key.

struct Item {
    unsigned char tag[6];
    short key;
    long long value;
};

static __device__ Item exchanged(const Item &item, int lanes) {
    unsigned words[sizeof(Item) / 4];
    memcpy(words, &item, sizeof item);
    for (unsigned &word : words) word = __shfl_xor_sync(0xffffffff, word, lanes);
    Item other;
    memcpy(&other, words, sizeof other);
    return other;
}

extern "C" __global__ void k(Item *out, const unsigned *in) {
    unsigned t = threadIdx.x, x = in[t];
    Item item = {};
    for (int byte = 0; byte < 6; byte++) item.tag[byte] = x >> byte * 5;
    item.key = static_cast<short>(x >> 7);
    item.value = static_cast<long long>(x) * -77777;
    for (unsigned size = 2; size <= 4; size *= 2)
        for (unsigned step = size / 2; step; step /= 2) {
            Item other = exchanged(item, step);
            bool up = (t & size) == 0 || size == 4, lower = (t & step) == 0;
            if (other.key != item.key && (other.key < item.key) == (up == lower)) item = other;
        }
    out[t] = item;
}
