// What CUDA C++ has beyond C++, for a host compiler: as much of it as the kernels use.

#pragma once

#include <cstddef>
#include <type_traits>

#include "threads.h"

#define __global__
#define __device__
#define __constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(bytes) __attribute__((aligned(bytes)))
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(host::dynamic_shared)

#define threadIdx (host::thread->index)
#define blockIdx (host::cta->index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)
constexpr int warpSize = host::WARP;

struct __align__(4) uchar4 { unsigned char x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct int3 { int x, y, z; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(16) ulonglong2 { unsigned long long x, y; };
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Bits and numbers

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; bit++) reversed |= (x >> bit & 1) << (63 - bit);
    return reversed;
}
inline unsigned __brev(unsigned x) { return __brevll(x) >> 32; }

inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t both = uint64_t(y) << 32 | x;
    unsigned chosen = 0;
    for (int byte = 0; byte < 4; byte++) chosen |= unsigned(both >> 8 * (selector >> 4 * byte & 7) & 0xff) << 8 * byte;
    return chosen;
}

inline unsigned __umulhi(unsigned x, unsigned y) { return uint64_t(x) * y >> 32; }
inline int __mulhi(int x, int y) { return int64_t(x) * y >> 32; }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned __int128>(x) * y >> 64;
}
inline long long __mul64hi(long long x, long long y) { return static_cast<__int128>(x) * y >> 64; }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline int __mul24(int x, int y) {
    return unsigned(int(unsigned(x) << 8) >> 8) * unsigned(int(unsigned(y) << 8) >> 8);
}
inline unsigned __sad(int x, int y, unsigned z) { return z + unsigned(x < y ? int64_t(y) - x : int64_t(x) - y); }
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
inline int __hadd(int x, int y) { return (int64_t(x) + y) >> 1; }
inline int __rhadd(int x, int y) { return (int64_t(x) + y + 1) >> 1; }
inline unsigned __uhadd(unsigned x, unsigned y) { return (uint64_t(x) + y) >> 1; }
inline unsigned __urhadd(unsigned x, unsigned y) { return (uint64_t(x) + y + 1) >> 1; }

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (uint64_t(high) << 32 | low) << (by & 31) >> 32;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (uint64_t(high) << 32 | low) >> (by & 31);
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}

template <class T> T min(T x, T y) { return y < x ? y : x; }
template <class T> T max(T x, T y) { return x < y ? y : x; }
template <class T> T __ldg(const T *place) { return *place; }

// Barriers, votes, shuffles

enum Operation { SYNC, BALLOT, ALL, ANY, SHUFFLE };

inline void __syncthreads() { host::barrier(false); }
inline int __syncthreads_count(int yes) { return host::barrier(yes); }
inline int __syncthreads_or(int yes) { return host::barrier(yes) != 0; }
inline int __syncthreads_and(int yes) { return host::barrier(!yes) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffff) { host::meet(SYNC, mask, 0); }
inline void __threadfence() { host::pause(); }
inline void __threadfence_block() { host::pause(); }
inline unsigned __activemask() { return 1u << host::lane_number(); }   // any mask with the thread itself would be right

inline unsigned __ballot_sync(unsigned mask, int yes) {
    const uint64_t *values = host::meet(BALLOT, mask, yes != 0);
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < host::WARP; lane++) ballot |= unsigned(values[lane]) << lane;
    return ballot;
}
inline int __any_sync(unsigned mask, int yes) {
    const uint64_t *values = host::meet(ANY, mask, yes != 0);
    uint64_t any = 0;
    for (unsigned lane = 0; lane < host::WARP; lane++) any |= values[lane];
    return any != 0;
}
inline int __all_sync(unsigned mask, int yes) {
    const uint64_t *values = host::meet(ALL, mask, yes == 0);
    uint64_t no = 0;
    for (unsigned lane = 0; lane < host::WARP; lane++) no |= values[lane];
    return no == 0;
}

namespace host {

// The value of a lane of the own segment; of the thread itself where the source lies outside of it.
template <class T> T shuffle(unsigned mask, T value, int source, bool inside) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    const uint64_t *values = meet(SHUFFLE, mask, bits);
    unsigned from = inside ? unsigned(source) : lane_number();
    if (!(thread->lane.members >> from & 1)) fail("a shuffle reads a thread that is not there");
    std::memcpy(&value, &values[from], sizeof value);
    return value;
}

}  // namespace host

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    int first = host::lane_number() & -width;
    return host::shuffle(mask, value, first + (source & (width - 1)), true);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    int first = host::lane_number() & -width, source = int(host::lane_number()) - int(delta);
    return host::shuffle(mask, value, source, source >= first);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    int first = host::lane_number() & -width, source = int(host::lane_number()) + int(delta);
    return host::shuffle(mask, value, source, source < first + width);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
    int first = host::lane_number() & -width, source = int(host::lane_number()) ^ lanes;
    return host::shuffle(mask, value, source, source < first + width);
}

// Atomic operations: no other thread runs before the next pause

namespace host {

template <class T, class F> T update(T *place, F change) {
    pause();
    T before = *place;
    *place = change(before);
    return before;
}
template <class T> using Same = std::common_type_t<T>;   // of an argument that does not say what T is

}  // namespace host

template <class T> T atomicAdd(T *place, host::Same<T> x) {
    return host::update(place, [=](T old) { return T(std::make_unsigned_t<T>(old) + x); });
}
template <class T> T atomicSub(T *place, host::Same<T> x) {
    return host::update(place, [=](T old) { return T(std::make_unsigned_t<T>(old) - x); });
}
template <class T> T atomicExch(T *place, host::Same<T> x) { return host::update(place, [=](T) { return x; }); }
template <class T> T atomicMin(T *place, host::Same<T> x) {
    return host::update(place, [=](T old) { return x < old ? x : old; });
}
template <class T> T atomicMax(T *place, host::Same<T> x) {
    return host::update(place, [=](T old) { return x > old ? x : old; });
}
template <class T> T atomicAnd(T *place, host::Same<T> x) { return host::update(place, [=](T old) { return old & x; }); }
template <class T> T atomicOr(T *place, host::Same<T> x) { return host::update(place, [=](T old) { return old | x; }); }
template <class T> T atomicXor(T *place, host::Same<T> x) { return host::update(place, [=](T old) { return old ^ x; }); }
inline unsigned atomicInc(unsigned *place, unsigned last) {
    return host::update(place, [=](unsigned old) { return old >= last ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned *place, unsigned last) {
    return host::update(place, [=](unsigned old) { return old == 0 || old > last ? last : old - 1; });
}
template <class T> T atomicCAS(T *place, host::Same<T> compared, host::Same<T> x) {
    return host::update(place, [=](T old) { return old == compared ? x : old; });
}
