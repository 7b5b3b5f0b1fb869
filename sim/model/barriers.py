"""CTA barriers: BAR, and the moves between barriers and registers.

A barrier counts warps, however many of their threads execute the instruction, and lets the waiting ones go
when as many have arrived as the last arrival asked for: a number of threads in whole warps, or every live
warp of the CTA. A warp that ends is no longer among those; one that arrived without waiting and then ended
stays counted (ours).

A warp that waits can be taken back, as the entry of a trap does: with its arrival goes what it gave to a reduction. The
flags of the reduction are then those of the warps that still wait. What BAR.ARV or R2B have added stays, but a barrier
at which nobody has arrived any more is as new (ours).

BAR.SYNCALL is for the trap handler: it waits for every live warp of the CTA, at a barrier of its own.

The reductions are of the predicate of the threads that execute BAR.RED. BAR.SCAN gives a warp the number of
such threads with the predicate that arrived, by RED or SCAN, before it (ours).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, BarrierState, is_packed
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.isa.syntax import Form, Immediate, Register, Values
from rtl.params import WARP_THREADS

from .faults import WarpFaultError
from .vector.lanes import ALL_THREADS, uniform

if TYPE_CHECKING:
    from .action import Action, Core
    from .retirement import Retirement
    from .state import Cta, Warp

__all__ = ["Barrier", "barrier_action", "read_action", "settle", "withdraw", "write_action"]

_FIELDS = {name: (field.offset, field.width) for name, field in BarrierState.as_shape()}
"""A barrier's state as B2R and R2B move it: lowest bit and width."""


@dataclass(frozen=True)
class Arrival:
    """A warp that waits: for which reduction, if any, and what it gave to that."""

    warp: Warp
    reduction: BarrierReduction | None = None
    population: int = 0
    some_false: int = 0
    some_true: int = 0


@dataclass
class Barrier:
    """A barrier. Counts are in warps; ``expected`` 0 means every live warp of the CTA."""

    arrived: int = 0
    expected: int = 0
    population: int = 0
    some_false: int = 0
    some_true: int = 0
    waiting: list[Arrival] = field(default_factory=list)

    def reduced(self, reduction: BarrierReduction) -> int:
        """What a reduction over the threads so far gives."""
        return {BarrierReduction.POPC: self.population, BarrierReduction.AND: 1 - self.some_false,
                BarrierReduction.OR: self.some_true}[reduction]

    def pack(self) -> int:
        """The state as a number."""
        return sum((getattr(self, name) & (1 << width) - 1) << lowest for name, (lowest, width) in _FIELDS.items())

    def unpack(self, number: int) -> None:
        """Sets the state from a number; who waits is not part of it."""
        for name, (lowest, width) in _FIELDS.items():
            setattr(self, name, number >> lowest & (1 << width) - 1)


def settle(cta: Cta) -> None:
    """Lets the warps of every complete barrier go."""
    for barrier in cta.barriers:
        if barrier.arrived and barrier.arrived >= (barrier.expected or len(cta.warps)):
            for arrival in barrier.waiting:
                arrival.warp.barrier = None
                if arrival.reduction is not None:
                    arrival.warp.reduction = barrier.reduced(arrival.reduction)
            barrier.waiting.clear()
            barrier.unpack(0)


def withdraw(warp: Warp) -> None:
    """Takes back the arrival of a warp that waits; it waits no longer, and nobody goes on by that.

    Raises ValueError when the warp waits at no barrier, or at BAR.SYNCALL's, which the trap handler does not leave.
    """
    if warp.barrier is None or warp.barrier == SYNCALL_BARRIER:
        raise ValueError(f"the warp in slot {warp.slot} waits at no barrier that it could be taken back from")
    barrier = warp.cta.barriers[warp.barrier]
    warp.barrier = None
    gone = next(arrival for arrival in barrier.waiting if arrival.warp is warp)
    barrier.waiting.remove(gone)
    barrier.arrived = max(barrier.arrived - 1, 0)
    barrier.population = barrier.population - gone.population & (1 << _FIELDS["population"][1]) - 1
    barrier.some_false = int(any(arrival.some_false for arrival in barrier.waiting))
    barrier.some_true = int(any(arrival.some_true for arrival in barrier.waiting))
    if not barrier.arrived:
        barrier.unpack(0)


def _lowest(warp: Warp, register: int, threads: int) -> int:
    """The register's value in the lowest executing thread."""
    return int(warp.rows[register][(threads & -threads).bit_length() - 1])


def _barrier(core: Core, warp: Warp, index: int) -> Barrier:
    """The barrier, if the launch has it."""
    if index >= min(core.launch.barriers, BARRIERS):
        raise WarpFaultError(WarpError.ILLEGAL_INSTR_PARAM2)
    return warp.cta.barriers[index]


def _meet(warp: Warp) -> None:
    """BAR.SYNCALL, whether or not a thread executes it."""
    if not warp.in_trap:
        raise WarpFaultError(WarpError.ILLEGAL_INSTR_ENCODING)
    barrier = warp.cta.barriers[SYNCALL_BARRIER]
    warp.barrier = SYNCALL_BARRIER
    barrier.arrived += 1
    barrier.waiting.append(Arrival(warp))
    settle(warp.cta)


def barrier_action(form: Form, values: Values) -> Action:
    """BAR. Barrier and count come from the lowest executing thread where they are in registers (ours).

    ILLEGAL_INSTR_PARAM2: no such barrier in this launch. ILLEGAL_INSTR_PARAM: a count that is not whole
    warps, or more of them than a barrier's state can say (ours). ILLEGAL_INSTR_ENCODING: ``.SYNCALL`` outside
    the trap handler.
    """
    mode, packed = BarrierMode(values["mode"]), is_packed(form)

    def number(warp: Warp, key: str, threads: int) -> int:
        operand = form.operands[key]
        if isinstance(operand, Register):
            value = _lowest(warp, values[operand.field], threads)
            if not packed:
                return value
            return value & ~PACKED_COUNT.mask if key == "a" else PACKED_COUNT.get(value)
        assert isinstance(operand, Immediate)
        return values[operand.field]

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if mode is BarrierMode.SYNCALL:
            _meet(warp)
            return
        if not threads:
            return
        index, count = number(warp, "a", threads), number(warp, "b", threads)
        barrier = _barrier(core, warp, index)
        if count % WARP_THREADS or count // WARP_THREADS >> _FIELDS["expected"][1]:
            raise WarpFaultError(WarpError.ILLEGAL_INSTR_PARAM)
        arrival = Arrival(warp)
        if mode in (BarrierMode.RED, BarrierMode.SCAN):
            predicate = warp.predicates[values["Pc"]] ^ (ALL_THREADS if values["Pc_not"] else 0)
            if mode is BarrierMode.SCAN:
                warp.reduction = barrier.population
            arrival = Arrival(warp, BarrierReduction(values["reduction"]) if mode is BarrierMode.RED else None,
                              population=(predicate & threads).bit_count(),
                              some_false=int(predicate & threads != threads), some_true=int(predicate & threads != 0))
            barrier.population += arrival.population
            barrier.population &= (1 << _FIELDS["population"][1]) - 1
            barrier.some_false |= arrival.some_false
            barrier.some_true |= arrival.some_true
        barrier.arrived += 1
        barrier.expected = count // WARP_THREADS
        if mode is not BarrierMode.ARV:
            warp.barrier = index
            barrier.waiting.append(arrival)
        settle(warp.cta)

    return run


def read_action(form: Form, values: Values) -> Action:
    """B2R: a barrier's state; the warp's last result, and as a predicate whether it is not 0; or, with
    ``.WARP``, 0: a warp that executes waits at no barrier (ours).
    """
    mode = BarrierRead(values["mode"])

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        number = 0
        if mode is BarrierRead.BARRIER:
            number = _barrier(core, warp, values["barrier"]).pack()
        elif mode is BarrierRead.RESULT:
            number = warp.reduction
            warp.write_predicate(record, values["Pd"], ALL_THREADS if number else 0, threads)
        warp.write_register(record, values["Rd"], uniform(number), threads)

    return run


def write_action(form: Form, values: Values) -> Action:
    """R2B: sets from the lowest executing thread's register what B2R reads; ``.WARP`` has nothing to set (ours)."""
    mode = BarrierRead(values["mode"])

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        number = _lowest(warp, values["Rb"], threads)
        if mode is BarrierRead.BARRIER:
            _barrier(core, warp, values["barrier"]).unpack(number)
            settle(warp.cta)
        elif mode is BarrierRead.RESULT:
            warp.reduction = int(np.uint32(number))

    return run
