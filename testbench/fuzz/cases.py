"""Cases, each made from a seed and a number alone."""

from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, NO_BARRIER, pack, unpack
from rtl.layouts import Policy
from sim.launch import Launch
from testbench.sm.random_programs import Program, Statement, random_program

__all__ = ["Case", "Kind", "case_of"]

_SIZES = (4, 8, 12, 12, 20)
"""Numbers of statements at the top level of a program."""
_LATENCIES = (1, 20, 20, 60, 200)
"""Latencies of memory in cycles; upper limits if answers are out of order."""
_WORDS = 24
"""Number of random words in a program that has some."""
_PAUSES = (4, 40, 400, 4000)
"""Largest numbers of cycles between two stops."""
_LONGEST = 15
"""Largest number of cycles that a control code can stall."""
_LOOSE = 0.2
"""Fraction of control codes that stall for longer, and of those that wait for more scoreboards."""
_CODES = 64
"""Width of an instruction in bits."""


class Kind(Enum):
    """Kind of a case."""

    PROGRAM = "a program of nested statements"
    ALONE = "such a program whose threads do not meet, against threads that run alone, too"
    STOPPED = "such a program that the host stops and lets go on"
    TRAPS = "such a program with traps, errors and a trap handler, which the host stops, too"
    WORDS = "random words among its instructions"


_CHANCES = {Kind.PROGRAM: 5, Kind.ALONE: 1, Kind.STOPPED: 2, Kind.TRAPS: 3, Kind.WORDS: 1}
_TURNS = {
    Kind.PROGRAM: (1, 10, 40),
    Kind.ALONE: (1, 3),
    Kind.STOPPED: (1, 10, 20),
    Kind.TRAPS: (1, 2, 6),
    Kind.WORDS: (1,),
}
"""Numbers of iterations of the whole program: threads that run alone are slow, and illegal words
end a program.
"""


@dataclass(frozen=True)
class Case:
    """A program, and the machine around it.

    ``latency`` is memory's; ``disorder`` is the seed of out-of-order answers, if there are any.
    ``pauses`` are the cycles between the host's stops. ``codes`` is the seed for control codes that
    stall and wait longer than necessary, if there are any.
    """

    number: int
    kind: Kind
    program: Program
    policy: Policy
    latency: int
    disorder: int | None
    pauses: tuple[int, ...] = ()
    codes: int | None = None

    def launch(self) -> Launch:
        """Returns a launch of the program."""
        launch = self.program.launch()
        if self.codes is not None:
            _loosen(launch, Random(self.codes))
        return launch


def _loosen(launch: Launch, source: Random) -> None:
    """Makes some control codes stall for longer, and wait for more scoreboards than necessary."""
    base, size = launch.memory.regions["program"]
    for group in range(base, base + size - size % GROUP_BYTES, GROUP_BYTES):
        codes = [
            replace(
                code,
                stall=source.randint(code.stall, _LONGEST)
                if source.random() < _LOOSE
                else code.stall,
                wait=code.wait
                | (source.getrandbits(NO_BARRIER - 1) if source.random() < _LOOSE else 0),
            )
            for code in unpack(launch.memory.read_number(group, INSTRUCTION_BYTES))
        ]
        launch.memory.write_number(group, INSTRUCTION_BYTES, pack(codes))


def _with_words(source: Random, program: Program) -> Program:
    """Returns the program with random words among its statements; nearly all of them are illegal."""
    body = list(program.body)
    for _ in range(source.randrange(1, _WORDS)):
        body.insert(
            source.randrange(len(body) + 1), Statement((f".raw {source.getrandbits(_CODES):#x}",))
        )
    return replace(program, body=tuple(body))


def case_of(seed: int, number: int, *, floats: bool = True, doubles: bool = True) -> Case:
    """Returns case ``number`` of the campaign with this seed.

    The machine has floating point if ``floats`` is true, and double precision if ``doubles`` is
    true.
    """
    source = Random(f"{seed} {number}")
    kind = source.choices(list(_CHANCES), list(_CHANCES.values()))[0]
    program = random_program(
        source,
        source.choice(_SIZES),
        alone=kind is Kind.ALONE,
        floats=floats,
        doubles=doubles,
        flow=True,
        traps=kind is Kind.TRAPS,
    )
    program = replace(program, turns=source.choice(_TURNS[kind]))
    if kind is Kind.WORDS:
        program = _with_words(source, program)
    stops = source.randrange(1, 12) if kind in (Kind.STOPPED, Kind.TRAPS) else 0
    pauses = tuple(source.randrange(1, source.choice(_PAUSES)) for _ in range(stops))
    return Case(
        number,
        kind,
        program,
        source.choice(list(Policy)),
        source.choice(_LATENCIES),
        source.choice([None, source.getrandbits(32)]),
        pauses,
        source.choice([None, source.getrandbits(32)]),
    )
