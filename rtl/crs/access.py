"""Access: the first stage. Selects the operation that reads its warp's state, and reads it."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import API_CALL_LIMIT
from rtl.layouts import DEPTH_BITS, Event, StackOperation, stack_request
from rtl.params import SmParams
from rtl.structs import common_fields, struct_value

from .compare import equal_in_parts, successor
from .operations import StepOperation
from .records import Parking, StackStates
from .stages import LIMIT_PARTS, ReplayPort, accessed_step, replay, unwound_step
from .tokens import (
    LAST_PLACE,
    PLACE_BITS,
    POINTER_CALLS,
    STEP_BITS,
    StoredToken,
    line_number_bits,
    role_of,
    steps_on_chip,
    token_slot_bits,
)

__all__ = ["AccessArbiter", "AccessSource", "AccessStage", "RequestHazards"]

_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_UNWINDS = (
    StackOperation.UNWIND, StackOperation.POP_QUAD, StackOperation.RESTORE, StackOperation.CLEAR)


def _requests(request: Any, *operations: StackOperation) -> Value:
    """Whether a request is for one of these operations, if it is enabled. ``enable`` arrives late
    in the cycle, so every condition that can omit it does."""
    return request.operation.as_value().matches(*(each.value for each in operations))


class AccessSource(enum.Enum, shape=2):
    """The source of the operation in the access stage."""

    NONE = 0
    UNWIND = 1
    """The judge stage's: the next token of the unwind there."""
    REPLAY = 2
    """The replay register's: an operation that was parked, or that lost arbitration."""
    REQUEST = 3
    """The flow unit's."""


class RequestHazards(data.Struct):
    """Why a request may have to wait: three facts about its warp."""

    busy: unsigned(1)
    """An operation of it is under way."""
    conflict: unsigned(1)
    """Its state is being written: by the change stage, or by the sweep after a reset."""
    cache_is_full: unsigned(1)
    """None of its lines has room for another token."""


class AccessArbiter(Component):
    """Grants the access stage to one of three sources, and keeps the one operation that replays.

    Priority: an unwind that has replayed, then a replay, then a request, then any other unwind. An
    unwind without a grant replays, unless the engine may need the replay register in this cycle
    (``replay.soon``): then it parks in the engine. In both cases it starts again at the committed
    topmost token.

    A request waits

    - while an operation of its warp is under way: ``busy``;
    - in the cycle after another request of its warp was taken, since that writes its state then,
      and while all states are swept after a reset: ``conflict``;
    - if it is an unwind, in the cycle in which ``busy`` falls: its line number was not yet
      presented to the tokens on chip (``token_is_late``);
    - if it is a push, while all of its warp's lines are dirty and full: ``cache_is_full``.

    Members
    -------
    request : In(stream of stack_request)
    hazards : In(RequestHazards)
        Of the request's warp.
    unwind : In(Event(unwound_step))
        The judge stage has an unwind with another token on chip.
    replay : In(ReplayPort)
        The engine's. In a cycle with ``soon`` no unwind may have the replay register.
    grant : Out(AccessSource)
    pending : Out(1)
        There is a request, and in the cycle before its warp was not busy. An unwind that has not
        replayed gets no grant then, although the request itself may have to wait in this cycle:
        whether it has to is known too late. If the request is an unwind, the line of its topmost
        token is read.
    replayed : Out(Event(replay))
        The replay register.
    unwind_replays : Out(1)
        The unwind has no grant, and replays.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(stack_request(params))),
            "hazards": In(RequestHazards),
            "unwind": In(Event(unwound_step(params))),
            "replay": In(ReplayPort(params)),
            "grant": Out(AccessSource),
            "pending": Out(1),
            "replayed": Out(Event(replay(params))),
            "unwind_replays": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._grant(m)
        self._keep_replay(m)
        return m

    def _grant(self, m: Module) -> None:
        """The source that the access stage is granted to."""
        unwind = self.unwind
        request = self.request
        hazards = self.hazards
        is_unwind = _requests(request.payload, *_UNWINDS)
        is_push = _requests(request.payload, *_PUSHES)
        was_busy = Signal()
        m.d.sync += was_busy.eq(request.valid & hazards.busy)
        m.d.comb += self.pending.eq(request.valid & ~was_busy)
        token_is_late = is_unwind & was_busy
        waits_for_line = request.valid & is_push & hazards.cache_is_full
        hazard = Signal()
        m.d.comb += hazard.eq(hazards.busy | hazards.conflict | token_is_late | waits_for_line)
        others_wait = self.replayed.valid | self.pending

        with m.If(unwind.valid & (unwind.payload.step.replayed | ~others_wait)):
            m.d.comb += self.grant.eq(AccessSource.UNWIND)
        with m.Elif(self.replayed.valid):
            m.d.comb += self.grant.eq(AccessSource.REPLAY)
        with m.Elif(~hazard):
            m.d.comb += request.ready.eq(1)
            with m.If(request.valid):
                m.d.comb += self.grant.eq(AccessSource.REQUEST)

    def _keep_replay(self, m: Module) -> None:
        """What replays: the engine's operation, or the unwind that was not granted."""
        unwind = self.unwind
        replay_port = self.replay
        replayed = self.replayed
        has_unwind = self.grant == AccessSource.UNWIND
        m.d.comb += replay_port.ready.eq(~(replayed.valid & has_unwind))
        m.d.comb += self.unwind_replays.eq(
            unwind.valid & ~has_unwind & replay_port.ready & ~replay_port.soon)
        keeps_unwind = Signal()
        m.d.comb += keeps_unwind.eq(self.unwind_replays & ~unwind.payload.ends)
        with m.If(replay_port.ready):
            m.d.sync += replayed.valid.eq(replay_port.valid | keeps_unwind)
            with m.If(self.unwind_replays):
                m.d.sync += replayed.payload.eq(struct_value(
                    replayed.payload.shape(), warp=unwind.payload.step.warp,
                    parking=Parking.UNWIND, fault=0))
            with m.Else():
                m.d.sync += replayed.payload.eq(replay_port.payload)

        m.d.sync += Assert(~(replay_port.valid & keeps_unwind), "two operations replay at once")
        m.d.sync += Assert(
            ~(replay_port.valid & ~replay_port.ready), "a replay while the register is not free")


class AccessStage(Component):
    """The first stage: one operation a cycle is granted, its warp's state is read, and the line of
    its topmost token is read from the tokens on chip, to be there in the next stage.

    Members
    -------
    request, killed
        See CallReturnStack.
    in_change : In(accessed_step)
        The step in the change stage; not valid if it was cancelled there.
    cache_is_full : In(warps)
        Warps whose lines are all dirty and full.
    unwind, replay
        See AccessArbiter.
    unwind_is_granted, unwind_replays : Out(1)
        If that unwind does not end with its present token: its next token is granted this stage, or
        it replays. If both are 0, it parks.
    read : Out(Event(slot))
        The line that is read.
    result : Out(accessed_step)
        Of the operation that has the stage.
    full, taken : Out(1)
        See StackEvents.
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._params = params
        self._states = states
        self.arbiter = AccessArbiter(params)
        super().__init__({
            "request": In(stream.Signature(stack_request(params))),
            "killed": Out(1),
            "in_change": In(accessed_step(params)),
            "cache_is_full": In(params.warps),
            "unwind": In(Event(unwound_step(params))),
            "replay": In(ReplayPort(params)),
            "unwind_is_granted": Out(1),
            "unwind_replays": Out(1),
            "read": Out(Event(line_number_bits(params))),
            "result": Out(accessed_step(params)),
            "full": Out(1),
            "taken": Out(1),
        })
        self._accessed: Any = Signal(accessed_step(params), name="accessed")
        """The step of a replay or a request. An unwind has been through this stage before."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.arbiter = self.arbiter
        states = self._states
        warp = self._accessed.step.warp
        state = states.states.read(m, warp)
        sizes = states.sizes.read(m, warp)
        cleaned = states.cleaned.read(m, warp)
        self._arbitrate(m)
        self._select_operation(m, cleaned)
        self._read_state(m, state, sizes, cleaned)
        self._read_limit(m, state, sizes)
        self._read_token(m)
        self._read_line(m)
        self._hand_over(m)
        return m

    def _arbitrate(self, m: Module) -> None:
        """The source that the access stage is granted to."""
        arbiter = self.arbiter
        request = self.request
        requested = request.payload
        in_change = self.in_change
        hazards = arbiter.hazards
        connect(m, flipped(self.request), arbiter.request)
        connect(m, flipped(self.unwind), arbiter.unwind)
        connect(m, flipped(self.replay), arbiter.replay)
        changes = in_change.valid & (in_change.step.warp == requested.warp)
        m.d.comb += hazards.eq(struct_value(
            RequestHazards,
            busy=self._states.busy.read(m, requested.warp),
            conflict=changes | self._states.sweep.active,
            cache_is_full=self.cache_is_full.bit_select(requested.warp, 1)))
        m.d.comb += self.unwind_is_granted.eq(arbiter.grant == AccessSource.UNWIND)
        m.d.comb += self.unwind_replays.eq(arbiter.unwind_replays)
        self._states.codes.write(m, request.valid, requested.warp, requested.codes)

        # Why a request waits.
        others_go = arbiter.replayed.valid | self.unwind_is_granted
        m.d.comb += self.full.eq(
            request.valid & ~hazards.busy & _requests(requested, *_PUSHES) & hazards.cache_is_full)
        m.d.comb += self.taken.eq(request.valid & ~request.ready & others_go)

    def _select_operation(self, m: Module, cleaned: Any) -> None:
        """The operation and its warp. The memories are read for the replay whenever there is one,
        even if another source has the grant: that it exists is known earlier than the grant."""
        replayed = self.arbiter.replayed
        grant = self.arbiter.grant
        requested = self.request.payload
        step = self._accessed.step
        goal = self._states.goals.read(m, replayed.payload.warp)
        acknowledged = self._states.acknowledged.read(m, step.warp)
        memory_is_current = Signal()
        m.d.comb += memory_is_current.eq(
            ~step.has_region | (step.was_clean & (cleaned == acknowledged)))
        m.d.comb += self._accessed.valid.eq(
            (grant == AccessSource.REPLAY) | (grant == AccessSource.REQUEST))
        with m.If(replayed.valid):
            m.d.comb += common_fields(step, replayed.payload)
            m.d.comb += step.replayed.eq(1)
            with m.Switch(replayed.payload.parking):
                with m.Case(Parking.LOAD):
                    m.d.comb += step.operation.eq(StepOperation.LOAD)
                with m.Case(Parking.WRITE_BACK):
                    m.d.comb += step.operation.eq(StepOperation.FINISH_WRITE_BACK)
                with m.Default():
                    with m.If(goal.quad):
                        m.d.comb += step.operation.eq(StepOperation.POP_QUAD)
                    with m.Elif(goal.frame):
                        m.d.comb += step.operation.eq(StepOperation.RESTORE)
                    with m.Else():
                        m.d.comb += step.operation.eq(StepOperation.UNWIND)
        with m.Else():
            m.d.comb += step.warp.eq(requested.warp)
            m.d.comb += step.pair.eq(requested.pair)
            with m.If(requested.enable), m.Switch(requested.operation):
                for operation in StackOperation:
                    with m.Case(operation):
                        m.d.comb += step.operation.eq(StepOperation[operation.name])
                        if operation is StackOperation.WRITE_BACK:
                            with m.If(memory_is_current):
                                m.d.comb += step.operation.eq(StepOperation.FINISH_WRITE_BACK)

    def _read_state(self, m: Module, state: Any, sizes: Any, cleaned: Any) -> None:
        """What is known of the warp's stack. What a request changes of it before the next stage
        does not need ``enable``: without that nothing comes of it."""
        requested = self.request.payload
        accessed = self._accessed
        step = accessed.step
        below = self._states.below.read(m, step.warp)
        m.d.comb += self.killed.eq(state.kill)
        m.d.comb += step.state.eq(state)
        m.d.comb += step.has_region.eq(sizes.has_region)
        m.d.comb += step.lines.eq(state.entered - below)
        m.d.comb += step.was_clean.eq(state.dirtied == cleaned)
        with m.If(~step.replayed & _requests(requested, StackOperation.SET_POINTER)):
            m.d.comb += step.state.last.eq(requested.operand[:DEPTH_BITS])
            m.d.comb += step.state.calls.eq(requested.operand[POINTER_CALLS:-1])
            m.d.comb += step.state.kill.eq(requested.operand[-1])
        with m.Elif(~step.replayed & _requests(
                requested, StackOperation.GET_POINTER, StackOperation.SET_MODE)):
            # These count whole lines.
            m.d.comb += step.state.last[:PLACE_BITS].eq(LAST_PLACE)

        m.d.comb += accessed.top_place.eq(state.last[:PLACE_BITS])
        m.d.comb += accessed.dirty_lines.eq(state.dirtied - cleaned)
        m.d.comb += accessed.has_token.eq(
            step.operation.is_unwind & (step.operation != StepOperation.CLEAR) & ~step.fault
            & ~state.last[-1] & (state.entered != below))
        m.d.comb += accessed.calls_are_full.eq(
            sizes.checks_calls & (state.calls >= API_CALL_LIMIT))

        bits = token_slot_bits(self._params)
        m.d.comb += accessed.next_slot.eq(successor(state.last, bits))
        m.d.sync += Assert(
            accessed.next_slot == (state.last + 1)[:bits], "the next slot is not the next")

    def _read_limit(self, m: Module, state: Any, sizes: Any) -> None:
        """The limit of the warp's stack. The trap handler also has the upper half of the last
        granule; without a region the tokens on chip are all there are, in any mode."""
        requested = self.request.payload
        accessed = self._accessed
        in_handler = self._states.traps.read(m, accessed.step.warp)
        enters_handler = _requests(requested, StackOperation.SET_MODE)
        has_upper_half = Mux(
            sizes.has_region, in_handler | enters_handler, steps_on_chip(self._params) > 1)
        granule = state.last[STEP_BITS + 1:]
        m.d.comb += accessed.limit.eq(Cat(has_upper_half, sizes.granules))
        m.d.comb += accessed.granule_matches.eq(
            equal_in_parts(granule, sizes.granules, LIMIT_PARTS))
        m.d.sync += Assert(
            accessed.granule_matches.all() == (granule == sizes.granules), "another granule")

    def _read_token(self, m: Module) -> None:
        """The token that a request pushes."""
        requested = self.request.payload
        m.d.comb += self._accessed.token.eq(struct_value(
            StoredToken,
            pc=requested.operand,
            mask=requested.mask,
            counted=_requests(requested, StackOperation.CALL, StackOperation.PREPARE_CALL),
            kind=requested.kind,
            role=role_of(requested.kind)))

    def _read_line(self, m: Module) -> None:
        """The line of the token that an unwind looks at. Its number addresses block RAM, on the
        stack's longest path: so states are read a second time for it, each by a warp number that is
        known early instead of the step's."""
        states = self._states.states
        arbiter = self.arbiter
        requested = self.request.payload
        replayed = arbiter.replayed
        unwound = self.unwind.payload.step
        bits = token_slot_bits(self._params)

        def line_of(state: Any, warp: Any) -> Value:
            return Cat(state.last[PLACE_BITS:bits], warp)

        replay_state = states.read(m, replayed.payload.warp)
        request_state = states.read(m, requested.warp)
        with m.If(self.unwind_is_granted):
            m.d.comb += self.read.valid.eq(1)
            m.d.comb += self.read.payload.eq(line_of(unwound.state, unwound.warp))
        with m.Elif(replayed.valid):
            m.d.comb += self.read.valid.eq(1)
            m.d.comb += self.read.payload.eq(line_of(replay_state, replayed.payload.warp))
        with m.Else():
            m.d.comb += self.read.valid.eq(arbiter.pending & _requests(requested, *_UNWINDS))
            m.d.comb += self.read.payload.eq(line_of(request_state, requested.warp))

    def _hand_over(self, m: Module) -> None:
        """What the stage has done: for a replay or a request what was read, for an unwind its next
        token."""
        result = self.result
        m.d.comb += result.eq(self._accessed)
        with m.If(self.unwind_is_granted):
            m.d.comb += result.valid.eq(1)
            m.d.comb += result.step.eq(self.unwind.payload.step)
            m.d.comb += result.continues.eq(1)
            m.d.comb += result.has_token.eq(1)
