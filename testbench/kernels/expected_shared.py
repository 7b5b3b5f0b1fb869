"""Kernels that test shared memory, barriers, atomics, votes, shuffles and addressing modes."""

from collections.abc import Mapping

import numpy as np

from .outcome import LONG, WORD, Exact, Inputs, Kernels, OneOf, Outcome, Rule, exact, signed

__all__ = ["KERNELS"]

KERNELS = Kernels()


@KERNELS.changing("k14_transpose_shared", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    source, w = inputs.words("in"), inputs.values["w"]
    for thread in inputs.everybody():
        (x, y, _), (cx, cy, _) = thread.tid, thread.ctaid
        o[(32 * cx + y) * w + 32 * cy + x] = source[(32 * cy + x) * w + 32 * cx + y]


@KERNELS.of("k15_shared_reduce")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    source, size = inputs.words("in"), inputs.threads
    return {
        "o": exact([sum(source[first : first + size]) for first in range(0, len(source), size)])
    }


def _warps(values: list[int]) -> list[list[int]]:
    return [values[first : first + 32] for first in range(0, len(values), 32)]


@KERNELS.of("k16_votes")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o = []
    for warp in _warps(inputs.words("in")):
        above = [signed(value) > 5 for value in warp]
        ballot = sum(1 << lane for lane, holds in enumerate(above) if holds)
        everybody = (1 << len(warp)) - 1
        common = all(above) | any(above) << 1 | (len(set(above)) == 1) << 2
        others = everybody & ~ballot
        o += [
            common
            + ballot
            + others.bit_count()
            + (others & (1 << lane) - 1).bit_count()
            + everybody
            for lane in range(len(warp))
        ]
    return {"o": exact(o)}


@KERNELS.of("k59_vote_masks")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o = []
    for warp in _warps(inputs.words("in")):
        there = {lane: signed(value) for lane, value in enumerate(warp) if value != 99}
        holds = {lane: value > 5 for lane, value in there.items()}
        few = {lane: holds[lane] for lane, value in there.items() if value < 8}
        everybody = [holds[lane] for lane in there]
        middle = [lane for lane in there if 0x0FF0 >> lane & 1]
        for lane in range(len(warp)):
            if lane not in there:
                o += [0] * 8
                continue
            tile = [other for other in there if other // 8 == lane // 8]
            votes = [holds[other] for other in tile]
            inner = [other for other in tile if 2 <= other % 8 < 6]
            verdicts = [
                all(votes),
                any(votes),
                len(set(votes)) == 1,
                not any(votes),
                len(set(votes)) == 1,
                all(holds[other] for other in inner),
                all(everybody),
                any(everybody),
                len(set(everybody)) == 1,
                any(holds[other] for other in middle),
            ]
            who = [
                [other for other in tile if holds[other]],
                [other for other in inner if holds[other]],
                [other for other in middle if not holds[other]],
                [other for other in tile if few.get(other)] if lane in few else [],
            ]
            ballot, inside, against, parted = (sum(1 << other for other in lanes) for lanes in who)
            agree = {few[other] for other in tile if other in few} if lane in few else {True, False}
            o += [
                ballot,
                sum(verdict << at for at, verdict in enumerate(verdicts)),
                ballot if holds[lane] else 0xFF << lane // 8 * 8,
                inside,
                against,
                parted,
                (agree == {True}) | (len(agree) == 1) << 1,
                sum(1 << other for other in tile),
            ]
    return {"o": exact(o)}


@KERNELS.changing("k17_shfl_reduce", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    for number, values in enumerate(_warps(inputs.words("in"))):
        for distance in (16, 8):
            values = [
                value + values[lane + distance if lane + distance < 32 else lane] & WORD
                for lane, value in enumerate(values)
            ]
        values = [value + values[lane ^ 4] & WORD for lane, value in enumerate(values)]
        values = [
            value + values[lane - 2] & WORD if lane >= 2 else value
            for lane, value in enumerate(values)
        ]
        # By index in segments of eight: each lane reads the lane of its segment with its own index,
        # which is itself.
        values = [
            max(value, values[lane & 0x18 | lane & 7], key=signed)
            for lane, value in enumerate(values)
        ]
        o[32 * number] = values[0]


def _pair(words: list[int], at: int) -> int:
    return words[at] | words[at + 1] << 32


def _set_pair(words: list[int], at: int, value: int) -> None:
    words[at], words[at + 1] = value & WORD, value >> 32 & WORD


def _atomics(o: list[int], t: int) -> None:
    """Does what one thread of k18 does, from its first atomic to its last store."""
    got = [o[at] for at in range(10)]
    o[0] = o[0] + t & WORD
    o[1] = min(o[1], t, key=signed)
    o[2] = max(o[2], t)
    o[3] &= t
    o[4] |= t
    o[5] ^= t
    o[6] = t
    o[7] = 0 if o[7] >= t else o[7] + 1
    o[8] = t if o[8] == 0 or o[8] > t else o[8] - 1
    if o[9] == got[0]:
        o[9] = got[1]
    long = [_pair(o, 10)]
    _set_pair(o, 10, long[0] + t)
    long.append(_pair(o, 12))
    if long[1] == long[0]:
        _set_pair(o, 12, t)
    long += [_pair(o, at) for at in (14, 16, 18)]
    _set_pair(o, 14, t)
    _set_pair(o, 16, max(long[3], t, key=lambda value: signed(value, 64)))
    _set_pair(o, 18, long[4] & t)
    o[20] = o[20] + t & WORD
    o[21] = max(o[21], t, key=signed)
    o[22] |= t
    _set_pair(o, 24, _pair(o, 24) + t)
    _set_pair(o, 26, min(_pair(o, 26), t))
    o[28] = 0 if o[28] >= t else o[28] + 1
    o[32] = sum(got) & WORD
    _set_pair(o, 34, sum(long) & LONG)


@KERNELS.of("k18_atomics_global")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o = inputs.words("o")
    for t in range(inputs.threads):
        _atomics(o, t)
    words: list[frozenset[int] | None] = [frozenset([word]) for word in o]
    if inputs.threads > 1:
        some_number = frozenset(range(inputs.threads))
        words[6] = words[7] = words[8] = words[14] = words[28] = some_number
        words[32] = words[34] = words[35] = None
    return {"o": OneOf(words)}


@KERNELS.of("k19_atomics_shared_hist")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o, n = inputs.words("o"), inputs.values["n"]
    histogram = np.bincount(inputs.buffers["in"][:n], minlength=256).tolist()
    words: list[frozenset[int] | None] = [
        frozenset([first + count & WORD]) for first, count in zip(o, histogram, strict=True)
    ]
    if inputs.threads > 1:
        words[:10] = [None] * 10
    else:
        words[0] = frozenset([sum(histogram[at] for at in (0, 1, 2, 6))])
        long = _pair(histogram, 4) + _pair(histogram, 8)
        words[2], words[3] = frozenset([long & WORD]), frozenset([long >> 32 & WORD])
    return {"o": OneOf(words)}


@KERNELS.of("k30_matmul_tiled")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    n = inputs.values["n"]
    a, b = (inputs.buffers[name].reshape(n, n) for name in "ab")
    return {"c": Exact((a @ b).reshape(-1))}


@KERNELS.of("k31_scan_shared")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"o": Exact(np.cumsum(inputs.buffers["in"], dtype="<u4"))}


@KERNELS.of("k32_bitonic")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"io": Exact(np.sort(inputs.buffers["io"]))}


@KERNELS.changing("k39_generic_addr", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    shared = inputs.values["n"] == 2
    # Other stores through the pointer write to shared memory, or are overwritten by the result.
    o[0] = (0 if shared else o[0]) + 1 + shared & WORD


@KERNELS.of("k42_spinlock")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"data": exact([inputs.words("data")[0] + sum(1 for _ in inputs.everybody())])}


@KERNELS.of("k44_bar_variants")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    below = [t < inputs.values["n"] for t in range(inputs.threads)]
    result = sum(below) + all(below) + 2 * (not all(below))
    return {"o": exact([result] * inputs.threads)}


@KERNELS.changing("k45_vec_ldst", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    source = inputs.words("i")
    for t in range(inputs.threads):
        at = 4 * t
        local = [0] * 16
        local[0:2] = local[2:4] = source[at : at + 2]
        place = 4 + 2 * (t & 3)
        local[place : place + 2] = [16 * t, 0]
        o[at : at + 4] = [source[at + 2] + local[4], source[at + 3] + local[5], local[6], local[7]]
        o[at + 128] = source[at + 4]
        o[at + 129] = source[at + 5] + source[at + 8] + source[at + 9]


@KERNELS.of("k49_dynamic_shared")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    def broken(found: np.ndarray) -> list[str]:
        winners = {(int(word) - (inputs.values["n"] - t)) & WORD for t, word in enumerate(found)}
        if len(winners) == 1 and winners <= set(range(inputs.threads)):
            return []
        return [
            f"the shared word was {', '.join(map(hex, sorted(winners)))}, which is not one thread's number"
        ]

    return {"o": Rule("<u4", broken)}


@KERNELS.of("k60_parameter_address")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    block = b"".join(
        inputs.values[name].to_bytes(8, "little") for name in ("n", "s", "x", "y", "z", "w")
    )

    def at(place: int, size: int, signed_value: bool = False) -> int:
        return int.from_bytes(block[8 + place : 8 + place + size], "little", signed=signed_value)

    o = []
    for thread in range(32):
        hashed = 0
        for turn in range(inputs.values["n"]):
            hashed = hashed * 31 + at(4 * turn, 4) & WORD
        place = thread % 4 * 8
        double, half = at(place, 8), at(thread & ~1, 2, True)
        chosen, distance = at(8 if thread < 12 else 16, 8), 16 + 4 * (thread % 8) - 8
        o += [
            at(4 * (thread % 8), 4),
            at(place - 8, 4) ^ at(place - 4, 4),
            double & WORD,
            double >> 32,
            at(thread, 1, True) & WORD,
            at(thread + 1, 1),
            half & WORD,
            half >> 32 & WORD,
            0,
            at(20, 4),
            chosen & WORD,
            chosen >> 32,
            distance & WORD,
            distance >> 32 & WORD,
            hashed,
            thread & ~1,
        ]
    return {"o": exact(o)}


@KERNELS.of("k61_constant_pointers")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    squares, cubes = [x * x for x in range(8)], [x**3 for x in range(8)]
    halves = [0x8001, 2, 0xFFFE, 4]
    o = []
    for thread in range(32):
        space = 0 if thread < 10 else 1 if thread < 20 else 2
        half = halves[thread % 4]
        o += [
            [squares[thread % 8], cubes[thread % 8], 1000 * thread][space],
            1 << space,
            squares[thread % 8],
            thread % 8 * 4,
            (squares[1], cubes[1], 9, cubes[2])[thread % 4],
            9,
            4,
            (4, 9)[thread % 2],
            (9, 9)[thread % 2],
            signed(half, 16) & WORD,
            half >> 8,
            16,
            25,
            8,
            12,
            thread,
        ]
    return {"o": exact(o)}
