// The state of a compiled design, as its functions see it. sim/engine/emit.py writes these functions: each computes a
// cluster of words from others. A flag for each cluster says whether one of its inputs has changed: bit n % 32 of word
// n / 32 is that of function n.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

typedef uint64_t word;
typedef uint32_t flags;

// Numbers, or structs of them and of other lists: what can be moved by copying its bytes. A list of zero bytes is empty.
// This is all that a model takes of a C++ library, so that it can be linked without one: zig would compile its own first.
template <typename T> struct list {
    T *items;
    size_t count, room;

    T *begin() const { return items; }
    T *end() const { return items + count; }
    T &operator[](size_t index) const { return items[index]; }
    void clear() { count = 0; }
    void release() {
        std::free(items);
        *this = {};
    }
    // Appends zero-initialised items; returns the first of them.
    T *extend(size_t more) {
        if (count + more > room) {
            room = 2 * (count + more);
            items = (T *)std::realloc((void *)items, room * sizeof(T));
            if (!items)
                std::abort();
        }
        std::memset((void *)(items + count), 0, more * sizeof(T));
        count += more;
        return items + count - more;
    }
    void push(const T &item) { *extend(1) = item; }
    void append(const T *first, size_t more) { std::memcpy((void *)extend(more), first, more * sizeof(T)); }
};

struct stored {
    uint32_t place;
    word value, mask;
    uint32_t memory;
};

struct model {
    word *w;  // stored words
    word *m;  // the words of all memories
    flags *d; // functions that must be called again
    uint32_t *changed_places;
    word *changed_values;
    uint32_t changed;
    list<stored> stores;
    list<word> events;

    // The next value of a register.
    void next(uint32_t place, word value) {
        if (value != w[place]) {
            changed_places[changed] = place;
            changed_values[changed++] = value;
        }
    }
    void store(uint32_t place, word value, word mask, uint32_t memory) {
        stores.push({place, value, mask, memory});
    }
    // Marks all functions that read one of these bits of a word.
    void wake(uint32_t place, word bits);
    // Assigns a word; returns whether its value has changed.
    bool force(uint32_t place, word value) {
        if (w[place] == value)
            return false;
        const word bits = w[place] ^ value;
        w[place] = value;
        wake(place, bits);
        return true;
    }
};

// Flags of functions that read these bits of a word.
struct entry {
    word bits;
    uint32_t place;
    flags raised;
};

typedef void function(model *);

struct edge {
    uint32_t place, shift, level;
    function *ports;
};

// Functions from the first bit of a word of flags on, up to one by number.
struct range {
    uint32_t first_word, end;
};

static inline word shift_left(word value, word by) { return by < 64 ? value << by : 0; }
static inline word shift_right(word value, word by) { return by < 64 ? value >> by : 0; }
static inline word shift_signed(int64_t value, word by) { return (word)(value >> (by < 63 ? by : 63)); }
// Reverses the bits of a word.
static inline word reversed(word x) {
    x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
    x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
    return __builtin_bswap64(x);
}
static inline word udiv(word a, word b) { return b ? a / b : 0; }
static inline word umod(word a, word b) { return b ? a % b : 0; }
static inline word sdiv(int64_t a, int64_t b) {
    if (b == 0)
        return 0;
    if (b == -1)
        return -(word)a;
    int64_t quotient = a / b;
    return (word)(quotient - (a % b != 0 && (a < 0) != (b < 0)));
}
static inline word smod(int64_t a, int64_t b) {
    if (b == 0 || b == -1)
        return 0;
    int64_t rest = a % b;
    return (word)(rest + (rest != 0 && (rest < 0) != (b < 0) ? b : 0));
}
