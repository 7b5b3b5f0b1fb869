"""The flow unit with its stack: masks, next pc, stack pointer, errors of every flow instruction.

There are directed cases, the control flow of the kernels, and random instructions, both as executed
by the warp model. After each instruction the hardware must have the same state.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import mean

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import FlowOperation
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour
from sim.model.warp.model import WarpModel
from sim.waves import Mark, Trace, View, error_text
from testbench.flow.cases import directed, unreported
from testbench.flow.driver import ALL_REPORTED, ENTRY_CYCLES, HIT_CYCLES, PUSH_CYCLES, FlowDriver
from testbench.flow.random_programs import random_streams
from testbench.flow.serial_cycles import check_serial_cycles
from testbench.flow.steps import FlowStep, Stream, streams
from testbench.handmade import encode
from testbench.kernels.manifest import LEVELS, RUNS, build

WRITE_BACK = encode("CCTLL", "stack")
HANDS_OFF = MemoryBehaviour(latency=(1, 1))
LINE_A_PUSH = MemoryBehaviour(latency=(20, 20), interval=TOKENS_PER_LINE)
UNRULY = MemoryBehaviour(latency=(1, 30), interval=2, stall=0.2, reorder=True)
WARPS = 8
_MOVING = {"CCTLL", "SETCRSPTR", "SETLMEMBASE"}
"""Instructions that wait for memory, or make others wait."""
SHOWN = "k08_fib_recursion"
"""The kernel of the waveform."""


def _places() -> Iterator[int]:
    """Base addresses of the memory blocks of warps."""
    return itertools.count(1 << 38, 1 << 24)


def _play(
    bench: Bench, what: str, lives: Iterable[Stream], warps: int = WARPS, **how: object
) -> FlowDriver:
    driver = FlowDriver(bench, warps, lives, **how)  # pyright: ignore[reportArgumentType]
    driver.run()
    bench.checked(f"instructions, {what}", driver.steps)
    bench.checked("stack pointers", driver.depths)
    return driver


def check_directed(bench: Bench) -> None:
    """Each instruction, each error, each limit; on one warp, and on several at once."""
    for warps, behaviour in ((1, HANDS_OFF), (WARPS, UNRULY)):
        _play(bench, "directed", directed(), warps, behaviour=behaviour)
    _play(bench, "directed", unreported(), report_mask=0)


def check_serial(bench: Bench) -> None:
    """The flow unit of a serial machine. The short form has every third directed case and few
    others.
    """
    lives, behaviour = list(directed()), UNRULY
    _play(
        bench,
        "directed, serial",
        lives if bench.thorough else lives[::3],
        behaviour=behaviour,
        lanes=1,
    )
    _play(bench, "directed, serial", unreported(), report_mask=0, lanes=1)
    count, length = (40, 200) if bench.thorough else (8, 60)
    lives = random_streams(bench.random, _places(), count, length, REPORT_MASK_RESET)
    _play(
        bench, "random, serial", lives, behaviour=behaviour, report_mask=REPORT_MASK_RESET, lanes=1
    )


def check_speed(bench: Bench) -> None:
    """From dispatch to dispatch a push takes its warp two cycles, any other instruction six, and
    two more for each further token that it pops. With several warps the unit takes an instruction
    every cycle.
    """
    lives = [
        life
        for life in directed()
        if max(step.depth for step in life.steps) < CACHED_TOKENS
        and not any(step.name in _MOVING for step in life.steps)
    ]
    driver = _play(bench, "timed", lives, 1, behaviour=HANDS_OFF, idle=0.0)
    for name, gaps in driver.gaps.items():
        step = next(step for life in lives for step in life.steps if step.name == name)
        enters = step.move is FlowOperation.ENTER_TRAP
        bench.expect(
            f"cycles of {name}",
            max(gaps),
            ENTRY_CYCLES if enters else PUSH_CYCLES if step.pushes else HIT_CYCLES,
        )
    bench.table(
        "cycles from an instruction to its warp's next, nothing in the way, less two for each further token "
        "that it pops",
        ["", "least", "most", "count"],
        [[name, min(gaps), max(gaps), len(gaps)] for name, gaps in sorted(driver.gaps.items())],
    )

    start = replace(next(directed()).start, size=1 << 14)
    pushes = [
        FlowStep(encode("SSY", "i", target=0x1000), 0x1008, 0x1010, start.threads, depth=number + 1)
        for number in range(600)
    ]
    driver = _play(
        bench, "timed", [Stream("pushes", start, pushes)], 1, behaviour=LINE_A_PUSH, idle=0.0
    )
    bench.expect(
        "cycles of a push, memory taking a line per 4 of them", max(driver.gaps["SSY"]), PUSH_CYCLES
    )
    bench.figure("cycles a push, 600 on end, memory taking a line per 4", mean(driver.gaps["SSY"]))

    jumps = [FlowStep(encode("JMP", "i", target=0x1000), 0x1008, 0x1000, start.threads)] * 200
    driver = _play(
        bench,
        "timed",
        [Stream(f"jumps {warp}", replace(start, size=0), jumps) for warp in range(WARPS)],
        behaviour=HANDS_OFF,
        idle=0.0,
    )
    rate = driver.sent / driver.busy_cycles
    bench.figure("instructions a cycle, 8 warps that jump", rate)
    if rate < 0.99:
        bench.fail(f"the unit takes {rate:.3f} instructions a cycle")


def check_programs(bench: Bench) -> None:
    """The control flow of the kernels, on many warps."""
    limit = 1_000_000 if bench.thorough else 250
    place = _places()

    def lives() -> Iterator[Stream]:
        runs = list(itertools.product(RUNS.values(), LEVELS))
        for run_, level in bench.progress(runs, "kernels"):
            machine = WarpModel(build(run_, level), order=bench.seed)
            yield from streams(f"{run_.name} {level}", machine, place, WRITE_BACK, limit)

    driver = _play(bench, "of the kernels", lives(), behaviour=UNRULY)
    _table(
        bench,
        "cycles until the warp's next instruction may come, kernels with an irregular memory",
        driver,
    )
    bench.figure("lines written", driver.server.writes)
    bench.figure("lines read", driver.server.reads)


def check_random(bench: Bench) -> None:
    """Random instructions, in any state that instructions can produce."""
    count, length = (200, 400) if bench.thorough else (24, 120)
    for warps, mask in ((WARPS, ALL_REPORTED), (2, REPORT_MASK_RESET), (WARPS, 0)):
        lives = list(random_streams(bench.random, _places(), count, length, mask))
        _play(bench, "random", lives, warps, behaviour=UNRULY, report_mask=mask)


def record(bench: Bench) -> None:
    """Runs a recursive kernel on two warps for the waveform."""
    machine = WarpModel(build(RUNS[SHOWN], "O3"))
    lives = list(streams(SHOWN, machine, _places(), WRITE_BACK, 400))
    driver = FlowDriver(bench, 2, lives, idle=0.0)
    driver.run(traces=traces_of(driver))


def traces_of(driver: FlowDriver) -> View:
    """The traced signals of the unit."""
    flow, stack = driver.dut.unit.flow, driver.dut.unit.stack
    request, asked, result = flow.request.payload, flow.stack.request.payload, flow.result.payload
    return View(
        {
            "instruction": {
                "valid": flow.request.valid,
                "ready": flow.request.ready,
                "warp": Trace(request.warp, "dec"),
                "operation": request.instruction.operation,
                "kind": request.instruction.kind,
                "pc": request.pc,
                "operand": request.operand,
            },
            "stack": {
                "valid": flow.stack.request.valid,
                "ready": flow.stack.request.ready,
                "warp": Trace(asked.warp, "dec"),
                "operation": asked.operation,
                "enable": asked.enable,
                "kind": asked.kind,
                "pc": asked.operand,
                "mask": asked.mask,
                "answered": stack.result.valid,
                "popped": stack.result.payload.kind,
            },
            "result": {
                "valid": flow.result.valid,
                "warp": Trace(result.warp, "dec"),
                "pc": result.pc,
                "active": result.active,
                "terminated": result.terminated,
                "error": error_text(flow.result.valid, result.error),
            },
            "memory": {
                "request": stack.port.request.valid,
                "write": stack.port.request.payload.write,
                "tag": Trace(stack.port.request.payload.tag, "dec"),
                "answer": stack.port.response.valid,
            },
        },
        ("instruction", "stack", "result"),
        [
            Mark(
                "divergence",
                [flow.stack.request.valid, flow.stack.request.ready, asked.enable, asked.kind],
                lambda valid, ready, enable, kind: (
                    valid and ready and enable and kind == TokenKind.DIVERGE.value
                ),
            )
        ],
    )


def _table(bench: Bench, title: str, driver: FlowDriver) -> None:
    bench.table(
        title,
        ["", "least", "mean", "most", "count"],
        [
            [name, min(cycles), float(mean(cycles)), max(cycles), len(cycles)]
            for name, cycles in sorted(driver.cycles.items())
        ],
    )


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (
        check_directed,
        check_speed,
        check_random,
        check_programs,
        check_serial,
        check_serial_cycles,
        record,
    ):
        check(bench)
