"""BAR, and the moves between barriers and registers.

BAR.SYNCALL is reserved for the trap handler: it waits for every live warp of the CTA, at a separate
barrier.

The reductions combine the predicates of the threads that execute BAR.RED. BAR.SCAN gives a warp the
number of threads with a true predicate among the warps that arrived before it by RED or SCAN
(ours).
"""

import numpy as np

from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, is_packed
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.isa.syntax import Form, Immediate, Register, Values
from rtl.params import WARP_THREADS

from .action import Action, Core, of_fields
from .barriers import settle
from .faults import WarpFaultError
from .retirement import Retirement
from .state import BARRIER_FIELDS, Arrival, Barrier, Warp
from .vector.lanes import ALL_THREADS, uniform

__all__ = ["barrier_action", "read_action", "write_action"]


def _lowest(warp: Warp, register: int, threads: int) -> int:
    """Returns the register's value in the lowest executing thread."""
    return int(warp.rows[register][(threads & -threads).bit_length() - 1])


def _barrier(core: Core, warp: Warp, index: int) -> Barrier:
    """Returns a barrier of the warp's CTA; WarpFaultError if the launch does not have it."""
    if index >= min(core.launch.barriers, BARRIERS):
        raise WarpFaultError(WarpError.ILLEGAL_INSTR_PARAM2)
    return warp.cta.barriers[index]


def _meet(warp: Warp) -> None:
    """BAR.SYNCALL: the warp arrives even if no thread executes the instruction."""
    if not warp.in_trap:
        raise WarpFaultError(WarpError.ILLEGAL_INSTR_ENCODING)
    barrier = warp.cta.barriers[SYNCALL_BARRIER]
    warp.barrier = SYNCALL_BARRIER
    barrier.arrived += 1
    barrier.waiting.append(Arrival(warp))
    settle(warp.cta)


def barrier_action(form: Form, values: Values) -> Action:
    """BAR. Register operands are read from the lowest executing thread (ours).

    Errors of the instruction:
        ILLEGAL_INSTR_PARAM2: The launch has no such barrier.
        ILLEGAL_INSTR_PARAM: The count is no multiple of a warp, or too large for a barrier's state
            (ours).
        ILLEGAL_INSTR_ENCODING: ``.SYNCALL`` outside the trap handler.
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
        if count % WARP_THREADS or count // WARP_THREADS >> BARRIER_FIELDS["expected"][1]:
            raise WarpFaultError(WarpError.ILLEGAL_INSTR_PARAM)
        arrival = Arrival(warp)
        if mode in (BarrierMode.RED, BarrierMode.SCAN):
            predicate = warp.predicates[values["Pc"]] ^ (ALL_THREADS if values["Pc_not"] else 0)
            if mode is BarrierMode.SCAN:
                warp.reduction = barrier.population
            arrival = Arrival(
                warp,
                BarrierReduction(values["reduction"]) if mode is BarrierMode.RED else None,
                population=(predicate & threads).bit_count(),
                some_false=int(predicate & threads != threads),
                some_true=int(predicate & threads != 0),
            )
            barrier.population += arrival.population
            barrier.population &= (1 << BARRIER_FIELDS["population"][1]) - 1
            barrier.some_false |= arrival.some_false
            barrier.some_true |= arrival.some_true
        barrier.arrived += 1
        barrier.expected = count // WARP_THREADS
        if mode is not BarrierMode.ARV:
            warp.barrier = index
            barrier.waiting.append(arrival)
        settle(warp.cta)

    return run


@of_fields
def read_action(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """B2R: reads a barrier's state, or the result of the warp's last reduction, with a predicate
    for whether it is not 0.

    With ``.WARP`` it reads 0: a warp that executes waits at no barrier (ours).
    """
    mode = BarrierRead(values["mode"])
    if not threads:
        return
    number = 0
    if mode is BarrierRead.BARRIER:
        number = _barrier(core, warp, values["barrier"]).pack()
    elif mode is BarrierRead.RESULT:
        number = warp.reduction
        warp.write_predicate(record, values["Pd"], ALL_THREADS if number else 0, threads)
    warp.write_register(record, values["Rd"], uniform(number), threads)


@of_fields
def write_action(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """R2B: sets the state that B2R reads, from the lowest executing thread's register; ``.WARP``
    has no effect (ours).
    """
    mode = BarrierRead(values["mode"])
    if not threads:
        return
    number = _lowest(warp, values["Rb"], threads)
    if mode is BarrierRead.BARRIER:
        _barrier(core, warp, values["barrier"]).unpack(number)
        settle(warp.cta)
    elif mode is BarrierRead.RESULT:
        warp.reduction = int(np.uint32(number))
