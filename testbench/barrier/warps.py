"""Warps and instructions for the testbench of the barrier unit."""

from dataclasses import dataclass, field
from typing import Any

from rtl.isa.syntax import PT, RZ
from testbench.handmade import ALL


@dataclass(eq=False)
class ModelWarp:
    """The part of a warp that the warp model's barriers use. Instances are compared by identity,
    like warps.
    """

    slot: int
    cta: Any
    rows: dict[int, list[int]]
    predicates: list[int]
    barrier: int | None = None
    reduction: int = 0
    in_trap: bool = False
    writes: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def write_register(self, record: Any, number: int, value: Any, threads: int) -> None:
        if number != RZ:
            self.writes["register"] = (number, int(value[0]), threads)

    def write_predicate(self, record: Any, number: int, value: int, threads: int) -> None:
        if number != PT:
            self.writes["predicate"] = (number, value & 1, threads)


@dataclass(frozen=True)
class Use:
    """An instruction that a warp executes: its word, thread masks, and the values of its registers
    Ra and Rb.
    """

    word: int
    active: int = ALL
    guard: int = ALL
    predicate: int = ALL
    ra: int = 0
    rb: int = 0
