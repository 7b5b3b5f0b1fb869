"""The reference model of the trap unit: the rules of docs/barriers_traps.md for each warp, one by
one.
"""

from dataclasses import dataclass, field

from rtl.layouts import Origin

__all__ = ["Happening", "Machine", "Reply", "Warp", "instruction_behind"]

GROUP, INSTRUCTION = 32, 8
"""Bytes of a group, whose first word is no instruction, and of an instruction."""


@dataclass
class Warp:
    """The state of a warp.

    Attributes:
        pending_errors: Origin, code and address of the errors since the last entry or return, by
            their source.
    """

    live: bool = False
    inside: bool = False
    bare: bool = False
    paused: bool = False
    halted: bool = False
    quiet: bool = False
    waits: bool = False
    leaving: bool = False
    masked: bool = False
    failed: bool = False
    stepped: bool = False
    reasons: set[int] = field(default_factory=set)
    to_step: bool = False
    has_stepped: bool = False
    awaits_entry: bool = False
    taken_back: bool = False
    returns_by: str = ""
    pending_errors: dict[str, tuple[Origin, int, int]] = field(default_factory=dict)
    code: int = 0

    @property
    def stops(self) -> bool:
        """Whether it has executed a single step and does not mask the trap after it."""
        return self.has_stepped and not self.masked

    @property
    def returning(self) -> bool:
        """Whether it waits at RTT, or would wait if it were not paused."""
        return self.waits or self.bare


@dataclass
class Happening:
    """The inputs of a cycle: an operation of the trap unit, if any, and the events of other
    units.
    """

    warp: int = 0
    does: str = ""
    reason: int = 0
    launched: int | None = None
    result: tuple[int, bool, bool] | None = None
    """Warp, whether the operation failed, whether it ends the warp."""
    errors: dict[str, tuple[Origin, int, int, int]] = field(default_factory=dict)
    """For each source: origin, warp, code, address."""
    taken: set[int] = field(default_factory=set)
    drained: set[int] = field(default_factory=set)
    withdrawn: int | None = None
    cleared: int | None = None
    wake: set[int] = field(default_factory=set)
    stop: bool = False
    step: bool = False
    starting: bool = False


@dataclass
class Reply:
    """The outputs of the following cycle."""

    resume: set[int] = field(default_factory=set)
    pause: bool = False
    error_in_trap: bool = False
    step: bool = False


def instruction_before(pc: int) -> int:
    """The address of the instruction before this one."""
    before = pc - INSTRUCTION
    return (before - INSTRUCTION if before % GROUP == 0 else before) % (1 << 32)


def instruction_behind(pc: int) -> int:
    """The address of the instruction after this one."""
    behind = pc + INSTRUCTION
    return (behind + INSTRUCTION if behind % GROUP == 0 else behind) % (1 << 32)


class Machine:
    """The state of all warps, and whether the multiprocessor is in trap mode."""

    def __init__(self, count: int) -> None:
        self.warps = [Warp() for _ in range(count)]
        self.trapping = self.urgent = False
        self._cause = self._insisting = False
        """Of the cycle before: whether a cause of a trap occurred, and whether it can't be masked.
        """
        self._cleared: int | None = None

    @property
    def _alive(self) -> list[Warp]:
        return [warp for warp in self.warps if warp.live]

    def enters(self, number: int) -> bool:
        """Whether a warp has to enter the trap."""
        warp, everybody = self.warps[number], (self.trapping and self.urgent) or self._insisting
        return not warp.inside and (everybody or (self.trapping and not warp.masked))

    def holds(self, number: int) -> bool:
        """Whether a warp may issue no instruction."""
        warp = self.warps[number]
        return self.enters(number) or warp.stops or warp.paused or warp.returning

    def _stands(self, now: Happening) -> bool:
        return not now.starting and all(warp.paused or warp.returning for warp in self._alive)

    def _releases(self, now: Happening) -> bool:
        return (
            self.trapping
            and not now.stop
            and self._stands(now)
            and any(not warp.paused for warp in self._alive)
        )

    def _is_over(self, now: Happening) -> bool:
        return (
            not now.stop
            and self._stands(now)
            and (
                any(not warp.paused for warp in self._alive)
                or all(warp.quiet for warp in self._alive)
            )
        )

    def locked_down(self, now: Happening) -> bool:
        """Whether the multiprocessor is in trap mode and no warp runs."""
        return self.trapping and self._stands(now) and not self._is_over(now)

    def comes_back_to(self, number: int, pc: int) -> int:
        """The return point of a warp that enters before ``pc``."""
        warp, of = self.warps[number], {}
        for origin, _, address in self.warps[number].pending_errors.values():
            of.setdefault(origin, address)
        for origin in (Origin.MEMORY, Origin.FLOW):
            if origin in of:
                return of[origin]
        return instruction_before(pc) if warp.taken_back or Origin.LAST in of else pc

    def step(self, now: Happening) -> Reply:
        """Executes one cycle; returns the outputs of the next one."""
        reply, releases, over = Reply(), self._releases(now), self._is_over(now)
        insisting = now.does == "urgent trap"
        cause = now.stop
        stopping = [number for number, warp in enumerate(self.warps) if warp.stops]
        if (
            stopping
            and not any(warp.to_step for warp in self.warps)
            and set(stopping) <= now.drained
        ):
            cause = True
        cause |= self._cause
        asked = False
        for number, warp in enumerate(self.warps):
            does = now.does if now.warp == number else ""
            outcome = now.result if now.result is not None and now.result[0] == number else None
            failing = [
                (source, *error) for source, error in now.errors.items() if error[1] == number
            ]
            was_inside, was_paused, was_bare, was_leaving = (
                warp.inside,
                warp.paused,
                warp.bare,
                warp.leaving,
            )
            woken = was_paused and self.trapping and number in now.wake
            refused = outcome is not None and outcome[1]
            ended = now.launched == number or (outcome is not None and outcome[2])
            left = (outcome is not None and not refused and was_leaving) or (
                releases and was_bare and not was_paused
            )
            fails, newly = (
                bool(failing) and was_inside,
                bool(failing) and warp.live and not was_inside,
            )

            # Causes for which the warp may be requested to enter.
            insisting |= newly
            asked |= fails or does == "fail" or (does == "trap" and not warp.masked)
            asked |= does == "unmask" and bool(warp.reasons) and not was_inside
            self._account(number, warp, does, failing, now)

            # Single steps.
            reply.step |= does in ("enter", "enter paused") and warp.has_stepped
            if does in ("enter", "enter paused"):
                warp.stepped, warp.has_stepped, warp.to_step = warp.has_stepped, False, False
            elif number in now.taken:
                warp.has_stepped, warp.to_step = warp.has_stepped or warp.to_step, False
            elif left:
                warp.to_step = now.step

            # Pauses, and outputs.
            pauses = fails or does in ("fail", "pause", "pause quietly", "enter paused")
            reply.error_in_trap |= fails or does == "fail"
            reply.pause |= fails or does in ("fail", "pause", "enter paused")
            if pauses:
                warp.quiet = does == "pause quietly" and not fails
            warp.paused = (was_paused or pauses) and not woken
            # These instructions hold their warp until it is released: pauses, BPT.TRAP, and a
            # failed BAR, BPT or RTT.
            halted = (
                warp.halted
                or does in ("fail", "pause", "pause quietly")
                or (was_inside and bool({source for source, *_ in failing} & {"barrier", "trap"}))
            )
            warp.halted = halted and not woken
            if (
                does in ("go on", "mask", "unmask")
                or (does == "trap" and warp.masked)
                or (woken and halted)
            ):
                reply.resume.add(number)
            if does in ("mask", "unmask"):
                warp.masked = does == "mask"

            # Entry and return.
            if outcome is not None:
                no_frame = refused and warp.awaits_entry
                warp.bare |= no_frame
                warp.awaits_entry = warp.leaving = False
            if does == "enter":
                warp.inside = warp.awaits_entry = True
            elif does == "enter paused":
                warp.inside = warp.bare = True
            elif does == "wait":
                warp.waits = True
            elif does == "terminate":
                warp.leaving = True
            if releases:
                warp.leaving |= warp.waits and not (outcome is not None)
                warp.waits = False
            if newly:
                warp.failed = True
            if does in ("trap", "urgent trap"):
                warp.reasons = warp.reasons | {now.reason}
            if left or ended:
                warp.inside = warp.bare = False
            if left or ended or self._cleared == number:
                warp.failed = warp.stepped = False
                warp.reasons = set()
            if ended:
                warp.paused = warp.halted = warp.quiet = warp.masked = warp.to_step = (
                    warp.has_stepped
                ) = False
                warp.live = now.launched == number
        self.trapping = (self.trapping and not over) or cause
        self.urgent = (self.urgent and not over) or self._insisting
        self._insisting = insisting
        self._cause = insisting or asked
        self._cleared = now.cleared
        return reply

    def _account(
        self, number: int, warp: Warp, does: str, failing: list[tuple], now: Happening
    ) -> None:
        """Updates the pending errors of a warp and whether its arrival at a barrier was
        withdrawn.
        """
        if does in ("enter", "enter paused") and warp.pending_errors:
            first = max(warp.pending_errors.values(), key=lambda error: error[0].value)
            warp.code = first[1]
        if does in ("enter", "enter paused"):
            warp.taken_back = False
        if does in ("enter", "enter paused", "leave") or now.launched == number:
            warp.pending_errors = {}
        for source, origin, _, code, address in failing:
            if origin is not Origin.FLOW or not warp.inside:
                warp.pending_errors.setdefault(source, (origin, code, address))
        if now.withdrawn == number:
            warp.taken_back = True
        if now.launched == number:
            warp.taken_back = False
