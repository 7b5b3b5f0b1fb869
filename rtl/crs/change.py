"""Change: the second stage. Executes a push; determines what an unwind's token is."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    DEPTH_BITS,
    FRAME_MASK_CODES,
    FRAME_PC_CODES,
    Event,
    StackConfiguration,
    ThreadCode,
    ThreadCodes,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import struct_value

from .operations import PUSHES, UNWINDS, StepOperation
from .records import StackStates, spills_from
from .stages import accessed_step, change_flags, changed_step, unwound_step
from .tokens import (
    LAST_PLACE,
    PLACE_BITS,
    POINTER_CALLS,
    STEP_BITS,
    STUCK,
    StoredLine,
    steps_on_chip,
    token_slot_bits,
    token_write,
)

__all__ = ["ChangeStage"]

_STEPS_PER_GRANULE = (CRS_GRANULE // TOKEN_BYTES) >> STEP_BITS
assert _STEPS_PER_GRANULE == 2, "the lowest bit of a limit is half a granule"


class ChangeStage(Component):
    """The second stage. A push is executed here, and its state written; every other operation
    continues to the judge stage with the state that it would leave.

    =============  ========================  =====================  =====================
    operation      depth                     lines on chip          dirty lines
    =============  ========================  =====================  =====================
    push           + 1                       + 1 if it begins one   + 1 if it begins one,
                                             and there is a slot    or none was dirty
    unwind         - 1                       - 1 if the token is    - 1 if the token is
                                             the first of its line  the first of its line
    GET_POINTER,   + 1, from a whole line:
    SET_MODE       the depth in whole lines
    SET_POINTER    - 1: ``last`` of a depth
    =============  ========================  =====================  =====================

    A push of a warp without an open line on chip fails with MMU_FAULT: memory could not give the
    line; with STACK_OVERFLOW it fails at the limit.

    Members
    -------
    arriving : In(accessed_step)
        The register behind the access stage.
    unwind : In(Event(unwound_step))
        The unwind in the judge stage. If its token there ends it, the step that ``continues`` it,
        which is in this stage a cycle later, is cancelled.
    configuration : In(StackConfiguration)
        The configuration of the request in the access stage.
    line : In(array of StoredToken)
        The line of the token that an unwind looks at.
    stage : Out(accessed_step)
        The step in this stage; not valid if it was cancelled.
    pushed, holes, entry
        See StackPort.
    write : Out(token_write)
    flags : Out(change_flags)
    result : Out(changed_step)
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._params = params
        self._states = states
        pushed = data.StructLayout({"warp": params.warp_bits, "kind": TokenKind})
        super().__init__({
            "arriving": In(accessed_step(params)),
            "unwind": In(Event(unwound_step(params))),
            "configuration": In(StackConfiguration),
            "line": In(StoredLine),
            "stage": Out(accessed_step(params)),
            "pushed": Out(Event(pushed)),
            "holes": Out(range(TOKENS_PER_LINE)),
            "entry": Out(WarpError),
            "write": Out(token_write(params)),
            "flags": Out(change_flags(params)),
            "result": Out(changed_step(params)),
        })
        self._call_refused = Signal(name="call_refused")
        """The operation counts as a call, and the limit of calls is reached."""
        self._pushes = Signal(name="pushes")
        """It pushes a token if there is room."""
        self._at_limit = Signal(name="at_limit")
        """Another token, or the second one of a pair, would exceed the limit of the depth."""
        self._line_is_missing = Signal(name="line_is_missing")
        """The topmost line has room, and is not on chip."""
        self._stores = Signal(name="stores")
        """The push has room: its token is written in this cycle."""
        self._last = Signal(DEPTH_BITS, name="last")
        """Number of the topmost token after the operation, not compared with the limit."""
        self._dirty_lines = Signal(params.stack_count_bits, name="dirty_lines")
        """How many lines are dirty behind a push."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage = self.stage
        arriving = self.arriving
        unwind_ended = Signal()
        m.d.sync += unwind_ended.eq(self.unwind.payload.ends)
        m.d.comb += stage.eq(arriving)
        m.d.comb += stage.valid.eq(arriving.valid & ~(arriving.continues & unwind_ended))
        self._check_push(m)
        self._apply(m)
        self._store(m)
        self._inform_engine(m)
        self._answer(m)
        self._classify(m)
        self._classify_threads(m)
        self._record(m)
        self._promise(m)
        return m

    def _check_push(self, m: Module) -> None:
        """Whether there is room for a token: for the next two, if it has a pair.

        In plain form ``at_limit`` is depth + 1 + pair > limit (the theorem ``stack_limit``). Limits
        are multiples of half granules (16 tokens), and a push raises the depth by one: so it can
        exceed its limit only after the last token of the limit's half granule. In the lower half
        that is so if the limit is there; in the upper half if the limit is there, or the warp is in
        user mode, whose limit is in the lower one."""
        stage = self.stage
        step = stage.step
        operation = step.operation
        last = step.state.last
        m.d.comb += self._call_refused.eq(operation.counts_call & stage.calls_are_full)
        m.d.comb += self._pushes.eq(operation.is_push & ~self._call_refused)
        m.d.comb += self._line_is_missing.eq((step.lines == 0) & (stage.top_place != LAST_PLACE))

        # Without a region the tokens on chip may be less than half a granule.
        bits = min(token_slot_bits(self._params), STEP_BITS)
        above_chip = last[bits:STEP_BITS]
        chip_is_half = above_chip.all() | ~step.has_region
        ends_half = last[1:bits].all() & chip_is_half & (last[0] | step.pair)
        in_upper_half = last[STEP_BITS]
        limit_is_upper_half = stage.limit[0]
        # Each a Mux: before a reset has made the state known, an If would take what is unknown for
        # 0 in a simulation of four states, and ``entry`` for known.
        exceeds_lower_half = ends_half & ~limit_is_upper_half
        exceeds_upper_half = ends_half | ~limit_is_upper_half
        exceeds_half = Mux(in_upper_half, exceeds_upper_half, exceeds_lower_half)
        m.d.comb += self._at_limit.eq(stage.granule_matches.all() & exceeds_half)
        limit_error = Mux(self._at_limit, WarpError.STACK_OVERFLOW, WarpError.NONE)
        m.d.comb += self.entry.eq(Mux(self._line_is_missing, WarpError.MMU_FAULT, limit_error))
        m.d.comb += self._stores.eq(
            stage.valid & self._pushes & ~self._line_is_missing & ~self._at_limit)

    def _apply(self, m: Module) -> None:
        """The state that the operation leaves: what it adds to each counter."""
        stage = self.stage
        step = stage.step
        operation = step.operation
        before = step.state
        after = self.result.step.state
        begins_line = before.last[:PLACE_BITS] == LAST_PLACE
        ends_line = before.last[:PLACE_BITS] == 0
        has_slot = step.lines != self._params.stack_lines
        depth_change = Signal(signed(2))
        lines_change = Signal(signed(2))
        dirty_change = Signal(signed(2))
        calls_change = Signal()
        with m.Switch(operation):
            with m.Case(*PUSHES), m.If(self._pushes):
                m.d.comb += depth_change.eq(1)
                m.d.comb += lines_change.eq(begins_line & has_slot)
                m.d.comb += dirty_change.eq(begins_line | step.was_clean)
                m.d.comb += calls_change.eq(operation.counts_call)
            with m.Case(*UNWINDS):
                m.d.comb += depth_change.eq(-1)
                with m.If(stage.has_token & ends_line):
                    m.d.comb += lines_change.eq(-1)
                    m.d.comb += dirty_change.eq(-1)
            with m.Case(StepOperation.GET_POINTER, StepOperation.SET_MODE):
                m.d.comb += depth_change.eq(1)
            with m.Case(StepOperation.SET_POINTER):
                m.d.comb += depth_change.eq(-1)

        m.d.comb += self.result.step.eq(step)
        m.d.comb += self._last.eq(before.last + depth_change)
        m.d.comb += after.last.eq(self._last)
        m.d.comb += after.entered.eq(before.entered + lines_change)
        m.d.comb += after.dirtied.eq(before.dirtied + dirty_change)
        m.d.comb += after.calls.eq(before.calls + calls_change)
        m.d.comb += self._dirty_lines.eq(stage.dirty_lines + dirty_change)
        with m.If(operation == StepOperation.PREPARE_CALL):
            m.d.comb += after.kill.eq(self._call_refused)
        with m.If(operation.is_unwind & stage.has_token & ends_line):
            m.d.comb += self.result.step.lines.eq(step.lines - 1)
            m.d.comb += self.result.step.dropped.eq(1)

        # A pointer that is set must be within the region.
        exceeds_limit = before.last[STEP_BITS:] > stage.limit
        with m.If((operation == StepOperation.SET_POINTER) & exceeds_limit):
            m.d.comb += after.last.eq(Cat(Const(~0, STEP_BITS), stage.limit))

    def _store(self, m: Module) -> None:
        """A push writes its token and its state. At the limit of calls a PREPARE_CALL writes its
        state, too: the kill bit."""
        stage = self.stage
        step = stage.step
        place = stage.next_slot[:PLACE_BITS]
        slot = stage.next_slot[PLACE_BITS:]
        write = self.write
        pushed = self.pushed
        kills = stage.valid & (step.operation == StepOperation.PREPARE_CALL) & self._call_refused
        self._states.states.write(m, self._stores | kills, step.warp, self.result.step.state)
        m.d.comb += write.valid.eq(stage.valid & step.operation.is_push)
        m.d.comb += write.payload.eq(struct_value(
            write.payload.shape(),
            slot=Cat(slot, step.warp),
            places=one_hot(place, TOKENS_PER_LINE, self._stores),
            tokens=stage.token.as_value().replicate(TOKENS_PER_LINE)))
        m.d.comb += pushed.valid.eq(self._stores)
        m.d.comb += pushed.payload.eq(struct_value(
            pushed.payload.shape(), warp=step.warp, kind=stage.token.kind))

    def _inform_engine(self, m: Module) -> None:
        """The flags by which the spill and fill engine learns of the step."""
        stage = self.stage
        step = stage.step
        all_lines = self._params.stack_lines
        place = step.state.last[:PLACE_BITS]
        begins_line = place == LAST_PLACE
        fills_line = place == LAST_PLACE - 1
        stores_in_region = self._stores & step.has_region
        lacks_line = stage.valid & self._pushes & self._line_is_missing
        has_to_spill = stores_in_region & (self._dirty_lines >= spills_from(self._params))
        parks_write_back = stage.valid & (step.operation == StepOperation.WRITE_BACK)
        m.d.comb += self.flags.eq(struct_value(
            change_flags(self._params),
            warp=step.warp,
            parks_write_back=parks_write_back,
            fills_cache=stores_in_region & fills_line & (self._dirty_lines == all_lines),
            drops_line=self._stores & begins_line & (step.lines == all_lines),
            begins_line=stage.valid & step.operation.is_push & begins_line,
            is_urgent=parks_write_back | has_to_spill | lacks_line))
        self._states.busy.write(
            m, stage.valid & ~stage.continues & step.operation.is_blocking, step.warp, 1)

    def _answer(self, m: Module) -> None:
        """The value and the error of an operation that is no unwind."""
        stage = self.stage
        step = stage.step
        operation = step.operation
        result = self.result
        m.d.comb += self.holes.eq(~stage.top_place)
        base = self._states.bases.read(m, step.warp)
        depth = Cat(Const(0, PLACE_BITS), self._last[PLACE_BITS:])
        with m.If(operation == StepOperation.GET_BASE):
            m.d.comb += result.value.eq(base)
        with m.Else():
            m.d.comb += result.value[:DEPTH_BITS].eq(depth)
            m.d.comb += result.value[POINTER_CALLS:].eq(Cat(step.state.calls, step.state.kill))

        with m.If((operation == StepOperation.CALL) & self._call_refused):
            m.d.comb += result.error.eq(WarpError.API_STACK_ERROR)
        with m.Elif(self._pushes):
            m.d.comb += result.error.eq(self.entry)
        with m.Elif((operation == StepOperation.SET_POINTER) & ~step.has_region):
            m.d.comb += result.error.eq(WarpError.STACK_ERROR)

    def _classify(self, m: Module) -> None:
        """What an unwind does with a token, by the token's kind and place. Its mask comes late, in
        the next stage."""
        stage = self.stage
        step = stage.step
        operation = step.operation
        result = self.result
        token = result.token
        place = step.state.last[:PLACE_BITS]
        is_topmost = place == LAST_PLACE
        is_lowest = place == 0
        none_below = result.step.state.last[-1]
        is_empty = step.state.last[-1] | (operation == StepOperation.CLEAR)
        m.d.comb += result.valid.eq(stage.valid)
        m.d.comb += result.has_token.eq(stage.has_token)
        m.d.comb += result.has_next.eq(stage.has_token & ~(is_lowest & (step.lines == 1)))
        m.d.comb += result.is_empty.eq(is_empty | (stage.has_token & none_below))
        m.d.comb += result.may_continue.eq(
            stage.valid & operation.is_unwind & ~step.fault & ~result.is_empty)
        m.d.comb += token.eq(self.line[place])

        # All operations but RESTORE skip holes; for RESTORE a hole is no TRAP token.
        is_hole = token.kind == TokenKind.NONE
        is_quad = token.kind == TokenKind.QUAD
        is_of_thread = (token.kind.as_value() < TokenKind.QUAD.value) & ~is_hole
        m.d.comb += result.is_masks.eq(
            (token.kind == TokenKind.MASKS) & (step.in_frame | is_topmost))
        with m.If(stage.has_token), m.Switch(operation):
            with m.Case(StepOperation.RESTORE):
                m.d.comb += result.must_end.eq((token.kind == TokenKind.TRAP) & is_lowest)
                m.d.comb += result.is_wrong.eq(result.must_end & ~step.in_frame)
            with m.Case(StepOperation.POP_QUAD):
                m.d.comb += result.must_end.eq(~is_hole)
                m.d.comb += result.is_wrong.eq(~is_hole & ~is_quad)
            with m.Default():
                m.d.comb += result.may_end.eq(~is_hole)
                m.d.comb += result.must_end.eq(~is_hole & ~is_of_thread)
                m.d.comb += result.is_wrong.eq(~is_hole & ~is_of_thread)
        m.d.comb += result.code_by_mask.eq(Array(FRAME_MASK_CODES)[place])
        m.d.comb += result.code_by_pc.eq(Array(FRAME_PC_CODES)[place])

    def _classify_threads(self, m: Module) -> None:
        """What an unwind does with each thread of the token's mask, by the thread's code. In a trap
        frame the codes are as the tokens above in the line leave them. Threads leave the active
        mask with a code to wait for a token with that role (BRK, RET and so on); a SYNC or DIVERGE
        token has the role NONE."""
        stage = self.stage
        step = stage.step
        result = self.result
        is_topmost = step.state.last[:PLACE_BITS] == LAST_PLACE
        is_restore = step.operation == StepOperation.RESTORE
        request_codes = self._states.codes.read(m, step.warp)
        frame_codes: Any = Signal(ThreadCodes)
        m.d.sync += frame_codes.eq(self.unwind.payload.codes)
        with m.If(stage.continues & is_restore & ~is_topmost):
            m.d.comb += result.codes.eq(frame_codes)
        with m.Else():
            m.d.comb += result.codes.eq(request_codes)

        has_returned = Cat(code == ThreadCode.RETURN for code in request_codes)
        is_stuck = Cat(code == stuck for code in request_codes for stuck in STUCK)
        m.d.comb += result.has_returned.eq(has_returned.any())
        m.d.comb += result.is_stuck.eq(is_stuck.any())
        role = result.token.role
        leaves_early = role != ThreadCode.NONE
        for thread, code in enumerate(result.codes):
            revivable = result.revivable[thread]
            passed = result.passed[thread]
            m.d.comb += revivable.eq(
                stage.has_token & ((code == role) | (is_restore & code.is_dead)))
            m.d.comb += passed.eq((code == ThreadCode.NONE) & leaves_early)
            m.d.comb += result.ending[thread].eq(revivable | passed)

    def _record(self, m: Module) -> None:
        """Stores what an operation begins with: the limits and the address of the region, above the
        threads' local memory, of a LAUNCH; the mode; the codes that an unwind looks for, and where
        it began."""
        stage = self.stage
        step = stage.step
        operation = step.operation
        states = self._states
        configuration = Signal.like(self.configuration)
        m.d.sync += configuration.eq(self.configuration)
        begins = stage.valid & ~step.replayed & ~stage.continues
        is_launch = operation == StepOperation.LAUNCH
        launches = begins & is_launch
        moves = begins & operation.moves_region
        unwinds = begins & operation.is_unwind

        has_region = configuration.size != 0
        granules_on_chip = (steps_on_chip(self._params) - 1) // _STEPS_PER_GRANULE
        granules = Signal.like(configuration.size)
        m.d.comb += granules.eq(Mux(has_region, configuration.size - 1, granules_on_chip))
        states.sizes.write(m, launches, step.warp, {
            "granules": granules,
            "has_region": has_region,
            "checks_calls": configuration.check_calls,
        })
        local = Mux(is_launch, configuration.local, states.locals.read(m, step.warp))
        states.locals.write(m, launches, step.warp, configuration.local)
        states.bases.write(m, moves, step.warp, configuration.base)
        states.regions.write(m, moves, step.warp, configuration.base + local)

        # The operand of SET_MODE: bit 0 to enter the handler, bit 1 only if its frame has room.
        operand = stage.token.pc
        has_room = self.entry == WarpError.NONE
        enters = (operation == StepOperation.SET_MODE) & operand[0] & (~operand[1] | has_room)
        states.traps.write(
            m, begins & (operation.changes_mode | is_launch), step.warp, enters)

        states.goals.write(m, unwinds, step.warp, {
            "quad": operation == StepOperation.POP_QUAD,
            "frame": operation == StepOperation.RESTORE,
        })
        states.origins.write(m, unwinds, step.warp, {
            "last": step.state.last,
            "calls": step.state.calls,
        })

    def _promise(self, m: Module) -> None:
        """What the stages before promise."""
        stage = self.stage
        step = stage.step
        is_push = step.operation.is_push
        has_lines = (step.lines <= self._params.stack_lines) & (stage.dirty_lines <= step.lines)
        m.d.sync += Assert(
            ~stage.valid | stage.continues | has_lines, "more lines than there are")
        m.d.sync += Assert(~(stage.continues & is_push), "a push is done twice")
        m.d.sync += Assert(
            ~(self.pushed.valid & self._states.busy.read(m, step.warp)),
            "a push of a warp that is busy")
