"""The wait reasons of the issue unit: the reported reason of each warp is compared with the model's
state.

The hardware may report a reason some cycles late. No reason may be wrong for longer, and none of
higher priority may be missing for longer.
"""

from collections.abc import Set
from dataclasses import dataclass, field

from rtl.layouts import KIND_RULES, WaitReason
from testbench.scheduler.issue_model import FULL, Inputs, IssueModel, Planned, RuleError

__all__ = ["HELD", "Waits"]

HELD = frozenset({WaitReason.FLOW, WaitReason.DRAIN, WaitReason.RESUME, WaitReason.TRAP})
"""Reasons that count as held."""
_ORDER = (
    WaitReason.NOT_LIVE,
    WaitReason.FLOW,
    WaitReason.DRAIN,
    WaitReason.RESUME,
    WaitReason.TRAP,
    WaitReason.STALL,
    WaitReason.FETCH,
    WaitReason.SCOREBOARD,
    WaitReason.DRAIN,
    WaitReason.UNIT,
    WaitReason.LANES,
    WaitReason.READY,
)
"""Reasons by priority: the first one that holds is reported. DRAIN may be due to the previous
instruction or to the next one.
"""
_BEHIND, _BEFORE = (place for place, reason in enumerate(_ORDER) if reason is WaitReason.DRAIN)
_FETCH, _SCOREBOARD, _LANES = map(
    _ORDER.index, (WaitReason.FETCH, WaitReason.SCOREBOARD, WaitReason.LANES)
)
_KNOWN = {WaitReason.NOT_LIVE: 0, WaitReason.TRAP: 0, WaitReason.UNIT: 2}
"""Maximum delay in cycles until the hardware reports a reason that holds; for the other reasons
_COUNTED.
"""
_COUNTED = 3
"""Cycles from the selection of an instruction until it is counted."""
_OVER = {
    WaitReason.NOT_LIVE: 0,
    WaitReason.TRAP: 0,
    WaitReason.FLOW: 3,
    WaitReason.RESUME: 2,
    WaitReason.STALL: 1,
    WaitReason.FETCH: 12,
    WaitReason.UNIT: 2,
    WaitReason.LANES: 0,
}
"""Maximum number of cycles for which a reason may be reported after it has ended; for the other
reasons the model's delay.
"""
_COMPLETE, _RESULTS = "complete", "results"
_LONG_AGO = -1000


@dataclass
class _Account:
    """The history of a warp.

    Attributes:
        since: For each place of the order, the cycle since when its reason holds; None if it does
            not.
        last: For each place of the order, the last cycle in which its reason held.
        up: The last cycle in which each scoreboard was raised, instructions were in flight, or flow
            results were outstanding.
    """

    since: list[int | None] = field(default_factory=lambda: [None] * len(_ORDER))
    last: list[int] = field(default_factory=lambda: [_LONG_AGO] * len(_ORDER))
    up: dict[int | str, int] = field(default_factory=dict)
    ready: bool = False
    """In the cycle before it could have issued, apart from the lanes."""


class Waits:
    """Checks the reported wait reasons against a model.

    Attributes:
        counts: How often each reason was reported.
    """

    def __init__(self, model: IssueModel) -> None:
        self._model = model
        self._accounts = [_Account() for _ in model.warps]
        self.counts = dict.fromkeys(WaitReason, 0)

    def check(self, reasons: list[WaitReason], inputs: Inputs) -> None:
        """Checks the reported reasons of all warps. Call it before the model's step with the inputs
        of the cycle.

        Raises:
            RuleError: A reason does not hold, or one of higher priority does.
        """
        cycle = self._model.cycle
        for number, (reason, warp, account) in enumerate(
            zip(reasons, self._model.warps, self._accounts, strict=True)
        ):
            self.counts[reason] += 1
            late = self._model.late(warp)
            account.up |= {
                up: cycle
                for up, count in (
                    *warp.raised.items(),
                    (_COMPLETE, warp.in_flight),
                    (_RESULTS, warp.results),
                )
                if count
            }
            held = self._holds(
                number, inputs, {up for up, when in account.up.items() if when == cycle}
            )
            perhaps = self._holds(
                number, inputs, {up for up, when in account.up.items() if cycle - when <= late}
            )
            perhaps[_SCOREBOARD] |= warp.in_flight == FULL or (
                warp.limit is not None and cycle - warp.issued <= late
            )
            perhaps[_ORDER.index(WaitReason.UNIT)] |= self._shuts_out(number)
            # The instruction after the last one has to wait for the bus if others use it.
            perhaps[_FETCH] |= cycle == warp.issued + 1
            for place, holds in enumerate(held):
                since = account.since[place]
                account.since[place] = (cycle if since is None else since) if holds else None
                account.last[place] = cycle if holds or perhaps[place] else account.last[place]
            # The buffered instructions of a redirected warp are flushed in this cycle.
            if number not in {redirected for redirected, _ in self._model.redirected}:
                self._compare(number, reason, account, inputs)

    def _compare(self, number: int, reason: WaitReason, account: _Account, inputs: Inputs) -> None:
        """Checks the reason reported for a warp."""
        model = self._model
        late = _OVER.get(reason, model.late(model.warps[number]))
        places = [
            place
            for place, one in enumerate(_ORDER)
            if one is reason
            and (one is WaitReason.READY or model.cycle - account.last[place] <= late)
        ]
        if not places:
            raise RuleError(f"warp {number} waits for {reason.name}, which does not hold")
        for place, since in enumerate(account.since[: min(places[0], _LANES)]):
            if since is not None and model.cycle - since > _KNOWN.get(_ORDER[place], _COUNTED):
                raise RuleError(f"warp {number} waits for {_ORDER[place].name}, not {reason.name}")
        # A warp that could issue in the cycle before requests the lanes in this one.
        busy = reason is WaitReason.READY and account.since[_LANES] is not None
        if busy and account.ready and number not in inputs.injects:
            raise RuleError(f"warp {number} waits for {WaitReason.LANES.name}, not {reason.name}")
        account.ready = busy

    def _holds(self, number: int, inputs: Inputs, up: Set[int | str]) -> list[bool]:
        """For each place of the order, whether its reason holds, given the nonzero scoreboards and
        counts ``up``.

        LANES is set for an instruction that needs the lanes, whatever else holds.
        """
        model, held = self._model, [False] * len(_ORDER)
        warp, cycle = model.warps[number], model.cycle
        for reason, holds in (
            (WaitReason.NOT_LIVE, not warp.live),
            (WaitReason.RESUME, warp.until_resumed),
            (
                WaitReason.FLOW,
                (warp.until_redirected and number != model.revoked)
                or (warp.until_result and warp.after == "result"),
            ),
            (WaitReason.TRAP, bool(inputs.hold >> number & 1)),
            (WaitReason.FETCH, not warp.queue),
            (WaitReason.STALL, cycle + 1 < max(warp.earliest, warp.issued + _COUNTED)),
            (WaitReason.SCOREBOARD, warp.in_flight > FULL or warp.limited),
        ):
            held[_ORDER.index(reason)] = holds
        held[_BEHIND] = warp.until_complete
        planned = warp.queue[0] if warp.queue else model.flushed.get(number)
        if planned is not None:
            rule = KIND_RULES[planned.kind]
            held[_SCOREBOARD] |= not planned.waits.isdisjoint(up)
            held[_BEFORE] = not (
                rule.before | ({_RESULTS} if planned.missing else set())
            ).isdisjoint(up)
            held[_ORDER.index(WaitReason.UNIT)] = not self._room(planned, inputs)
            held[_LANES] = rule.lanes and cycle < model.lanes_at
        return held

    def _room(self, planned: Planned, inputs: Inputs) -> bool:
        """Whether the unit of an instruction has room; without a unit, whether the event queue has,
        if it needs that.
        """
        unit = KIND_RULES[planned.kind].unit
        if unit is None:
            return inputs.events or not planned.needs_events
        collects = inputs.collecting or self._model.cycle < self._model.collect_at
        if unit == "flow" and self._model.redirects_wait:
            return False
        return bool(inputs.rooms[unit]) and not (unit in ("flow", "barrier") and collects)

    def _shuts_out(self, number: int) -> bool:
        """Whether another instruction may block a warp's next one: one whose operands are
        collected, or one that has passed the full lanes.
        """
        model, queue = self._model, self._model.warps[number].queue
        if not queue:
            return False
        rule = KIND_RULES[queue[0].kind]
        return (rule.collected and model.beats == 1) or (
            rule.unit in (None, "trap") and 0 <= model.complete_at - model.cycle <= _COUNTED
        )
