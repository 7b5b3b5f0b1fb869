"""Special registers, shuffles, breakpoints and traps, and the instructions without effect on this
model.
"""

from collections.abc import Callable, Mapping

import numpy as np

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode, ShuffleMode
from rtl.isa.special_registers import (
    SHARED_BANKS,
    VIRTUAL_SM_AT,
    VIRTUAL_WARP_AT,
    SpecialRegister,
    packed_coordinates,
)
from rtl.isa.syntax import Form, Immediate, Values
from rtl.isa.trap_status import TRAP_REASONS
from rtl.params import WARP_THREADS
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES

from .action import Action, Core, Maker, of_fields
from .faults import WarpFaultError
from .flow import write_back_action
from .retirement import Retirement
from .state import Warp
from .vector.lanes import Words, bits_of, mask_of, uniform

__all__ = ["SYSTEM", "special_register"]

_LANES = np.arange(WARP_THREADS, dtype=np.uint32)
_Read = Callable[[Core, Warp], Words]


def _lane_mask(relation: Callable[[int, int], bool]) -> _Read:
    """Returns, for each thread, the mask of the threads in a relation to it."""
    masks = np.array(
        [
            sum(1 << other for other in range(WARP_THREADS) if relation(other, own))
            for own in range(WARP_THREADS)
        ],
        np.uint32,
    )
    return lambda core, warp: masks


def _packed(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Words:
    """Packs three coordinates into one register."""
    return packed_coordinates(x, y, z).astype(np.uint32)


def _number(read: Callable[[Core, Warp], int]) -> _Read:
    """Returns a reader of a value that is the same for all threads."""
    return lambda core, warp: uniform(read(core, warp))


_SPECIAL: Mapping[int, _Read] = {
    SpecialRegister.LANEID: lambda core, warp: _LANES,
    SpecialRegister.TID_X: lambda core, warp: warp.thread_index[0].astype(np.uint32),
    SpecialRegister.TID_Y: lambda core, warp: warp.thread_index[1].astype(np.uint32),
    SpecialRegister.TID_Z: lambda core, warp: warp.thread_index[2].astype(np.uint32),
    SpecialRegister.TID: lambda core, warp: _packed(*warp.thread_index),
    SpecialRegister.NTID: lambda core, warp: _packed(
        *(np.full(WARP_THREADS, size) for size in core.launch.block)
    ),
    SpecialRegister.CTAID_X: _number(lambda core, warp: warp.cta.index[0]),
    SpecialRegister.CTAID_Y: _number(lambda core, warp: warp.cta.index[1]),
    SpecialRegister.CTAID_Z: _number(lambda core, warp: warp.cta.index[2]),
    SpecialRegister.EQMASK: _lane_mask(lambda other, own: other == own),
    SpecialRegister.LTMASK: _lane_mask(lambda other, own: other < own),
    SpecialRegister.LEMASK: _lane_mask(lambda other, own: other <= own),
    SpecialRegister.GTMASK: _lane_mask(lambda other, own: other > own),
    SpecialRegister.GEMASK: _lane_mask(lambda other, own: other >= own),
    SpecialRegister.VIRTID: _number(lambda core, warp: warp.slot << VIRTUAL_WARP_AT),
    SpecialRegister.VIRTCFG: _number(
        lambda core, warp: core.slots << VIRTUAL_WARP_AT | 1 << VIRTUAL_SM_AT
    ),
    **dict.fromkeys(
        (SpecialRegister.CLOCK, SpecialRegister.CLOCKLO, SpecialRegister.GLOBALTIMERLO),
        _number(lambda core, warp: core.clock),
    ),
    **dict.fromkeys(
        (SpecialRegister.CLOCKHI, SpecialRegister.GLOBALTIMERHI),
        _number(lambda core, warp: core.clock >> 32),
    ),
    SpecialRegister.SWINLO: _number(lambda core, warp: SHARED_WINDOW),
    SpecialRegister.LWINLO: _number(lambda core, warp: LOCAL_WINDOW),
    **dict.fromkeys(
        (SpecialRegister.SWINSZ, SpecialRegister.LWINSZ), _number(lambda core, warp: WINDOW_BYTES)
    ),
    SpecialRegister.SMEMSZ: _number(lambda core, warp: core.launch.shared),
    SpecialRegister.SMEMBANKS: _number(lambda core, warp: SHARED_BANKS),
    SpecialRegister.LMEMLOSZ: _number(lambda core, warp: core.launch.local),
    SpecialRegister.REGALLOC: _number(lambda core, warp: core.launch.registers),
    SpecialRegister.GLOBALERRORSTATUS: _number(lambda core, warp: core.traps.status),
    **dict.fromkeys(
        (SpecialRegister.WARPERRORSTATUS, SpecialRegister.WARPERRORSTATUSCLEAR),
        _number(lambda core, warp: warp.trap.status),
    ),
}
"""Readers of special registers. Registers without a meaning on this machine read 0.

Ours: one SM; all clocks count the machine's retired instructions; a stack in local memory may grow
down to its first byte (LMEMHIOFF is 0).
"""
_NOTHING = _number(lambda core, warp: 0)


def special_register(number: int) -> Callable[[Core, Warp], Words]:
    """Returns the reader of a special register."""
    return _SPECIAL.get(number, _NOTHING)


@of_fields
def _read_special(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """S2R and CS2R. A read of WARPERRORSTATUSCLEAR clears the warp's error status."""
    number, destination = values["special"], values["Rd"]
    if threads:
        warp.write_register(record, destination, special_register(number)(core, warp), threads)
        if number == SpecialRegister.WARPERRORSTATUSCLEAR:
            warp.trap.forget()


@of_fields
def _read_pc(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """LEPC: the next instruction's pc (ours)."""
    if threads:
        warp.write_register(record, values["Rd"], uniform(record.next_pc), threads)


def _shuffle(form: Form, values: Values) -> Action:
    """SHFL: reads a of another thread of the same segment; the predicate is whether there was one.

    c holds the last thread of a segment in bits 4:0 and the segment's mask in bits 12:8. If the
    other thread does not execute the instruction, the value is 0 (ours); the predicate is as if it
    did.
    """
    mode = ShuffleMode(values["mode"])

    def operand(warp: Warp, key: str, register: str) -> Words:
        immediate = form.operands[key]
        return (
            uniform(values[immediate.field])
            if isinstance(immediate, Immediate)
            else warp.rows[values[register]]
        )

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        five = np.uint32(31)
        step, control = operand(warp, "b", "Rb") & five, operand(warp, "c", "Rc")
        segment = control >> np.uint32(8) & five
        lowest = _LANES & segment
        last = lowest | control & five & ~segment
        match mode:
            case ShuffleMode.IDX:
                source = lowest | step & ~segment
            case ShuffleMode.UP:
                source = _LANES - step
            case ShuffleMode.DOWN:
                source = _LANES + step
            case ShuffleMode.BFLY:
                source = _LANES ^ step
        reached, bound = source.view(np.int32), last.view(np.int32)
        inside = reached >= bound if mode is ShuffleMode.UP else reached <= bound
        registers = np.where(bits_of(threads), warp.rows[values["Ra"]], np.uint32(0))
        value = registers[np.where(inside, source, _LANES)]
        warp.write_register(record, values["Rd"], value, threads)
        warp.write_predicate(record, values["Pd"], mask_of(inside), threads)

    return run


def _nothing(form: Form, values: Values) -> Action:
    """Fences, hints and waits have no effect, because the model executes one instruction after the
    other.
    """
    return lambda core, warp, threads, record: None


def _local_cache(form: Form, values: Values) -> Action:
    """CCTLL: writes the call/return stack back; no effect on local memory, which is not cached
    here.
    """
    return write_back_action(form, values) if form.variant == "stack" else _nothing(form, values)


def _in_trap(warp: Warp) -> None:
    """Raises WarpFaultError with ILLEGAL_INSTR_ENCODING outside the trap handler."""
    if not warp.in_trap:
        raise WarpFaultError(WarpError.ILLEGAL_INSTR_ENCODING)


@of_fields
def _breakpoint(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """BPT. ILLEGAL_INSTR_PARAM for a BPT.TRAP without a valid reason; ILLEGAL_INSTR_ENCODING for a
    pause outside the trap handler, and for modes without a public meaning.
    """
    mode, reason = BreakpointMode(values["mode"]), values["reason"]
    match mode:
        case BreakpointMode.TRAP:
            if reason not in TRAP_REASONS:
                raise WarpFaultError(WarpError.ILLEGAL_INSTR_PARAM)
            core.traps.breakpoint(warp, reason, record.pc)
        case BreakpointMode.INT:
            core.raised.add("BPT_INT")
        case BreakpointMode.DRAIN:
            pass
        case BreakpointMode.PAUSE | BreakpointMode.PAUSE_QUIET:
            _in_trap(warp)
            core.traps.pause(warp, quiet=mode is BreakpointMode.PAUSE_QUIET)
        case _:
            raise WarpFaultError(WarpError.ILLEGAL_INSTR_ENCODING)


@of_fields
def _mask_traps(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """IDE masks or unmasks traps of the warp."""
    warp.traps_masked = bool(values["disable"])


@of_fields
def _return_from_trap(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """RTT: the warp waits to leave the trap handler. ILLEGAL_INSTR_ENCODING outside, and for the
    mode without a public meaning.
    """
    mode = ReturnFromTrapMode(values["mode"])
    _in_trap(warp)
    if mode is ReturnFromTrapMode.PREEMPTED:
        raise WarpFaultError(WarpError.ILLEGAL_INSTR_ENCODING)
    warp.trap.returning = mode


SYSTEM: Mapping[str, Maker] = {
    "S2R": _read_special,
    "CS2R": _read_special,
    "LEPC": _read_pc,
    "SHFL": _shuffle,
    **dict.fromkeys(("NOP", "DEPBAR", "MEMBAR", "CCTL"), _nothing),
    "CCTLL": _local_cache,
    "BPT": _breakpoint,
    "IDE": _mask_traps,
    "RTT": _return_from_trap,
}
"""Makers of these instructions."""
