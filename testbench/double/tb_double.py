"""The unit for double precision: every instruction, rounding and operand; registers, predicates, CC and barriers.

The datapath is compared with exact arithmetic that rounds its result once, and the unit with the warp model.
"""

import random
from collections.abc import Iterable
from functools import partial
from itertools import product
from math import isnan
from statistics import mean
from typing import Any

from rtl.double.datapath import DATAPATH_CYCLES, THREAD_CYCLES, DoubleDatapath
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

_SIZES = (SmParams(warps=16, lanes=8), SmParams(warps=16, lanes=4), SmParams(warps=16, lanes=32))
_ONE = 0x3FF << 52
_ARITHMETIC = (DoubleOperation.ADD, DoubleOperation.MULTIPLY, DoubleOperation.FUSED)


def _play(bench: Bench, what: str, params: SmParams, cases: Iterable[DoubleCase], **how: float) -> DoubleDriver:
    driver = DoubleDriver(bench, params, cases, **how)  # pyright: ignore[reportArgumentType]
    driver.run()
    bench.checked(f"instructions, {what}", driver.done)
    return driver


def check_datapath(bench: Bench) -> None:
    """Sums, products and both at once in all roundings, as fast as they can come, against exact arithmetic."""
    count, dut = 20_000 if bench.thorough else 250, DoubleDatapath()
    for operation in _ARITHMETIC:
        for rounding in FloatRounding:
            columns, found = doubles(bench.random, count), list[int]()
            bench.simulate(dut, [partial(_pass, dut, columns, found, {"operation": operation, "round": rounding})],
                           limit=THREAD_CYCLES * (count + 8))
            exact = [expected(operation, a, b, c, rounding) for a, b, c in zip(*columns, strict=True)]
            wrong = [[hex(each) for each in row] for row in zip(*columns, found, exact, strict=True)
                     if row[3] != row[4]]
            bench.expect(f"{operation.name}, {rounding.name}: a, b, c whose result is wrong, it, and the right one",
                         wrong[:4], [])
            bench.checked("results of the datapath", count)


def check_comparisons(bench: Bench) -> None:
    """Relations, and the lesser and the greater, of edges with both signs, against what Python makes of them."""
    edges, dut = [edge | sign for edge in EDGES for sign in (0, SIGN)], DoubleDatapath()
    pairs = list(product(edges, edges)) if bench.thorough else bench.random.sample(list(product(edges, edges)), 300)
    pairs += product((0, SIGN), (0, SIGN))
    columns = [*map(list, zip(*pairs, strict=True)), [0] * len(pairs)]
    for number, relation in enumerate("<=>?"):
        found = list[int]()
        bench.simulate(dut, [partial(_pass, dut, columns, found, {
            "operation": DoubleOperation.TEST, "compare": 1 << number, "combine": Boolean.OR})],
            limit=THREAD_CYCLES * (len(pairs) + 8))
        exact = [1 << WORD_BITS * (order(a, b) != relation) for a, b in pairs]
        bench.expect(f"{relation}: pairs of which p or q is wrong", [
            (hex(a), hex(b)) for (a, b), p, right in zip(pairs, found, exact, strict=True) if p != right][:4], [])
        bench.checked("comparisons", len(pairs))
    for lesser in (0, 1):
        found = list[int]()
        bench.simulate(dut, [partial(_pass, dut, columns, found, {"operation": DoubleOperation.CHOOSE}, lesser)],
                       limit=THREAD_CYCLES * (len(pairs) + 8))
        bench.expect(f"lesser {lesser}: pairs of which the wrong one is chosen", [
            (hex(a), hex(b), hex(it)) for (a, b), it in zip(pairs, found, strict=True)
            if it != chosen(a, b, bool(lesser))][:4], [])
        bench.checked("choices", len(pairs))


def order(a: int, b: int) -> str:
    """How two numbers relate."""
    x, y = as_double(a), as_double(b)
    return "<" if x < y else ">" if x > y else "=" if x == y else "?"


def chosen(a: int, b: int, lesser: bool) -> int:
    """The lesser or greater one, -0 before +0; the number beside what is none."""
    numbers = [bits for bits in (a, b) if not isnan(as_double(bits))]
    numbers.sort(key=lambda bits: (as_double(bits), not bits & SIGN))
    return numbers[0 if lesser else -1] if numbers else NAN


def expected(operation: DoubleOperation, a: int, b: int, c: int, rounding: FloatRounding) -> int:
    """The right result."""
    if operation is DoubleOperation.ADD:
        return fused(a, _ONE, b, rounding)
    return fused(a, b, (a ^ b) & SIGN if operation is DoubleOperation.MULTIPLY else c, rounding)


async def _pass(dut: DoubleDatapath, columns: list[list[int]], found: list[int], instruction: Any, *rest: Any) -> None:
    """Sends threads through the datapath, with a predicate if there is one."""
    *predicate, ctx = rest
    ctx.set(dut.instruction, instruction)
    ctx.set(dut.predicate, sum(predicate))
    rows = list(zip(*columns, strict=True))
    for cycle in range(THREAD_CYCLES * (len(rows) - 1) + DATAPATH_CYCLES + 1):
        place, step = divmod(cycle, THREAD_CYCLES)
        ctx.set(dut.start, place < len(rows) and not step)
        if place < len(rows) and not step:
            for name, number in zip("abc", rows[place], strict=True):
                ctx.set(getattr(dut, name), number)
        if ctx.get(dut.done):
            found.append(ctx.get(dut.result))
        await ctx.tick()


def check_forms(bench: Bench) -> None:
    """Random words of every form."""
    count = 30 if bench.thorough else 2
    for number, params in enumerate(_SIZES):
        cases = [random_case(bench.random, form) for form in DOUBLE for _ in range(count)]
        bench.random.shuffle(cases)
        _play(bench, f"{params.lanes} lanes", params, cases, delay=number)


def check_corners(bench: Bench) -> None:
    """Results that go nowhere; operands that are nowhere; constants at the end of their bank."""
    cases = []
    for form in DOUBLE:
        corners: list[dict[str, int]] = [{"Rd": RZ, "cc": 0, "Pd": PT}, {"Rd": RZ, "cc": 1, "Pd2": PT},
                                         {"Ra": RZ, "Rb": RZ, "Rc": RZ, "Pc": PT}]
        if form.variant in ("c", "rc"):
            corners += [{"offset": BANK_BYTES + offset} for offset in (-8, -4, 0)]
        cases += [case_of(bench.random, form, word_of_form(bench.random, form, **corner)) for corner in corners]
    bench.random.shuffle(cases)
    _play(bench, "at the corners", _SIZES[0], cases)


def check_crowd(bench: Bench) -> None:
    """Instructions that come as fast as there is room; they are taken one after the other."""
    form = next(form for form in DOUBLE if form.name == "DFMA")
    count = 200 if bench.thorough else 12
    cases = [case_of(bench.random, form, word_of_form(bench.random, form, Rd=4, Ra=8, Rb=10, Rc=12))
             for _ in range(count)]
    driver = DoubleDriver(bench, _SIZES[0], cases, idle=0.0)
    cycles = driver.run()
    bench.checked("instructions, as fast as they can come", driver.done)
    bench.figure("cycles an instruction, one after the other", cycles / count)
    bench.table("cycles from selection to completion, the unit always busy", ["", "least", "mean", "most", "count"],
                [[name, min(taken), float(mean(taken)), max(taken), len(taken)]
                 for name, taken in sorted(driver.cycles.items())])


def record(bench: Bench) -> None:
    """A sum with a constant, a fused multiply-add, and a comparison, for the waveform."""
    source, forms = random.Random(0), {(form.name, form.variant): form for form in DOUBLE}
    cases = [case_of(source, forms[name], word_of_form(source, forms[name], Rd=4, Ra=8, Rb=10, Rc=12, Pd=1, Pd2=2))
             for name in (("DADD", "c"), ("DFMA", "r"), ("DSETP", "r"))]
    driver = DoubleDriver(bench, _SIZES[0], cases, idle=0.0)
    driver.run(traces=traces_of(driver))


def traces_of(driver: DoubleDriver) -> View:
    """What is worth seeing of the unit."""
    dut = driver.dut
    port, gather, write = dut.port, dut.port.gather, dut.port.write
    current, datapath = dut.compute.work, dut.compute.datapath
    return View({
        "dispatch": {"text": instruction(dut.dispatch.valid, dut.dispatch.payload.word), "valid": dut.dispatch.valid,
                     "warp": Trace(dut.dispatch.payload.warp, "dec"), "word": dut.dispatch.payload.word,
                     "room": dut.room},
        "instruction": {
            "operation": current.decoded.instruction.operation, "warp": Trace(current.warp, "dec"),
            "threads": current.threads},
        "datapath": {"start": datapath.start, "a": datapath.a, "b": datapath.b, "c": datapath.c,
                     "done": datapath.done, "result": datapath.result},
        "lanes": {
            "gather": gather.valid, "read": gather.ready, "write": write.valid, "taken": write.ready,
            "register": Trace(write.payload.register, "dec"), "last": write.payload.last,
            "gathered": port.data.gathered.valid, "wanted": port.data.wanted.valid,
            "beat": Trace(port.data.wanted.payload.beat, "dec")},
        "constant": {"asked": dut.indexed.valid, "address": dut.indexed.payload.address, "comes": dut.value.valid,
                     "value": dut.value.payload.value}},
        ("dispatch", "instruction", "datapath"), [Mark("start", [datapath.start])])


def run(bench: Bench) -> None:
    """The testbench."""
    for check in (check_datapath, check_comparisons, check_forms, check_corners, check_crowd, record):
        check(bench)
