// What the core of the compiled warp model and its compiled instructions share: types, a warp's state, an instruction.
//
// state.py mirrors the structures. A file made of this one is preceded by definitions of ISA_... names (see
// library.py), which come from rtl/isa.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

enum { LANES = 32, ROWS = 257, ZERO_ROW = 255, DISCARDED_ROW = 256, PREDICATES = 9, SPANNED = 4 };
static const u32 ALL_THREADS = 0xFFFFFFFFu;

// The outcome of an instruction. Other than DONE and ENDED: it has changed nothing.
enum Status { DONE, ENDED, FALLBACK, MISSING_PAGE };

struct Machine;
struct Warp;
struct Op;
typedef int (*Function)(Machine *, Warp *, const Op *, u32 threads);

// A decoded instruction.
struct Op {
    Function function;      // null: the model executes it
    const u32 *uniform;     // rows of 32 equal words: immediates and constants
    i64 number;             // an offset of an address or a target
    void *helper;
    u32 target;
    u32 fallbacks;          // number of executions by the model
    u16 rows[8];            // rows of registers; from ROWS on, of uniform
    u8 predicates[8];
    u16 truth;              // of the CC test: bit n is 1 if it holds for the flags n
    u8 guard, guard_flip;
    u8 has_test, a, b, c, d, e;
};

struct Token {
    u32 pc, mask;
    u32 kind, counted;
};

enum Disabled { BROKEN, CONTINUED, RETURNED, EXITED, LONGJUMPED, KILLED, DISABLED_MASKS };

struct Masks {
    u32 active, disabled[DISABLED_MASKS];
};

struct Warp {
    u32 *registers;
    Token *tokens;          // those on chip: token n of the stack is tokens[n - first]
    u64 local_base;
    u32 pc, next, address, last_pc;
    Masks masks;
    u32 predicates[PREDICATES];
    u32 condition[4];       // zero, sign, carry, overflow
    i32 depth, first;
    u64 dirty;              // bit n: the line n behind that of first is dirty
    i32 api_call_depth, kill_future_branch;
    i32 barrier;            // -1: waits at none
    u32 reduction;
    i32 slot, number, cta;
};

static inline const u32 *source(const Warp *w, const Op *op, int operand) {
    u32 row = op->rows[operand];
    return row < ROWS ? w->registers + LANES * row : op->uniform + LANES * (row - ROWS);
}

static inline u32 bit_of(u32 mask, int lane) { return mask >> lane & 1; }

static inline void write_row(u32 *row, const u32 *value, u32 threads) {
    if (threads == ALL_THREADS) {
        __builtin_memcpy(row, value, LANES * sizeof(u32));
        return;
    }
    for (int i = 0; i < LANES; i++)
        row[i] = bit_of(threads, i) ? value[i] : row[i];
}

static inline void write_mask(u32 *mask, u32 value, u32 threads) { *mask = (*mask & ~threads) | (value & threads); }

// Shifts as in numpy: a count of at least the width shifts everything out.
template<typename T> static inline T shift_left(T a, T count) {
    return (u64)count < 8 * sizeof(T) ? (T)(a << (count & (T)(8 * sizeof(T) - 1))) : (T)0;
}
template<typename T> static inline T shift_right(T a, T count) {
    return (u64)count < 8 * sizeof(T) ? (T)(a >> (count & (T)(8 * sizeof(T) - 1)))
                                      : (T)(a < (T)0 ? (T)~(T)0 : (T)0);
}
template<typename To, typename From> static inline To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From), "a view of another size");
    To result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
}
template<typename T> static inline T power_of_two_product(T value, i32 exponent) {
    return sizeof(T) == 4 ? (T)__builtin_ldexpf((f32)value, exponent) : (T)__builtin_ldexp((f64)value, exponent);
}
