"""Programs for the issue unit. Their instructions have only the properties that matter for
scheduling.
"""

from collections.abc import Callable, Mapping
from random import Random

from rtl.isa.control_code import (
    GROUP_BYTES,
    GROUP_INSTRUCTIONS,
    INSTRUCTION_BYTES,
    NO_BARRIER,
    ControlCode,
)
from rtl.isa.errors import WarpError
from rtl.layouts import InstructionKind as Kind
from testbench.scheduler.branches import RETURN, random_flow_word
from testbench.scheduler.issue_model import Planned
from testbench.words import encode

MIXED: Mapping[Kind, float] = {
    Kind.LANES: 8,
    Kind.PUSH: 2,
    Kind.FLOW: 1.5,
    Kind.FLOW_INDEXED: 0.7,
    Kind.FLOW_READ: 0.3,
    Kind.MEMORY: 4,
    Kind.CONVERSION: 2,
    Kind.BARRIER: 0.4,
    Kind.BARRIER_INDEXED: 0.3,
    Kind.BARRIER_READ: 0.4,
    Kind.TRAP: 0.3,
    Kind.NOTHING: 1,
    Kind.DEPENDENCY: 2,
    Kind.REFUSED: 0.3,
}
"""All kinds of instructions, with their relative frequency."""
_SCOREBOARDS = 6


def _planned(random: Random, kind: Kind, pc: int, scoreboards: int, quarters: float) -> Planned:
    """A random instruction; ``quarters`` is the probability that it passes the full lanes only."""
    slow = kind in (Kind.MEMORY, Kind.CONVERSION, Kind.BARRIER_READ, Kind.FLOW_READ)
    chance = 0.8 if slow else 0.1
    write, read = (
        random.randrange(scoreboards) if random.random() < chance else NO_BARRIER for _ in range(2)
    )
    wait = (
        random.getrandbits(scoreboards) & random.getrandbits(_SCOREBOARDS)
        if random.random() < 0.4
        else 0
    )
    control = ControlCode(
        random.choice((0, 1, 1, 2, 2, 6, 13, 15)),
        random.random() < 0.8,
        write,
        read,
        wait,
        random.getrandbits(4),
    )
    word, depends, at_most = random.getrandbits(64), frozenset[int](), None
    if kind is Kind.FLOW:
        word = random_flow_word(random, pc)
    if kind is Kind.DEPENDENCY:
        chosen = random.getrandbits(scoreboards) & random.getrandbits(_SCOREBOARDS)
        depends = frozenset(number for number in range(_SCOREBOARDS) if chosen >> number & 1)
        if random.random() < 0.6:
            at_most = random.randrange(scoreboards), random.choice((0, 1, 2, 5))
            word = encode(
                "DEPBAR", "at_most", scoreboard=at_most[0], count=at_most[1], wait=chosen, at_most=1
            )
        else:
            word = encode("DEPBAR", "zero", wait=chosen)
    quarter = kind is Kind.LANES and random.random() < quarters
    error = (
        random.choice([WarpError.OOR_REG, WarpError.MMU_FAULT])
        if kind is Kind.REFUSED
        else WarpError.NONE
    )
    return Planned(
        kind,
        control,
        pc,
        word,
        error,
        random.getrandbits(32),
        random.random() < 0.02,
        depends,
        at_most,
        quarter,
    )


def random_program(
    random: Random,
    kinds: Mapping[Kind, float] = MIXED,
    scoreboards: int = _SCOREBOARDS,
    quarters: float = 0.1,
) -> Callable[[int, int], list[Planned]]:
    """Random groups with ``scoreboards`` scoreboards, the same whenever a warp fetches them again.

    ``quarters`` is the fraction of the lanes' instructions that pass the full lanes only.
    """
    known: dict[tuple[int, int], list[Planned]] = {}

    def group(warp: int, pc: int) -> list[Planned]:
        if (warp, pc) not in known:
            chosen = random.choices(list(kinds), list(kinds.values()), k=GROUP_INSTRUCTIONS)
            known[warp, pc] = [
                _planned(random, kind, pc + INSTRUCTION_BYTES * (slot + 1), scoreboards, quarters)
                for slot, kind in enumerate(chosen)
            ]
        return known[warp, pc]

    return group


def same_program(
    kind: Kind, control: ControlCode, **others: object
) -> Callable[[int, int], list[Planned]]:
    """A program that repeats one instruction; ``others`` are fields of Planned."""
    if kind is Kind.FLOW:
        others = {"word": RETURN} | others
    assert GROUP_BYTES == INSTRUCTION_BYTES * (1 + GROUP_INSTRUCTIONS)

    def group(warp: int, pc: int) -> list[Planned]:
        return [
            Planned(kind, control, pc + INSTRUCTION_BYTES * (slot + 1), **others)  # pyright: ignore[reportArgumentType]
            for slot in range(GROUP_INSTRUCTIONS)
        ]

    return group
