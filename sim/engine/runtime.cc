// The rest of a compiled design: what is the same for all, behind the tables that sim/engine/emit.py writes. Included
// at the end of the last translation unit.

#include <algorithm>
#include <cstdlib>
#include <cstring>

void model::wake(uint32_t place) {
    for (uint32_t at = reader_starts[place]; at < reader_starts[place + 1]; at++)
        d[readers[at]] = 1;
}

namespace {

// Bits of a kept word that are bits of a signal, from `at` on.
struct piece {
    uint32_t place, shift, width, at;
};

struct watched {
    std::vector<piece> pieces;
    std::vector<uint32_t> constant, value, last;
};

struct instance : model {
    std::vector<watched> signals;
    std::vector<uint32_t> changes; // records: cycle, index in `signals`, value in words of 32 bits
    uint32_t cycle = 0;
    bool sampled = false;
    bool levels[EDGES + 1] = {};

    // Computes what depends on changed words.
    void settle() {
        do {
            for (uint32_t index = 0; index < CLUSTERS; index++) {
                if (d[index]) {
                    d[index] = 0;
                    table[index](this);
                }
            }
        } while (resets(this));
    }

    // Also computes what only lookers see.
    void look() {
        settle();
        for (uint32_t index = CLUSTERS + REGISTER_CLUSTERS; index < CLUSTERS + REGISTER_CLUSTERS + LOOKED_AT; index++)
            table[index](this);
    }

    bool level(const edge &one) const { return w[one.place] >> one.shift & 1; }

    // Lets all clocks that have changed have their effect.
    void clock() {
        settle();
        bool any = false;
        for (uint32_t index = 0; index < EDGES; index++) {
            const edge &one = edges[index];
            bool now = level(one);
            if (now != levels[index] && now == bool(one.level)) {
                any = true;
                one.ports(this);
                for (uint32_t number = 0; number < one.count; number++) {
                    uint32_t cluster = one.registers[number];
                    if (d[cluster]) {
                        d[cluster] = 0;
                        table[cluster](this);
                    }
                }
            }
            levels[index] = now;
        }
        if (any)
            commit();
    }

    void commit() {
        for (uint32_t index = 0; index < changed; index++) {
            w[changed_places[index]] = changed_values[index];
            wake(changed_places[index]);
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
            d[memory_readers[at]] = 1;
    }

    // Records the watched signals that changed since the last sample.
    void sample() {
        for (size_t index = 0; index < signals.size(); index++) {
            watched &signal = signals[index];
            signal.value = signal.constant;
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
            if (sampled && signal.value == signal.last)
                continue;
            std::swap(signal.last, signal.value);
            signal.value.resize(signal.constant.size());
            changes.push_back(cycle);
            changes.push_back((uint32_t)index);
            changes.insert(changes.end(), signal.last.begin(), signal.last.end());
        }
        sampled = true;
        cycle++;
    }
};

} // namespace

extern "C" {

// Back to the initial state; inputs keep their values.
void model_reset(instance *s) {
    std::vector<word> kept;
    for (uint32_t index = 0; index < INPUTS; index++)
        kept.push_back(s->w[input_places[index]]);
    std::memset(s->w, 0, WORDS * sizeof(word));
    for (uint32_t index = 0; index < INPUTS; index++)
        s->w[input_places[index]] = kept[index];
    std::memset(s->m, 0, MEMORY_WORDS * sizeof(word));
    std::fill_n(s->d, CLUSTERS + REGISTER_CLUSTERS, 1);
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
    instance *s = new instance();
    s->w = (word *)std::calloc(WORDS + 1, sizeof(word));
    s->m = (word *)std::calloc(MEMORY_WORDS + 1, sizeof(word));
    s->d = (flag *)std::calloc(CLUSTERS + REGISTER_CLUSTERS + 1, sizeof(flag));
    s->changed_places = (uint32_t *)std::calloc(WORDS + 1, sizeof(uint32_t));
    s->changed_values = (word *)std::calloc(WORDS + 1, sizeof(word));
    model_reset(s);
    return s;
}

void model_destroy(instance *s) {
    for (void *one : {(void *)s->w, (void *)s->m, (void *)s->d, (void *)s->changed_places, (void *)s->changed_values})
        std::free(one);
    delete s;
}

word *model_words(instance *s) { return s->w; }
word *model_memory(instance *s) { return s->m; }

// Words or a memory that were changed from outside.
void model_touch(instance *s, uint32_t place) { s->wake(place); }
void model_touch_memory(instance *s, uint32_t memory) { s->wake_memory(memory); }

void model_look(instance *s) { s->look(); }

// Lets clocks that were changed have their effect, and everything settle.
void model_step(instance *s) {
    s->clock();
    s->settle();
}

void model_checks(instance *s) {
    s->settle();
    comb_checks(s);
}

size_t model_events_size(instance *s) { return s->events.size(); }
const word *model_events(instance *s) { return s->events.data(); }
void model_clear_events(instance *s) { s->events.clear(); }

// Adds a signal to those that are sampled: pieces of four numbers, words of its constant bits.
void model_watch(instance *s, const uint32_t *pieces, size_t count, const uint32_t *constant, size_t words) {
    watched signal;
    for (size_t index = 0; index < count; index++, pieces += 4)
        signal.pieces.push_back({pieces[0], pieces[1], pieces[2], pieces[3]});
    signal.constant.assign(constant, constant + words);
    signal.value = signal.constant;
    s->signals.push_back(signal);
}

// Samples the watched signals; returns the words of changes so far.
size_t model_sample(instance *s) {
    s->look();
    s->sample();
    return s->changes.size();
}

size_t model_changes_size(instance *s) { return s->changes.size(); }
const uint32_t *model_changes(instance *s) { return s->changes.data(); }
void model_clear_changes(instance *s) { s->changes.clear(); }

// Runs a clock for up to `count` cycles: a falling edge when it is high, then a rising one. Stops behind the edge that
// found bit `shift` of word `until` (-1: none) at 1, and when there is something to fetch: events, `room` words of
// changes. Returns the cycles; `hit` tells whether `until` ended them.
size_t model_run(instance *s, uint32_t clock, uint32_t clock_shift, size_t count, int64_t until, uint32_t shift,
                 int looks, size_t room, int *hit) {
    size_t cycles = 0;
    const word bit = (word)1 << clock_shift;
    *hit = 0;
    while (cycles < count && !*hit && s->events.empty() && s->changes.size() < room) {
        if (s->w[clock] & bit) {
            s->w[clock] &= ~bit;
            s->wake(clock);
            s->clock();
        }
        if (looks || !s->signals.empty())
            s->look();
        else
            s->settle();
        if (!s->signals.empty())
            s->sample();
        *hit = until >= 0 && (s->w[until] >> shift & 1);
        s->w[clock] |= bit;
        s->wake(clock);
        s->clock();
        cycles++;
    }
    s->settle();
    return cycles;
}

}
