"""The trap unit, joined."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import WarpStatus
from rtl.layouts import (
    InstructionKind,
    TrapCommand,
    TrapEvents,
    TrapMove,
    TrapReport,
    TrapStatus,
    completion,
    dispatched,
    error_event,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .decode import TrapDecoder
from .flow import ORIGINS, TrapFlow
from .machine import SmTrap
from .records import TrapOperation
from .status import WarpStatuses
from .warps import WarpTraps
from .watchdog import Watchdog

__all__ = ["TrapUnit"]

_MOVES = (InstructionKind.ENTER, InstructionKind.LEAVE)


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
    errors : In(array of error_event), by ORIGINS
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
            "withdrawn": In(warp_event), "errors": In(data.ArrayLayout(error_event(params), len(ORIGINS))),
            "report_mask": In(32), "command": In(TrapCommand(params)), "hold": Out(warps), "enter": Out(warps),
            "leave": Out(warps), "inside": Out(warps), "resume": Out(warps), "status_warp": In(bits),
            "status": Out(WarpStatus), "all_status": Out(32), "forget": In(1), "forget_warp": In(bits),
            "state": Out(TrapStatus(params)), "events": Out(TrapEvents), "report": Out(TrapReport(params)),
            "completion": Out(completion(params)), "error": Out(error_event(params))})
        self.warps = WarpTraps(params)
        self.machine = SmTrap(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, warps, command = self._params, self.warps, self.command
        m.submodules.warps, m.submodules.machine = warps, machine = self.warps, self.machine
        m.submodules.statuses = statuses = WarpStatuses(params)
        m.submodules.flow = flow = TrapFlow(params)
        m.submodules.watchdog = watchdog = Watchdog()
        self._instructions(m)
        launched, forgotten, clear, failing = (Signal(params.warps, name=name) for name in (
            "launched", "forgotten", "clear", "failing"))
        of_source: Any = Signal(data.ArrayLayout(params.warps, len(ORIGINS)))
        m.d.comb += [failing.eq(reduce(or_, of_source)), launched.eq(
            one_hot(self.launch.payload.warp, params.warps, self.launch.valid))]
        m.d.comb += [warps_of.eq(one_hot(event.warp, params.warps, event.valid))
                     for warps_of, event in zip(of_source, list(self.errors), strict=True)]

        # Where warps are.
        dispatched = self.dispatch.payload
        m.d.comb += [
            warps.launch.valid.eq(self.launch.valid), warps.launch.payload.eq(self.launch.payload.warp),
            warps.live.eq(self.live), warps.taken.eq(self.taken), warps.drained.eq(self.drained),
            warps.waiting.eq(self.waiting), warps.withdrawn.valid.eq(self.withdrawn.valid),
            warps.withdrawn.payload.eq(self.withdrawn.warp),
            warps.move.valid.eq(self.dispatch.valid & dispatched.kind.as_value().matches(*_MOVES)),
            warps.move.payload.eq(dispatched.warp), warps.result.valid.eq(self.result_valid),
            warps.result.payload.eq(self.result_warp), warps.refused.eq(self.result_error != WarpError.NONE),
            warps.failing.eq(failing), warps.wants.eq(statuses.wants), warps.insists.eq(statuses.insists),
            warps.trapping.eq(machine.trapping), warps.urgent.eq(machine.urgent),
            warps.installed.eq(command.installed), warps.step.eq(command.step), warps.wake.eq(command.wake),
            warps.release.eq(machine.release), self.hold.eq(warps.hold), self.enter.eq(warps.enter),
            self.leave.eq(warps.leave), self.inside.eq(warps.inside), self.resume.eq(warps.resume),
            self.withdraw.valid.eq(warps.withdraw.any()), self.withdraw.warp.eq(lowest(warps.withdraw))]

        # Why they are there, and where they come back to.
        m.d.comb += [
            forgotten.eq(one_hot(self.forget_warp, params.warps, self.forget)),
            clear.eq(warps.left | forgotten | launched),
            statuses.errors.eq(self.errors), statuses.failing.eq(of_source), statuses.outside.eq(warps.outside),
            statuses.traps.eq(warps.traps), statuses.reason.eq(warps.asked.payload.reason),
            statuses.stepped.eq(warps.stepped), statuses.clear.eq(clear), statuses.warp.eq(self.status_warp),
            statuses.live.eq(self.live), self.status.eq(statuses.status),
            self.all_status.eq(Cat(statuses.all_flags, command.stop)),
            flow.errors.eq(self.errors), flow.failing.eq(of_source), flow.outside.eq(~warps.inside),
            flow.clear.eq(warps.left | launched), flow.warp.eq(dispatched.warp), flow.kind.eq(dispatched.kind),
            flow.pc.eq(dispatched.pc), flow.installed.eq(command.installed), flow.handler.eq(command.handler),
            flow.rolled_back.eq(warps.rolled_back.bit_select(dispatched.warp, 1)), flow.mode.eq(warps.mode),
            self.flow.eq(flow.flow)]

        # The multiprocessor.
        state, now = self.state, failing & ~warps.inside
        m.d.comb += [
            machine.live.eq(self.live), machine.starting.eq(self.starting), machine.paused.eq(warps.paused),
            machine.quiet.eq(warps.quiet), machine.returning.eq(warps.returning), machine.stop.eq(command.stop),
            machine.cause.eq((now | warps.causes | warps.fails).any()),
            machine.insists.eq((now | (warps.outside & statuses.insists)).any()),
            state.trapping.eq(machine.trapping), state.locked_down.eq(machine.locked_down),
            state.paused.eq(self.live & warps.paused), state.trapped.eq(self.live & statuses.trapped),
            watchdog.bit.eq(command.timeout), watchdog.runs.eq(self.live.any() & ~machine.locked_down),
            watchdog.progress.eq(self.taken.any()), self.events.timeout.eq(watchdog.timeout)]
        m.d.sync += [
            self.events.pause.eq(warps.pauses.any()), self.events.error_in_trap.eq(warps.fails.any()),
            self.events.step.eq(warps.stepped.any())]
        return m

    def _instructions(self, m: Module) -> None:
        """BPT, IDE and RTT."""
        m.submodules.decoder = decoder = TrapDecoder()
        instruction, asked = self.dispatch.payload, self.warps.asked
        asks, fails, refused = Signal(), Signal(), Signal()
        m.d.comb += [
            decoder.word.eq(instruction.word), decoder.inside.eq(self.inside.bit_select(instruction.warp, 1)),
            asks.eq(self.dispatch.valid & (instruction.kind == InstructionKind.TRAP)),
            fails.eq(decoder.error != WarpError.NONE),
            refused.eq(fails & self.report_mask.bit_select(decoder.error.as_value()[:5], 1)), self.room.eq(1),
            asked.valid.eq(asks & ~refused), asked.payload.warp.eq(instruction.warp),
            asked.payload.operation.as_value().eq(Mux(fails, 0, decoder.operation.as_value())),
            asked.payload.reason.eq(decoder.reason), asked.payload.mode.eq(decoder.mode)]

        told, report, failed = self.completion, self.report, self.error
        m.d.sync += [told[name].eq(instruction[name]) for name in ("warp", "serial", "write_barrier", "read_barrier")]
        m.d.sync += [
            told.valid.eq(asks), failed.valid.eq(asks & refused), failed.warp.eq(instruction.warp),
            failed.pc.eq(instruction.pc), failed.error.eq(decoder.error),
            report.valid.eq(asks & ~fails & (decoder.operation == TrapOperation.TRAP)),
            report.warp.eq(instruction.warp),
            report.pc.eq(instruction.pc + INSTRUCTION_BYTES), report.reason.eq(decoder.reason),
            self.events.interrupt.eq(asks & ~fails & decoder.interrupts)]
