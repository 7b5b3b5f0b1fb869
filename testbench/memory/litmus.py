"""Litmus tests: the order in which warps observe each other's memory accesses, as allowed and as
seen on the hardware.

A test consists of a few short programs, one for each warp, on locations that are initially 0. Each
of the 32 threads of a warp executes the test on locations of its own, together with one thread of
every other warp. The outcome is the values of the reads, in the order of the programs, and the
final values of the locations.

The allowed outcomes (our definition where public pages have none; sm_50 has a weak model):

====================  ============================================================================
rule                  reason
====================  ============================================================================
order in a thread     None, except for accesses to one location or with MEMBAR between them.
                      PTX of sm_50 promises no order between locations.
one location          All accesses to it have one order, which agrees with the program order of
                      each thread (coherence).
MEMBAR.CTA            Accesses before it are performed before accesses after it, as observed by
                      the warps of the CTA.
MEMBAR.GL             The same for all warps; with it between any two accesses, outcomes are
                      sequentially consistent. PTX: it waits until all prior accesses have been
                      performed for all threads of the GPU.
several readers       All observe writes in one order: there is one multiprocessor and one copy of
                      each location.
shared memory         The same rules.
====================  ============================================================================

The allowed outcomes of a test are therefore those of all orders of its accesses in which two
accesses of one thread keep the program order if they are to one location, or if a MEMBAR of
sufficient scope is between them. The table :data:`TESTS` has the resulting rule for the known
outcome of each test.

Command: ``python -m testbench.memory.litmus [--rounds N] [--seed S] [--preset P] [--latency
CYCLES]`` runs all tests and prints how often each outcome was seen. Exit code 1: a forbidden
outcome was seen.
"""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import permutations
from random import Random

from tqdm import tqdm

from rtl.isa.tokens import LINE_BYTES
from rtl.params import PRESETS, WARP_THREADS
from sim.engine import choose
from sim.launch import Buffer, Launch, prepare
from sim.machine.hardware import Hardware
from sim.support.command import CommandError, Parser, print_text
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load

_WORD = 4
_SPREAD = 400
"""The maximum delay of a program in a round, in cycles."""
_LIMIT = 500_000

Outcome = tuple[int, ...]
"""The value of each read, then the final value of each location."""


@dataclass(frozen=True)
class Access:
    """A read of a location, or a write of a value to it."""

    location: int
    value: int | None = None

    def __str__(self) -> str:
        name = "xy"[self.location]
        return f"read {name}" if self.value is None else f"{name} = {self.value}"


def read(name: str) -> Access:
    """A read of x or y."""
    return Access("xy".index(name))


def write(name: str, value: int = 1) -> Access:
    """A write to x or y."""
    return Access("xy".index(name), value)


@dataclass(frozen=True)
class Litmus:
    """A test: its programs, its known outcome, and whether this outcome is allowed without MEMBAR.
    With MEMBAR it is forbidden.
    """

    name: str
    programs: tuple[tuple[Access, ...], ...]
    known: Outcome
    weak: bool

    @property
    def locations(self) -> int:
        """Number of locations."""
        return 1 + max(access.location for program in self.programs for access in program)

    @property
    def reads(self) -> int:
        """Number of reads in all programs."""
        return sum(access.value is None for program in self.programs for access in program)


_X, _Y = write("x"), write("y")
TESTS: tuple[Litmus, ...] = (
    # Name, programs; then reads and final values of the known outcome, and whether it is allowed
    # without MEMBAR.
    Litmus("MP, message passing", ((_X, _Y), (read("y"), read("x"))), (1, 0, 1, 1), True),
    Litmus("SB, store buffering", ((_X, read("y")), (_Y, read("x"))), (0, 0, 1, 1), True),
    Litmus("LB, load buffering", ((read("y"), _X), (read("x"), _Y)), (1, 1, 1, 1), True),
    Litmus(
        "IRIW, independent reads of independent writes",
        ((_X,), (_Y,), (read("x"), read("y")), (read("y"), read("x"))),
        (1, 0, 1, 0, 1, 1),
        True,
    ),
    Litmus("CoRR, two reads", ((_X,), (read("x"), read("x"))), (1, 0, 1), False),
    Litmus("CoWW, two writes", ((_X, write("x", 2)), (read("x"), read("x"))), (2, 1, 1), False),
    Litmus("CoRW, a read, then a write", ((read("x"), _X), (write("x", 2),)), (2, 2), False),
    Litmus("CoWR, a write, then a read", ((_X, read("x")), (write("x", 2),)), (2, 1), False),
)
"""All litmus tests."""


def _play(order: Iterable[tuple[int, int, Access]], test: Litmus) -> Outcome:
    """The outcome of the accesses in one order. Each access has the number of its program and its
    index in it.
    """
    memory, got = [0] * test.locations, {}
    for program, place, access in order:
        if access.value is None:
            got[program, place] = memory[access.location]
        else:
            memory[access.location] = access.value
    return (*(got[key] for key in sorted(got)), *memory)


@cache
def allowed(test: Litmus, fenced: bool) -> frozenset[Outcome]:
    """The allowed outcomes. ``fenced``: a MEMBAR of sufficient scope is between any two
    accesses.
    """
    accesses = [
        (program, place, access)
        for program, accesses in enumerate(test.programs)
        for place, access in enumerate(accesses)
    ]
    kept = [
        (first, second)
        for first in accesses
        for second in accesses
        if first[0] == second[0]
        and first[1] < second[1]
        and (fenced or first[2].location == second[2].location)
    ]
    return frozenset(
        _play(order, test)
        for order in permutations(accesses)
        if all(order.index(first) < order.index(second) for first, second in kept)
    )


def sequential(test: Litmus) -> frozenset[Outcome]:
    """The sequentially consistent outcomes."""
    return allowed(test, True)


class Fence(Enum):
    """The instruction between two accesses of a thread."""

    NONE = ""
    CTA = "MEMBAR.CTA"
    GL = "MEMBAR.GL"


@dataclass(frozen=True)
class Setting:
    """How a test is executed: by warps of one CTA or of one CTA each (``apart``), in shared or
    global memory, with which fence.
    """

    apart: bool
    shared: bool
    fence: Fence

    def __str__(self) -> str:
        return ", ".join(
            [
                "CTAs" if self.apart else "warps",
                "shared" if self.shared else "global",
                self.fence.value or "no MEMBAR",
            ]
        )

    @property
    def fenced(self) -> bool:
        """Whether the scope of the MEMBAR includes all the programs."""
        return self.fence is Fence.GL or (self.fence is Fence.CTA and not self.apart)


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(apart, shared, fence)
    for fence in Fence
    for apart, shared in ((False, False), (True, False), (False, True))
)
"""All settings. CTAs have no shared memory in common."""


@dataclass(frozen=True)
class _LocationSpacing:
    """The distance of the locations of neighbouring threads, as a shift, and of the two locations
    of a thread, in bytes.

    The locations of 32 threads take ``size`` bytes.
    """

    shift: int
    between: int
    size: int


_LINES_APART = _LocationSpacing(7, 64, 4096)
_ROWS = _LocationSpacing(2, 128, 256)
_SIDE_BY_SIDE = _LocationSpacing(3, 4, 256)
_LAYOUTS = {False: (_LINES_APART, _ROWS, _SIDE_BY_SIDE), True: (_ROWS, _SIDE_BY_SIDE)}
"""The spacings for global (False) and shared memory (True): a line for each location, a line for 16
threads, both locations in one line.
"""
_TURNED = 31
"""XORed to the thread number in every other program: reverses the order of its threads."""


class _BufferLayout:
    """The offsets of locations and results of each round in their buffers, in bytes."""

    def __init__(self, test: Litmus, shared: bool, rounds: int) -> None:
        layouts = _LAYOUTS[shared]
        self.test = test
        self.number = [turn % len(layouts) for turn in range(rounds)]
        self.layouts = [layouts[number] for number in self.number]
        self.starts = [sum(layout.size for layout in self.layouts[:turn]) for turn in range(rounds)]
        self.bytes = sum(layout.size for layout in self.layouts)
        self.result_bytes = max(rounds * test.reads, 1) * WARP_THREADS * _WORD

    def location(self, turn: int, location: int) -> int:
        """Offset of a location of thread 0; a register holds the offset of the other threads."""
        return self.starts[turn] + location * self.layouts[turn].between

    def of_thread(self, turn: int, location: int, thread: int) -> int:
        """Offset of a location of any thread."""
        return self.location(turn, location) + (thread << self.layouts[turn].shift)

    def result(self, turn: int, number: int) -> int:
        """Offset of a result of thread 0; each thread has a word."""
        return (turn * self.test.reads + number) * WARP_THREADS * _WORD


def _delay(cycles: int) -> list[str]:
    """Instructions that take this many cycles."""
    whole, rest = divmod(cycles, 15)
    return ["[S15] NOP"] * whole + [f"[S{rest}] NOP"] * (rest > 0)


def _add(low: int, parameter: str, index: str) -> list[str]:
    """Instructions that set a register pair to the address of a buffer plus a register."""
    return [
        f"MOV R{low}, c[0x0][{parameter}]",
        f"MOV R{low + 1}, c[0x0][{parameter}+4]",
        f"IADD R{low}.CC, R{low}, {index}",
        f"IADD.X R{low + 1}, R{low + 1}, RZ",
    ]


_PAIRS, _OFFSETS, _RESULTS, _MEETING, _VALUES, _READ = (24, 26, 28), (32, 33, 34), 6, 8, 20, 10
"""Registers: pairs with addresses of locations in global memory and offsets in shared memory, by
spacing; address of results; address of the counters at which CTAs meet; values by number; the first
read value.
"""


class _Generator:
    """Generates the kernel of a test. Register 2 is the thread's number among those that share its
    locations.
    """

    def __init__(
        self, test: Litmus, setting: Setting, places: _BufferLayout, random: Random
    ) -> None:
        self._test, self._setting, self._places, self._random = test, setting, places, random

    def text(self) -> str:
        """The text of the kernel."""
        programs = range(len(self._test.programs))
        number = (
            ["S2R R1, SR_CTAID.X"]
            if self._setting.apart
            else ["S2R R1, SR_TID.X", "SHR.U32 R1, R1, 0x5"]
        )
        lines = [
            ".kernel litmus",
            ".param locations 8",
            ".param results 8",
            ".param meeting 8",
            *([f".shared {self._places.bytes}"] if self._setting.shared else []),
            "S2R R2, SR_LANEID",
            *number,
        ]
        for program in programs[1:]:
            lines += [f"ISETP.EQ.AND P0, PT, R1, {program:#x}, PT", f"@P0 BRA program{program}"]
        for program in programs:
            lines += [f"program{program}:", *self._begin(program)]
            taken = sum(
                access.value is None for each in self._test.programs[:program] for access in each
            )
            for turn in range(len(self._places.layouts)):
                lines += self._round(turn, program, taken)
            lines += self._end(program)
        return "\n".join([*lines, ""])

    def _begin(self, program: int) -> list[str]:
        """Sets the registers that do not change."""
        lines = [
            f"LOP32I.XOR R2, R2, {_TURNED * (program % 2):#x}",
            f"MOV32I R{_VALUES + 1}, 0x1",
            f"MOV32I R{_VALUES + 2}, 0x2",
            f"SHL R3, R2, {_WORD.bit_length() - 1:#x}",
            *_add(_RESULTS, "results", "R3"),
            *_add(_MEETING, "meeting", "RZ"),
            "ISETP.EQ.AND P1, PT, R2, RZ, PT",
        ]
        for pair, offset, layout in zip(
            _PAIRS, _OFFSETS, _LAYOUTS[self._setting.shared], strict=False
        ):
            lines += [
                f"SHL R{offset}, R2, {layout.shift:#x}",
                *_add(pair, "locations", f"R{offset}"),
            ]
        return lines

    def _place(self, turn: int, location: int, shared: bool) -> str:
        register = (_OFFSETS if shared else _PAIRS)[self._places.number[turn]]
        return f"[R{register}+{self._places.location(turn, location):#x}]"

    def _access(self, turn: int, access: Access, register: int) -> str:
        load, store = ("LDS", "STS") if self._setting.shared else ("LDG.E", "STG.E")
        place = self._place(turn, access.location, self._setting.shared)
        return (
            f"{load} R{register}, {place}"
            if access.value is None
            else f"{store} {place}, R{_VALUES + access.value}"
        )

    def _round(self, turn: int, program: int, taken: int) -> list[str]:
        """One round of a program, a random time after the warps have met."""
        lines = self._meet(turn, program) if self._setting.apart else ["BAR.SYNC 0x0"]
        lines += _delay(int(_SPREAD * self._random.random() ** 2))
        got = 0
        for number, access in enumerate(self._test.programs[program]):
            if number:
                lines += [
                    *filter(None, [self._setting.fence.value]),
                    *_delay(self._random.choice((0, 0, self._random.randrange(100)))),
                ]
            lines.append(self._access(turn, access, _READ + got))
            got += access.value is None
        return lines + [
            f"STG.E [R{_RESULTS}+{self._places.result(turn, taken + number):#x}], R{_READ + number}"
            for number in range(got)
        ]

    def _meet(self, turn: int, program: int) -> list[str]:
        """Waits until all CTAs have arrived: one thread of each increments a counter that all
        poll.
        """
        place, label = f"[R{_MEETING}+{turn * LINE_BYTES:#x}]", f"meet{program}_{turn}"
        return [
            f"@P1 RED.E.ADD {place}, R{_VALUES + 1}",
            f"{label}:",
            f"LDG.E R{_READ}, {place}",
            f"ISETP.LT.U32.AND P2, PT, R{_READ}, {len(self._test.programs):#x}, PT",
            f"@P2 BRA {label}",
        ]

    def _end(self, program: int) -> list[str]:
        """Copies locations in shared memory to the corresponding ones in global memory."""
        lines = [] if self._setting.apart else ["BAR.SYNC 0x0"]
        if self._setting.shared and not program:
            for turn in range(len(self._places.layouts)):
                for location in range(self._test.locations):
                    lines += [
                        f"LDS R{_READ}, {self._place(turn, location, True)}",
                        f"STG.E {self._place(turn, location, False)}, R{_READ}",
                    ]
        return [*lines, "EXIT"]


def _launch(test: Litmus, setting: Setting, places: _BufferLayout, random: Random) -> Launch:
    module = load(assemble(_Generator(test, setting, places, random).text(), test.name))
    count = len(test.programs)
    sizes = {
        "locations": places.bytes,
        "results": places.result_bytes,
        "meeting": LINE_BYTES * len(places.layouts),
    }
    return prepare(
        module,
        [Buffer(name, bytes(size)) for name, size in sizes.items()],
        grid=(count if setting.apart else 1, 1, 1),
        block=(WARP_THREADS * (1 if setting.apart else count), 1, 1),
    )


@dataclass(frozen=True)
class Seen:
    """How often each outcome of a test was seen in a setting."""

    test: Litmus
    setting: Setting
    outcomes: Counter[Outcome]

    def kind(self, outcome: Outcome) -> str:
        """The class of an outcome: ``sequential``, ``weak`` (allowed), or ``FORBIDDEN``."""
        if outcome in sequential(self.test):
            return "sequential"
        return "weak" if outcome in allowed(self.test, self.setting.fenced) else "FORBIDDEN"

    def lines(self) -> list[str]:
        """A line of text for each outcome."""
        return [
            f"{self.test.name}; {self.setting}: {_text(outcome, self.test)}  {count} times, {self.kind(outcome)}"
            for outcome, count in sorted(self.outcomes.items())
        ]


def _text(outcome: Outcome, test: Litmus) -> str:
    reads, memory = outcome[: test.reads], outcome[test.reads :]
    return f"reads {' '.join(map(str, reads))}, then {' '.join(map(str, memory))} in memory"


def complaints(seen: Seen) -> list[str]:
    """A line of text for each forbidden outcome."""
    return [
        line
        for line, outcome in zip(seen.lines(), sorted(seen.outcomes), strict=True)
        if seen.kind(outcome) == "FORBIDDEN"
    ]


def run(hardware: Hardware, test: Litmus, setting: Setting, rounds: int, random: Random) -> Seen:
    """Runs a test on the machine with random memory behaviour. Raises RuntimeError if it does not
    end.
    """
    places = _BufferLayout(test, setting.shared, rounds)
    launch = _launch(test, setting, places, random)
    hardware.disorder = random.getrandbits(32)
    result = hardware.run(launch, _LIMIT)
    if result.status != "ok":
        raise RuntimeError(
            "; ".join(
                [f"{test.name}, {setting}: {result.status} {result.reason}", *result.diagnosis]
            )
        )

    def words(buffer: str) -> Sequence[int]:
        return memoryview(hardware.memory.read(*launch.buffers[buffer])).cast("I")

    locations, results = words("locations"), words("results")
    return Seen(
        test,
        setting,
        Counter(
            (
                *(
                    results[places.result(turn, number) // _WORD + thread]
                    for number in range(test.reads)
                ),
                *(
                    locations[places.of_thread(turn, location, thread) // _WORD]
                    for location in range(test.locations)
                ),
            )
            for turn in range(rounds)
            for thread in range(WARP_THREADS)
        ),
    )


def _parser() -> Parser:
    parser = Parser(
        "testbench.memory.litmus",
        "Runs litmus tests on the hardware in simulation.",
        "--rounds 100 --seed 1",
    )
    parser.add_argument(
        "--rounds", type=int, default=30, help="of each test in each setting; default 30"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default 0")
    parser.add_argument(
        "--preset", default="default", help=f"the machine: {', '.join(PRESETS)}; default default"
    )
    parser.add_argument(
        "--latency", type=int, default=40, help="of memory, in cycles, at most; default 40"
    )
    return parser


def _run(options: Namespace) -> int:
    for name in ("rounds", "latency"):
        if getattr(options, name) < 1:
            raise CommandError(f"--{name} {getattr(options, name)}: at least 1")
    if options.preset not in PRESETS:
        raise CommandError(f"no preset {options.preset}; there are {', '.join(PRESETS)}")
    params = PRESETS[options.preset]
    hardware = Hardware(params, choose("auto")[0], latency=options.latency)
    random, forbidden = Random(options.seed), 0
    cases = [
        (test, setting)
        for test in TESTS
        if len(test.programs) <= params.warps
        for setting in SETTINGS
    ]
    for test, setting in tqdm(cases, unit=" tests", disable=None, leave=False):
        seen = run(hardware, test, setting, options.rounds, random)
        print_text("\n".join(seen.lines()) + "\n")
        forbidden += len(complaints(seen))
    print_text(f"{forbidden} forbidden outcomes\n")
    return 1 if forbidden else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    return _parser().run(arguments, _run)


if __name__ == "__main__":
    sys.exit(main())
