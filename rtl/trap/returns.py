"""Where a warp that enters the trap returns to, and how it leaves."""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.layouts import (
    ErrorEvents,
    Event,
    InstructionKind,
    dispatched,
    warp_launch,
)
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.sweep import Sweep

from .decode import return_mode
from .error_log import ErrorLog
from .flags import WarpFlags, words_in_luts
from .states import WarpTrapView, trap_passage

__all__ = ["LoggedReturns", "ReturnPoints"]


class ReturnPoints(Component):
    """Keeps the pc to which each warp would return, and the error with which it has entered.

    A warp that enters the trap comes back to the instruction that failed, of several to the oldest;
    to its BAR, if that waited and was withdrawn; else to its next instruction.

    Members
    -------
    dispatch, launch, errors, withdrawn
        See TrapUnit.
    warps : In(WarpTrapView)
        LoggedReturns reads ``inside`` alone; the other members are for the serial machine
        (rtl/serial/trap).
    pc : Out(32)
        Where the warp comes back to whose ENTER is dispatched.
    mode : Out(ReturnFromTrapMode)
        The mode of the RTT with which the warp leaves whose LEAVE is dispatched.
    status_warp, error : In, Out(WarpError)
        The error with which that warp has entered; undefined if it has none.
    """

    def __init__(self, params: SmParams, **others: Any) -> None:
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "launch": In(Event(warp_launch(params))),
            "errors": In(ErrorEvents(params)),
            "withdrawn": In(Event(params.warp_bits)),
            "warps": In(WarpTrapView(params)),
            "pc": Out(32),
            "mode": Out(ReturnFromTrapMode),
            "status_warp": In(params.warp_bits),
            "error": Out(WarpError),
            **others,
        })

    @abstractmethod
    def elaborate(self, platform: object) -> Module:
        ...


def instruction_before(pc: Value) -> Value:
    """The pc of the instruction before this one. A group has 32 bytes: a control code and three
    instructions, number 1 to 3; before the first one is the third one of the group before."""
    assert GROUP_BYTES == 4 * INSTRUCTION_BYTES
    number = pc[3:5]
    group = pc[5:]
    is_first = number == 1
    number_before = Mux(is_first, 3, number - 1)[:2]
    group_before = (group - is_first)[:len(group)]
    return Cat(pc[:3], number_before, group_before)


class LoggedReturns(ReturnPoints):
    """ReturnPoints for a machine with many instructions in flight, which reads the log of errors.

    An instruction that failed and could not be overtaken, or that was withdrawn from a barrier, is
    the one that the warp issued last: its pc is that before the next one. For other failed
    instructions the log has the pc.

    Attributes
    ----------
    log : ErrorLog
    was_withdrawn : WarpFlags
        The warp's last instruction is a BAR that was withdrawn since the warp entered last.
    modes : Words
        The mode of the last RTT of each warp.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self._params = params
        self.log = ErrorLog(params)
        self.sweep = Sweep(params.warps)
        self.was_withdrawn = WarpFlags.in_luts(params, self.sweep)
        self.modes = words_in_luts(ReturnFromTrapMode, params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.log = self.log
        m.submodules.sweep = self.sweep
        m.submodules.withdrawals = self.was_withdrawn.sets
        m.submodules.entries = self.was_withdrawn.clears
        m.submodules.modes = self.modes
        instruction = self.dispatch.payload
        enters = Signal()
        m.d.comb += enters.eq(
            self.dispatch.valid & (instruction.kind == InstructionKind.ENTER))
        self._connect_log(m, enters)
        self._select_pc(m, enters)

        is_instruction = self.dispatch.valid & (instruction.kind == InstructionKind.TRAP)
        self.modes.write(m, is_instruction, instruction.warp, return_mode(instruction.word))
        m.d.comb += self.mode.eq(self.modes.read(m, instruction.warp))
        return m

    def _connect_log(self, m: Module, enters: Value) -> None:
        """Errors, and what clears them."""
        log = self.log
        instruction = self.dispatch.payload
        leaves = self.dispatch.valid & (instruction.kind == InstructionKind.LEAVE)
        connect(m, flipped(self.errors), log.errors)
        connect(m, flipped(self.launch), log.launch)
        m.d.comb += log.inside.eq(self.warps.state.inside)
        m.d.comb += log.moved.valid.eq(enters | leaves)
        m.d.comb += log.moved.payload.eq(struct_value(
            trap_passage(self._params), warp=instruction.warp, enters=enters))
        m.d.comb += log.status_warp.eq(self.status_warp)
        m.d.comb += self.error.as_value().eq(log.error)

    def _select_pc(self, m: Module, enters: Value) -> None:
        """Where the warp comes back to that enters."""
        log = self.log
        instruction = self.dispatch.payload
        flags = self.was_withdrawn
        flags.set(m, self.withdrawn.valid, self.withdrawn.payload)
        flags.clear(m, enters, instruction.warp)
        was_withdrawn = flags.read(m, instruction.warp)
        with m.If(log.overtaken):
            m.d.comb += self.pc.eq(log.pc)
        with m.Elif(log.last_failed | was_withdrawn):
            m.d.comb += self.pc.eq(instruction_before(instruction.pc))
        with m.Else():
            m.d.comb += self.pc.eq(instruction.pc)
