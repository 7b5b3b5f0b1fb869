"""The conversion unit: bit counts, conversions of every type, MUFU's functions.

Every instruction is executed by the warp model, whose results must equal those of the thread model,
and by the hardware, whose operations of the lanes must leave the same registers and CC, in order
and with the same scoreboards.
"""

import random
from collections.abc import Iterable
from functools import partial
from itertools import product
from statistics import mean
from typing import Any

import numpy as np

from rtl.convert.datapath import DATAPATH_STAGES, FUNCTION_DELAY, ConversionDatapath
from rtl.convert.decode import CONVERSION_FORMS
from rtl.convert.instruction import ConversionOperation
from rtl.isa.kinds import FloatFormat
from rtl.isa.syntax import RZ
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench
from sim.waves import Mark, Trace, View, instruction
from testbench.convert.cases import (
    BANK_BYTES,
    FUNCTIONS,
    INTEGERS,
    ConversionCase,
    calculated,
    case_of,
    converted,
    edges,
    every_type,
    forms_of,
    random_case,
    random_pattern,
    random_word,
)
from testbench.convert.driver import ConvertDriver
from testbench.execute.singles import EDGES
from testbench.handmade import ALL
from testbench.instructions.functions import UPPER_EDGES
from testbench.words import encode

_SIZES = (SmParams(warps=16, lanes=8), SmParams(warps=16, lanes=4), SmParams(warps=16, lanes=32))
SERIAL = PRESETS["least"]
ALL_REPORTED = 0xFFFF_FFFF
_WORD = (1 << 32) - 1


def _play(
    bench: Bench, what: str, params: SmParams, cases: Iterable[ConversionCase], **how: float
) -> ConvertDriver:
    driver = ConvertDriver(bench, params, cases, **how)  # pyright: ignore[reportArgumentType]
    driver.run()
    bench.checked(f"instructions, {what}", driver.done)
    return driver


def check_forms(bench: Bench) -> None:
    """Random words of every form, by some threads or none, with missing constants reported and
    not.
    """
    count = 40 if bench.thorough else 4
    for number, params in enumerate((*_SIZES, SERIAL)):
        mask = 0 if number == 1 else ALL_REPORTED
        forms = forms_of(params.floats)
        # A serial instruction takes as many cycles as thirty others.
        each = 1 if params.serial and not bench.thorough else count
        cases = [
            random_case(bench.random, form, mask, params.floats)
            for form in forms
            for _ in range(each)
        ]
        bench.random.shuffle(cases)
        _play(bench, f"{params.lanes} lanes", params, cases, delay=number, report_mask=mask)


def check_corners(bench: Bench) -> None:
    """Missing constants, reported and not; results to RZ, with and without CC; single threads."""
    for params, mask in product((_SIZES[0], SERIAL), (0, ALL_REPORTED)):
        cases = []
        for form in forms_of(params.floats):
            corners: list[dict[str, int]] = [{"Rd": RZ, "cc": 0}, {"Rd": RZ, "cc": 1}]
            if form.variant == "c":
                corners += [{"offset": BANK_BYTES + offset, "Rd": 8} for offset in (-4, 0)]
            cases += [
                case_of(
                    bench.random,
                    form,
                    random_word(bench.random, form, params.floats, **corner),
                    active=active,
                    report_mask=mask,
                )
                for corner in corners
                for active in (1 << 31, ALL)
            ]
        bench.random.shuffle(cases)
        if params.serial and not bench.thorough:
            cases = cases[: len(cases) // 4]
        _play(bench, "at the corners", params, cases, report_mask=mask)


def check_types(bench: Bench) -> None:
    """Each combination of types, rounding, parts and signs; the short form takes some of them."""
    for params in (_SIZES[0], SERIAL):
        words = list(every_type(params.floats))
        chosen = bench.random.sample(
            words, len(words) if bench.thorough else 20 if params.serial else 100
        )
        cases = [
            case_of(bench.random, form, word) for form, word in bench.progress(chosen, "warp model")
        ]
        driver = _play(bench, f"of every type, {params.lanes} lanes", params, cases, idle=0.0)
        bench.table(
            f"cycles from selection to completion, {params.lanes} lanes, the unit always busy",
            ["", "least", "mean", "most", "count"],
            [
                [name, min(cycles), float(mean(cycles)), max(cycles), len(cycles)]
                for name, cycles in sorted(driver.cycles.items())
            ],
        )


def check_functions(bench: Bench) -> None:
    """Every function of many numbers, edges included: the datapath against the warp model."""
    count, cycles = 200_000 if bench.thorough else 1_500, DATAPATH_STAGES + FUNCTION_DELAY
    dut, source = (
        ConversionDatapath(True, True),
        np.random.default_rng(bench.random.getrandbits(32)),
    )
    edges = np.array(EDGES, np.uint32)
    for function in FUNCTIONS:
        for saturate in (0, 1):
            # Random patterns, and numbers from 2**-24 to 2**24.
            words: Any = np.concatenate(
                [
                    edges,
                    np.array(UPPER_EDGES, np.uint32),
                    source.integers(0, 1 << 32, count // 4, np.uint32),
                    source.integers(103 << 23, 151 << 23, count // 4, np.uint32)
                    | source.choice(np.array([0, 1 << 31], np.uint32), count // 4),
                ]
            )
            expected, found = calculated(function, words, saturate), list[int]()
            bench.simulate(
                dut,
                [
                    partial(
                        _pass,
                        dut,
                        words,
                        found,
                        {
                            "operation": ConversionOperation.FUNCTION,
                            "function": function,
                            "saturate": saturate,
                            "size": 2,
                            "to_size": 2,
                        },
                        cycles,
                    )
                ],
                limit=len(words) + 100,
            )
            wrong = np.flatnonzero((np.array(found, np.uint64) & _WORD) != expected)
            bench.expect(
                f"{function.name}, saturate {saturate}: sources whose result is wrong",
                [hex(words[at]) for at in wrong[:4]],
                [],
            )
            bench.checked("results of functions", len(words))


async def _pass(
    dut: ConversionDatapath, words: Any, found: list[int], instruction: Any, cycles: int, ctx: Any
) -> None:
    """Sends numbers through the datapath, one per cycle, and collects the results in ``found``."""
    ctx.set(dut.instruction, instruction)
    for position in range(len(words) + cycles):
        if position < len(words):
            ctx.set(dut.source, int(words[position]))
        if position >= cycles:
            found.append(ctx.get(dut.result))
        await ctx.tick()


def check_formats(bench: Bench, floats: bool = True) -> None:
    """Conversions between all formats and integer types, and rounding to integers: the datapath
    against the warp model.

    Sources are edges and random numbers. Without ``floats`` only the conversions of a machine
    without floating point.
    """
    count, random = 2_000 if bench.thorough else 50, bench.random
    dut, jobs = (
        ConversionDatapath(floats, floats),
        list[tuple[ConversionOperation, dict[str, int], list[int]]](),
    )

    def add(
        operation: ConversionOperation, form: FloatFormat | None, known: list[int], **fields: int
    ) -> None:
        chosen = {
            name: random.getrandbits(1) for name in ("flush", "saturate", "absolute_b", "negate_b")
        }
        chosen["saturate"] &= operation is ConversionOperation.FLOAT_TO_FLOAT
        sources = [
            random_pattern(random, form)
            if form is not None
            else random.getrandbits(64) >> random.randrange(64)
            for _ in range(count)
        ]
        jobs.append((operation, chosen | {"part": 0} | fields, known + sources))

    for form, mode in product(FloatFormat if floats else (), range(4)):
        for to in FloatFormat:
            fields = {"round": mode} if form is not to else {"whole": mode + 4}
            add(
                ConversionOperation.FLOAT_TO_FLOAT,
                form,
                edges(form),
                source=form.value,
                destination=to.value,
                **fields,
            )
        add(
            ConversionOperation.FLOAT_TO_FLOAT,
            form,
            edges(form),
            source=form.value,
            destination=form.value,
            whole=0,
        )
    formats = FloatFormat if floats else (FloatFormat.F32, FloatFormat.F64)
    for form, mode, integer in product(formats, range(4), range(8)):
        add(
            ConversionOperation.INTEGER_TO_FLOAT,
            None,
            INTEGERS,
            source=integer,
            destination=form.value,
            round=mode,
        )
        if integer & 3:
            add(
                ConversionOperation.FLOAT_TO_INTEGER,
                form,
                edges(form),
                source=form.value,
                destination=integer,
                round=mode,
            )
    found, checked = list[int](), 0
    bench.simulate(
        dut,
        [partial(_convert, dut, jobs, found)],
        limit=100 + sum(len(sources) + DATAPATH_STAGES for _, _, sources in jobs),
    )
    for operation, fields, sources in jobs:
        expected, results = (
            converted(operation, sources, fields),
            found[checked : checked + len(sources)],
        )
        wrong = [
            (hex(source), hex(result))
            for source, result, right in zip(sources, results, expected, strict=True)
            if result != right
        ]
        bench.expect(
            f"{operation.name}, {fields}: sources and results that are wrong", wrong[:4], []
        )
        checked += len(sources)
    bench.checked("conversions of formats", checked)


async def _convert(dut: ConversionDatapath, jobs: Any, found: list[int], ctx: Any) -> None:
    """Sends the sources of one instruction after the other through the datapath."""
    for operation, fields, sources in jobs:
        mode = fields.get("round", fields.get("whole", 0))
        wide, results = fields["destination"] & 3 == 3, list[int]()
        await _pass(
            dut,
            sources,
            results,
            {
                "operation": operation,
                "size": fields["source"] & 3,
                "signed": fields["source"] >> 2,
                "to_size": fields["destination"] & 3,
                "to_signed": fields["destination"] >> 2,
                "round": mode & 3,
                "whole": mode >> 2,
                "absolute": fields["absolute_b"],
                "negate": fields["negate_b"],
                "flush": fields["flush"],
                "saturate": fields["saturate"],
            },
            DATAPATH_STAGES,
            ctx,
        )
        found += results if wide else [result & _WORD for result in results]


def check_crowd(bench: Bench) -> None:
    """Instructions as fast as there is room; the unit executes one at a time."""
    form = next(form for form in CONVERSION_FORMS if form.name == "MUFU")
    count = 600 if bench.thorough else 24
    cases = [
        case_of(bench.random, form, random_word(bench.random, form, Rd=4, Ra=8, guard_not=0))
        for _ in range(count)
    ]
    driver = ConvertDriver(bench, _SIZES[0], cases, idle=0.0)
    cycles = driver.run()
    bench.checked("instructions, as fast as they can come", driver.done)
    bench.figure("cycles an instruction, one after the other", cycles / count)


def record(bench: Bench) -> None:
    """The first instructions of a 64-bit division for the waveform: U64 to F32, the reciprocal, F32
    to U64.
    """
    source, words = (
        random.Random(0),
        (
            ("I2F", encode("I2F", "r", guard=2, Rd=4, Rb=8, source=3, destination=2, round=2)),
            ("MUFU", encode("MUFU", guard=2, Rd=5, Ra=8, function=4)),
            ("F2I", encode("F2I", "r", guard=2, Rd=6, Rb=10, source=2, destination=3, round=3)),
        ),
    )
    cases = [
        case_of(source, next(form for form in CONVERSION_FORMS if form.name == name), word)
        for name, word in words
    ]
    driver = ConvertDriver(bench, _SIZES[0], cases, idle=0.0)
    driver.run(traces=traces_of(driver))


def traces_of(driver: ConvertDriver) -> View:
    """The traced signals of the unit."""
    dut = driver.dut
    current, datapath = dut.compute.current, dut.compute.datapath
    port, gather, write = dut.port, dut.port.gather, dut.port.write
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
            "datapath": {"source": datapath.source, "result": datapath.result},
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
            "completion": dut.completion.valid,
        },
        ("dispatch", "instruction", "datapath", "completion"),
        [Mark("dispatch", [dut.dispatch.valid])],
    )


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (
        check_forms,
        check_corners,
        check_types,
        check_functions,
        check_formats,
        check_crowd,
        record,
    ):
        check(bench)
