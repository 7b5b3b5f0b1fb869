"""Kernels with an application: hashes, searches, sorts, games, ciphers."""

import zlib
from collections.abc import Mapping

import numpy as np

from .outcome import WORD, Exact, Inputs, Kernels, Outcome, Rule, exact, signed

__all__ = ["KERNELS"]

KERNELS = Kernels()


@KERNELS.of("k20_local_array_sort")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"o": Exact(np.sort(inputs.buffers["in"].reshape(inputs.threads, 32)).reshape(-1))}


@KERNELS.of("k28_crc32_const")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    # The kernel's table of 16 words is the one of the usual CRC-32, four bits at a time.
    content, n = inputs.buffers["in"].tobytes(), inputs.values["n"]
    return {"o": exact([zlib.crc32(content[t * n : t * n + n]) for t in range(inputs.threads)])}


def _rotated(value: int, *counts: int) -> int:
    """Returns the exclusive or of a word rotated right by each of the counts."""
    result = 0
    for count in counts:
        result ^= (value >> count | value << 32 - count) & WORD
    return result


@KERNELS.of("k29_sha_rounds")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    schedule = inputs.words("in")[: max(inputs.values["n"], 1)]
    o = []
    for t in range(inputs.threads):
        a, b, c, d, e, f, g, h = (
            0x6A09E667,
            0xBB67AE85,
            0x3C6EF372,
            0xA54FF53A,
            0x510E527F,
            0x9B05688C,
            0x1F83D9AB,
            t,
        )
        for word in schedule:
            first = h + _rotated(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + word + 0x428A2F98
            second = _rotated(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c))
            a, b, c, d, e, f, g, h = first + second & WORD, a, b, c, d + first & WORD, e, f, g
        o += [a, b, c, d, e, f, g, h]
    return {"o": exact(o)}


@KERNELS.of("k34_gcd")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {
        "o": Exact(np.gcd(np.arange(12, 12 + inputs.threads), inputs.values["m"]).astype("<u4"))
    }


@KERNELS.of("k35_sieve_bytes")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o = inputs.buffers["o"]
    for t in range(inputs.threads):
        o[(t + 2) ** 2 : inputs.values["n"] : t + 2] = 1
    return {"o": Exact(o)}


@KERNELS.of("k36_strsearch")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o, text = inputs.buffers["o"], inputs.buffers["s"].tobytes()
    pattern = inputs.buffers["pat"].tobytes().split(b"\0")[0]
    for t in range(min(inputs.threads, inputs.values["n"])):
        o[t] = text.startswith(pattern, t)
    return {"o": Exact(o)}


@KERNELS.of("k40_binsearch")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    sorted_words = inputs.words("arr")
    return {
        "o": exact(
            [sorted_words.index(t) if t in sorted_words else -1 for t in range(inputs.threads)]
        )
    }


@KERNELS.of("k41_bfs")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    rows, cols, level = inputs.words("rows"), inputs.words("cols"), inputs.values["level"]
    first = inputs.words("dist")
    dist = list(first)
    for node in range(inputs.values["n"]):
        if first[node] == level:
            for neighbour in cols[rows[node] : rows[node + 1]]:
                if dist[neighbour] == WORD:
                    dist[neighbour] = level + 1
    new = [
        node
        for node, (before, after) in enumerate(zip(first, dist, strict=True))
        if before != after
    ]

    def broken(queue: np.ndarray) -> list[str]:
        found = sorted(queue[: len(new)].tolist())
        return (
            []
            if found == new and not queue[len(new) :].any()
            else [f"the new nodes are {found}, not {new}"]
        )

    return {"dist": exact(dist), "qn": exact([len(new)]), "q": Rule("<u4", broken)}


@KERNELS.of("k43_mandel_fixed")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o, w = inputs.buffers["o"], inputs.values["w"]
    for thread in inputs.everybody():
        t, cta = thread.tid[0], thread.ctaid[0]
        o[cta * w + t] = (
            _escape(t * 128 - 0x8000, cta * 128 - 0x4000, inputs.values["maxit"]) & 0xFF
        )
    return {"o": Exact(o)}


def _escape(real: int, imaginary: int, most: int) -> int:
    x = y = count = 0
    while True:
        xx, yy = signed(x * x) >> 14, signed(y * y) >> 14
        if signed(xx + yy) > 65536:
            return count
        y = signed((signed(x * y) >> 13) + imaginary)
        x = signed(xx - yy + real)
        count += 1
        if count >= most:
            return count


@KERNELS.of("k50_life")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    w, h = inputs.values["w"], inputs.values["h"]
    cells = np.pad(inputs.buffers["in"].reshape(h, w), 1).astype(int)
    around = sum(np.roll(cells, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - cells
    alive = (around == 3) | (around == 2) & (cells != 0)
    return {"o": Exact(alive[1:-1, 1:-1].astype("<u1").reshape(-1))}


@KERNELS.of("k51_nqueens")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    board = (1 << inputs.values["n"]) - 1
    return {
        "o": exact(
            [
                _queens(1 << (t & 7), 2 << (t & 7), (1 << (t & 7)) >> 1, board)
                for t in range(inputs.threads)
            ]
        )
    }


def _queens(columns: int, left: int, right: int, board: int) -> int:
    """Counts the completions of a board from a first row; a queen beside the board makes a column
    impossible to fill.
    """
    found, free = 0, ~(columns | left | right) & board
    while free:
        place = free & -free
        free ^= place
        taken = columns | place
        if taken == board:
            found += 1
        else:
            found += _queens(taken, (left | place) << 1, (right | place) >> 1, board)
    return found


@KERNELS.of("k54_levenshtein")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    a, b = (inputs.buffers[name][: inputs.values[f"l{name}"]].tolist() for name in "ab")
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        above, row[0] = row[:], i
        for j, other in enumerate(b, 1):
            row[j] = min(above[j - 1] + (letter != other), above[j] + 1, row[j - 1] + 1)
    return {"o": exact([row[-1]] * inputs.threads)}


@KERNELS.changing("k55_tea_cipher", "io")
def _(inputs: Inputs, io: list[int]) -> None:
    keys = [inputs.values[f"k{number}"] for number in range(4)]

    def mixed(value: int, total: int, first: int, second: int) -> int:
        return (value << 4) + first ^ value + total ^ (value >> 5) + second

    for at in range(0, len(io), 2):
        x, y, total = io[at], io[at + 1], 0
        for _ in range(32):
            total = total + 0x9E3779B9 & WORD
            x = x + mixed(y, total, keys[0], keys[1]) & WORD
            y = y + mixed(x, total, keys[2], keys[3]) & WORD
        io[at : at + 2] = [x, y]
