"""The trap unit, joined."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.layouts import (
    ERROR_SOURCES,
    REPORT_BITS,
    TIMEOUT_BITS,
    Event,
    EventLayout,
    FlowOperation,
    InstructionKind,
    TrapCommand,
    TrapEvents,
    TrapMove,
    TrapReport,
    TrapStatus,
    completion,
    dispatched,
    error_event,
    flow_result,
    reported,
    warp_launch,
)
from rtl.params import SmParams
from rtl.word import field_of, pattern_of
from rtl.words import Words

from .errors import WarpErrors
from .machine import SmTrap
from .warps import TrapOperation, WarpTraps

__all__ = ["TrapUnit"]

(_BPT,), (_IDE,), (_RTT,) = (BY_NAME[name] for name in ("BPT", "IDE", "RTT"))
_MEANINGS = (
    (_BPT, "mode", {
        BreakpointMode.TRAP.value: (TrapOperation.TRAP, TrapOperation.FAIL),
        BreakpointMode.INT.value: (TrapOperation.GO_ON, TrapOperation.GO_ON),
        BreakpointMode.DRAIN.value: (TrapOperation.GO_ON, TrapOperation.GO_ON),
        BreakpointMode.PAUSE.value: (None, TrapOperation.PAUSE),
        BreakpointMode.PAUSE_QUIET.value: (None, TrapOperation.PAUSE_QUIET)}),
    (_IDE, "disable", {
        0: (TrapOperation.UNMASK, TrapOperation.UNMASK),
        1: (TrapOperation.MASK, TrapOperation.MASK)}),
    (_RTT, "mode", {
        ReturnFromTrapMode.POPCRS.value: (None, TrapOperation.WAIT),
        ReturnFromTrapMode.FALLTHROUGH.value: (None, TrapOperation.WAIT),
        ReturnFromTrapMode.TERMINATE.value: (None, TrapOperation.TERMINATE)}))
"""What an instruction does outside the trap, and inside. None: ILLEGAL_INSTR_ENCODING, as whatever is not here."""
_RETURNS = {ReturnFromTrapMode.POPCRS: FlowOperation.RESTORE, ReturnFromTrapMode.FALLTHROUGH: FlowOperation.LEAVE_TRAP,
            ReturnFromTrapMode.TERMINATE: FlowOperation.TERMINATE}


class TrapUnit(Component):
    """Takes an instruction in every cycle, and answers in the next one.

    Members
    -------
    dispatch, room : In(EventLayout of dispatched), Out(1)
        Kinds TRAP, ENTER and LEAVE. There always is room.
    flow : Out(TrapMove)
        What the flow unit does for the ENTER or LEAVE that is dispatched in this cycle.
    launch : In(EventLayout of warp_launch)
    live, taken, drained : In(warps)
        Of issue: warps that have begun and not ended; an instruction of the warp is selected; none is in flight.
    starting : In(1)
        Of the work distributor: a CTA is being started.
    result : In(Event of flow_result)
    waiting : In(warps)
        Warps that wait at a barrier.
    withdraw, withdrawn : Out(valid and warp), In(valid and warp)
        For the barrier unit: the arrival of a warp is to be taken back; it has been.
    errors : In(array of error_event), by ERROR_SOURCES
        All reported errors.
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing.
    command : In(TrapCommand)
    hold, enter, leave, inside : Out(warps)
        See IssueUnit. Warps that are in the trap.
    resume : Out(warps)
        For one cycle: the warp goes on.
    status_warp, status, all_status : In, Out(WarpStatus), Out(32)
        What S2R tells of a warp, and of all. While there are warps that have executed a BPT.TRAP, reasons of those that
        have left are told for some time: each warp is looked at once in as many cycles as there are, or later while
        warps are taken from barriers.
    clear_status : In(1)
        The status of ``status_warp`` has been read by what clears it.
    state, events, report : Out(TrapStatus), Out(TrapEvents), Out(TrapReport)
    completion, error : Out(completion), Out(error_event)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        warp_event = data.StructLayout({"valid": 1, "warp": bits})
        super().__init__({
            "dispatch": In(EventLayout(dispatched(params))), "room": Out(1), "flow": Out(TrapMove),
            "launch": In(EventLayout(warp_launch(params))), "live": In(warps), "starting": In(1), "taken": In(warps),
            "drained": In(warps), "result": In(Event(flow_result(params))), "waiting": In(warps),
            "withdraw": Out(warp_event), "withdrawn": In(warp_event),
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))), "report_mask": In(REPORT_BITS),
            "command": In(TrapCommand(params)), "hold": Out(warps), "enter": Out(warps), "leave": Out(warps),
            "inside": Out(warps), "resume": Out(warps), "status_warp": In(bits), "status": Out(WarpStatus),
            "all_status": Out(32), "clear_status": In(1), "state": Out(TrapStatus(params)),
            "events": Out(TrapEvents), "report": Out(TrapReport(params)), "completion": Out(completion(params)),
            "error": Out(error_event(params))})
        self.warps = WarpTraps(params)
        self.machine = SmTrap(params)
        self.failures = WarpErrors(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.warps, m.submodules.machine, m.submodules.failures = self.warps, self.machine, self.failures
        warps, machine, failures, command = self.warps, self.machine, self.failures, self.command
        self.join(m, warps, "live", "taken", "drained", "waiting", "launch", "errors", "result", "command", "hold",
                  "enter", "inside", "resume", leave="leaving")
        self.join(m, machine, "live", "starting")
        self.join(m, failures, "errors", "launch", status_warp="warp")
        pass_on(m, warps, machine, "paused", "quiet", "returning", "cause", "insisting")
        pass_on(m, machine, warps, "trapping", "urgent", "release")
        pass_on(m, machine, self.state, "trapping", "locked_down")
        m.d.comb += [
            machine.stop.eq(command.stop), failures.outside.eq(warps.outside),
            warps.clears_status.valid.eq(self.clear_status), warps.clears_status.payload.eq(self.status_warp),
            self.state.paused.eq(self.live & warps.paused), self.state.trapped.eq(self.live & warps.trapped)]
        m.d.sync += [self.events.pause.eq(warps.pauses), self.events.error_in_trap.eq(warps.fails),
                     self.events.step.eq(warps.steps)]
        self._execute(m)
        self._move(m)
        self._watch(m)
        return m

    def _execute(self, m: Module) -> None:
        """BPT, IDE and RTT."""
        instruction, warps = self.dispatch.payload, self.warps
        word, asks, refused, traps, operation = (
            instruction.word, Signal(), Signal(), Signal(), Signal(TrapOperation))
        error = Signal(WarpError, init=WarpError.ILLEGAL_INSTR_ENCODING)
        mode, reason = (field_of(word, _BPT.fields[name]) for name in ("mode", "reason"))
        inside = self.inside.bit_select(instruction.warp, 1)
        with m.Switch(word):
            for form, field, meanings in _MEANINGS:
                with m.Case(pattern_of(form)), m.Switch(field_of(word, form.fields[field])):
                    for value, (outside, within) in meanings.items():
                        legal, wrong = inside if outside is None else 1, WarpError.ILLEGAL_INSTR_ENCODING
                        if outside is TrapOperation.TRAP:
                            legal = (reason >= TRAP_REASONS.start) & (reason < TRAP_REASONS.stop)
                            wrong = WarpError.ILLEGAL_INSTR_PARAM
                            outside = Mux(reason == TRAP_REASONS.stop - 1, TrapOperation.URGENT_TRAP, outside)
                        does = within if outside is None else Mux(inside, within, outside)
                        with m.Case(value):
                            m.d.comb += [operation.eq(Mux(legal, does, TrapOperation.GO_ON)),
                                         error.eq(Mux(legal, WarpError.NONE, wrong))]

        # What it does to the warp, and what is told of it.
        m.d.comb += [
            self.room.eq(1), asks.eq(self.dispatch.valid & (instruction.kind == InstructionKind.TRAP)),
            refused.eq(reported(self.report_mask, error)), warps.step.asks.eq(asks & ~refused),
            warps.step.operation.eq(operation), warps.step.warp.eq(instruction.warp),
            traps.eq(asks & operation.as_value().matches(TrapOperation.TRAP, TrapOperation.URGENT_TRAP))]
        pass_on(m, instruction, self.completion, "warp", "serial", "write_barrier", "read_barrier", domain="sync")
        pass_on(m, instruction, self.error, "warp", "pc", domain="sync")
        m.d.sync += [
            self.completion.valid.eq(asks), self.error.valid.eq(asks & refused), self.report.warp.eq(instruction.warp),
            self.error.error.eq(error), self.report.pc.eq(instruction.pc + INSTRUCTION_BYTES),
            self.report.valid.eq(traps | (asks & (operation == TrapOperation.FAIL))), self.report.reason.eq(reason),
            self.events.interrupt.eq(asks & word.matches(pattern_of(_BPT)) & (mode == BreakpointMode.INT.value))]
        self._tell(m, traps, Cat(reason == each for each in TRAP_REASONS))

    def _tell(self, m: Module, traps: Signal, reason: Cat) -> None:
        """What S2R reads. One warp after the other is looked at: for its reasons, of which all are collected; and
        whether its arrival at a barrier is to be taken back, which keeps the place until it is."""
        warps, status, trapping, asked = self.warps, self.status, self.dispatch.payload.warp, self.status_warp
        m.submodules.reasons = reasons = Words(len(reason), self._params.warps, ram_style="distributed")
        looked, found, collected, all_reasons = (
            Signal(self._params.warp_bits), Signal(reason.shape()), Signal(reason.shape()), Signal(reason.shape()))

        def kept(warp: Any, counts: Any) -> Any:
            return Mux(counts.bit_select(warp, 1), reasons.read(m, warp), 0)

        new = Mux(traps, reason, 0)
        reasons.write(m, traps, trapping, reason | kept(trapping, warps.trapped))
        m.d.comb += [
            self.withdraw.valid.eq(warps.withdraw.bit_select(looked, 1)), self.withdraw.warp.eq(looked),
            found.eq(collected | kept(looked, self.state.trapped) | new),
            status.failed.eq(warps.failed.bit_select(asked, 1)), status.stepped.eq(warps.stepped.bit_select(asked, 1)),
            status.reasons.eq(kept(asked, warps.trapped)),
            status.error.as_value().eq(Mux(status.failed, self.failures.code, 0)),
            self.all_status.eq(Cat((self.live & warps.failed).any(), all_reasons, (self.live & warps.stepped).any(),
                                   self.command.stop))]
        m.d.sync += [
            collected.eq(found), all_reasons.eq(all_reasons | new), looked.eq(looked + ~self.withdraw.valid)]
        with m.If(~self.state.trapped.any() & ~traps):
            m.d.sync += [all_reasons.eq(0), collected.eq(0)]
        with m.Elif(looked == self._params.warps - 1):
            m.d.sync += [all_reasons.eq(found), collected.eq(0)]

    def _move(self, m: Module) -> None:
        """From ENTER and LEAVE to what the flow unit does. The warp that enters comes back to an instruction that
        failed, or to the one before: to the last one if that failed, or is a BAR of which its arrival was taken back.
        That was since it entered last if there was one more of these than of its entries: they alternate.
        """
        moved, withdrawn, flow, command = self.dispatch.payload, self.withdrawn, self.flow, self.command
        failures, step, saved = self.failures, self.warps.step, Signal(32)
        m.submodules.modes = modes = Words(ReturnFromTrapMode, self._params.warps)
        m.submodules.withdrawals = withdrawals = Words(1, self._params.warps)
        m.submodules.entries = entries = Words(1, self._params.warps)
        m.d.comb += [
            step.enters.eq(self.dispatch.valid & (moved.kind == InstructionKind.ENTER)),
            step.leaves.eq(self.dispatch.valid & (moved.kind == InstructionKind.LEAVE)),
            failures.dispatched.eq(moved.warp), failures.moves.eq(step.enters | step.leaves),
            failures.enters.eq(step.enters)]
        modes.write(m, step.asks, moved.warp, field_of(moved.word, _RTT.fields["mode"]))
        withdrawals.write(m, withdrawn.valid, withdrawn.warp, ~entries.read(m, withdrawn.warp))
        withdrawals_before = withdrawals.read(m, moved.warp)
        entries.write(m, step.enters, moved.warp, withdrawals_before)
        rolled_back = withdrawals_before ^ entries.read(m, moved.warp)

        number, first = moved.pc[3:5], moved.pc[3:5] == 1
        assert GROUP_BYTES == 4 * INSTRUCTION_BYTES
        before = Cat(moved.pc[:3], Mux(first, 3, number - 1)[:2], (moved.pc[5:] - first)[:27])
        m.d.comb += [
            saved.eq(Mux(failures.overtaken, failures.pc, Mux(rolled_back | failures.was_last, before, moved.pc))),
            flow.pc.eq(saved), flow.target.eq(Mux(command.installed, command.handler, saved))]
        with m.If(moved.kind == InstructionKind.ENTER):
            m.d.comb += flow.operation.eq(
                Mux(command.installed, FlowOperation.ENTER_TRAP, FlowOperation.BRANCH))
        with m.Else(), m.Switch(modes.read(m, moved.warp)):
            for returns, operation in _RETURNS.items():
                with m.Case(returns):
                    m.d.comb += flow.operation.eq(operation)

    def _watch(self, m: Module) -> None:
        """Tells when nothing goes on: after ``1 << timeout`` cycles in which warps live, are not locked down, and issue
        no instruction; never with 0 (ours). The next comes when it has counted as many again. What it is for is the
        deadlock of RTT and BAR.SYNCALL."""
        count, idle, reached, bit = Signal(1 << TIMEOUT_BITS), Signal(), Signal(), self.command.timeout
        m.d.sync += idle.eq(self.live.any() & ~self.machine.locked_down & ~self.taken.any())
        m.d.comb += [reached.eq(count.bit_select(bit, 1) & bit.any()), self.events.timeout.eq(reached & idle)]
        m.d.sync += count.eq(count + 1)
        with m.If(~idle | reached):
            m.d.sync += count.eq(0)
