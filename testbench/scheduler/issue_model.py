"""Reference model of the issue rules: which instructions may be selected in a cycle, and which
should have been.

The model counts instructions and cycles where the hardware has counters, and sees every input a
cycle after it arrives. The hardware may be later by some cycles, which the model does not
determine, but never earlier. An instruction that has been selectable for long must be selected if
nothing else is, in the order of the policy.
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
from rtl.issue import FAVOUR_INTERVAL
from rtl.layouts import KIND_RULES, Policy
from rtl.layouts import InstructionKind as Kind
from rtl.params import SmParams
from testbench.scheduler.branches import PredictedBranch, predicted_branch
from testbench.scheduler.operation_streams import OPERATION_STREAMS, OperationStream

APART = 2
"""The minimum number of cycles between two instructions of a warp."""
FULL, UNSEEN = 56, 3
"""The limit of instructions in flight for a warp, and how many more may issue until it takes
effect.
"""
SLOW = 15
"""The minimum number of cycles from an instruction at a quarter of the rate to the warp's next one.
"""
SURE = 40
"""Cycles after which a selectable warp must be ready in the hardware, however many events wait."""

LOOK = 16
"""Cycles per warp of the machine within which the hardware detects that a DEPBAR.LE is satisfied.
"""


class RuleError(Exception):
    """A selection violates the rules."""


@dataclass(frozen=True)
class Planned:
    """An instruction that waits for issue.

    Attributes:
        depends: The scoreboards of a DEPBAR.
        at_most: One scoreboard and its bound, of a DEPBAR.LE.
        quarter: It passes the full lanes only.
    """

    kind: Kind
    control: ControlCode
    pc: int
    word: int = 0
    error: WarpError = WarpError.NONE
    constant: int = 0
    missing: bool = False
    depends: frozenset[int] = frozenset()
    at_most: tuple[int, int] | None = None
    quarter: bool = False

    @property
    def barriers(self) -> tuple[int, int]:
        """The barrier fields as units receive them: of a scoreboard named twice only the write
        barrier remains.
        """
        write, read = self.control.write_barrier, self.control.read_barrier
        return write, NO_BARRIER if read == write else read

    @property
    def raises(self) -> list[int]:
        """The scoreboards that it raises."""
        return (
            []
            if KIND_RULES[self.kind].silent
            else [number for number in self.barriers if number < 6]
        )

    @property
    def needs_events(self) -> bool:
        """Whether it needs room in the event queue of the lanes: it has no unit, and raises a
        scoreboard or is refused.
        """
        return KIND_RULES[self.kind].unit is None and (
            bool(self.raises) or self.kind is Kind.REFUSED
        )

    @property
    def waits(self) -> frozenset[int]:
        """The scoreboards that must be zero before it issues."""
        return self.depends.union(number for number in range(6) if self.control.wait >> number & 1)

    @property
    def predicts(self) -> PredictedBranch | None:
        """The branch with its target, if fetch continues there when it issues; None otherwise."""
        return predicted_branch(self.word, self.pc) if self.kind is Kind.FLOW else None

    @property
    def last(self) -> bool:
        """Whether it is the last instruction of its group."""
        return self.pc % GROUP_BYTES == GROUP_INSTRUCTIONS * INSTRUCTION_BYTES

    @property
    def next_pc(self) -> int:
        """Address of the next instruction."""
        return self.pc + (2 if self.last else 1) * INSTRUCTION_BYTES & 0xFFFF_FFFF


@dataclass
class Inputs:
    """The inputs of the hardware in a cycle.

    Attributes:
        group: Warp and instructions of an arriving group.
        claimed: The warp for which fetch claims a buffer.
        result: Warp, pc, and whether the warp ends.
        completions: Warp, scoreboards, and whether an instruction is complete.
        events: The event queue of the lanes has room, as the hardware reports.
        hold: A mask of warps that may issue no instruction of their program.
        injects: The kind of operation that replaces a warp's next instruction.
        operations: The numbers of the offered operations, by stream.
    """

    group: tuple[int, list[Planned]] | None = None
    claimed: int | None = None
    launched: int | None = None
    result: tuple[int, int, bool] | None = None
    completions: Sequence[tuple[int, Sequence[int], bool]] = ()
    resume: int = 0
    rooms: dict[str, int] = field(default_factory=dict)
    events: bool = True
    collecting: bool = False
    hold: int = 0
    injects: dict[int, Kind] = field(default_factory=dict)
    policy: Policy = Policy.GREEDY_THEN_OLDEST
    operations: dict[OperationStream, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """A selected instruction with its kind, or the streams of selected operations.

    At most one operation reads and one writes.
    """

    warp: int | None = None
    kind: Kind | None = None
    operations: tuple[OperationStream, ...] = ()


@dataclass
class _Warp:
    live: bool = False
    begins: bool = False
    queue: deque[Planned] = field(default_factory=deque)
    issued: int = -100
    earliest: int = 0
    """The first cycle that the last stall count allows."""
    place: int = -1
    """The cycle of its launch or of its last yield; in ROUND_ROBIN also of its last issue."""
    results: int = 0
    in_flight: int = 0
    awaits_push: bool = False
    """The result of a push is outstanding."""
    until_result: bool = False
    until_resumed: bool = False
    until_complete: bool = False
    until_redirected: bool = False
    """Fetch has yet to be redirected."""
    after: str | None = None
    """What the instruction after the last one waits for, as in KindRule."""
    limit: tuple[int, int] | None = None
    behind: int = 0
    claims: int = 0
    raised: Counter = field(default_factory=Counter)
    able: int = 0
    """Number of cycles in which its next instruction could have been selected, apart from the
    lanes.
    """

    @property
    def idle(self) -> bool:
        """Nothing of the warp is in flight."""
        return not self.in_flight and not self.results

    @property
    def limited(self) -> bool:
        """Whether the last DEPBAR.LE still blocks the next instruction."""
        return self.limit is not None and self.raised[self.limit[0]] > self.limit[1]


class IssueModel:
    """Checks every selection.

    Attributes:
        redirected: Warp and pc of the redirect in the cycle before, if any.
        flushed: The next instruction of that warp before the redirect; the hardware still has it in
            that cycle.
        revoked: The warp whose flow result changed the pc in the cycle before; the hardware does
            not wait for the redirect yet.
        waited: Number of flow results that had to wait to redirect fetch.
        waits: For each warp, the longest time in which it could have been selected but others were.
        lanes_at, collect_at: The first cycle in which the lanes are free, and in which operands of
            another instruction may be collected.
        beats: Cycles for which an instruction occupies the lanes.
        complete_at: The cycle in which the last instruction of the full lanes is complete.
    """

    def __init__(self, params: SmParams, window: int) -> None:
        self.warps = [_Warp() for _ in range(params.warps)]
        self.waits = [0] * params.warps
        self._params, self.beats, self._window = params, params.beats, window
        self.cycle = 0
        self.redirected: list[tuple[int, int]] = []
        self._branches: deque[tuple[int, int, PredictedBranch]] = deque()
        """Predicted branches: the cycle in which fetch is redirected, warp, branch."""
        self._results: deque[tuple[int, int]] = deque()
        """Warps that a flow result redirects, and their pcs."""
        self._waited = deque([False] * _WAIT_SEEN, maxlen=_WAIT_SEEN)
        """Whether a flow result waited to redirect fetch, for the last cycles."""
        self.waited = 0
        self.flushed: dict[int, Planned] = {}
        self.revoked: int | None = None
        self._before = Inputs()
        self.lanes_at = self.collect_at = self.complete_at = 0
        self._tops: deque[int | None] = deque([None] * 4, maxlen=4)
        self._top: int | None = None
        self._refused = dict.fromkeys(OPERATION_STREAMS, 0)

    @property
    def redirects_wait(self) -> bool:
        """Whether the hardware has detected that a flow result waits to redirect fetch: then no
        instruction for the flow unit becomes ready.
        """
        return self._waited[1]

    def step(self, inputs: Inputs, selection: Selection | None) -> Planned | None:
        """Executes a cycle with these inputs; returns the selected instruction.

        Raises:
            RuleError: The selection is not allowed, or another one was due.
        """
        seen = self._before
        heads = {
            number: head
            for number, warp in enumerate(self.warps)
            if (head := self._head(warp, seen.injects.get(number))) is not None
        }
        able = [
            number
            for number, head in heads.items()
            if self.may(self.warps[number], head, bool(seen.hold >> number & 1), seen)
        ]
        ready = [
            number
            for number in able
            if not KIND_RULES[heads[number].kind].lanes or self.cycle >= self.lanes_at
        ]
        planned = None
        if selection is not None and selection.operations:
            self._operates(inputs, selection.operations)
        elif selection is not None and selection.warp is not None:
            planned = self._selected(selection, heads, ready, seen.policy)
        self._late(selection, inputs, ready)
        for number, warp in enumerate(self.warps):
            stays = selection is None or selection.warp != number
            warp.able = warp.able + 1 if number in able and stays and warp.in_flight < FULL else 0
        self._wait(selection)
        complete = [warp for warp in self.warps if warp.until_complete and warp.idle]
        self._tops.append(self._top)
        if planned is not None:
            assert selection is not None and selection.warp is not None
            self._issue(self.warps[selection.warp], planned, selection.warp, seen.policy)
        for warp in complete:
            warp.until_complete = False
        self._change(inputs)
        self._waited.append(bool(self._results))
        self._before = inputs
        self.cycle += 1
        return planned

    def _head(self, warp: _Warp, kind: Kind | None) -> Planned | None:
        """The next instruction of a warp, if it is fetched. An injected operation has the stall
        count of the instruction that it replaces.
        """
        if not warp.queue:
            return None
        own = warp.queue[0]
        return (
            own
            if kind is None
            else replace(
                own,
                kind=kind,
                word=0,
                missing=False,
                quarter=False,
                control=replace(own.control, stall=self._stall(own)),
            )
        )

    def _stall(self, planned: Planned) -> int:
        """Cycles from an instruction to the warp's next one."""
        least = max(1, self._params.lanes_stall if KIND_RULES[planned.kind].lanes else 0)
        if planned.quarter:
            least = max(self._params.quarter_stall, SLOW)
        return max(planned.control.stall, least)

    def may(self, warp: _Warp, planned: Planned, held: bool, inputs: Inputs) -> bool:
        """Whether an instruction may be selected now, apart from the lanes, given ``inputs`` in the
        cycle before.
        """
        rule = KIND_RULES[planned.kind]
        if (
            not warp.live
            or warp.until_result
            or warp.until_complete
            or warp.until_redirected
            or self.cycle < warp.issued + APART
        ):
            return False
        if rule.injected:
            return warp.idle and self._available(planned, inputs)
        if warp.until_resumed or held or self.cycle < warp.earliest:
            return False
        if warp.limited or any(warp.raised[number] for number in planned.waits):
            return False
        if "complete" in rule.before and warp.in_flight:
            return False
        if (
            ("results" in rule.before or planned.missing) and warp.results
        ) or warp.in_flight > FULL + UNSEEN:
            return False
        return self._available(planned, inputs)

    def _available(self, planned: Planned, inputs: Inputs) -> bool:
        rule = KIND_RULES[planned.kind]
        if rule.unit is None:
            return inputs.events or not planned.needs_events
        if not inputs.rooms[rule.unit] or (rule.unit == "flow" and self._waited[0]):
            return False
        # One cycle later, instructions that are not collected themselves may follow.
        quiet = self.cycle >= self.collect_at or (
            not rule.collected and self.cycle == self.collect_at - COLLECTING
        )
        return rule.unit not in ("flow", "barrier") or (quiet and not inputs.collecting)

    def _operates(self, inputs: Inputs, streams: tuple[OperationStream, ...]) -> None:
        for stream in streams:
            if stream not in inputs.operations:
                raise RuleError(f"{stream} offers no operation")
        kinds = {stream.kind for stream in streams}
        if len(kinds) < len(streams):
            raise RuleError(f"{streams} together")
        if self.cycle < self.lanes_at:
            raise RuleError(f"operations, {streams}: the lanes are not free")
        self.lanes_at = self.cycle + self.beats

    def _selected(
        self, selection: Selection, heads: dict[int, Planned], ready: list[int], policy: Policy
    ) -> Planned:
        number = selection.warp
        assert number is not None
        planned = heads.get(number)
        if planned is None or planned.kind is not selection.kind:
            raise RuleError(
                f"warp {number}: {selection.kind}, its next is {planned and planned.kind}"
            )
        if number not in ready:
            raise RuleError(f"warp {number}: {planned.kind} may not be selected")
        lanes = KIND_RULES[planned.kind].lanes
        if planned.kind in (Kind.REFUSED, Kind.TRAP) and self.cycle == self.complete_at:
            raise RuleError(
                f"warp {number}: {planned.kind} is complete with what passed the full lanes"
            )
        # Warps that have been selectable for long, of the same class: instructions for the lanes
        # have priority.
        rivals = [
            other
            for other in ready
            if self._sure(other)
            and (KIND_RULES[heads[other].kind].lanes == lanes or self.beats == 1)
        ]
        if (
            not lanes
            and self.beats > 1
            and any(KIND_RULES[heads[other].kind].lanes and self._sure(other) for other in ready)
        ):
            raise RuleError(f"warp {number}: {planned.kind}, though others could pass the lanes")
        if not self._favours():
            self._ordered(number, rivals, policy)
        return planned

    def late(self, warp: _Warp) -> int:
        """The maximum delay in cycles until the hardware detects that scoreboards no longer block a
        warp.
        """
        return SURE + (LOOK * len(self.warps) if warp.limit is not None else 0)

    def _sure(self, number: int) -> bool:
        """Whether a warp's instruction has been selectable for so long that the hardware must have
        detected it.
        """
        warp = self.warps[number]
        return warp.able > self.late(warp)

    def _ordered(self, number: int, rivals: list[int], policy: Policy) -> None:
        """Raises RuleError if one of the rivals has priority over the warp."""
        tops = {top for top in (*list(self._tops)[-3:], self._top) if top is not None}
        for other in rivals:
            greedy = policy is Policy.GREEDY_THEN_OLDEST
            if greedy and number in tops:
                continue
            if self.warps[number].place > self.warps[other].place or (
                greedy and set(self._tops) | {self._top} == {other}
            ):
                raise RuleError(f"warp {number} goes before warp {other}, {policy.name}")

    def _favours(self) -> bool:
        """Whether the current window favours one warp, or did within the last cycles."""
        window = self._window
        turns = {(self.cycle - late) // window % FAVOUR_INTERVAL for late in range(5)}
        return FAVOUR_INTERVAL - 1 in turns

    def _late(self, selection: Selection | None, inputs: Inputs, ready: list[int]) -> None:
        """Raises RuleError if nothing is selected though a warp must be ready, or an operation has
        waited too long.
        """
        late = [number for number in ready if self._sure(number)]
        if selection is None and late:
            raise RuleError(f"nothing is selected, warps {late} could be")
        for stream in OPERATION_STREAMS:
            is_offered = stream in inputs.operations
            is_granted = selection is not None and stream in selection.operations
            is_free = self.cycle >= self.lanes_at or is_granted
            if is_granted or not is_offered:
                self._refused[stream] = 0
            else:
                self._refused[stream] += is_free
            if self._refused[stream] > PATIENCE:
                raise RuleError(f"the operation of {stream} waits too long")

    def _wait(self, selection: Selection | None) -> None:
        for number, warp in enumerate(self.warps):
            self.waits[number] = max(self.waits[number], warp.able)

    def _issue(self, warp: _Warp, planned: Planned, number: int, policy: Policy) -> None:
        warp.queue.popleft()
        warp.claims -= planned.last
        kind, control = planned.kind, planned.control
        rule = KIND_RULES[kind]
        warp.issued, warp.earliest = self.cycle, self.cycle + self._stall(planned)
        warp.behind = planned.next_pc
        warp.raised.update(planned.raises)
        warp.in_flight += not rule.silent
        warp.results += rule.unit == "flow"
        warp.awaits_push |= rule.unit == "flow" and rule.after is None
        warp.until_result = rule.unit == "flow" and rule.after is not None
        warp.until_resumed = rule.after == "resumed"
        warp.after = rule.after
        if (branch := planned.predicts) is not None:
            if warp.awaits_push:
                branch = branch._replace(needs_result=True)
            warp.until_redirected = True
            warp.behind = instruction_address(branch.target)
            self._branches.append((self.cycle + _BRANCH_CYCLES, number, branch))
        warp.until_complete = rule.after == "drained" or (
            planned.missing and rule.after != "resumed"
        )
        warp.limit = planned.at_most if kind is Kind.DEPENDENCY else None
        yields = not control.no_yield
        self._top = number if not yields else None
        if policy is Policy.ROUND_ROBIN or yields:
            warp.place = self.cycle
        if rule.lanes:
            self.lanes_at = self.cycle + (
                self._params.quarter_cycles if planned.quarter else self.beats
            )
        if planned.quarter:
            self.complete_at = self.cycle + self._params.parts * self.beats
        if rule.collected:
            self.collect_at = self.cycle + 1 + COLLECTING

    def _change(self, inputs: Inputs) -> None:
        """Applies the inputs of a cycle; they take effect in the next one."""
        self.revoked = None
        if inputs.group is not None:
            number, instructions = inputs.group
            self.warps[number].queue.extend(instructions)
        if inputs.claimed is not None:
            self.warps[inputs.claimed].claims += 1
        for number, barriers, complete in inputs.completions:
            self.warps[number].in_flight -= complete
            self.warps[number].raised.subtract(
                barrier for barrier in barriers if barrier != NO_BARRIER
            )
        for number, warp in enumerate(self.warps):
            if inputs.resume >> number & 1:
                warp.until_resumed = False
        if inputs.result is not None:
            self._result(*inputs.result)
        self._redirect()
        if inputs.launched is not None:
            warp = self.warps[inputs.launched]
            warp.live, warp.begins, warp.until_result, warp.earliest = True, True, True, 0
            warp.until_complete, warp.until_resumed, warp.after, warp.limit = (
                False,
                False,
                "result",
                None,
            )
            warp.results += 1
            # The hardware registers a launch at once and a selection some cycles later: if both
            # occur together, the order is not defined.
            warp.place = self.cycle - _SELECTION_SEEN[inputs.policy]

    def _result(self, number: int, pc: int, terminated: bool) -> None:
        warp = self.warps[number]
        warp.results -= 1
        warp.awaits_push &= warp.results > 0
        if warp.until_result and not warp.results:
            warp.until_result = False
            if not terminated and (warp.begins or instruction_address(pc) != warp.behind):
                warp.until_redirected = True
                self.revoked = number
                self._results.append((number, pc))
            warp.begins = False
        if terminated:
            warp.live = False

    def _redirect(self) -> None:
        """Redirects fetch for one warp: by a branch, or else by the oldest waiting flow result."""
        self.redirected = []
        has_results = bool(self._results)
        if self._branches and self._branches[0][0] == self.cycle:
            _, number, branch = self._branches.popleft()
            self.redirected.append((number, branch.target))
            self.waited += has_results
            self.warps[number].until_result &= branch.needs_result
        elif self._results:
            self.redirected.append(self._results.popleft())
        self.flushed = {}
        for number, _ in self.redirected:
            warp = self.warps[number]
            if warp.queue:
                self.flushed[number] = warp.queue[0]
            warp.queue.clear()
            warp.claims = 0
            warp.until_redirected = False


_WAIT_SEEN = 3
"""Cycles from the first cycle after which a flow result waits to redirect fetch, to the first
selection that this prevents.
"""
_BRANCH_CYCLES = 2
"""Cycles from the selection of a branch to the cycle before its redirect."""
_SELECTION_SEEN = {Policy.GREEDY_THEN_OLDEST: 2, Policy.ROUND_ROBIN: 1}
"""Cycles from a selection until its warp has the lowest priority."""
COLLECTING = 3
"""Cycles, beginning after the selection, in which an instruction with collected operands blocks the
next one, before the lanes report it.
"""
PATIENCE = 60
"""Cycles with free lanes within which an operation must be selected."""
