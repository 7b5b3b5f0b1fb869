"""Special registers, votes, shuffles, barriers and traps.

VOTE and SHFL are meetings of the threads of a group that are at the same instruction; they treat
the group's other threads as inactive. A shuffle that reads an inactive thread, or one that the CTA
does not have, returns 0 (ours: PTX leaves the value undefined).

A barrier's thread count is rounded up to whole groups; 0 means all groups of the CTA. BAR.ARV is a
meeting, too: the threads that arrive together count once.

Choices of this project: the packed SR_TID and SR_NTID have x in bits 15:0, y in 25:16, z in 31:26;
SR_VIRTID has the group's number as warp number and 0 as SM number; the GPU has one SM; SR_SMEMSZ is
the size of the CTA's shared memory; SR_REGALLOC the kernel's registers; SR_LMEMLOSZ the size of a
thread's local memory in bytes. SR_LMEMHIOFF is 0, the first address of that memory: unoptimised
code traps when its stack pointer is below it. A thread's clock advances when the thread reads one.
Other registers read 0.
"""

from collections.abc import Callable
from functools import partial

from rtl.isa.barriers import BARRIERS, PACKED_COUNT, is_packed
from rtl.isa.errors import WarpError
from rtl.isa.kinds import (
    BarrierMode,
    BarrierRead,
    BarrierReduction,
    BreakpointMode,
    ShuffleMode,
    VoteMode,
)
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import Immediate
from rtl.params import WARP_THREADS
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from sim.model.threads import WAITING, BarrierWait, shuffle_source

from .decode import Result, ThreadInstruction, result_of, semantics
from .integers import WORD
from .state import FaultError, Operation, Thread, TrappedError

__all__: list[str] = []

_LAST_MASKABLE_REASON, _LAST_REASON = 6, 7
_SHARED_BANKS = 32
_WARP_NUMBER_AT, _SM_COUNT_AT = 8, 20


def _tick(thread: Thread) -> int:
    thread.clock += 1
    return thread.clock


def _packed(position: tuple[int, int, int]) -> int:
    x, y, z = position
    return x | y << 16 | z << 26


_SPECIAL: dict[int, Callable[[Thread], int]] = {
    SpecialRegister.LANEID: lambda thread: thread.lane,
    SpecialRegister.CLOCK: _tick,
    SpecialRegister.VIRTCFG: lambda thread: 1 << _SM_COUNT_AT,
    SpecialRegister.VIRTID: lambda thread: thread.group.number << _WARP_NUMBER_AT,
    SpecialRegister.TID: lambda thread: _packed(thread.position),
    SpecialRegister.TID_X: lambda thread: thread.position[0],
    SpecialRegister.TID_Y: lambda thread: thread.position[1],
    SpecialRegister.TID_Z: lambda thread: thread.position[2],
    SpecialRegister.CTAID_X: lambda thread: thread.cta.position[0],
    SpecialRegister.CTAID_Y: lambda thread: thread.cta.position[1],
    SpecialRegister.CTAID_Z: lambda thread: thread.cta.position[2],
    SpecialRegister.NTID: lambda thread: _packed(thread.cta.launch.block),
    SpecialRegister.SWINLO: lambda thread: SHARED_WINDOW,
    SpecialRegister.SWINSZ: lambda thread: WINDOW_BYTES,
    SpecialRegister.SMEMSZ: lambda thread: thread.cta.launch.shared,
    SpecialRegister.SMEMBANKS: lambda thread: _SHARED_BANKS,
    SpecialRegister.LWINLO: lambda thread: LOCAL_WINDOW,
    SpecialRegister.LWINSZ: lambda thread: WINDOW_BYTES,
    SpecialRegister.LMEMLOSZ: lambda thread: thread.cta.launch.local,
    SpecialRegister.EQMASK: lambda thread: 1 << thread.lane,
    SpecialRegister.LTMASK: lambda thread: (1 << thread.lane) - 1,
    SpecialRegister.LEMASK: lambda thread: (2 << thread.lane) - 1,
    SpecialRegister.GTMASK: lambda thread: -2 << thread.lane,
    SpecialRegister.GEMASK: lambda thread: -1 << thread.lane,
    SpecialRegister.REGALLOC: lambda thread: thread.cta.launch.registers,
    SpecialRegister.CLOCKLO: _tick,
    SpecialRegister.GLOBALTIMERLO: _tick,
}


@result_of("S2R", "CS2R")
def _read_special(i: ThreadInstruction) -> Result:
    read = _SPECIAL.get(i["special"], lambda _: 0)

    def compute(thread: Thread) -> int:
        return read(thread) & WORD

    return compute


@semantics("NOP", "DEPBAR")
def _nothing(_: ThreadInstruction) -> Operation:
    return lambda _: None


def _meeting(i: ThreadInstruction, meet: Callable[[list[Thread]], None]) -> Operation:
    """Returns an operation that waits until no thread of the group runs; ``meet`` then executes it
    for the threads that wait here.
    """
    index = i.index

    def operation(thread: Thread) -> int:
        thread.index, thread.meeting = index, meet
        return WAITING

    return operation


@semantics("VOTE")
def _vote(i: ThreadInstruction) -> Operation:
    """Writes the mask of threads whose predicate is true, and whether all are, any is, or all are
    equal.
    """
    d, p, mode = i.destination(), i.predicate_destination("p"), VoteMode(i["mode"])
    x, negated = i.predicate("x")

    def meet(members: list[Thread]) -> None:
        ballot = sum(1 << thread.lane for thread in members if thread.predicates[x] != negated)
        everybody = sum(1 << thread.lane for thread in members)
        holds = {
            VoteMode.ALL: ballot == everybody,
            VoteMode.ANY: ballot != 0,
            VoteMode.EQ: ballot in (0, everybody),
        }[mode]
        for thread in members:
            thread.values[d] = ballot
            thread.predicates[p] = int(holds)

    return _meeting(i, meet)


@semantics("SHFL")
def _shuffle(i: ThreadInstruction) -> Operation:
    """A thread that does not take part contributes 0 (ours)."""
    d, p, a, b, c = (
        i.destination(),
        i.predicate_destination("p"),
        i.source("a"),
        i.source("b"),
        i.source("c"),
    )
    mode = ShuffleMode(i["mode"])

    def meet(members: list[Thread]) -> None:
        values_of_lanes = {thread.lane: thread.values[a] for thread in members}
        for thread in members:
            source, inside = shuffle_source(mode, thread.lane, thread.values[b], thread.values[c])
            thread.values[d] = values_of_lanes.get(source if inside else thread.lane, 0)
            thread.predicates[p] = int(inside)

    return _meeting(i, meet)


_REDUCTIONS: dict[BarrierReduction, Callable[[list[int]], int]] = {
    BarrierReduction.POPC: sum,
    BarrierReduction.AND: lambda votes: int(all(votes)),
    BarrierReduction.OR: lambda votes: int(any(votes)),
}


def _either(i: ThreadInstruction, role: str, field: str) -> Callable[[Thread], int]:
    """Returns a function that reads an operand of BAR from an immediate or a register."""
    operand = i.form.operands[role]
    if isinstance(operand, Immediate):
        number = i[field]
        return lambda _: number
    at = i.source(role)
    if not is_packed(i.form):
        return lambda thread: thread.values[at]
    if role == "a":
        return lambda thread: thread.values[at] & ~PACKED_COUNT.mask
    return lambda thread: PACKED_COUNT.get(thread.values[at])


@semantics("BAR")
def _barrier(i: ThreadInstruction) -> Operation:
    mode = BarrierMode(i["mode"])
    if mode is BarrierMode.SYNCALL:
        raise FaultError(
            WarpError.ILLEGAL_INSTR_ENCODING, "BAR.SYNCALL is for the trap handler alone"
        )
    if mode is BarrierMode.SCAN:
        raise FaultError(
            None, "BAR.SCAN counts by the order in which warps arrive, and this model has no warps"
        )
    barrier, count = _either(i, "a", "barrier"), _either(i, "b", "count")
    combine = _REDUCTIONS[BarrierReduction(i["reduction"])] if mode is BarrierMode.RED else None
    x, negated = i.predicate("x") if combine else (0, 0)

    def where(thread: Thread) -> tuple[int, int | None]:
        number, threads = barrier(thread), count(thread)
        if number >= BARRIERS:
            raise FaultError(
                WarpError.ILLEGAL_INSTR_PARAM, f"barrier {number} is not one of {BARRIERS}"
            )
        return number, -(-threads // WARP_THREADS) or None

    def wait(thread: Thread) -> int:
        number, groups = where(thread)
        thread.index = i.index
        thread.arrival = (
            BarrierWait(number, groups)
            if combine is None
            else BarrierWait(
                number, groups, thread.predicates[x] ^ negated, partial(finish, thread)
            )
        )
        return WAITING

    def finish(thread: Thread, votes: list[int]) -> None:
        assert combine is not None
        thread.barrier_result = combine(votes)

    def meet(members: list[Thread]) -> None:
        members[0].cta.arrive(*where(members[0]))

    meet_at_barrier = _meeting(i, meet)

    def arrive(thread: Thread) -> int | None:
        where(thread)
        return meet_at_barrier(thread)

    return arrive if mode is BarrierMode.ARV else wait


@semantics("B2R")
def _read_barrier(i: ThreadInstruction) -> Operation:
    """Reads the result of the thread's last BAR.RED; the predicate is whether it is not 0."""
    if BarrierRead(i["mode"]) is not BarrierRead.RESULT:
        raise FaultError(
            None, "B2R of a barrier's or warp's state is about warps, and here are none"
        )
    d, p = i.destination(), i.predicate_destination("p")

    def operation(thread: Thread) -> None:
        thread.values[d] = thread.barrier_result
        thread.predicates[p] = int(thread.barrier_result != 0)

    return operation


@semantics("R2B")
def _write_barrier(_: ThreadInstruction) -> Operation:
    raise FaultError(
        None, "R2B is about a barrier's state as the machine keeps it, and here is none"
    )


@semantics("BPT")
def _breakpoint(i: ThreadInstruction) -> Operation:
    """BPT.TRAP ends the run. If IDE masks its reason it stays pending until IDE.EN."""
    mode, reason = i["mode"], i["reason"]
    if mode in (BreakpointMode.INT.value, BreakpointMode.DRAIN.value):
        return lambda _: None
    if mode != BreakpointMode.TRAP.value:
        raise FaultError(
            WarpError.ILLEGAL_INSTR_ENCODING, "BPT.PAUSE is for the trap handler alone"
        )
    if not 1 <= reason <= _LAST_REASON:
        raise FaultError(WarpError.ILLEGAL_INSTR_PARAM, f"{reason} is no reason for a trap")

    def operation(thread: Thread) -> None:
        if not (thread.traps_masked and reason <= _LAST_MASKABLE_REASON):
            raise TrappedError(reason)
        thread.pending_trap = thread.pending_trap or reason

    return operation


@semantics("IDE")
def _mask_traps(i: ThreadInstruction) -> Operation:
    disable = bool(i["disable"])

    def operation(thread: Thread) -> None:
        thread.traps_masked = disable
        if thread.pending_trap and not disable:
            raise TrappedError(thread.pending_trap)

    return operation
