"""The trap unit, joined."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import STOP_AT, WarpStatus
from rtl.layouts import InstructionKind, TrapMove, completion, dispatched, error_event, warp_launch
from rtl.params import SmParams
from rtl.pick import pick

from .decode import TrapDecoder
from .flow import ORIGINS, TrapFlow
from .machine import SmTrap
from .records import TrapCommand, TrapEvents, TrapOperation, TrapReport, TrapStatus
from .warp import WarpTrap
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
        self.warps = [WarpTrap() for _ in range(warps)]
        self.machine = SmTrap(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        m.submodules.machine = self.machine
        self._instructions(m)
        self._flow(m)
        self._warps(m)
        self._machine(m)
        self._status(m)
        return m

    def _all(self, name: str) -> Any:
        """One bit of all warps."""
        return Cat(getattr(warp, name) for warp in self.warps)

    def _instructions(self, m: Module) -> None:
        """BPT, IDE and RTT."""
        m.submodules.decoder = decoder = TrapDecoder()
        instruction = self.dispatch.payload
        asks, fails, refused = Signal(), Signal(), Signal()
        m.d.comb += [
            decoder.word.eq(instruction.word), decoder.inside.eq(self.inside.bit_select(instruction.warp, 1)),
            asks.eq(self.dispatch.valid & (instruction.kind == InstructionKind.TRAP)),
            fails.eq(decoder.error != WarpError.NONE),
            refused.eq(fails & self.report_mask.bit_select(decoder.error.as_value()[:5], 1)), self.room.eq(1)]
        for number, warp in enumerate(self.warps):
            m.d.comb += [
                warp.asked.eq(asks & ~refused & (instruction.warp == number)),
                warp.operation.as_value().eq(Mux(fails, 0, decoder.operation.as_value())),
                warp.reason.eq(decoder.reason), warp.mode.eq(decoder.mode)]

        told, report, failed = self.completion, self.report, self.error
        m.d.sync += [told[name].eq(instruction[name]) for name in ("warp", "serial", "write_barrier", "read_barrier")]
        m.d.sync += [
            told.valid.eq(asks), failed.valid.eq(asks & refused), failed.warp.eq(instruction.warp),
            failed.pc.eq(instruction.pc), failed.error.eq(decoder.error),
            report.valid.eq(asks & ~fails & (decoder.operation == TrapOperation.TRAP)),
            report.warp.eq(instruction.warp),
            report.pc.eq(instruction.pc + INSTRUCTION_BYTES), report.reason.eq(decoder.reason),
            self.events.interrupt.eq(asks & ~fails & decoder.interrupts)]

    def _flow(self, m: Module) -> None:
        """ENTER and LEAVE."""
        m.submodules.flow = flow = TrapFlow(self._params)
        moved, of = self.dispatch.payload, self.dispatch.payload.warp
        m.d.comb += [
            flow.errors.eq(self.errors), flow.outside.eq(~self.inside), flow.launch.eq(self.launch),
            flow.left.eq(self._all("left")), flow.warp.eq(of), flow.kind.eq(moved.kind), flow.pc.eq(moved.pc),
            flow.installed.eq(self.command.installed), flow.handler.eq(self.command.handler),
            flow.rolled_back.eq(self._all("rolled_back").bit_select(of, 1)),
            flow.mode.eq(pick((warp.return_mode for warp in self.warps), of)), self.flow.eq(flow.flow)]
        moves = self.dispatch.valid & moved.kind.as_value().matches(*_MOVES)
        for number, warp in enumerate(self.warps):
            m.d.comb += [
                warp.moves.eq(moves & (of == number)),
                warp.result.eq(self.result_valid & (self.result_warp == number)),
                warp.refused.eq(self.result_error != WarpError.NONE)]

    def _warps(self, m: Module) -> None:
        """What each warp is told, and tells."""
        command, machine = self.command, self.machine
        withdraws, stepped = Signal(self._params.warps), Signal()
        m.d.comb += [
            withdraws.eq(self._all("withdraw")), self.withdraw.valid.eq(withdraws.any()),
            self.withdraw.warp.eq(lowest(withdraws)), stepped.eq(~(self.live & self._all("steps")).any())]
        for number, warp in enumerate(self.warps):
            errors = [event.valid & (event.warp == number) for event in self.errors]
            code: Any = 0
            for here, event in zip(reversed(errors), reversed(list(self.errors)), strict=True):
                code = Mux(here, event.error.as_value(), code)
            m.d.comb += [
                warp.launched.eq(self.launch.valid & (self.launch.payload.warp == number)),
                warp.live.eq(self.live[number]), warp.taken.eq(self.taken[number]),
                warp.drained.eq(self.drained[number]),
                warp.waiting.eq(self.waiting[number]),
                warp.withdrawn.eq(self.withdrawn.valid & (self.withdrawn.warp == number)),
                warp.failed.eq(Cat(errors).any()), warp.error.as_value().eq(code),
                warp.forget.eq(self.forget & (self.forget_warp == number)), warp.trapping.eq(machine.trapping),
                warp.urgent.eq(machine.urgent), warp.stepped.eq(stepped), warp.installed.eq(command.installed),
                warp.step.eq(command.step), warp.wake.eq(command.wake[number] & machine.trapping),
                warp.release.eq(machine.release), self.hold[number].eq(warp.hold), self.enter[number].eq(warp.enter),
                self.leave[number].eq(warp.leave), self.inside[number].eq(warp.inside),
                self.resume[number].eq(warp.resume)]

    def _machine(self, m: Module) -> None:
        """The multiprocessor."""
        machine, state, command = self.machine, self.state, self.command
        m.submodules.watchdog = watchdog = Watchdog()
        outside = Cat(event.valid & ~self.inside.bit_select(event.warp, 1) for event in self.errors).any()
        m.d.comb += [
            machine.live.eq(self.live), machine.starting.eq(self.starting),
            machine.paused.eq(self._all("paused")), machine.quiet.eq(self._all("quiet")),
            machine.returning.eq(self._all("returning")), machine.stop.eq(command.stop),
            machine.cause.eq(outside | (self._all("causes") | self._all("fails")).any()),
            machine.insists.eq(outside | self._all("insists").any()),
            state.trapping.eq(machine.trapping), state.locked_down.eq(machine.locked_down),
            state.paused.eq(self.live & machine.paused),
            state.trapped.eq(self.live & Cat(warp.status.reasons.any() for warp in self.warps)),
            watchdog.bit.eq(command.timeout), watchdog.runs.eq(self.live.any() & ~machine.locked_down),
            watchdog.progress.eq(self.taken.any()), self.events.timeout.eq(watchdog.timeout)]
        m.d.sync += [
            self.events.pause.eq(self._all("pauses").any()), self.events.error_in_trap.eq(self._all("fails").any()),
            self.events.step.eq(self._all("completes").any())]

    def _status(self, m: Module) -> None:
        """What S2R reads."""
        together: Any = 0
        for number, warp in enumerate(self.warps):
            together = together | Mux(self.live[number], warp.status.as_value()[:STOP_AT], 0)
        m.d.comb += [
            self.status.eq(pick((warp.status.as_value() for warp in self.warps), self.status_warp)),
            self.all_status.eq(Cat(together[:STOP_AT], self.command.stop))]
