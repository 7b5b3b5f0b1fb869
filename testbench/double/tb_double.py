"""The unit for double precision: every instruction, rounding and operand.

The datapath is compared with exact arithmetic that rounds once; the unit's registers, predicates,
CC and scoreboards are compared with the warp model.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import product
from math import isnan
from statistics import mean
from typing import Any

from rtl.double.datapath import DATAPATH_CYCLES, DoubleDatapath
from rtl.double.instruction import WORD_BITS, DoubleOperation
from rtl.isa.double import DOUBLE
from rtl.isa.kinds import Boolean, FloatRounding
from rtl.isa.syntax import PT, RZ
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.waves import Mark, Trace, View, instruction
from testbench.double.cases import BANK_BYTES, DoubleCase, case_of, random_case, word_of_form
from testbench.double.driver import DoubleDriver
from testbench.double.numbers import EDGES, NAN, SIGN, as_double, doubles, fused
from testbench.handmade import ALL

_SIZES = tuple(SmParams(warps=16, lanes=lanes) for lanes in (8, 4, 32, 2))
_ONE = 0x3FF << 52
_Row = tuple[dict[str, Any], int, int, int, int]
"""Instruction, operands a, b and c, and the predicate of a thread."""
PACE = {
    ALL: 68,
    0x1: 40,
    0x8000_0000: 42,
    0x8000_0001: 42,
    0x0101_0101: 43,
    0xFF: 47,
    0xFF00_0000: 47,
    0x7FFF_FFFF: 68,
    0xC000_00FF: 47,
    0xE000_0001: 42,
}
"""For each mask of executing threads, the cycles from selection to completion of an instruction
alone in the unit, on eight lanes.
"""
_ARITHMETIC = (DoubleOperation.ADD, DoubleOperation.MULTIPLY, DoubleOperation.FUSED)


def _play(
    bench: Bench, what: str, params: SmParams, cases: Iterable[DoubleCase], **how: float
) -> DoubleDriver:
    driver = DoubleDriver(bench, params, cases, **how)  # pyright: ignore[reportArgumentType]
    driver.run()
    bench.checked(f"instructions, {what}", driver.done)
    return driver


def check_datapath(bench: Bench) -> None:
    """Sums, products and fused multiply-adds in all roundings, in random order, a thread per cycle,
    against exact arithmetic.
    """
    count = 20_000 if bench.thorough else 250
    rows = [
        (operation, rounding, *operands)
        for operation in _ARITHMETIC
        for rounding in FloatRounding
        for operands in zip(*doubles(bench.random, count), strict=True)
    ]
    bench.random.shuffle(rows)
    found = _results(
        bench,
        [
            ({"operation": operation, "round": rounding}, a, b, c, 0)
            for operation, rounding, a, b, c in rows
        ],
    )
    wrong = [
        (operation.name, rounding.name, *map(hex, (a, b, c, result, exact)))
        for (operation, rounding, a, b, c), result in zip(rows, found, strict=True)
        if result != (exact := expected(operation, a, b, c, rounding))
    ]
    bench.expect(
        "threads whose result is wrong: operation, rounding, a, b, c, it, and the right one",
        wrong[:4],
        [],
    )
    bench.checked("results of the datapath", len(rows))


def check_comparisons(bench: Bench) -> None:
    """Relations, minimum and maximum of edges with both signs, against Python's results."""
    edges = [edge | sign for edge in EDGES for sign in (0, SIGN)]
    pairs = (
        list(product(edges, edges))
        if bench.thorough
        else bench.random.sample(list(product(edges, edges)), 300)
    )
    pairs += product((0, SIGN), (0, SIGN))
    rows = [(relation, a, b) for relation in "<=>?" for a, b in pairs]
    found = _results(
        bench,
        [
            (
                {
                    "operation": DoubleOperation.TEST,
                    "compare": 1 << "<=>?".index(relation),
                    "combine": Boolean.OR,
                },
                a,
                b,
                0,
                0,
            )
            for relation, a, b in rows
        ],
    )
    bench.expect(
        "relations and pairs of which p or q is wrong",
        [
            (relation, hex(a), hex(b))
            for (relation, a, b), result in zip(rows, found, strict=True)
            if result != 1 << WORD_BITS * (order(a, b) != relation)
        ][:4],
        [],
    )
    bench.checked("comparisons", len(rows))
    choices = [(lesser, a, b) for lesser in (0, 1) for a, b in pairs]
    found = _results(
        bench,
        [({"operation": DoubleOperation.CHOOSE}, a, b, 0, lesser) for lesser, a, b in choices],
    )
    bench.expect(
        "pairs of which the wrong one is chosen: whether the lesser one, the pair, the choice",
        [
            (lesser, hex(a), hex(b), hex(it))
            for (lesser, a, b), it in zip(choices, found, strict=True)
            if it != chosen(a, b, bool(lesser))
        ][:4],
        [],
    )
    bench.checked("choices", len(choices))


def order(a: int, b: int) -> str:
    """The relation of two numbers: ``<``, ``>``, ``=``, or ``?`` with a NaN."""
    x, y = as_double(a), as_double(b)
    return "<" if x < y else ">" if x > y else "=" if x == y else "?"


def chosen(a: int, b: int, lesser: bool) -> int:
    """The minimum or maximum: -0 is less than +0; of a number and a NaN the number is chosen."""
    numbers = [bits for bits in (a, b) if not isnan(as_double(bits))]
    numbers.sort(key=lambda bits: (as_double(bits), not bits & SIGN))
    return numbers[0 if lesser else -1] if numbers else NAN


def expected(operation: DoubleOperation, a: int, b: int, c: int, rounding: FloatRounding) -> int:
    """The expected result of an arithmetic operation."""
    if operation is DoubleOperation.ADD:
        return fused(a, _ONE, b, rounding)
    return fused(a, b, (a ^ b) & SIGN if operation is DoubleOperation.MULTIPLY else c, rounding)


def _results(bench: Bench, rows: Sequence[_Row]) -> list[int]:
    """The results of the datapath for one thread per cycle."""
    dut, found = DoubleDatapath(), list[int]()

    async def send(ctx: Any) -> None:
        for cycle in range(len(rows) + DATAPATH_CYCLES):
            if cycle < len(rows):
                instruction, *operands, predicate = rows[cycle]
                ctx.set(dut.instruction, instruction)
                ctx.set(dut.predicate, predicate)
                for port, number in zip((dut.a, dut.b, dut.c), operands, strict=True):
                    ctx.set(port, number)
            if cycle >= DATAPATH_CYCLES:
                found.append(ctx.get(dut.result))
            await ctx.tick()

    bench.simulate(dut, [send], limit=len(rows) + 2 * DATAPATH_CYCLES)
    return found


def check_forms(bench: Bench) -> None:
    """Random words of every form."""
    count = 30 if bench.thorough else 2
    for number, params in enumerate(_SIZES):
        cases = [random_case(bench.random, form) for form in DOUBLE for _ in range(count)]
        bench.random.shuffle(cases)
        _play(bench, f"{params.lanes} lanes", params, cases, delay=number)


def check_corners(bench: Bench) -> None:
    """Results to RZ and PT; operands RZ and PT; constants at the end of their bank."""
    cases = []
    for form in DOUBLE:
        corners: list[dict[str, int]] = [
            {"Rd": RZ, "cc": 0, "Pd": PT},
            {"Rd": RZ, "cc": 1, "Pd2": PT},
            {"Ra": RZ, "Rb": RZ, "Rc": RZ, "Pc": PT},
        ]
        if form.variant in ("c", "rc"):
            corners += [{"offset": BANK_BYTES + offset} for offset in (-8, -4, 0)]
        cases += [
            case_of(bench.random, form, word_of_form(bench.random, form, **corner))
            for corner in corners
        ]
    bench.random.shuffle(cases)
    _play(bench, "at the corners", _SIZES[0], cases)


def check_crowd(bench: Bench) -> None:
    """Instructions as fast as there is room; the unit executes one at a time."""
    form = next(form for form in DOUBLE if form.name == "DFMA")
    count = 200 if bench.thorough else 12
    cases = [
        case_of(bench.random, form, word_of_form(bench.random, form, Rd=4, Ra=8, Rb=10, Rc=12))
        for _ in range(count)
    ]
    driver = DoubleDriver(bench, _SIZES[0], cases, idle=0.0)
    cycles = driver.run()
    bench.checked("instructions, as fast as they can come", driver.done)
    bench.figure("cycles an instruction, one after the other", cycles / count)
    bench.table(
        "cycles from selection to completion, the unit always busy",
        ["", "least", "mean", "most", "count"],
        [
            [name, min(taken), float(mean(taken)), max(taken), len(taken)]
            for name, taken in sorted(driver.cycles.items())
        ],
    )


def check_pace(bench: Bench) -> None:
    """The cycles of an instruction alone in the unit, for each mask of executing threads."""
    form = next(form for form in DOUBLE if form.name == "DFMA")
    word = word_of_form(bench.random, form, Rd=4, Ra=8, Rb=10, Rc=12)
    cases = [case_of(bench.random, form, word, threads) for threads in PACE]
    driver = DoubleDriver(bench, SmParams(warps=1, lanes=8), cases, idle=0.0)
    driver.run()
    found = dict(zip(map(hex, PACE), driver.cycles["DFMA"], strict=True))
    bench.expect(
        "cycles from selection to completion, by threads",
        found,
        {hex(threads): cycles for threads, cycles in PACE.items()},
    )
    bench.checked("instructions by themselves", driver.done)


def record(bench: Bench) -> None:
    """A sum with a constant, a fused multiply-add and a comparison for the waveform."""
    source, forms = random.Random(0), {(form.name, form.variant): form for form in DOUBLE}
    cases = [
        case_of(
            source,
            forms[name],
            word_of_form(source, forms[name], Rd=4, Ra=8, Rb=10, Rc=12, Pd=1, Pd2=2),
        )
        for name in (("DADD", "c"), ("DFMA", "r"), ("DSETP", "r"))
    ]
    driver = DoubleDriver(bench, _SIZES[0], cases, idle=0.0)
    driver.run(traces=traces_of(driver))


def traces_of(driver: DoubleDriver) -> View:
    """The traced signals of the unit."""
    dut = driver.dut
    port, gather, write = dut.port, dut.port.gather, dut.port.write
    compute = dut.compute
    current, sent, datapath, result = compute.work, compute.sent, compute.datapath, compute.result
    return View(
        {
            "dispatch": {
                "text": instruction(dut.dispatch.valid, dut.dispatch.payload.word),
                "valid": dut.dispatch.valid,
                "warp": Trace(dut.dispatch.payload.warp, "dec"),
                "word": dut.dispatch.payload.word,
                "room": dut.room,
            },
            "instruction": {
                "operation": current.decoded.instruction.operation,
                "warp": Trace(current.warp, "dec"),
                "threads": current.threads,
            },
            "datapath": {
                "starts": sent.valid,
                "thread": Trace(sent.payload.thread, "dec"),
                "a": datapath.a,
                "b": datapath.b,
                "c": datapath.c,
                "done": result.valid,
                "result": datapath.result,
            },
            "lanes": {
                "gather": gather.valid,
                "read": gather.ready,
                "write": write.valid,
                "taken": write.ready,
                "register": Trace(write.payload.register, "dec"),
                "last": write.payload.last,
                "gathered": port.data.gathered.valid,
                "wanted": port.data.wanted.valid,
                "beat": Trace(port.data.wanted.payload.beat, "dec"),
            },
            "constant": {
                "asked": dut.indexed.valid,
                "address": dut.indexed.payload.address,
                "comes": dut.value.valid,
                "value": dut.value.payload.value,
            },
        },
        ("dispatch", "instruction", "datapath"),
        [Mark("start", [sent.valid])],
    )


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (
        check_datapath,
        check_comparisons,
        check_forms,
        check_corners,
        check_crowd,
        check_pace,
        record,
    ):
        check(bench)
