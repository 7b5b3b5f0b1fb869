"""The trap unit, joined."""

from itertools import combinations
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component, members_of, pass_on
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.layouts import (
    ERROR_SOURCES,
    REPORT_BITS,
    TIMEOUT_BITS,
    EventLayout,
    FlowOperation,
    InstructionKind,
    Origin,
    TrapEvents,
    TrapMove,
    TrapReport,
    TrapStatus,
    completion,
    dispatched,
    error_event,
    reported,
)
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.word import field_of, pattern_of
from rtl.words import Words

from .machine import SmTrap, TrapOperation, WarpTraps

__all__ = ["TrapUnit"]

(_BPT,), (_IDE,), (_RTT,) = (BY_NAME[name] for name in ("BPT", "IDE", "RTT"))
_NEITHER = (TrapOperation.GO_ON, TrapOperation.GO_ON)
_MEANINGS = (
    (_BPT, "mode", {
        BreakpointMode.TRAP: (TrapOperation.TRAP, TrapOperation.FAIL), BreakpointMode.INT: _NEITHER,
        BreakpointMode.DRAIN: _NEITHER, BreakpointMode.PAUSE: (None, TrapOperation.PAUSE),
        BreakpointMode.PAUSE_QUIET: (None, TrapOperation.PAUSE_QUIET)}),
    (_IDE, "disable", {
        0: (TrapOperation.UNMASK, TrapOperation.UNMASK), 1: (TrapOperation.MASK, TrapOperation.MASK)}),
    (_RTT, "mode", {
        ReturnFromTrapMode.POPCRS: (None, TrapOperation.WAIT),
        ReturnFromTrapMode.FALLTHROUGH: (None, TrapOperation.WAIT),
        ReturnFromTrapMode.TERMINATE: (None, TrapOperation.TERMINATE)}))
"""What an instruction does outside the trap, and inside. None: ILLEGAL_INSTR_ENCODING, as whatever is not here."""
_RETURNS = {ReturnFromTrapMode.POPCRS: FlowOperation.RESTORE, ReturnFromTrapMode.FALLTHROUGH: FlowOperation.LEAVE_TRAP,
            ReturnFromTrapMode.TERMINATE: FlowOperation.TERMINATE}
_OF_WARPS = ("launch", "live", "taken", "drained", "result", "errors", "command", "hold", "inside", "resume")
_ERROR_BITS = max(error.value for error in WarpError).bit_length()
_OVERTAKEN = (Origin.FLOW, Origin.MEMORY)
"""Where an instruction that failed may have been overtaken."""


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
    starting, result : In(1), In(Event of flow_result)
        A CTA is being started.
    waiting, withdraw, withdrawn : In(warps), Out(valid and warp), In(valid and warp)
        Of the barrier unit: who waits; the arrival of a warp is to be taken back; it has been.
    errors, report_mask : In(array of error_event), by ERROR_SOURCES, In(32)
        All reported errors. Bit n: those of code n are. One that is not makes the instruction do nothing.
    command : In(TrapCommand)
    hold, enter, leave, inside, resume : Out(warps)
        See IssueUnit. Warps that are in the trap.
    status_warp, status, all_status, clear_status : In, Out(WarpStatus), Out(32), In(1)
        What S2R tells of a warp, and of all; the warp's has been read by what clears it. While there are warps that
        have executed a BPT.TRAP, reasons of those that have left are told until all warps have been looked at.
    state, events, report : Out(TrapStatus), Out(TrapEvents), Out(TrapReport)
    completion, error : Out(completion), Out(error_event)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        warp_event = data.StructLayout({"valid": 1, "warp": bits})
        self.warps: Any = self.make_warps(params)
        self.machine = SmTrap(params)
        super().__init__({
            **members_of(self.warps, *_OF_WARPS, leave="leaving"), **members_of(self.machine, "starting"),
            "dispatch": In(EventLayout(dispatched(params))), "room": Out(1), "flow": Out(TrapMove),
            "waiting": In(warps), "withdraw": Out(warp_event), "withdrawn": In(warp_event),
            "report_mask": In(REPORT_BITS), "enter": Out(warps), "status_warp": In(bits), "status": Out(WarpStatus),
            "all_status": Out(32), "clear_status": In(1), "state": Out(TrapStatus(params)),
            "events": Out(TrapEvents), "report": Out(TrapReport(params)), "completion": Out(completion(params)),
            "error": Out(error_event(params)), **self.more_ports(params)})

    def more_ports(self, params: SmParams) -> dict[str, Any]:
        """Ports that others have not."""
        return {}

    def make_warps(self, params: SmParams) -> WarpTraps:
        """The states of all warps."""
        return WarpTraps(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.warps, m.submodules.machine = warps, machine = self.warps, self.machine
        self.join(m, warps, *_OF_WARPS, leave="leaving")
        self.join(m, machine, "live", "starting")
        for sender, receiver, *names in (
                (warps, machine, "paused", "quiet", "returning", "cause", "insisting"),
                (machine, warps, "trapping", "urgent", "release"), (self.command, machine, "stop"),
                (machine, self.state, "trapping", "locked_down"), (warps, self.state, "paused", "trapped")):
            pass_on(m, sender, receiver, *names)
        m.d.comb += self.enter.eq(warps.enters & ~self.waiting)
        m.d.sync += [
            warps.clears_status.valid.eq(self.clear_status), warps.clears_status.payload.eq(self.status_warp)]
        pass_on(m, warps, self.events, "pause", "error_in_trap", "step", domain="sync")
        self._execute(m)
        self.move(m)
        self._watch(m)
        return m

    def _execute(self, m: Module) -> None:
        """BPT, IDE and RTT; what is done to their warp, as to one that enters or leaves, and what is told of them."""
        instruction, step, command = self.dispatch.payload, self.warps.dispatched, self.command
        word, asks, refused, traps = instruction.word, Signal(), Signal(), Signal()
        operation, error = Signal(TrapOperation), Signal(WarpError, init=WarpError.ILLEGAL_INSTR_ENCODING)
        mode, reason = (field_of(word, _BPT.fields[name]) for name in ("mode", "reason"))
        inside, reasons = self.inside.bit_select(instruction.warp, 1), Cat(reason == each for each in TRAP_REASONS)
        with m.Switch(word):
            for form, field, meanings in _MEANINGS:
                with m.Case(pattern_of(form)), m.Switch(field_of(word, form.fields[field])):
                    for value, (outside, within) in meanings.items():
                        legal, wrong = inside if outside is None else 1, WarpError.ILLEGAL_INSTR_ENCODING
                        if outside is TrapOperation.TRAP:
                            legal, wrong = reasons.any(), WarpError.ILLEGAL_INSTR_PARAM
                            outside = Mux(reasons[-1], TrapOperation.URGENT_TRAP, outside)
                        does = within if outside is None else Mux(inside, within, outside)
                        with m.Case(value):
                            m.d.comb += [operation.eq(Mux(legal, does, TrapOperation.GO_ON)),
                                         error.eq(Mux(legal, WarpError.NONE, wrong))]
        m.d.comb += [
            self.room.eq(1), asks.eq(self.dispatch.valid & (instruction.kind == InstructionKind.TRAP)),
            refused.eq(reported(self.report_mask, error)), step.valid.eq(self.dispatch.valid & ~(asks & refused)),
            step.payload.warp.eq(instruction.warp), step.payload.operation.eq(operation)]
        with m.Switch(instruction.kind):
            for kind, does in (
                    (InstructionKind.ENTER, Mux(command.installed, TrapOperation.ENTER, TrapOperation.ENTER_PAUSED)),
                    (InstructionKind.LEAVE, TrapOperation.LEAVE)):
                with m.Case(kind):
                    m.d.comb += step.payload.operation.eq(does)
        pass_on(m, instruction, self.completion, "warp", "serial", "write_barrier", "read_barrier", domain="sync")
        pass_on(m, instruction, self.error, "warp", "pc", domain="sync")
        m.d.comb += traps.eq(asks & operation.as_value().matches(TrapOperation.TRAP, TrapOperation.URGENT_TRAP))
        m.d.sync += [
            self.completion.valid.eq(asks), self.error.valid.eq(asks & refused), self.report.warp.eq(instruction.warp),
            self.error.error.eq(error), self.report.pc.eq(instruction.pc + INSTRUCTION_BYTES),
            self.report.valid.eq(traps | (asks & (operation == TrapOperation.FAIL))), self.report.reason.eq(reason),
            self.events.interrupt.eq(asks & word.matches(pattern_of(_BPT)) & (mode == BreakpointMode.INT.value))]
        self._tell(m, traps, reasons)

    def _tell(self, m: Module, traps: Signal, reason: Value) -> None:
        """What S2R reads. One warp after the other is looked at: for its reasons, of which all are collected; and
        whether its arrival at a barrier is to be taken back, which keeps the place until it is."""
        warps, status, trapping, asked = self.warps, self.status, self.dispatch.payload.warp, self.status_warp
        reasons = self._words(m, "reasons", len(reason))
        looked, found, collected, all_reasons, new = (
            Signal(self._params.warp_bits), *(Signal(reason.shape(), name=name) for name in (
                "found", "collected", "all_reasons", "new")))

        def kept(warp: Any) -> Any:
            return Mux(warps.trapped.bit_select(warp, 1), reasons.read(m, warp), 0)

        reasons.write(m, traps, trapping, reason | kept(trapping))
        m.d.comb += [
            self.withdraw.valid.eq(warps.enters.bit_select(looked, 1) & self.waiting.bit_select(looked, 1)),
            self.withdraw.warp.eq(looked), new.eq(Mux(traps, reason, 0)), found.eq(collected | kept(looked) | new),
            status.failed.eq(warps.failed.bit_select(asked, 1)), status.stepped.eq(warps.stepped.bit_select(asked, 1)),
            status.reasons.eq(kept(asked)),
            self.all_status.eq(Cat(warps.failed.any(), all_reasons, warps.stepped.any(), self.command.stop))]
        last = (looked == self._params.warps - 1) & ~self.withdraw.valid
        m.d.sync += [
            looked.eq(looked + ~self.withdraw.valid), collected.eq(Mux(last, 0, found)),
            all_reasons.eq(Mux(last, found, all_reasons | new))]
        with m.If(~warps.trapped.any() & ~traps):
            m.d.sync += [all_reasons.eq(0), collected.eq(0)]

    def move(self, m: Module) -> None:
        """From ENTER and LEAVE to what the flow unit does. The warp that enters comes back to an instruction that
        failed, or to the one before: to the last one if that failed, or is a BAR of which its arrival was taken back.
        That was since it entered last if there was one more of these than of its entries: they alternate."""
        moved, withdrawn = self.dispatch.payload, self.withdrawn
        enters, saved = self.dispatch.valid & (moved.kind == InstructionKind.ENTER), Signal(32)
        m.submodules.sweep = sweep = Sweep(self._params.warps)
        modes = self._words(m, "modes", ReturnFromTrapMode)
        withdrawals, entries = (self._words(m, name, unsigned(1), sweep) for name in ("withdrawals", "entries"))
        modes.write(m, self.dispatch.valid & (moved.kind == InstructionKind.TRAP), moved.warp,
                    field_of(moved.word, _RTT.fields["mode"]))
        withdrawals.write(m, withdrawn.valid, withdrawn.warp, ~entries.read(m, withdrawn.warp))
        withdrawals_before = withdrawals.read(m, moved.warp)
        entries.write(m, enters, moved.warp, withdrawals_before)
        rolled_back = withdrawals_before ^ entries.read(m, moved.warp)
        overtaken, pc, was_last = self._fail(m, enters)

        number, first = moved.pc[3:5], moved.pc[3:5] == 1
        assert GROUP_BYTES == 4 * INSTRUCTION_BYTES
        before = Cat(moved.pc[:3], Mux(first, 3, number - 1)[:2], (moved.pc[5:] - first)[:27])
        m.d.comb += saved.eq(Mux(overtaken, pc, Mux(rolled_back | was_last, before, moved.pc)))
        self.tell_flow(m, saved, modes.read(m, moved.warp))

    def tell_flow(self, m: Module, saved: Signal, mode: Any) -> None:
        """What the flow unit does: of one that enters, to come back to ``saved``; or leaves, by RTT of this mode."""
        flow, command = self.flow, self.command
        m.d.comb += [flow.pc.eq(saved), flow.target.eq(Mux(command.installed, command.handler, saved))]
        with m.If(self.dispatch.payload.kind == InstructionKind.ENTER):
            m.d.comb += flow.operation.eq(
                Mux(command.installed, FlowOperation.ENTER_TRAP, FlowOperation.BRANCH))
        with m.Else(), m.Switch(mode):
            for returns, operation in _RETURNS.items():
                with m.Case(returns):
                    m.d.comb += flow.operation.eq(operation)

    def _fail(self, m: Module, enters: Value) -> tuple[Signal, Signal, Value]:
        """What failed of each warp: a memory for each source of errors, since several tell at once, has the code and
        the address, if it may have been overtaken. An error counts if its source has told of the warp more often than
        was seen to, modulo 2: when the warp is on its way into the trap or back, or a new one begins. Of several of a
        source the first is kept; of those of different sources that of the later Origin, which is of the older
        instruction: a memory instruction has issued when the flow results before it were known, and a push is older
        than what could not be overtaken. Flow results inside do not count: an entry that fails is told as one, too.

        Returns of the warp that enters whether one failed that may have been overtaken, its address, and whether the
        instruction failed that it issued last. S2R reads the code of what it came back to."""
        moved, launched, overtaken, pc, code = (
            self.dispatch.payload.warp, self.launch.payload.warp, Signal(), Signal(32), Signal(_ERROR_BITS))
        moves = enters | (self.dispatch.valid & (self.dispatch.payload.kind == InstructionKind.LEAVE))
        at_moves, at_launches = (self._words(m, name, len(ERROR_SOURCES)) for name in ("at_moves", "at_launches"))

        def seen(warp: Any) -> Any:
            """Of each source, how often what it told of the warp was seen to, modulo 2."""
            return at_moves.read(m, warp) ^ at_launches.read(m, warp)

        before, failures, at_launched = seen(moved), [], []
        for place, (event, origin) in enumerate(zip(self.errors, ERROR_SOURCES.values(), strict=True)):
            table = self._words(m, f"errors_{place}", data.StructLayout({
                "told": 1, "error": _ERROR_BITS, "pc": 32 if origin in _OVERTAKEN else 0}))
            told, failure = table.read(m, event.warp).told, table.read(m, moved)
            counts = ~self.inside.bit_select(event.warp, 1) if origin is Origin.FLOW else 1
            table.write(m, event.valid & (told == seen(event.warp)[place]) & counts, event.warp,
                        {"told": ~told, "error": event.error, "pc": event.pc})
            failures.append((origin, event, failure, failure.told ^ before[place]))
            at_launched.append(table.read(m, launched).told)
        at_moves.write(m, moves, moved, Cat(failure.told for _, _, failure, _ in failures) ^ at_launches.read(m, moved))
        at_launches.write(m, self.launch.valid, launched, Cat(at_launched) ^ at_moves.read(m, launched))
        for origin, _, failure, pending in sorted(failures, key=lambda each: each[0].value):
            with m.If(pending):
                m.d.sync += code.eq(failure.error)
                if origin in _OVERTAKEN:
                    m.d.comb += [overtaken.eq(1), pc.eq(failure.pc)]
        codes, entered, entering = self._words(m, "codes", _ERROR_BITS), Signal.like(moved), Signal()
        codes.write(m, entering, entered, code)
        m.d.sync += [entering.eq(enters), entered.eq(moved)]
        m.d.comb += self.status.error.as_value().eq(Mux(self.status.failed, codes.read(m, self.status_warp), 0))
        last = [(event, pending) for origin, event, _, pending in failures if origin is Origin.LAST]
        m.d.sync += [
            Assert(~(one.valid & two.valid & (one.warp == two.warp)), "the last instruction of a warp fails twice")
            for (one, _), (two, _) in combinations(last, 2)]
        return overtaken, pc, Cat(pending for _, pending in last).any()

    def _words(self, m: Module, name: str, shape: Any, sweep: Sweep | None = None) -> Words:
        """A word a warp; in LUT memory for few warps, too, where synthesis would take registers and multiplexers."""
        words = Words(shape, self._params.warps, sweep, ram_style="distributed")
        m.submodules[name] = words
        return words

    def _watch(self, m: Module) -> None:
        """Tells when nothing goes on: after ``1 << timeout`` cycles in which warps live, are not locked down, and issue
        no instruction; never with 0 (ours). The next comes when it has counted as many again. What it is for is the
        deadlock of RTT and BAR.SYNCALL.

        Cycles are counted in as many bits as the host can name, one of which is looked at in a cycle: those below
        ``turn`` are ``turn`` itself, those above go round, and have in a round what they are at its end."""
        idle, reached, chosen, turn = Signal(), Signal(), self.command.timeout, Signal(TIMEOUT_BITS)
        bits, carry, coming = Signal(1 << TIMEOUT_BITS), Signal(), Signal()
        carries = Mux(turn == TIMEOUT_BITS, 1, carry)
        bit = Mux(turn < TIMEOUT_BITS, 0, bits[0] ^ carries)
        passes = turn == chosen
        m.d.comb += [
            self.events.timeout.eq(reached & idle), reached.eq(
                chosen.any() & Mux(chosen < TIMEOUT_BITS, turn.bit_select(chosen[:3], 1), coming & ~turn.any()))]
        m.d.sync += idle.eq(self.live.any() & ~self.machine.locked_down & ~self.taken.any())
        with m.If(idle & ~reached):
            m.d.sync += [turn.eq(turn + 1), bits.eq(Cat(bits[1:], bit)), carry.eq(bits[0] & carries)]
            with m.If(passes | ~turn.any()):
                m.d.sync += coming.eq(passes & bit)
        with m.Else():
            m.d.sync += [turn.eq(0), bits.eq(0), carry.eq(0), coming.eq(0)]
