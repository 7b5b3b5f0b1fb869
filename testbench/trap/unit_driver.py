"""Random warps at the trap unit, which follow the protocol of issue and the flow unit. All outputs
are compared with a reference model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.layouts import ERROR_SOURCES, FlowOperation, InstructionKind, Origin
from rtl.machines import units_of
from rtl.params import SmParams
from testbench.driver import as_struct, offer, set_errors
from testbench.handmade import encode
from testbench.trap.unit_reference import Happening, Machine, Reply, instruction_behind

__all__ = ["TrapUnitDriver"]


class Place(Enum):
    """The state of a warp in its protocol with issue and the flow unit."""

    DEAD = "dead"
    RUNS = "runs"
    TAKEN = "an instruction of the trap unit is on its way"
    BUSY = "it is over when the unit says so"
    BARRIER = "at a barrier"
    ENTERS = "the flow unit enters it"
    RTT = "at RTT"
    ASKED = "asked to leave"
    LEAVES = "the flow unit lets it leave"


def _breakpoint(mode: BreakpointMode, reason: int = 0) -> int:
    return encode("BPT", mode=mode.value, reason=reason)


def _return(mode: ReturnFromTrapMode) -> int:
    return encode("RTT", mode=mode.value)


_INTERRUPT = _breakpoint(BreakpointMode.INT)
_BAD, _ILLEGAL = WarpError.ILLEGAL_INSTR_PARAM, WarpError.ILLEGAL_INSTR_ENCODING
_INSTRUCTIONS: tuple[tuple[int, Any, Any, int], ...] = (
    *(
        (
            _breakpoint(BreakpointMode.TRAP, reason),
            "fail",
            "urgent trap" if reason == 7 else "trap",
            reason,
        )
        for reason in range(1, 8)
    ),
    (_breakpoint(BreakpointMode.TRAP, 0), _BAD, _BAD, 0),
    (_breakpoint(BreakpointMode.TRAP, 8), _BAD, _BAD, 0),
    (_INTERRUPT, "go on", "go on", 0),
    (_breakpoint(BreakpointMode.DRAIN), "go on", "go on", 0),
    (_breakpoint(BreakpointMode.PAUSE), "pause", _ILLEGAL, 0),
    (_breakpoint(BreakpointMode.PAUSE_QUIET), "pause quietly", _ILLEGAL, 0),
    *(
        (encode("IDE", disable=disable), does, does, 0)
        for disable, does in ((0, "unmask"), (1, "mask"))
    ),
    *(
        (
            _return(mode),
            "terminate" if mode is ReturnFromTrapMode.TERMINATE else "wait",
            _ILLEGAL,
            0,
        )
        for mode in (
            ReturnFromTrapMode.POPCRS,
            ReturnFromTrapMode.FALLTHROUGH,
            ReturnFromTrapMode.TERMINATE,
        )
    ),
)
"""Instructions: word, effect inside and outside the trap or its error, and the reason of a
BPT.TRAP.
"""
_OF_RETURN = {
    _return(mode): operation
    for mode, operation in (
        (ReturnFromTrapMode.POPCRS, FlowOperation.RESTORE),
        (ReturnFromTrapMode.FALLTHROUGH, FlowOperation.LEAVE_TRAP),
        (ReturnFromTrapMode.TERMINATE, FlowOperation.TERMINATE),
    )
}
_RTTS = tuple(instruction for instruction in _INSTRUCTIONS if instruction[0] in _OF_RETURN)


def _bits(numbers: Any) -> int:
    return sum(1 << number for number in numbers)


@dataclass(frozen=True)
class _Sent:
    """An instruction dispatched to the unit, with its reported error, if any."""

    warp: int
    kind: InstructionKind
    pc: int
    word: int = 0
    error: WarpError = WarpError.NONE


class TrapUnitDriver:
    """One simulation of the trap unit.

    In a machine with one instruction in flight an error belongs to the instruction that the warp
    issued last.

    Attributes:
        events: How often each event occurred.
    """

    def __init__(
        self,
        params: SmParams,
        seed: int,
        cycles: int,
        *,
        installed: bool,
        report_mask: int,
        timeout: int = 0,
    ) -> None:
        self.dut, self.random, self.cycles = units_of(params).trap(params), Random(seed), cycles
        self._count, self._installed, self._mask, self._timeout = (
            params.warps,
            installed,
            report_mask,
            timeout,
        )
        self.model = Machine(params.warps)
        self.places, self.words = [Place.DEAD] * params.warps, [_INSTRUCTIONS[0]] * params.warps
        self.events: dict[str, int] = {}
        self._entered, self._cycle = [0] * params.warps, 0
        self._idle, self._idle_cycles = False, 0
        self._trapless = 0
        self._withdrawing: int | None = None
        self._stop = False
        self._serial, self._selected = params.serial, -1
        """The warp whose ENTER or LEAVE is in flight; -1 if there is none."""
        self._last: list[int | None] = [None] * params.warps
        """The address of each warp's last instruction."""

    def count(self, what: str) -> None:
        self.events[what] = self.events.get(what, 0) + 1

    def _some(self, chance: float) -> bool:
        return self.random.random() < chance

    def _pick(self, wanted: Callable[[int], Any]) -> int | None:
        found = [number for number in range(self._count) if wanted(number)]
        return self.random.choice(found) if found else None

    async def run(self, ctx: Any) -> None:
        """Runs the simulation."""
        dut, model, handler = self.dut, self.model, self.random.getrandbits(29) << 3
        ctx.set(dut.report_mask, self._mask)
        refused = False
        for cycle in range(self.cycles):
            self._cycle = cycle
            leave = ctx.get(dut.control.leave)
            for number in range(self._count):
                if self.places[number] is Place.RTT and leave >> number & 1:
                    self.places[number] = Place.ASKED
            now = Happening()
            if self._serial:
                ctx.set(dut.issued.valid, 0)
                sent = self._dispatch_alone(ctx, now, leave)
            else:
                sent = self._dispatch(now, leave) if self._some(0.5) else None
            offer(
                ctx,
                dut.dispatch,
                None
                if sent is None
                else {
                    "kind": sent.kind,
                    "warp": sent.warp,
                    "pc": sent.pc,
                    "sequence": self._cycle % 1024,
                    "word": sent.word,
                    "write_barrier": self._cycle % 7,
                    "read_barrier": self._cycle % 5,
                },
            )
            self._others(ctx, now, sent.warp if sent else None, refused)
            ctx.set(
                dut.command,
                {
                    "installed": self._installed,
                    "handler": handler,
                    "stop": now.stop,
                    "step": now.step,
                    "wake": _bits(now.wake),
                    "timeout": self._timeout,
                },
            )
            self._compare_now(ctx, now, sent, handler)
            reply = model.step(now)
            if now.does in ("enter", "enter paused"):
                self._entered[now.warp] = self._cycle
            await ctx.tick()
            refused = sent is not None and sent.error is not WarpError.NONE
            self._compare_after(ctx, now, sent, reply)
            for number in reply.resume:
                if self.places[number] is Place.BUSY:
                    self.places[number] = Place.RUNS
                self.count("resume")

    def _busy(self) -> bool:
        """Whether the only instruction of a serial machine is in flight."""
        return self._serial and (
            self._selected >= 0
            or any(place in (Place.TAKEN, Place.ENTERS, Place.LEAVES) for place in self.places)
        )

    def _issue(self, ctx: Any, number: int, kind: InstructionKind, pc: int, word: int = 0) -> None:
        offer(ctx, self.dut.issued, {"warp": number, "kind": kind, "pc": pc, "word": word})

    def _new_pc(self) -> int:
        return (self.random.getrandbits(27) << 5) + 8 * self.random.randrange(1, 4)

    def _dispatch_alone(self, ctx: Any, now: Happening, leave: int) -> _Sent | None:
        """Selects an ENTER, a LEAVE or an instruction, and dispatches it in a later cycle."""

        def moves(number: int) -> bool:
            return self._may_enter(number) or bool(
                self.places[number] is Place.ASKED and leave >> number & 1
            )

        sent, selected = None, self._selected
        if selected >= 0 and not moves(selected):
            self._selected = -1
        elif self._some(0.5) and (selected >= 0 or Place.TAKEN in self.places):
            sent = self._dispatch(
                now, leave, selected if selected >= 0 else self.places.index(Place.TAKEN)
            )
            self._selected = -1
        elif not self._busy() and self._some(0.5) and (number := self._pick(moves)) is not None:
            self._selected = number
            self._issue(
                ctx,
                number,
                InstructionKind.ENTER if self._may_enter(number) else InstructionKind.LEAVE,
                self._new_pc(),
            )
        return sent

    def _dispatch(self, now: Happening, leave: int, number: int | None = None) -> _Sent | None:
        """Dispatches an instruction of a warp to the unit; of a random warp without ``number``."""
        places = self.places
        if number is None:
            number = self._pick(
                lambda number: (
                    places[number] is Place.TAKEN
                    or self._may_enter(number)
                    or (places[number] is Place.ASKED and leave >> number & 1)
                )
            )
        if number is None:
            return None
        pc, last = self._new_pc(), self._last[number]
        if last is not None:
            pc = last if places[number] is Place.TAKEN else instruction_behind(last)
        place, error, now.warp = places[number], WarpError.NONE, number
        if place is Place.ASKED:
            now.does, places[number] = "leave", Place.LEAVES
            return _Sent(number, InstructionKind.LEAVE, pc)
        if place is not Place.TAKEN:
            now.does, places[number] = "enter" if self._installed else "enter paused", Place.ENTERS
            return _Sent(number, InstructionKind.ENTER, pc)
        word, within, outside, now.reason = self.words[number]
        does = within if self.model.warps[number].inside else outside
        if isinstance(does, WarpError):
            if self._mask >> does.value & 1:
                does, error = "", does
            else:
                does = "go on"
        now.does = does
        places[number] = {"wait": Place.RTT, "terminate": Place.ASKED}.get(does, Place.BUSY)
        return _Sent(number, InstructionKind.TRAP, pc, word, error)

    def _may_enter(self, number: int) -> bool:
        """Whether issue may replace a warp's next instruction by ENTER."""
        warp = self.model.warps[number]
        stays = (
            self.places[number] is Place.BUSY
            and not warp.inside
            and self.words[number][2] in ("trap", "urgent trap")
        )
        return (self.places[number] is Place.RUNS or stays) and self.model.enters(number)

    def _others(self, ctx: Any, now: Happening, able: int | None, refused: bool) -> None:
        """Chooses the events of the other units and the host in this cycle."""
        dut, model, random = self.dut, self.model, self.random
        places = self.places
        launch: dict[str, Any] | None = None
        result: dict[str, Any] = {"valid": 0, "payload": {}}
        errors: dict[str, Any] = {}

        begins = self._pick(lambda number: places[number] is Place.DEAD)
        if begins is not None and self._some(0.1):
            now.launched, places[begins], launch = begins, Place.RUNS, {"warp": begins}
            self._last[begins] = None
        now.starting = self._some(0.1)

        answered = self._pick(
            lambda number: (
                number != able
                and number != now.launched
                and (
                    places[number] in (Place.ENTERS, Place.LEAVES)
                    or (
                        places[number] is Place.RUNS
                        and not model.enters(number)
                        and not self._busy()
                        and self._some(0.02)
                    )
                )
            )
        )
        if answered is not None and self._some(0.5):
            place, bad, ends = places[answered], False, False
            if place is Place.ENTERS:
                bad = self._installed and self._some(0.1)
                places[answered] = Place.RUNS
                if not self._installed or bad:
                    self.count("no frame")
            elif place is Place.LEAVES:
                ends = self.words[answered][1] == "terminate"
                bad = not ends and self._some(0.1)
                places[answered] = Place.DEAD if ends else Place.RUNS
                self.count("ends" if ends else "refused to leave" if bad else "leaves")
            elif self._some(0.3):
                ends, places[answered] = True, Place.DEAD
            now.result = answered, bad, ends
            result = {
                "valid": 1,
                "payload": {
                    "warp": answered,
                    "terminated": ends,
                    "error": WarpError.STACK_OVERFLOW if bad else WarpError.NONE,
                },
            }

        for number in range(self._count):
            warp = model.warps[number]
            if number in (able, answered, now.launched):
                continue
            if number == self._selected:
                now.drained.add(number)
                continue
            if warp.bare and places[number] is Place.RUNS:
                continue
            goes = places[number] is Place.RUNS and not model.holds(number) and self._some(0.3)
            if goes and not (self._busy() or (self._serial and now.taken)):
                now.taken.add(number)
                if self._some(0.4):
                    places[number] = Place.TAKEN
                    self.words[number] = random.choice(
                        _RTTS if warp.inside and self._some(0.5) else _INSTRUCTIONS
                    )
                elif not warp.inside and self._some(0.2):
                    places[number] = Place.BARRIER
                if self._serial:
                    pc = self._last[number] = self._new_pc()
                    self._issue(ctx, number, InstructionKind.TRAP, pc, self.words[number][0])
            elif (
                places[number] is Place.RUNS
                and self._some(0.03)
                and warp.live
                and not (warp.pending_errors or warp.taken_back)
            ):
                self._fail(number, now, errors, alone=refused)
            if places[number] in (Place.RUNS, Place.BARRIER):
                now.drained.add(number)
        if refused:
            reported = ctx.get(dut.error.payload)
            now.errors["trap"] = Origin.LAST, reported.warp, reported.error, reported.pc
            errors["trap"] = {"warp": reported.warp, "error": reported.error, "pc": reported.pc}
            places[reported.warp] = Place.RUNS
        self._stop = self._some(0.02) if not self._stop else self._some(0.9)
        now.stop, now.step = self._stop, self._some(0.5)
        now.wake = {number for number in range(self._count) if self._some(0.05)}
        self._barriers(ctx, now)
        now.cleared = None
        ctx.set(dut.status.warp, random.randrange(self._count))
        clears = self._some(0.05)
        ctx.set(dut.status.clear, clears)
        if clears:
            now.cleared = ctx.get(dut.status.warp)
        offer(ctx, dut.launch, launch)
        ctx.set(dut.result.valid, result["valid"])
        ctx.set(dut.result.payload, result["payload"])
        set_errors(ctx, dut.errors, errors)
        ctx.set(dut.starting, now.starting)
        ctx.set(dut.control.taken, _bits(now.taken))
        ctx.set(dut.drained, _bits(now.drained))
        ctx.set(
            dut.control.live, _bits(number for number, warp in enumerate(model.warps) if warp.live)
        )

    def _fail(self, number: int, now: Happening, errors: dict[str, Any], *, alone: bool) -> None:
        """Reports one or two errors of a warp.

        ``alone``: on a serial machine, the error does not belong to the instruction in flight.
        """
        names = ["lanes", "flow", "memory", "conversion", "barrier", "stack"]
        choices = [[name] for name in names] + [["stack", "flow"]]
        if not self._serial:
            choices += [["lanes", "memory"], ["flow", "memory"]]
        elif (
            alone
            or self._busy()
            or now.taken
            or now.errors.keys() - {"stack"}
            or self._last[number] is None
            or self.model.warps[number].bare
            or self.model.warps[number].paused
        ):
            choices = [["stack"]]
        for name in self.random.choice(choices):
            if name not in now.errors:
                code = self.random.choice((WarpError.MMU_FAULT, WarpError.STACK_OVERFLOW)).value
                pc = (self._last[number] or 0) if self._serial else self.random.getrandbits(29) << 3
                now.errors[name] = ERROR_SOURCES[name], number, code, pc
                errors[name] = {"warp": number, "error": code, "pc": pc}
                self.count(f"fails {'inside' if self.model.warps[number].inside else 'outside'}")

    def _barriers(self, ctx: Any, now: Happening) -> None:
        """Lets warps wait at a barrier, and answers withdrawals that the unit requests."""
        dut, places = self.dut, self.places
        ctx.set(
            dut.waiting,
            _bits(number for number in range(self._count) if places[number] is Place.BARRIER),
        )
        wanted = self._withdrawing
        if wanted is not None and self._some(0.5):
            now.withdrawn, self._withdrawing = wanted, None
            places[wanted] = Place.RUNS
            self.count("withdrawn")
        offer(ctx, dut.withdrawn, now.withdrawn)
        if ctx.get(dut.withdraw.valid):
            withdraw = ctx.get(dut.withdraw.payload)
            self._expect(
                "who is withdrawn enters",
                (
                    places[withdraw] is Place.BARRIER or now.withdrawn == withdraw,
                    self.model.enters(withdraw),
                ),
                (True, True),
            )
            if now.withdrawn is None:
                self._withdrawing = withdraw
        else:
            self._withdrawing = None
            for number in range(self._count):  # the others have arrived
                if (
                    places[number] is Place.BARRIER
                    and not self.model.enters(number)
                    and self._some(0.1)
                ):
                    places[number] = Place.RUNS

    def _compare_now(self, ctx: Any, now: Happening, sent: _Sent | None, handler: int) -> None:
        """Compares the outputs of this cycle."""
        dut, model, warps = self.dut, self.model, self.model.warps
        numbers, waiting = range(self._count), ctx.get(dut.waiting)
        self._expect("room", ctx.get(dut.room), 1)
        self._expect(
            "hold",
            ctx.get(dut.control.hold),
            _bits(number for number in numbers if model.holds(number)),
        )
        self._expect(
            "enter",
            ctx.get(dut.control.enter),
            _bits(
                number for number in numbers if model.enters(number) and not waiting >> number & 1
            ),
        )
        self._expect(
            "inside",
            ctx.get(dut.inside),
            _bits(number for number in numbers if warps[number].inside),
        )
        self._expect(
            "leave",
            ctx.get(dut.control.leave),
            _bits(number for number in numbers if warps[number].leaving),
        )
        self._expect(
            "state",
            (
                ctx.get(dut.state.trapping),
                ctx.get(dut.state.locked_down),
                ctx.get(dut.state.paused),
                ctx.get(dut.state.trapped),
            ),
            (
                model.trapping,
                model.locked_down(now),
                _bits(number for number in numbers if warps[number].paused),
                _bits(number for number in numbers if warps[number].reasons),
            ),
        )
        asked, status = ctx.get(dut.status.warp), ctx.get(dut.status.status)
        warp = warps[asked]
        self._expect(
            "status",
            (status.failed, status.stepped, status.reasons),
            (warp.failed, warp.stepped, _bits(reason - 1 for reason in warp.reasons)),
        )
        if warp.failed and warp.inside and self._cycle > self._entered[asked] + 1:
            self._expect("code", WarpError(status.error).value, WarpError(warp.code).value)
        elif not warp.failed:
            self._expect("no code", WarpError(status.error), WarpError.NONE)
        every = ctx.get(dut.status.all_status)
        self._expect(
            "all failed, stepped, stop",
            (every & 1, every >> 8 & 1, every >> 9),
            (any(warp.failed for warp in warps), any(warp.stepped for warp in warps), now.stop),
        )
        reasons = _bits({reason - 1 for warp in warps for reason in warp.reasons})
        self._expect("reasons among all", every >> 1 & reasons, reasons)
        self._trapless = 0 if reasons else self._trapless + 1
        if self._trapless > 1:
            self._expect("all reasons", every >> 1 & 0x7F, 0)
        late = self._idle and self._idle_cycles == 1 << self._timeout
        self._expect("timeout", ctx.get(dut.events.timeout), late)
        self.count("timeout" if late else "in time")
        self._idle_cycles = self._idle_cycles + 1 if self._idle and not late else 0
        self._idle = bool(
            any(warp.live for warp in warps) and not model.locked_down(now) and not now.taken
        )
        if sent is not None and sent.kind is InstructionKind.ENTER:
            back = model.comes_back_to(sent.warp, sent.pc)
            self.count("comes back elsewhere" if back != sent.pc else "comes back")
            self._expect(
                "what the flow unit does",
                (
                    FlowOperation(ctx.get(dut.flow.operation)),
                    ctx.get(dut.flow.pc),
                    ctx.get(dut.flow.target),
                ),
                (
                    (FlowOperation.ENTER_TRAP, back, handler)
                    if self._installed
                    else (FlowOperation.BRANCH, back, back)
                ),
            )
        if sent is not None and sent.kind is InstructionKind.LEAVE:
            self._expect(
                "how it leaves",
                FlowOperation(ctx.get(dut.flow.operation)),
                _OF_RETURN[self.words[sent.warp][0]],
            )

    def _compare_after(self, ctx: Any, now: Happening, sent: _Sent | None, reply: Reply) -> None:
        """Compares the outputs of the cycle after."""
        completion, failed, report, events = (
            *(
                ctx.get(as_struct(event))
                for event in (self.dut.completion, self.dut.error, self.dut.report)
            ),
            ctx.get(self.dut.events),
        )
        executes = sent is not None and sent.kind is InstructionKind.TRAP
        traps = executes and now.does in ("trap", "urgent trap", "fail")
        fails = sent is not None and sent.error is not WarpError.NONE
        self._expect(
            "completion, error, report",
            (completion.valid, failed.valid, report.valid),
            (executes, fails, traps),
        )
        if sent is not None and executes:
            self._expect(
                "what completes",
                (
                    completion.warp,
                    completion.sequence,
                    completion.write_barrier,
                    completion.read_barrier,
                ),
                (sent.warp, self._cycle % 1024, self._cycle % 7, self._cycle % 5),
            )
        if sent is not None and fails:
            self._expect(
                "what failed",
                (failed.warp, failed.pc, WarpError(failed.error)),
                (sent.warp, sent.pc, sent.error),
            )
            self.count("refused")
        if sent is not None and traps:
            self._expect(
                "what traps",
                (report.warp, report.pc, report.reason),
                (sent.warp, (sent.pc + 8) % (1 << 32), now.reason),
            )
            self.count(now.does)
            self._trapless = 0
        self._expect(
            "BPT.INT", events.interrupt, executes and sent is not None and sent.word == _INTERRUPT
        )
        self._expect("resume", ctx.get(self.dut.resume), _bits(reply.resume))
        self._expect(
            "events",
            (events.pause, events.error_in_trap, events.step),
            (reply.pause, reply.error_in_trap, reply.step),
        )

    def _expect(self, what: str, got: Any, expected: Any) -> None:
        assert got == expected, f"{what}: {got}, expected {expected}"
