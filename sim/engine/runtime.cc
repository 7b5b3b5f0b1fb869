// The rest of a compiled design: what is the same for all, behind the tables that sim/engine/emit.py writes. Included
// at the end of the last translation unit.

#include <algorithm>

void model::wake(uint32_t place, word bits) {
    for (const entry *at = reader_entries + reader_starts[place], *end = reader_entries + reader_starts[place + 1];
         at < end; at++)
        if (at->bits & bits)
            d[at->place] |= at->raised;
}

namespace {

// In `ranges`: the functions of clusters, then those of the registers of each edge, then those computed on access.
enum { SETTLED, REGISTERS, LOOKED_AT = REGISTERS + EDGES, RANGES };

// Bits of a stored word that are bits of a signal, from `at` on.
struct piece {
    uint32_t place, shift, width, at;
    word last; // the stored word at the last sample
};

struct watched {
    list<piece> pieces;
    list<uint32_t> constant, value, last; // as many words, except `last` before the first sample
};

struct instance : model {
    list<watched> signals;
    list<uint32_t> changes; // records: cycle, index in `signals`, value in words of 32 bits
    uint32_t cycle;
    bool sampled;
    bool levels[EDGES + 1];

    // Calls the functions of registers whose flags are set. Flags that these set are for the next edge.
    void step(const range &one) {
        for (uint32_t at = one.first_word; at * 32 < one.end; at++) {
            flags up = d[at];
            d[at] = 0;
            for (; up; up &= up - 1)
                table[at * 32 + __builtin_ctz(up)](this);
        }
    }

    // Calls the functions of a range whose flags are set, in order. Each sets flags of later ones only.
    void call(const range &one) {
        for (uint32_t at = one.first_word; at * 32 < one.end; at++) {
            while (flags up = d[at]) {
                d[at] = up & (up - 1);
                table[at * 32 + __builtin_ctz(up)](this);
            }
        }
    }

    // Computes the words that depend on changed words.
    void settle() {
        do
            call(ranges[SETTLED]);
        while (resets(this));
    }

    // Also computes the words that are computed on access.
    void look() {
        settle();
        call(ranges[LOOKED_AT]);
    }

    // Also computes one word that is computed on access; `needs` are the flags of the functions that it requires.
    void look_at(const flags *needs) {
        settle();
        const uint32_t first = ranges[LOOKED_AT].first_word;
        for (uint32_t at = 0; needs && at < LOOKED_WORDS; at++) {
            while (flags up = d[first + at] & needs[at]) {
                d[first + at] &= ~(up & -up);
                table[(first + at) * 32 + __builtin_ctz(up)](this);
            }
        }
    }

    // Returns the flags for this; null if the word is always computed.
    static const flags *needs_of(uint32_t place) {
        const uint32_t *end = looked_places + LOOKED_PLACES, *found = std::lower_bound(looked_places, end, place);
        return found < end && *found == place ? looked_needs + looked_makers[found - looked_places] * LOOKED_WORDS
                                              : nullptr;
    }

    bool level(const edge &one) const { return w[one.place] >> one.shift & 1; }

    // Applies the edges of all clocks that have changed.
    void clock() {
        settle();
        tick();
    }

    // Likewise, if everything has settled.
    void tick() {
        bool any = false;
        for (uint32_t index = 0; index < EDGES; index++) {
            const edge &one = edges[index];
            bool now = level(one);
            if (now != levels[index] && now == bool(one.level)) {
                any = true;
                one.ports(this);
                step(ranges[REGISTERS + index]);
            }
            levels[index] = now;
        }
        if (any)
            commit();
    }

    // Records that a clock is low, where that has no effect.
    void fall(uint32_t place, uint32_t shift) {
        for (uint32_t index = 0; index < EDGES; index++)
            if (edges[index].place == place && edges[index].shift == shift)
                levels[index] = false;
    }

    void commit() {
        for (uint32_t index = 0; index < changed; index++) {
            word &now = w[changed_places[index]];
            const word bits = now ^ changed_values[index];
            now = changed_values[index];
            wake(changed_places[index], bits);
        }
        changed = 0;
        for (const stored &one : stores) {
            word value = (m[one.place] & ~one.mask) | (one.value & one.mask);
            if (value != m[one.place]) {
                m[one.place] = value;
                wake_memory(one.memory);
            }
        }
        stores.clear();
    }

    void wake_memory(uint32_t memory) {
        for (uint32_t at = memory_starts[memory]; at < memory_starts[memory + 1]; at++)
            d[memory_entries[at].place] |= memory_entries[at].raised;
    }

    // Records the watched signals that changed since the last sample.
    void sample() {
        for (size_t index = 0; index < signals.count; index++) {
            watched &signal = signals[index];
            bool same = sampled;
            for (piece &one : signal.pieces) {
                same &= one.last == w[one.place];
                one.last = w[one.place];
            }
            if (same)
                continue;
            const size_t words = signal.constant.count;
            std::copy(signal.constant.begin(), signal.constant.end(), signal.value.begin());
            for (const piece &one : signal.pieces) {
                word bits = w[one.place] >> one.shift;
                if (one.width < 64)
                    bits &= ((word)1 << one.width) - 1;
                uint32_t to = one.at / 32, by = one.at % 32;
                signal.value[to] |= (uint32_t)(bits << by);
                if (by + one.width > 32)
                    signal.value[to + 1] |= (uint32_t)(bits >> (32 - by));
                if (by + one.width > 64)
                    signal.value[to + 2] |= (uint32_t)(bits >> (64 - by));
            }
            if (sampled && std::equal(signal.value.begin(), signal.value.end(), signal.last.begin()))
                continue;
            std::swap(signal.last, signal.value);
            changes.push(cycle);
            changes.push((uint32_t)index);
            changes.append(signal.last.begin(), words);
        }
        sampled = true;
        cycle++;
    }
};

} // namespace

extern "C" {

// Restores the initial state; inputs keep their values.
void model_reset(instance *s) {
    list<word> kept = {};
    for (uint32_t index = 0; index < INPUTS; index++)
        kept.push(s->w[input_places[index]]);
    std::memset(s->w, 0, WORDS * sizeof(word));
    for (uint32_t index = 0; index < INPUTS; index++)
        s->w[input_places[index]] = kept[index];
    kept.release();
    std::memset(s->m, 0, MEMORY_WORDS * sizeof(word));
    for (const range &one : ranges)
        for (uint32_t number = one.first_word * 32; number < one.end; number++)
            s->d[number / 32] |= (flags)1 << number % 32;
    for (uint32_t index = 0; index < INITS; index++)
        s->w[init_places[index]] = init_values[index];
    for (uint32_t index = 0; index < ROWS; index++)
        s->m[row_places[index]] = row_values[index];
    std::fill_n(s->levels, EDGES, false);
    s->changed = 0;
    s->stores.clear();
    s->events.clear();
    s->changes.clear();
    s->sampled = false;
    s->cycle = 0;
}

instance *model_create() {
    instance *s = (instance *)std::calloc(1, sizeof(instance));
    s->w = (word *)std::calloc(WORDS + 1, sizeof(word));
    s->m = (word *)std::calloc(MEMORY_WORDS + 1, sizeof(word));
    s->d = (flags *)std::calloc(FLAG_WORDS + 1, sizeof(flags));
    s->changed_places = (uint32_t *)std::calloc(WORDS + 1, sizeof(uint32_t));
    s->changed_values = (word *)std::calloc(WORDS + 1, sizeof(word));
    model_reset(s);
    return s;
}

void model_destroy(instance *s) {
    for (void *one : {(void *)s->w, (void *)s->m, (void *)s->d, (void *)s->changed_places, (void *)s->changed_values})
        std::free(one);
    for (watched &signal : s->signals) {
        signal.pieces.release();
        for (list<uint32_t> *one : {&signal.constant, &signal.value, &signal.last})
            one->release();
    }
    s->signals.release();
    s->changes.release();
    s->stores.release();
    s->events.release();
    std::free(s);
}

word *model_words(instance *s) { return s->w; }
word *model_memory(instance *s) { return s->m; }

// Handles words or a memory that were changed from outside.
void model_touch(instance *s, uint32_t place) { s->wake(place, ~(word)0); }
void model_touch_memory(instance *s, uint32_t memory) { s->wake_memory(memory); }

void model_look(instance *s) { s->look(); }

// Applies changed clocks, and settles.
void model_step(instance *s) {
    s->clock();
    s->settle();
}

void model_checks(instance *s) {
    s->settle();
    comb_checks(s);
}

size_t model_events_size(instance *s) { return s->events.count; }
const word *model_events(instance *s) { return s->events.begin(); }
void model_clear_events(instance *s) { s->events.clear(); }

// Adds a signal to the sampled ones: pieces of four numbers, words of its constant bits.
void model_watch(instance *s, const uint32_t *pieces, size_t count, const uint32_t *constant, size_t words) {
    watched signal = {};
    for (size_t index = 0; index < count; index++, pieces += 4)
        signal.pieces.push({pieces[0], pieces[1], pieces[2], pieces[3], 0});
    signal.constant.append(constant, words);
    signal.value.extend(words);
    signal.last.extend(words);
    s->signals.push(signal);
}

// Samples the watched signals; returns the words of changes so far.
size_t model_sample(instance *s) {
    s->look();
    s->sample();
    return s->changes.count;
}

size_t model_changes_size(instance *s) { return s->changes.count; }
const uint32_t *model_changes(instance *s) { return s->changes.begin(); }
void model_clear_changes(instance *s) { s->changes.clear(); }

// Runs a clock for up to `count` cycles: a falling edge when it is high, then a rising one. Stops behind the edge that
// found bit `shift` of word `until` (-1: none) at 1, and when there is something to fetch: events, `room` words of
// changes. Returns the cycles; `hit` tells whether `until` ended them.
size_t model_run(instance *s, uint32_t clock, uint32_t clock_shift, size_t count, int64_t until, uint32_t shift,
                 size_t room, int *hit) {
    size_t cycles = 0;
    const word bit = (word)1 << clock_shift;
    const flags *needs = until >= 0 ? instance::needs_of((uint32_t)until) : nullptr;
    const bool is_read = reader_starts[clock] != reader_starts[clock + 1];
    *hit = 0;
    while (cycles < count && !*hit && !s->events.count && s->changes.count < room) {
        if (s->w[clock] & bit) {
            s->w[clock] &= ~bit;
            s->wake(clock, bit);
            if (FALLS)
                s->clock();
            else
                s->fall(clock, clock_shift);
        }
        if (!s->signals.count) {
            s->look_at(needs);
        } else {
            s->look();
            s->sample();
        }
        *hit = until >= 0 && (s->w[until] >> shift & 1);
        s->w[clock] |= bit;
        if (is_read) {
            s->wake(clock, bit);
            s->settle();
        }
        s->tick();
        cycles++;
    }
    s->settle();
    return cycles;
}

}
