// Threads of a grid as coroutines of one host thread.
//
// All CTAs live at once and take turns; so do the threads of a CTA. A thread runs until it ends, waits for others, or
// executes an atomic operation or a fence, so that loops that spin on one of these come to an end. Shared variables lie in
// a section of their own, which is exchanged when it is another CTA's turn.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __shared__ static __attribute__((section("shared_memory"), aligned(16)))

extern "C" char __start_shared_memory[], __stop_shared_memory[];

namespace host {

__attribute__((section("shared_memory"), aligned(16), used)) static char dynamic_shared[16384];

struct Position { unsigned x = 1, y = 1, z = 1; };

constexpr unsigned WARP = 32;
constexpr size_t STACK = 256 << 10;
constexpr int PATIENCE = 100000;   // rounds

[[noreturn]] inline void fail(const char *what) {
    std::fprintf(stderr, "host: %s\n", what);
    std::exit(1);
}

// What a thread brings to a meeting of its warp, and what it takes away: who met, and their values.
struct Lane {
    bool arrived = false;
    int operation = 0;
    uint32_t mask = 0;
    uint64_t value = 0;
    uint64_t values[WARP] = {};
    uint32_t members = 0;
};

struct Thread {
    Position index;
    unsigned number = 0;
    bool ended = false;
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    Lane lane;
    unsigned barriers = 0;   // passed or waited at
};

struct Cta {
    Position index;
    std::vector<Thread> threads;
    std::vector<char> shared;
    unsigned barriers = 0;   // completed
    unsigned votes[2] = {};  // how many said yes at the barrier that is being waited for, and at the last one
};

inline Position grid_size, block_size;
inline std::vector<Cta> ctas;
inline Cta *cta;
inline Thread *thread;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline bool progress;

inline void yield() { swapcontext(&thread->context, &scheduler); }

// A point at which others go on, though this thread need not wait.
inline void pause() {
    progress = true;
    yield();
}

template <class Ready> void wait(Ready ready) {
    while (!ready()) yield();
    progress = true;
}

inline Thread *neighbour(unsigned lane) {
    unsigned number = thread->number / WARP * WARP + lane;
    return number < cta->threads.size() ? &cta->threads[number] : nullptr;
}

inline unsigned lane_number() { return thread->number % WARP; }

// Ends the meeting that a thread waits at if all of its mask are there who have not ended; whether it did.
inline bool complete(const Lane &own) {
    std::vector<Thread *> members;
    for (unsigned number = 0; number < WARP; number++) {
        Thread *member = own.mask >> number & 1 ? neighbour(number) : nullptr;
        if (!member || member->ended) continue;
        const Lane &lane = member->lane;
        if (!lane.arrived || lane.mask != own.mask || lane.operation != own.operation) return false;
        members.push_back(member);
    }
    for (Thread *member : members) {
        std::memset(member->lane.values, 0, sizeof member->lane.values);
        member->lane.members = 0;
        for (Thread *from : members) {
            member->lane.values[from->number % WARP] = from->lane.value;
            member->lane.members |= 1u << from->number % WARP;
        }
    }
    for (Thread *member : members) member->lane.arrived = false;
    return true;
}

// The threads of a mask meet at one operation and see each other's values; 0 of those that are not there.
inline const uint64_t *meet(int operation, uint32_t mask, uint64_t value) {
    Lane &own = thread->lane;
    if (!(mask >> lane_number() & 1)) fail("a thread that is not in the mask");
    own.arrived = true, own.operation = operation, own.mask = mask, own.value = value;
    wait([&] { return !own.arrived || complete(own); });
    return own.values;
}

// All threads of the CTA that have not ended; how many of them said yes.
inline unsigned barrier(bool yes) {
    unsigned number = thread->barriers++;
    cta->votes[0] += yes;
    wait([&] {
        if (cta->barriers > number) return true;
        for (const Thread &other : cta->threads)
            if (!other.ended && other.barriers <= number) return false;
        cta->votes[1] = cta->votes[0], cta->votes[0] = 0;
        cta->barriers++;
        return true;
    });
    return cta->votes[1];
}

inline void enter() {
    body();
    thread->ended = progress = true;
    yield();
}

inline void start(Thread &created) {
    created.stack.reset(new char[STACK]);
    getcontext(&created.context);
    created.context.uc_stack.ss_sp = created.stack.get();
    created.context.uc_stack.ss_size = STACK;
    created.context.uc_link = nullptr;
    makecontext(&created.context, enter, 0);
}

inline std::vector<Position> positions(Position size) {
    std::vector<Position> found;
    for (unsigned z = 0; z < size.z; z++)
        for (unsigned y = 0; y < size.y; y++)
            for (unsigned x = 0; x < size.x; x++) found.push_back({x, y, z});
    return found;
}

// Gives every thread of a CTA a turn; whether one of them lives.
inline bool turn(Cta &whose) {
    cta = &whose;
    bool lives = false;
    std::memcpy(__start_shared_memory, whose.shared.data(), whose.shared.size());
    for (Thread &next : whose.threads) {
        if (next.ended) continue;
        lives = true, thread = &next;
        swapcontext(&scheduler, &next.context);
    }
    std::memcpy(whose.shared.data(), __start_shared_memory, whose.shared.size());
    return lives;
}

// Runs the grid to its end.
inline void run(Position grid, Position block, std::function<void()> kernel) {
    grid_size = grid, block_size = block, body = std::move(kernel);
    for (Position index : positions(grid)) {
        Cta &created = ctas.emplace_back();
        created.index = index;
        created.shared.assign(__start_shared_memory, __stop_shared_memory);
        for (Position place : positions(block)) {
            Thread &next = created.threads.emplace_back();
            next.index = place, next.number = created.threads.size() - 1;
        }
    }
    for (Cta &each : ctas)
        for (Thread &next : each.threads) start(next);
    for (int round = 0;; round++) {
        if (round == PATIENCE) fail("the grid does not end");
        progress = false;
        bool lives = false;
        for (Cta &each : ctas) lives |= turn(each);
        if (!lives) return;
        if (!progress) fail("threads wait for each other without end");
    }
}

}  // namespace host
