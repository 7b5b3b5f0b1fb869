// The core of the compiled warp model: scheduling, flow, barriers, start and end of CTAs, memory.
//
// It is equivalent to sim/model in Python, on the same state. Instructions that raise an error, and rare cases, are left
// to the model: an instruction that returns FALLBACK has changed nothing.
#include "core.h"

enum { BARRIER_COUNT = ISA_BARRIERS + 1, SLOTS = 64, PAGE_BITS = 12, PAGE = 1 << PAGE_BITS, BANKS = 18 };
enum Reason { BUDGET, MODEL, PAGE_WANTED, NOBODY_READY, ALL_ENDED };

// A range of the launch's memory: either one block, or a table of pages, null for pages that were never written.
struct Region {
    u64 start, size;
    u8 *flat;
    u8 **pages;
    u64 first_page;
    u64 is_code;
};

struct Arrival {
    i32 slot, reduction;    // -1: none
    u32 population, some_false, some_true;
};

struct Barrier {
    u32 arrived, expected, population, some_false, some_true;
    i32 waiting;
    Arrival arrivals[SLOTS];
};

struct Cta {
    u32 index[3];
    i32 live;               // warps
    u64 serial;
    u8 *shared;
    u32 keeps_reference, unused;
    Barrier barriers[BARRIER_COUNT];
};

struct Machine {
    Warp *warps;
    Cta *ctas;              // by number of the warp; as many as there are slots
    Op *ops;                // indexed by address / 8
    u64 op_count;
    Region *regions;        // in order of their addresses, at least one
    u64 region_count;
    Region *recent;
    u64 missing_page;
    u8 *zeros;              // a page
    u64 left;               // remaining instructions
    u64 clock;
    u64 ready, occupied, slot_mask;
    u64 free_ctas;
    u64 next_cta, cta_count;
    u32 grid[3];
    i32 slots, last, slot;
    i32 may_start, cta_warps;
    u32 entry, register_rows;
    u64 local_memory, warp_block, local_bytes, shared_bytes;
    i32 stack_limit, on_chip;
    i32 check_api_calls, barriers;
    u32 *created;           // by number of the warp: the threads that the launch has created
    u8 *banks[BANKS];
    u64 bank_bytes[BANKS];
};

#define NEXT_LANE(rest, i) u32 rest = threads, i; rest && ((i = __builtin_ctz(rest)), true); rest &= rest - 1

// CTAs and barriers.

static void settle(Machine *m, Cta *cta) {
    for (int number = 0; number < BARRIER_COUNT; number++) {
        Barrier *barrier = &cta->barriers[number];
        if (!barrier->arrived || barrier->arrived < (barrier->expected ? barrier->expected : (u32)cta->live))
            continue;
        for (int at = 0; at < barrier->waiting; at++) {
            const Arrival *arrival = &barrier->arrivals[at];
            Warp *w = &m->warps[arrival->slot];
            w->barrier = -1;
            m->ready |= 1ull << arrival->slot;
            if (arrival->reduction == ISA_REDUCTION_POPC)
                w->reduction = barrier->population;
            else if (arrival->reduction == ISA_REDUCTION_AND)
                w->reduction = 1 - barrier->some_false;
            else if (arrival->reduction == ISA_REDUCTION_OR)
                w->reduction = barrier->some_true;
        }
        barrier->waiting = 0;
        barrier->arrived = barrier->expected = barrier->population = barrier->some_false = barrier->some_true = 0;
    }
}

static void start_warp(Machine *m, int slot, int number, int cta) {
    Warp *w = &m->warps[slot];
    __builtin_memset(w->registers, 0, m->register_rows * LANES * sizeof(u32));
    w->local_base = m->local_memory + slot * m->warp_block;
    w->pc = m->entry;
    w->last_pc = 0;
    __builtin_memset(&w->masks, 0, sizeof w->masks);
    w->masks.active = m->created[number];
    w->masks.disabled[KILLED] = ~m->created[number];
    __builtin_memset(w->predicates, 0, sizeof w->predicates);
    w->predicates[ISA_PT] = ALL_THREADS;
    __builtin_memset(w->condition, 0, sizeof w->condition);
    w->depth = w->first = 0;
    w->dirty = 0;
    w->api_call_depth = w->kill_future_branch = 0;
    w->barrier = -1;
    w->reduction = 0;
    w->number = number;
    w->cta = cta;
    m->occupied |= 1ull << slot;
    m->ready |= 1ull << slot;
}

static void start_ctas(Machine *m) {
    m->may_start = 0;
    while (m->next_cta < m->cta_count) {
        u64 free = m->slot_mask & ~m->occupied;
        if (__builtin_popcountll(free) < m->cta_warps)
            return;
        int number = __builtin_ctzll(m->free_ctas);
        Cta *cta = &m->ctas[number];
        m->free_ctas &= m->free_ctas - 1;
        u64 serial = m->next_cta++;
        cta->serial = serial;
        cta->index[0] = serial % m->grid[0];
        cta->index[1] = serial / m->grid[0] % m->grid[1];
        cta->index[2] = serial / m->grid[0] / m->grid[1];
        cta->live = m->cta_warps;
        cta->keeps_reference = 0;
        __builtin_memset(cta->shared, 0, m->shared_bytes);
        for (int at = 0; at < BARRIER_COUNT; at++)
            __builtin_memset(&cta->barriers[at], 0, __builtin_offsetof(Barrier, arrivals));
        for (int warp = 0; warp < m->cta_warps; warp++, free &= free - 1)
            start_warp(m, __builtin_ctzll(free), warp, number);
    }
}

static void end_warp(Machine *m, Warp *w) {
    Cta *cta = &m->ctas[w->cta];
    m->occupied &= ~(1ull << w->slot);
    m->ready &= ~(1ull << w->slot);
    if (--cta->live == 0)
        m->free_ctas |= 1ull << w->cta;
    settle(m, cta);
    m->may_start = 1;
}

static inline u32 lowest(const Warp *w, const Op *op, int operand, u32 threads) {
    return source(w, op, operand)[__builtin_ctz(threads)];
}

// BAR. a: the mode, b: the reduction, c: both numbers are in a pair, d: flip of the predicate.
static int barrier(Machine *m, Warp *w, const Op *op, u32 threads) {
    if (!threads)
        return DONE;
    u32 index = lowest(w, op, 0, threads), count = lowest(w, op, 1, threads);
    if (op->c) {
        index &= ~(u32)ISA_PACKED_COUNT_MASK;
        count = (count & ISA_PACKED_COUNT_MASK) >> ISA_PACKED_COUNT_AT;
    }
    u32 limit = m->barriers < ISA_BARRIERS ? m->barriers : ISA_BARRIERS;
    if (index >= limit || count % LANES || count / LANES >> ISA_EXPECTED_BITS)
        return FALLBACK;
    Barrier *barrier = &m->ctas[w->cta].barriers[index];
    Arrival arrival = {w->slot, -1, 0, 0, 0};
    if (op->a == ISA_BAR_RED || op->a == ISA_BAR_SCAN) {
        u32 holds = (w->predicates[op->predicates[0]] ^ (op->d ? ALL_THREADS : 0)) & threads;
        if (op->a == ISA_BAR_SCAN)
            w->reduction = barrier->population;
        else
            arrival.reduction = op->b;
        arrival.population = __builtin_popcount(holds);
        arrival.some_false = holds != threads;
        arrival.some_true = holds != 0;
        barrier->population = (barrier->population + arrival.population) & ((1u << ISA_POPULATION_BITS) - 1);
        barrier->some_false |= arrival.some_false;
        barrier->some_true |= arrival.some_true;
    }
    barrier->arrived++;
    barrier->expected = count / LANES;
    if (op->a != ISA_BAR_ARV) {
        w->barrier = index;
        m->ready &= ~(1ull << w->slot);
        barrier->arrivals[barrier->waiting++] = arrival;
    }
    settle(m, &m->ctas[w->cta]);
    return DONE;
}

// B2R.RESULT.
static int barrier_result(Machine *m, Warp *w, const Op *op, u32 threads) {
    write_mask(&w->predicates[op->predicates[0]], w->reduction ? ALL_THREADS : 0, threads);
    u32 value[LANES];
    for (int i = 0; i < LANES; i++)
        value[i] = w->reduction;
    write_row(w->registers + LANES * op->rows[0], value, threads);
    return DONE;
}

// Flow.

static bool has_room(const Machine *m, const Warp *w, int tokens) {
    return w->depth + tokens <= m->stack_limit && w->depth + tokens - w->first <= m->on_chip;
}

static void push(Warp *w, u32 kind, u32 pc, u32 mask, u32 counted) {
    w->tokens[w->depth - w->first] = Token{pc, mask, kind, counted};
    w->dirty |= 1ull << (w->depth / ISA_TOKENS_PER_LINE - w->first / ISA_TOKENS_PER_LINE);
    w->depth++;
}

static void drop_to(Warp *w, int depth) {
    w->depth = depth;
    int lines = (depth + ISA_TOKENS_PER_LINE - 1) / ISA_TOKENS_PER_LINE - w->first / ISA_TOKENS_PER_LINE;
    w->dirty &= lines < 64 ? (1ull << lines) - 1 : ~0ull;
}

// BRA and JMP with a fixed target. a: .U, b: .LMT.
static int branch(Machine *m, Warp *w, const Op *op, u32 threads) {
    if (!threads || (op->b && w->kill_future_branch))
        return DONE;
    u32 rest = w->masks.active & ~threads;
    if (rest) {
        if (op->a || !has_room(m, w, 1))
            return FALLBACK;
        push(w, ISA_TOKEN_DIVERGE, w->next, rest, 0);
        w->masks.active = threads;
    }
    w->next = op->target;
    return DONE;
}

// BRX and JMX. a: the target counts from the program's base, b: .LMT, c: the target is in a constant bank, d: that
// bank, e: its address has 32 bits; number: offset.
static int indexed_branch(Machine *m, Warp *w, const Op *op, u32 threads) {
    if (!threads || (op->b && w->kill_future_branch))
        return DONE;
    const u32 *row = source(w, op, 0);
    u32 index = row[__builtin_ctz(threads)], group = 0;
    for (int i = 0; i < LANES; i++)
        group |= (u32)(row[i] == index) << i;
    group &= threads;
    i64 target;
    if (op->c) {
        u64 address = ((u64)index + op->number) & (op->e ? 0xFFFFFFFFull : 0xFFFFull);
        if (address % 4 || address + 4 > m->bank_bytes[op->d])
            return FALLBACK;
        u32 word;
        __builtin_memcpy(&word, m->banks[op->d] + address, sizeof word);
        target = op->a ? (i64)word : (i64)w->address + 8 + (i32)word;
    } else
        target = (op->a ? (i64)index : (i64)w->address + 8 + (i32)index) + op->number;
    if (target < 0 || target > 0xFFFFFFFFll || target % 8)
        return FALLBACK;
    u32 others = w->masks.active & ~threads, rest = threads & ~group;
    if (!has_room(m, w, (others != 0) + (rest != 0)))
        return FALLBACK;
    if (others)
        push(w, ISA_TOKEN_DIVERGE, w->next, others, 0);
    if (rest)
        push(w, ISA_TOKEN_DIVERGE, w->address, rest, 0);
    w->masks.active = group;
    w->next = target;
    return DONE;
}

// CAL and JCAL. a: counted.
static int call(Machine *m, Warp *w, const Op *op, u32 threads) {
    if ((op->a && m->check_api_calls && w->api_call_depth >= ISA_API_CALL_LIMIT) || !has_room(m, w, 1))
        return FALLBACK;
    push(w, ISA_TOKEN_RETURN, w->next, w->masks.active, op->a);
    w->api_call_depth = (w->api_call_depth + op->a) % ISA_CALL_DEPTHS;
    w->next = op->target;
    return DONE;
}

// SSY and the like. a: counted, b: the token's kind.
static int push_token(Machine *m, Warp *w, const Op *op, u32 threads) {
    if (op->a && m->check_api_calls && w->api_call_depth >= ISA_API_CALL_LIMIT) {
        w->kill_future_branch = 1;
        return DONE;
    }
    if (!has_room(m, w, 1))
        return FALLBACK;
    push(w, op->b, op->target, w->masks.active, op->a);
    if (op->a) {
        w->kill_future_branch = 0;
        w->api_call_depth = (w->api_call_depth + 1) % ISA_CALL_DEPTHS;
    }
    return DONE;
}

static u32 all_disabled(const Masks &masks) {
    u32 all = 0;
    for (u32 mask : masks.disabled)
        all |= mask;
    return all;
}

static int disabled_by(u32 kind) {
    switch (kind) {
        case ISA_TOKEN_BREAK: return BROKEN;
        case ISA_TOKEN_CONTINUE: return CONTINUED;
        case ISA_TOKEN_RETURN: return RETURNED;
        case ISA_TOKEN_EXIT: return EXITED;
        case ISA_TOKEN_LONGJMP: return LONGJUMPED;
        default: return DISABLED_MASKS;
    }
}

// Without an active thread: pops tokens until one is active, or the warp ends.
static int unwind(Warp *w, Masks masks) {
    int calls_closed = 0;
    for (int index = w->depth - 1; index >= 0; index--) {
        if (index < w->first)
            return FALLBACK;
        const Token token = w->tokens[index - w->first];
        int to = disabled_by(token.kind);
        if (to != DISABLED_MASKS) {
            if (token.mask & ~all_disabled(masks))
                return FALLBACK;
            masks.disabled[to] &= ~token.mask;
            calls_closed += token.counted && token.kind == ISA_TOKEN_RETURN;
        } else if (token.kind == ISA_TOKEN_NONE)
            continue;
        else if (token.kind != ISA_TOKEN_DIVERGE && token.kind != ISA_TOKEN_SYNC)
            return FALLBACK;
        u32 active = token.mask & ~all_disabled(masks);
        if (active) {
            if (token.pc % 8)
                return FALLBACK;
            masks.active = active;
            w->masks = masks;
            drop_to(w, index);
            w->api_call_depth = ((w->api_call_depth - calls_closed) % ISA_CALL_DEPTHS + ISA_CALL_DEPTHS) % ISA_CALL_DEPTHS;
            w->next = token.pc;
            return DONE;
        }
    }
    if (w->first || ~(masks.disabled[EXITED] | masks.disabled[KILLED]))
        return FALLBACK;
    return ENDED;
}

// SYNC, BRK, CONT, RET, EXIT, LONGJMP, KIL. a: the disabled mask, b: .KEEPREFCOUNT.
static int leave(Machine *m, Warp *w, const Op *op, u32 threads) {
    if (!threads)
        return DONE;
    Masks masks = w->masks;
    masks.active &= ~threads;
    for (u32 &mask : masks.disabled)
        mask &= ~threads;
    if (op->a != DISABLED_MASKS)
        masks.disabled[op->a] |= threads;
    int status = DONE;
    if (masks.active)
        w->masks = masks;
    else
        status = unwind(w, masks);
    if (status != FALLBACK)
        m->ctas[w->cta].keeps_reference |= op->b;
    return status;
}

static int nothing(Machine *, Warp *, const Op *, u32) { return DONE; }

// Special registers.

static int uniform_word(Warp *w, const Op *op, u32 word, u32 threads) {
    u32 value[LANES];
    for (int i = 0; i < LANES; i++)
        value[i] = word;
    write_row(w->registers + LANES * op->rows[0], value, threads);
    return DONE;
}

// Registers that depend only on the slot or on the warp's number in the CTA. a: on the slot.
static int special(Machine *, Warp *w, const Op *op, u32 threads) {
    write_row(w->registers + LANES * op->rows[0], op->uniform + LANES * (op->a ? w->slot : w->number), threads);
    return DONE;
}

// CTAID. a: the axis.
static int cta_index(Machine *m, Warp *w, const Op *op, u32 threads) {
    return uniform_word(w, op, m->ctas[w->cta].index[op->a], threads);
}

// The clocks. a: bits shifted out.
static int clock_word(Machine *m, Warp *w, const Op *op, u32 threads) {
    return uniform_word(w, op, m->clock >> op->a, threads);
}

// Memory.

static Region *region_of(Machine *m, u64 address) {
    u64 low = 0, high = m->region_count;
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (m->regions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || address - m->regions[low - 1].start >= m->regions[low - 1].size)
        return 0;
    return m->recent = &m->regions[low - 1];
}

// Returns the address of up to 16 aligned bytes; null: the model has to handle it.
template<bool WRITES> static inline u8 *locate(Machine *m, u64 address) {
    Region *region = m->recent;
    if (address - region->start >= region->size && !(region = region_of(m, address)))
        return 0;
    if (WRITES && region->is_code)
        return 0;
    if (region->flat)
        return region->flat + (address - region->start);
    u8 *page = region->pages[(address >> PAGE_BITS) - region->first_page];
    if (!page) {
        if (!WRITES)
            return m->zeros + (address & (PAGE - 1));
        m->missing_page = (address >> PAGE_BITS) + 1;
        return 0;
    }
    return page + (address & (PAGE - 1));
}

enum Space { GLOBAL, LOCAL, SHARED, GENERIC, ATOMIC };
enum AddressMode { FIXED, NARROW, WIDE };

// The address of every thread: rows 0 and 1 hold the register or the pair, a the mode, number the offset.
static inline void addresses(const Warp *w, const Op *op, u64 *at) {
    const u32 *low = source(w, op, 0), *high = source(w, op, 1);
    u64 offset = op->number;
    if (op->a == NARROW)
        for (int i = 0; i < LANES; i++)
            at[i] = (u32)(low[i] + (u32)offset);
    else if (op->a == WIDE)
        for (int i = 0; i < LANES; i++)
            at[i] = (low[i] | (u64)high[i] << 32) + offset;
    else
        for (int i = 0; i < LANES; i++)
            at[i] = offset;
}

template<bool WRITES> static inline bool locate_shared(Machine *m, Warp *w, u64 address, u32 size, u8 **at) {
    if (address > m->shared_bytes || address + size > m->shared_bytes)
        return false;
    for (u32 word = 0; word * 4 < size; word++)
        at[word * LANES] = m->ctas[w->cta].shared + address + 4 * word;
    return true;
}

template<bool WRITES> static inline bool locate_local(Machine *m, Warp *w, u64 address, u32 size, int lane, u8 **at) {
    if (address > m->local_bytes || address + size > m->local_bytes)
        return false;
    for (u32 word = 0; word * 4 < size; word++) {
        u64 place = w->local_base + ((address / 4 + word) * LANES + lane) * 4 + address % 4;
        if (!(at[word * LANES] = locate<WRITES>(m, place)))
            return false;
    }
    return true;
}

template<bool WRITES> static inline bool locate_global(Machine *m, u64 address, u32 size, u8 **at) {
    u8 *place = locate<WRITES>(m, address);
    for (u32 word = 0; word * 4 < size; word++)
        at[word * LANES] = place + 4 * word;
    return place != 0;
}

// The addresses of the words of every thread's access: at[32 * word + lane].
template<int SPACE, bool WRITES>
static inline bool locate_all(Machine *m, Warp *w, const u64 *address, u32 size, u32 threads, u8 **at) {
    for (NEXT_LANE(rest, i)) {
        u64 own = address[i];
        if (own & (size - 1))
            return false;
        bool good;
        bool in_shared = own - ISA_SHARED_WINDOW < ISA_WINDOW_BYTES, in_local = own - ISA_LOCAL_WINDOW < ISA_WINDOW_BYTES;
        if (SPACE == SHARED)
            good = locate_shared<WRITES>(m, w, own, size, at + i);
        else if (SPACE == LOCAL)
            good = locate_local<WRITES>(m, w, own, size, i, at + i);
        else if (SPACE == GENERIC && in_shared)
            good = locate_shared<WRITES>(m, w, own - ISA_SHARED_WINDOW, size, at + i);
        else if (SPACE == GENERIC && in_local)
            good = locate_local<WRITES>(m, w, own - ISA_LOCAL_WINDOW, size, i, at + i);
        else if (SPACE == ATOMIC && (in_shared || in_local))
            good = false;
        else
            good = locate_global<WRITES>(m, own, size, at + i);
        if (!good)
            return false;
    }
    return true;
}

static int refused(const Machine *m) { return m->missing_page ? MISSING_PAGE : FALLBACK; }

// A block of bytes that contains most accesses of a space, from the first thread's on; base is null without one.
struct Piece {
    u8 *base;
    u64 start, length;
};

static inline bool has_windows(const Region *region) {
    const u64 end = region->start + region->size;
    return (region->start < ISA_SHARED_WINDOW + ISA_WINDOW_BYTES && end > ISA_SHARED_WINDOW)
        || (region->start < ISA_LOCAL_WINDOW + ISA_WINDOW_BYTES && end > ISA_LOCAL_WINDOW);
}

template<int SPACE, bool WRITES> static inline Piece piece_of(Machine *m, Warp *w, u64 address) {
    if (SPACE == SHARED)
        return {m->ctas[w->cta].shared, 0, m->shared_bytes};
    if (SPACE != GLOBAL && SPACE != GENERIC)
        return {0, 0, 0};
    Region *region = m->recent;
    if (address - region->start >= region->size && !(region = region_of(m, address)))
        return {0, 0, 0};
    if (!region->flat || (WRITES && region->is_code) || (SPACE == GENERIC && has_windows(region)))
        return {0, 0, 0};
    return {region->flat, region->start, region->size};
}

// Converts addresses to offsets in a block, 0 for inactive threads; false if some are outside, or misaligned.
static inline bool within(const Piece &piece, const u64 *address, u32 size, u32 threads, u64 *offset) {
    if (!piece.base || piece.length < size)
        return false;
    const u64 last = piece.length - size;
    u64 bad = 0;
    for (int i = 0; i < LANES; i++) {
        const u64 active = -(u64)bit_of(threads, i), at = (address[i] - piece.start) & active;
        bad |= (u64)(at > last) | (at & (size - 1));
        offset[i] = at;
    }
    return !bad;
}

template<int SIZE> static inline u32 word_at(const u8 *from) {
    switch (SIZE) {
        case 1: return *from;
        case -1: return (i32)*(const i8 *)from;
        case 2: return *(const u16 *)from;
        case -2: return (i32)*(const i16 *)from;
        default: return *(const u32 *)from;
    }
}

template<int SIZE> static inline void put_word(u8 *to, u32 value) {
    if (SIZE == 1)
        *to = value;
    else if (SIZE == 2)
        *(u16 *)to = value;
    else
        *(u32 *)to = value;
}

// A load. Rows 2 to 5 are its destinations. SIZE: bytes, negative with a sign.
template<int SPACE, int SIZE> static int load(Machine *m, Warp *w, const Op *op, u32 threads) {
    const int bytes = SIZE < 0 ? -SIZE : SIZE, words = bytes < 4 ? 1 : bytes / 4;
    if (!threads)
        return DONE;
    u64 address[LANES], offset[LANES];
    u32 value[words][LANES];
    addresses(w, op, address);
    const Piece piece = piece_of<SPACE, false>(m, w, address[__builtin_ctz(threads)]);
    if (within(piece, address, bytes, threads, offset)) {
        for (int word = 0; word < words; word++)
            for (int i = 0; i < LANES; i++)
                value[word][i] = word_at<SIZE>(piece.base + offset[i] + 4 * word);
    } else {
        u8 *at[LANES * words];
        if (!locate_all<SPACE, false>(m, w, address, bytes, threads, at))
            return refused(m);
        for (int word = 0; word < words; word++)
            for (NEXT_LANE(rest, i))
                value[word][i] = word_at<SIZE>(at[word * LANES + i]);
    }
    for (int word = 0; word < words; word++)
        write_row(w->registers + LANES * op->rows[2 + word], value[word], threads);
    return DONE;
}

// A store. Rows 2 to 5 are the stored values.
template<int SPACE, int SIZE> static int store(Machine *m, Warp *w, const Op *op, u32 threads) {
    const int words = SIZE < 4 ? 1 : SIZE / 4;
    if (!threads)
        return DONE;
    u64 address[LANES], offset[LANES];
    addresses(w, op, address);
    const Piece piece = piece_of<SPACE, true>(m, w, address[__builtin_ctz(threads)]);
    if (within(piece, address, SIZE, threads, offset)) {
        for (NEXT_LANE(rest, i))
            for (int word = 0; word < words; word++)
                put_word<SIZE>(piece.base + offset[i] + 4 * word, source(w, op, 2 + word)[i]);
        return DONE;
    }
    u8 *at[LANES * words];
    if (!locate_all<SPACE, true>(m, w, address, SIZE, threads, at))
        return refused(m);
    for (NEXT_LANE(rest, i))
        for (int word = 0; word < words; word++)
            put_word<SIZE>(at[word * LANES + i], source(w, op, 2 + word)[i]);
    return DONE;
}

// LDC. b: the bank, c: its address has 32 bits; row 0 the index, rows 2 and 3 the destination.
template<int SIZE> static int load_constant(Machine *m, Warp *w, const Op *op, u32 threads) {
    const int bytes = SIZE < 0 ? -SIZE : SIZE, words = bytes < 4 ? 1 : bytes / 4;
    if (!threads)
        return DONE;
    const u32 *index = source(w, op, 0);
    u32 value[words][LANES];
    for (NEXT_LANE(rest, i)) {
        u64 address = ((u64)index[i] + op->number) & (op->c ? 0xFFFFFFFFull : 0xFFFFull);
        if (address % bytes || address + bytes > m->bank_bytes[op->b])
            return FALLBACK;
        const u8 *from = m->banks[op->b] + address;
        if (SIZE == 1)
            value[0][i] = *from;
        else if (SIZE == -1)
            value[0][i] = (i32)*(const i8 *)from;
        else if (SIZE == 2)
            value[0][i] = *(const u16 *)from;
        else if (SIZE == -2)
            value[0][i] = (i32)*(const i16 *)from;
        else
            for (int word = 0; word < words; word++)
                value[word][i] = ((const u32 *)from)[word];
    }
    for (int word = 0; word < words; word++)
        write_row(w->registers + LANES * op->rows[2 + word], value[word], threads);
    return DONE;
}

template<typename T, typename Signed> static T modified(int operation, bool is_signed, T old, T operand) {
    switch (operation) {
        case ISA_ATOMIC_ADD: return old + operand;
        case ISA_ATOMIC_MIN: return (is_signed ? (Signed)old < (Signed)operand : old < operand) ? old : operand;
        case ISA_ATOMIC_MAX: return (is_signed ? (Signed)old > (Signed)operand : old > operand) ? old : operand;
        case ISA_ATOMIC_INC: return old >= operand ? 0 : old + 1;
        case ISA_ATOMIC_DEC: return old == 0 || old > operand ? operand : old - 1;
        case ISA_ATOMIC_AND: return old & operand;
        case ISA_ATOMIC_OR: return old | operand;
        case ISA_ATOMIC_XOR: return old ^ operand;
        default: return operand;
    }
}

enum AtomicKind { MODIFIES, SWAPS, TESTS, ADDS_FLOATS };
typedef u32 (*FloatSum)(u32 old, u32 operand);

// An atomic operation, thread by thread. Rows 2 and 3: the first operand, 4 and 5: the second, 6 and 7: the result.
// b: the operation, c: signed, d: what it does.
template<int SPACE, typename T, typename Signed> static int atomic(Machine *m, Warp *w, const Op *op, u32 threads) {
    const int words = sizeof(T) / 4;
    if (!threads)
        return DONE;
    u64 address[LANES];
    u8 *at[LANES * words];
    u32 value[words][LANES];
    addresses(w, op, address);
    if (!locate_all<SPACE, true>(m, w, address, sizeof(T), threads, at))
        return refused(m);
    for (NEXT_LANE(rest, i)) {
        T *place = (T *)at[i], old = *place, first = source(w, op, 2)[i], second = source(w, op, 4)[i];
        if (words == 2) {
            first |= (T)((u64)source(w, op, 3)[i] << 32);
            second |= (T)((u64)source(w, op, 5)[i] << 32);
        }
        T result = old;
        if (op->d == MODIFIES)
            *place = modified<T, Signed>(op->b, op->c, old, first);
        else if (op->d == ADDS_FLOATS)
            *place = ((FloatSum)op->helper)(old, first);
        else {
            *place = old == first ? second : old;
            if (op->d == TESTS)
                result = old == first;
        }
        for (int word = 0; word < words; word++)
            value[word][i] = (u64)result >> 32 * word;
    }
    for (int word = 0; word < words; word++)
        write_row(w->registers + LANES * op->rows[6 + word], value[word], threads);
    return DONE;
}

#define SIZES(make, space) make<space, 1>, make<space, -1>, make<space, 2>, make<space, -2>, make<space, 4>, \
    make<space, 8>, make<space, 16>, make<space, 16>
#define STORES(space) store<space, 1>, store<space, 1>, store<space, 2>, store<space, 2>, store<space, 4>, \
    store<space, 8>, store<space, 16>, store<space, 16>

extern "C" {

// Indexed by Space and MemorySize.
Function loads[][8] = {{SIZES(load, GLOBAL)}, {SIZES(load, LOCAL)}, {SIZES(load, SHARED)}, {SIZES(load, GENERIC)}};
Function stores[][8] = {{STORES(GLOBAL)}, {STORES(LOCAL)}, {STORES(SHARED)}, {STORES(GENERIC)}};
Function constant_loads[] = {load_constant<1>, load_constant<-1>, load_constant<2>, load_constant<-2>, load_constant<4>,
                             load_constant<8>, load_constant<16>, load_constant<16>};
// Indexed by 32 and 64 bits; by global and shared memory.
Function atomics[][2] = {{atomic<ATOMIC, u32, i32>, atomic<ATOMIC, u64, i64>},
                         {atomic<SHARED, u32, i32>, atomic<SHARED, u64, i64>}};
Function others[] = {nothing, branch, indexed_branch, call, push_token, leave, barrier, barrier_result, special,
                     cta_index, clock_word};
u64 sizes[] = {sizeof(Machine), sizeof(Warp), sizeof(Op), sizeof(Cta), sizeof(Region), sizeof(Token)};

// Executes instructions until the model has to execute one: that of the warp in m->slot.
int run(Machine *m) {
    while (m->left) {
        if (!m->ready)
            return m->occupied ? NOBODY_READY : ALL_ENDED;
        u64 behind = m->last >= 63 ? 0 : m->ready & (~0ull << (m->last + 1));
        int slot = __builtin_ctzll(behind ? behind : m->ready);
        Warp *w = &m->warps[slot];
        u32 address = w->pc % ISA_GROUP_BYTES ? w->pc : w->pc + ISA_INSTRUCTION_BYTES;
        u64 index = address / ISA_INSTRUCTION_BYTES;
        m->slot = slot;
        if (index >= m->op_count || address % ISA_INSTRUCTION_BYTES) {
            m->last = slot;
            return MODEL;
        }
        Op *op = &m->ops[index];
        int status = FALLBACK;
        w->address = address;
        if (op->function) {
            u32 threads = w->masks.active;
            u32 guard = w->predicates[op->guard];
            threads &= op->guard_flip ? ~guard : guard;
            if (op->has_test) {
                u32 holds = 0;
                for (int flags = 0; flags < 16; flags++)
                    if (op->truth >> flags & 1) {
                        u32 term = ALL_THREADS;
                        for (int flag = 0; flag < 4; flag++)
                            term &= flags >> flag & 1 ? w->condition[flag] : ~w->condition[flag];
                        holds |= term;
                    }
                threads &= holds;
            }
            w->next = address + ISA_INSTRUCTION_BYTES;
            status = op->function(m, w, op, threads);
        }
        if (status == MISSING_PAGE)
            return PAGE_WANTED;
        m->last = slot;
        if (status == FALLBACK) {
            op->fallbacks++;
            return MODEL;
        }
        m->left--;
        m->clock++;
        w->last_pc = address;
        if (status == DONE) {
            w->pc = w->next;
            continue;
        }
        end_warp(m, w);
        start_ctas(m);
    }
    return BUDGET;
}

void start(Machine *m) { start_ctas(m); }

}
