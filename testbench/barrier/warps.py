"""What the barrier unit's testbench needs of warps and of what they execute."""

from dataclasses import dataclass, field
from typing import Any

from rtl.isa.syntax import PT, RZ
from testbench.handmade import ALL


@dataclass(eq=False)
class ModelWarp:
    """What the warp model's barriers need of a warp; instances are compared by identity, as warps
    are."""

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
    """An instruction that a warp executes: its word, the threads, and what its registers Ra and Rb hold."""

    word: int
    active: int = ALL
    guard: int = ALL
    predicate: int = ALL
    ra: int = 0
    rb: int = 0
