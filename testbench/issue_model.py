"""The rules of issue in plain Python: which instruction or operation is selected in a cycle.

It knows instructions by number and time, where the hardware has counters: when a warp issued last, which scoreboards
are raised by what and since when, and in which order warps were launched or issued.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rtl.isa.control_code import (
    GROUP_BYTES,
    GROUP_INSTRUCTIONS,
    INSTRUCTION_BYTES,
    NO_BARRIER,
    ControlCode,
    instruction_address,
)
from rtl.isa.errors import WarpError
from rtl.issue import LAUNCH_PATIENCE, Policy
from rtl.issue.choose import FAVOUR_INTERVAL
from rtl.layouts import InstructionKind as Kind
from rtl.layouts import LaneClient

__all__ = ["CROWDED", "INJECTED", "Inputs", "IssueModel", "Planned", "Selection"]

CROWDED = 56
"""A scoreboard as high keeps its warp from issuing: more may be on the way to raise it."""
MOST_IN_FLIGHT, MOST_RESULTS = 63, 15
RISE = 2
"""Cycles from an instruction's selection to the first one that sees its scoreboards up."""
INJECTED = (Kind.ENTER, Kind.LEAVE)
FLOW = (*INJECTED, Kind.PUSH, Kind.FLOW, Kind.FLOW_INDEXED, Kind.FLOW_READ)
LANES = (Kind.LANES, Kind.FLOW_INDEXED, Kind.BARRIER_INDEXED)
BARRIER = (Kind.BARRIER, Kind.BARRIER_INDEXED, Kind.BARRIER_READ)
AFTER_ALL = (Kind.BARRIER, Kind.BARRIER_INDEXED, Kind.TRAP)
COLLECTED = (Kind.FLOW_INDEXED, Kind.BARRIER_INDEXED)
SILENT = (Kind.PUSH, Kind.FLOW, Kind.FLOW_INDEXED, Kind.NOTHING, Kind.DEPENDENCY, *INJECTED)
COLLECTING = 4


@dataclass(frozen=True)
class Planned:
    """An instruction that waits. ``depends``: the scoreboards of a DEPBAR; ``at_most``: one of them, and its bound."""

    kind: Kind
    control: ControlCode
    pc: int
    word: int = 0
    error: WarpError = WarpError.NONE
    constant: int = 0
    missing: bool = False
    depends: frozenset[int] = frozenset()
    at_most: tuple[int, int] | None = None

    @property
    def barriers(self) -> list[int]:
        """The scoreboards that it raises."""
        if self.kind in SILENT:
            return []
        return [number for number in (self.control.write_barrier, self.control.read_barrier) if number < 6]

    @property
    def last(self) -> bool:
        """Whether it is the last one of its group."""
        return self.pc % GROUP_BYTES == GROUP_INSTRUCTIONS * INSTRUCTION_BYTES

    @property
    def next_pc(self) -> int:
        """Address of the next instruction."""
        return self.pc + (2 if self.last else 1) * INSTRUCTION_BYTES & 0xFFFF_FFFF


@dataclass
class Inputs:
    """What the hardware sees in a cycle. ``groups``: warp and instructions; ``results``: warp, pc, terminated;
    ``hold``: warps that issue no instruction; ``injects``: what warps are to do in the place of one; ``operations``:
    what each client offers, as (number, whether it reads)."""

    group: tuple[int, list[Planned]] | None = None
    launched: int | None = None
    result: tuple[int, int, bool] | None = None
    completions: Sequence[tuple[int, int, int]] = ()
    reads: Sequence[tuple[int, int]] = ()
    resume: int = 0
    rooms: dict[str, int] = field(default_factory=dict)
    collecting: bool = False
    hold: int = 0
    injects: dict[int, Kind] = field(default_factory=dict)
    policy: Policy = Policy.GREEDY_THEN_OLDEST
    operations: dict[LaneClient, tuple[int, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """An instruction of a warp, or an operation of a client."""

    warp: int | None = None
    planned: Planned | None = None
    client: LaneClient | None = None
    number: int = 0


@dataclass
class _Warp:
    live: bool = False
    begins: bool = False
    queue: deque[Planned] = field(default_factory=deque)
    earliest: int = 0
    """The first cycle that the last stall count allows."""
    shown: int = 0
    """The first cycle in which the scoreboards show what issued last."""
    results: int = 0
    in_flight: int = 0
    until_result: bool = False
    until_resumed: bool = False
    until_complete: bool = False
    behind: int = 0
    raised: Counter = field(default_factory=Counter)
    rises: deque[tuple[int, int]] = field(default_factory=deque)

    def up(self, cycle: int) -> Counter:
        """The scoreboards, as seen in a cycle."""
        while self.rises and self.rises[0][0] <= cycle:
            self.raised[self.rises.popleft()[1]] += 1
        return self.raised


class IssueModel:
    """Predicts every selection.

    Attributes
    ----------
    warps : list
    redirected : list[int]
        Warps that were redirected in the cycle before, for whoever feeds them.
    taken : list[LaneClient]
        Clients whose operation was taken in the cycle before.
    ready, wanting : list[int]
        Warps that were ready, and those that only the lanes kept from that too.
    """

    def __init__(self, warps: int, beats: int, window: int) -> None:
        self.warps = [_Warp() for _ in range(warps)]
        self._beats, self._window = beats, window
        self.cycle = 0
        self.redirected: list[int] = []
        self.taken: list[LaneClient] = []
        self.ready: list[int] = []
        self.wanting: list[int] = []
        self._order = list(range(warps))
        self._last, self._yielded = -1, -1
        self._lanes_at = self._collect_at = 0
        self._held: dict[str, tuple[LaneClient, int] | None] = {"result": None, "gather": None, "launch": None}
        self._turns = {"result": 0, "gather": 0, "launch": 0}
        self._waited, self._turn = 0, False

    def step(self, inputs: Inputs) -> Selection | None:
        """What is selected in a cycle with these inputs; then it is over."""
        heads = {number: head for number in range(len(self.warps)) if (head := self._head(number, inputs)) is not None}
        self.wanting = [number for number, head in heads.items()
                        if self._can(self.warps[number], head, bool(inputs.hold >> number & 1), inputs)]
        self.ready = [number for number in self.wanting
                      if heads[number].kind not in LANES or self.cycle >= self._lanes_at]
        complete = [warp for warp in self.warps if warp.until_complete and not warp.in_flight and not warp.results]
        wanting = bool(self.ready)
        which = self._operation(wanting)
        selection = None
        if which is not None:
            held = self._held[which]
            assert held is not None
            selection = Selection(client=held[0], number=held[1])
            self._lanes_at = self.cycle + self._beats
        elif wanting:
            chosen = self._choose(inputs.policy)
            selection = Selection(chosen, heads[chosen])
        self._after_operations(inputs, which, selection is not None and selection.planned is not None)
        issued = selection.warp if selection is not None else None
        if issued is not None:
            self._issue(issued, heads[issued], inputs.policy)
        if inputs.launched is not None and (issued is None or inputs.policy is Policy.GREEDY_THEN_OLDEST):
            self._order.remove(inputs.launched)
            self._order.append(inputs.launched)
        for warp in complete:
            warp.until_complete = False
        self._change(inputs)
        self.cycle += 1
        return selection

    def _head(self, number: int, inputs: Inputs) -> Planned | None:
        """What a warp would issue, if it could."""
        warp = self.warps[number]
        if not warp.queue:
            return None
        kind = inputs.injects.get(number)
        return warp.queue[0] if kind is None else replace(warp.queue[0], kind=kind, word=0, missing=False)

    def _can(self, warp: _Warp, planned: Planned, held: bool, inputs: Inputs) -> bool:
        up = warp.up(self.cycle)
        if not warp.live or warp.until_result or warp.until_complete:
            return False
        if planned.kind in INJECTED:
            return not warp.in_flight and not warp.results and self._available(planned.kind, inputs)
        if warp.until_resumed or held:
            return False
        waits = {number for number in range(6) if planned.control.wait >> number & 1} | planned.depends
        if self.cycle < warp.earliest or any(up[number] for number in waits):
            return False
        if planned.kind in AFTER_ALL and (warp.in_flight or (planned.kind is Kind.TRAP and warp.results)):
            return False
        if planned.kind is Kind.DEPENDENCY and self.cycle < warp.shown:
            return False
        if planned.at_most is not None and up[planned.at_most[0]] > planned.at_most[1]:
            return False
        if (max(up.values(), default=0) >= CROWDED or warp.in_flight >= MOST_IN_FLIGHT
                or warp.results >= MOST_RESULTS):
            return False
        return self._available(planned.kind, inputs)

    def _available(self, kind: Kind, inputs: Inputs) -> bool:
        quiet = self.cycle >= self._collect_at and not inputs.collecting
        units = {"flow": FLOW, "barrier": BARRIER, "memory": (Kind.MEMORY,), "conversion": (Kind.CONVERSION,),
                 "trap": (Kind.TRAP,)}
        return all(inputs.rooms[unit] and (quiet or unit not in ("flow", "barrier"))
                   for unit, kinds in units.items() if kind in kinds)

    def _operation(self, wanting: bool) -> str | None:
        """Which of the operations goes, if one does."""
        if self.cycle < self._lanes_at:
            return None
        if self._held["launch"] and self._waited == LAUNCH_PATIENCE:
            return "launch"
        if self._held["result"]:
            return "result"
        if self._held["gather"] and (self._turn or not wanting):
            return "gather"
        return "launch" if self._held["launch"] and not wanting else None

    def _after_operations(self, inputs: Inputs, which: str | None, issues: bool) -> None:
        free = {name for name, held in self._held.items() if held is None}
        if which == "launch":
            self._waited = 0
        elif self._held["launch"] and self._waited < LAUNCH_PATIENCE:
            self._waited += 1
        if which == "gather":
            self._turn = False
        elif self.cycle >= self._lanes_at and issues:
            self._turn = self._held["gather"] is not None
        if which is not None:
            self._held[which] = None
        self.taken = []
        for name in free:
            offers = [client for client, (_, reads) in inputs.operations.items()
                      if name == ("launch" if client is LaneClient.LAUNCH else "gather" if reads else "result")]
            if offers:
                last = self._turns[name]
                client = min(offers, key=lambda client: (client.value <= last, client.value))
                self._held[name] = client, inputs.operations[client][0]
                self._turns[name] = client.value if name != "launch" else 0
                self.taken.append(client)

    def _choose(self, policy: Policy) -> int:
        windows, turn = divmod(self.cycle // self._window, FAVOUR_INTERVAL)
        favoured = windows % len(self.warps)
        if turn == FAVOUR_INTERVAL - 1 and favoured in self.ready:
            return favoured
        if policy is Policy.GREEDY_THEN_OLDEST and self._last in self.ready and self._last != self._yielded:
            return self._last
        return min(self.ready, key=lambda warp: (warp == self._yielded, self._order.index(warp)))

    def _issue(self, number: int, planned: Planned, policy: Policy) -> None:
        warp = self.warps[number]
        warp.queue.popleft()
        kind, control = planned.kind, planned.control
        warp.earliest, warp.shown = self.cycle + max(control.stall, 1), self.cycle + RISE
        warp.behind = planned.next_pc
        warp.rises += [(self.cycle + RISE, barrier) for barrier in planned.barriers]
        warp.in_flight += kind not in SILENT
        warp.results += kind in FLOW
        warp.until_result = kind in (Kind.FLOW, Kind.FLOW_INDEXED, Kind.FLOW_READ, *INJECTED)
        warp.until_resumed = kind in (Kind.BARRIER, Kind.BARRIER_INDEXED, Kind.TRAP)
        warp.until_complete = kind in (Kind.FLOW_READ, Kind.REFUSED) or planned.missing
        self._last, self._yielded = number, number if not control.no_yield else -1
        if policy is Policy.ROUND_ROBIN:
            self._order.remove(number)
            self._order.append(number)
        if kind in LANES:
            self._lanes_at = self.cycle + self._beats
        if kind in COLLECTED:
            self._collect_at = self.cycle + COLLECTING

    def _change(self, inputs: Inputs) -> None:
        """What comes from outside in a cycle, which the next one sees."""
        self.redirected = []
        if inputs.group is not None:
            number, instructions = inputs.group
            self.warps[number].queue.extend(instructions)
        for number, *barriers in inputs.completions:
            self.warps[number].in_flight -= 1
            self.warps[number].raised.subtract(barrier for barrier in barriers if barrier != NO_BARRIER)
        for number, barrier in inputs.reads:
            self.warps[number].raised.subtract([barrier] if barrier != NO_BARRIER else [])
        for number, warp in enumerate(self.warps):
            if inputs.resume >> number & 1:
                warp.until_resumed = False
        if inputs.result is not None:
            self._result(*inputs.result)
        if inputs.launched is not None:
            warp = self.warps[inputs.launched]
            warp.live, warp.begins, warp.until_result, warp.earliest = True, True, True, 0
            warp.until_complete = warp.until_resumed = False
            warp.results += 1

    def _result(self, number: int, pc: int, terminated: bool) -> None:
        warp = self.warps[number]
        warp.results -= 1
        if warp.until_result and not warp.results:
            warp.until_result = False
            if not terminated and (warp.begins or instruction_address(pc) != warp.behind):
                warp.queue.clear()
                self.redirected.append(number)
            warp.begins = False
        if terminated:
            warp.live = False
