"""The trap unit, joined."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.layouts import (
    ERROR_SOURCES,
    REPORT_BITS,
    TIMEOUT_BITS,
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
    is_kind,
    reported,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .decode import TrapDecoder, TrapOperation
from .machine import SmTrap
from .status import WarpStatuses
from .warps import WarpTraps, shared

__all__ = ["TrapUnit"]

_RETURNS = {ReturnFromTrapMode.POPCRS: FlowOperation.RESTORE, ReturnFromTrapMode.FALLTHROUGH: FlowOperation.LEAVE_TRAP,
            ReturnFromTrapMode.TERMINATE: FlowOperation.TERMINATE}


class TrapUnit(Component):
    """Takes an instruction in every cycle, and answers in the next one.

    Parameters
    ----------
    params : SmParams

    Members
    -------
    dispatch : In(valid and dispatched)
        Kinds TRAP, ENTER and LEAVE.
    room : Out(1)
        Always.
    flow : Out(TrapMove)
        What the flow unit does for the ENTER or LEAVE that is dispatched in this cycle.
    launch : In(valid and warp_launch)
    live, taken, drained : In(warps)
        Of issue: warps that have begun and not ended; an instruction of the warp is selected; none is in flight.
    starting : In(1)
        Of the work distributor: a CTA is being started.
    result_valid, result_warp, result_error : In(1), In, In(WarpError)
        Of flow results.
    waiting : In(warps)
        Warps that wait at a barrier.
    withdraw, withdrawn : Out(valid and warp), In(valid and warp)
        For the barrier unit: the arrival of a warp is to be taken back; it has been.
    errors : In(array of error_event), by ERROR_SOURCES
        All reported errors.
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing.
    command : In(TrapCommand)
    hold, enter, leave : Out(warps)
        See IssueUnit.
    inside : Out(warps)
        Warps that are in the trap.
    resume : Out(warps)
        For one cycle: the warp goes on.
    status_warp, status, all_status : In, Out(WarpStatus), Out(32)
        What S2R tells of a warp, and of all.
    forget, forget_warp : In(1), In
        A warp's status has been read by what clears it.
    state : Out(TrapStatus)
    events : Out(TrapEvents)
    report : Out(TrapReport)
    completion : Out(completion)
    error : Out(error_event)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        warp_event = data.StructLayout({"valid": 1, "warp": bits})
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "flow": Out(TrapMove), "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "live": In(warps), "starting": In(1), "taken": In(warps), "drained": In(warps), "result_valid": In(1),
            "result_warp": In(bits), "result_error": In(WarpError), "waiting": In(warps), "withdraw": Out(warp_event),
            "withdrawn": In(warp_event), "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))),
            "report_mask": In(REPORT_BITS), "command": In(TrapCommand(params)), "hold": Out(warps), "enter": Out(warps),
            "leave": Out(warps), "inside": Out(warps), "resume": Out(warps), "status_warp": In(bits),
            "status": Out(WarpStatus), "all_status": Out(32), "forget": In(1), "forget_warp": In(bits),
            "state": Out(TrapStatus(params)), "events": Out(TrapEvents), "report": Out(TrapReport(params)),
            "completion": Out(completion(params)), "error": Out(error_event(params))})
        self.warps = WarpTraps(params)
        self.machine = SmTrap(params)
        self.statuses = WarpStatuses(params)
        self.decoder = TrapDecoder()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("warps", "machine", "statuses", "decoder"):
            m.submodules[name] = getattr(self, name)
        self._instructions(m)
        self._warps(m)
        self._statuses(m)
        self._moves(m)
        self._machine(m)
        self._watchdog(m)
        return m

    def _instructions(self, m: Module) -> None:
        """BPT, IDE and RTT."""
        decoder, instruction, warps, statuses = self.decoder, self.dispatch.payload, self.warps, self.statuses
        asks, refused, failed, traps = Signal(), Signal(), Signal(), Signal()
        here = shared(m, "dispatched_of", one_hot(instruction.warp, self._params.warps))
        operation, masked = decoder.operation, (warps.masked & here).any()
        m.d.comb += [
            self.room.eq(1), warps.here.eq(here),
            statuses.dispatched.eq(instruction.warp), decoder.word.eq(instruction.word),
            decoder.inside.eq((self.inside & here).any()),
            asks.eq(self.dispatch.valid & (instruction.kind == InstructionKind.TRAP)),
            failed.eq(decoder.error != WarpError.NONE), refused.eq(reported(self.report_mask, decoder.error)),
            traps.eq(asks & (operation == TrapOperation.TRAP)), warps.asks.eq(asks & ~refused),
            warps.operation.eq(operation), warps.pends.eq(traps & masked & (decoder.reason != TRAP_REASONS.stop - 1)),
            statuses.trap.eq(traps), statuses.traps.eq(warps.traps), statuses.reason.eq(decoder.reason)]

        told, report, error = self.completion, self.report, self.error
        m.d.sync += [told[name].eq(instruction[name]) for name in ("warp", "serial", "write_barrier", "read_barrier")]
        m.d.sync += [
            told.valid.eq(asks), error.valid.eq(asks & refused), error.warp.eq(instruction.warp),
            error.pc.eq(instruction.pc), error.error.eq(decoder.error), report.warp.eq(instruction.warp),
            report.valid.eq(traps | (asks & (operation == TrapOperation.FAIL))),
            report.pc.eq(instruction.pc + INSTRUCTION_BYTES), report.reason.eq(decoder.reason),
            self.events.interrupt.eq(asks & ~failed & decoder.interrupts)]

    def _warps(self, m: Module) -> None:
        """Where warps are."""
        warps, machine, command, launch = self.warps, self.machine, self.command, self.launch
        m.d.comb += [getattr(self, name).eq(getattr(warps, name))
                     for name in ("hold", "enter", "leave", "inside", "resume")]
        m.d.comb += [getattr(warps, name).eq(getattr(self, name)) for name in ("live", "taken", "drained", "waiting")]
        m.d.comb += [getattr(warps, name).eq(command[name]) for name in ("installed", "step", "wake")]
        m.d.comb += [
            warps.begins.eq(shared(m, "begins_of", one_hot(launch.payload.warp, self._params.warps, launch.valid))),
            warps.result.valid.eq(self.result_valid), warps.result.payload.eq(self.result_warp),
            warps.refused.eq(self.result_error != WarpError.NONE), warps.trapping.eq(machine.trapping),
            warps.urgent.eq(machine.urgent), warps.release.eq(machine.release),
            self.withdraw.valid.eq(warps.withdraw.any()), self.withdraw.warp.eq(lowest(warps.withdraw))]

    def _statuses(self, m: Module) -> None:
        """Why they are there."""
        statuses, warps = self.statuses, self.warps
        m.d.comb += [
            warps.failing.eq(statuses.failing), warps.wants.eq(statuses.wants), warps.insists.eq(statuses.insists),
            statuses.errors.eq(self.errors), statuses.outside.eq(warps.outside), statuses.stepped.eq(warps.stepped),
            statuses.clear.eq(
                warps.left | warps.begins | one_hot(self.forget_warp, self._params.warps, self.forget)),
            statuses.launch.valid.eq(self.launch.valid), statuses.launch.payload.eq(self.launch.payload.warp),
            statuses.warp.eq(self.status_warp), statuses.live.eq(self.live), self.status.eq(statuses.status),
            self.all_status.eq(Cat(statuses.all_flags, self.command.stop))]

    def _moves(self, m: Module) -> None:
        """From ENTER and LEAVE to what the flow unit does. The warp that enters comes back to an instruction that
        failed, or to the one before: to the last one if that failed, or is a BAR of which its arrival was taken back.
        """
        moved, flow, command, statuses = self.dispatch.payload, self.flow, self.command, self.statuses
        moves, enters, saved, rolled_back = Signal(), Signal(), Signal(32), self._rolled_back(m, moved)
        m.submodules.modes = modes = memory.Memory(shape=ReturnFromTrapMode, depth=self._params.warps, init=[])
        write, mode = modes.write_port(), modes.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.warps.asks), write.addr.eq(moved.warp), write.data.eq(self.decoder.mode),
            mode.addr.eq(moved.warp), moves.eq(self.dispatch.valid & is_kind(moved.kind, lambda rule: rule.injected)),
            enters.eq(moved.kind == InstructionKind.ENTER), self.warps.moves.eq(moves), statuses.moves.eq(moves),
            statuses.enters.eq(enters)]

        number, first = moved.pc[3:5], moved.pc[3:5] == 1
        assert GROUP_BYTES == 4 * INSTRUCTION_BYTES
        before = Cat(moved.pc[:3], Mux(first, 3, number - 1)[:2], (moved.pc[5:] - first)[:27])
        m.d.comb += saved.eq(Mux(statuses.overtaken, statuses.pc, Mux(
            rolled_back | statuses.was_last, before, moved.pc)))
        with m.If(enters):
            m.d.comb += [
                flow.operation.eq(Mux(command.installed, FlowOperation.ENTER_TRAP, FlowOperation.BRANCH)),
                flow.pc.eq(saved), flow.target.eq(Mux(command.installed, command.handler, saved))]
        with m.Else():
            m.d.comb += [flow.pc.eq(moved.pc), flow.target.eq(moved.pc)]
            with m.Switch(mode.data):
                for returns, operation in _RETURNS.items():
                    with m.Case(returns):
                        m.d.comb += flow.operation.eq(operation)

    def _rolled_back(self, m: Module, moved: Any) -> Any:
        """Whether the arrival of a warp was taken back, and it has not entered since: there was one more of these than
        of its entries, which come one after the other."""
        depth = self._params.warps
        m.submodules.withdrawals = withdrawals = memory.Memory(shape=1, depth=depth, init=[])
        m.submodules.entries = entries = memory.Memory(shape=1, depth=depth, init=[])
        withdrawing, entering = withdrawals.write_port(), entries.write_port()
        withdrawn, entered, before = (ram.read_port(domain="comb") for ram in (withdrawals, entries, entries))
        m.d.comb += [
            withdrawing.en.eq(self.withdrawn.valid), withdrawing.addr.eq(self.withdrawn.warp),
            before.addr.eq(self.withdrawn.warp), withdrawing.data.eq(~before.data),
            withdrawn.addr.eq(moved.warp), entered.addr.eq(moved.warp), entering.addr.eq(moved.warp),
            entering.en.eq(self.dispatch.valid & (moved.kind == InstructionKind.ENTER)),
            entering.data.eq(withdrawn.data)]
        return withdrawn.data ^ entered.data

    def _machine(self, m: Module) -> None:
        """The multiprocessor, and what its host learns."""
        warps, machine, state = self.warps, self.machine, self.state
        m.d.comb += [getattr(machine, name).eq(getattr(warps, name)) for name in ("paused", "quiet", "returning")]
        m.d.comb += [
            machine.live.eq(self.live), machine.starting.eq(self.starting), machine.stop.eq(self.command.stop),
            machine.cause.eq(warps.causes), machine.insists.eq(warps.insisting),
            state.trapping.eq(machine.trapping), state.locked_down.eq(machine.locked_down),
            state.paused.eq(self.live & warps.paused), state.trapped.eq(self.live & self.statuses.trapped)]
        m.d.sync += [
            self.events.pause.eq(warps.pauses), self.events.error_in_trap.eq(warps.fails),
            self.events.step.eq(warps.stepped.any())]

    def _watchdog(self, m: Module) -> None:
        """Tells when nothing goes on: after ``1 << timeout`` cycles in which warps live, are not locked down, and issue
        no instruction; never with 0 (ours). The next comes when it has counted as many again. What it is for is the
        deadlock of RTT and BAR.SYNCALL."""
        count, idle, bit = Signal(1 << TIMEOUT_BITS), Signal(), self.command.timeout
        reached = Signal()
        m.d.sync += idle.eq(self.live.any() & ~self.machine.locked_down & ~self.taken.any())
        m.d.comb += [
            reached.eq(count.bit_select(bit, 1) & bit.any()), self.events.timeout.eq(reached & idle)]
        m.d.sync += count.eq(count + 1)
        with m.If(~idle | reached):
            m.d.sync += count.eq(0)
