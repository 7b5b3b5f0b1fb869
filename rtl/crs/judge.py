"""Judge: the third stage. A token against the codes of 32 threads, and the outcome of the step."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TokenKind
from rtl.layouts import Event, ThreadCode, ThreadCodes, stack_result
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .operations import StepOperation
from .records import Parking, StackStates
from .stages import changed_step, judged_step, stack_step, unwound_step

__all__ = ["JudgeStage"]

_PC_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


class JudgeStage(Component):
    """The third stage: whether an unwind ends with its token, and the outcome of each operation.

    A SYNC or DIVERGE token revives the threads of its mask that have no code; a token of another
    kind those whose code is its kind, and it is an error if a thread of its mask has no code: it
    has synchronised past the token. POP_QUAD accepts a QUAD token alone; it is an error if none of
    its threads lives.

    RESTORE ends at a TRAP token in a line's lowest place. The tokens of a line above it assign
    codes to threads that have none yet: first the codes in the pc field, then those in the mask
    field, from the topmost token down. It is an error if they are not MASKS tokens, or no thread is
    active. All threads of the TRAP token's mask continue, with any code. Dead ones lose the code.
    Threads with another code keep it: they wait for a token, and SAM had activated them until RAM.

    Members
    -------
    stage : In(changed_step)
        The register behind the change stage.
    unwind_remains : In(1)
        If the unwind continues, it does so in the pipeline: its next token has the access stage, or
        it replays.
    ends, continues : Out(1), Out(1)
        Late. An unwind ends with the token, found or in error; it continues with the next token.
    unwind : Out(Event(unwound_step))
        An unwind has another token on chip, and continues with that unless the present one ends it.
    result
        See StackPort.
    outcome : Out(judged_step)
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._params = params
        self._states = states
        super().__init__({
            "stage": In(changed_step(params)),
            "unwind_remains": In(1),
            "ends": Out(1),
            "continues": Out(1),
            "unwind": Out(Event(unwound_step(params))),
            "result": Out(Event(stack_result(params))),
            "outcome": Out(judged_step(params)),
        })
        self._matching = Signal(WARP_THREADS, name="matching")
        """Threads that continue at the token: of a frame, those that are active in it."""
        self._revived = Signal(WARP_THREADS, name="revived")
        """Threads that lose their code at the token."""
        self._is_bad = Signal(name="is_bad")
        """The token ends the unwind in STACK_ERROR."""
        self._is_misaligned = Signal(name="is_misaligned")
        """Its pc is no instruction's."""
        self._must_not_end_warp = Signal(name="must_not_end_warp")
        """It is an error to find no token that ends the unwind."""
        self._found = Signal(name="found")
        """The unwind ends with threads that continue."""
        self._ends_warp = Signal(name="ends_warp")
        """The unwind has passed all tokens: none is left. In error, too."""
        self._is_emptied = Signal(name="is_emptied")
        """No token is left, and the warp ends. RET_EMPTY_STACK_ERROR is reported if a thread has
        returned, and ends the warp all the same."""
        self._failed = Signal(name="failed")
        """The unwind ends in error: its stack is restored to what it was before."""
        self._error = Signal(WarpError, name="error")
        """Why the operation fails, or NONE."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._judge(m)
        self._conclude(m)
        self._find_error(m)
        self._answer(m)
        self._assign_codes(m)
        self._continue(m)
        self._leave(m)
        return m

    def _judge(self, m: Module) -> None:
        """The token's mask and pc, which come late, against what is known of its kind."""
        stage = self.stage
        token = stage.token
        operation = stage.step.operation
        is_restore = operation == StepOperation.RESTORE
        is_pop_quad = operation == StepOperation.POP_QUAD
        some_matching = self._matching.any()
        some_passed = (token.mask & stage.passed).any()
        some_ending = (token.mask & stage.ending).any()
        m.d.comb += self._revived.eq(token.mask & stage.revivable)
        m.d.comb += self._matching.eq(
            token.mask & (stage.revivable | is_restore.replicate(WARP_THREADS)))
        m.d.comb += self.ends.eq(stage.must_end | (stage.may_end & some_ending))
        m.d.comb += self._is_bad.eq(
            stage.is_wrong | (stage.may_end & some_passed)
            | (operation.needs_token & ~some_matching))

        # The pc field of a TRAP token has the number of holes under the frame; that of a QUAD token
        # is not used.
        hole_bits = token.pc[:HOLE_BITS].any() & ~is_restore
        m.d.comb += self._is_misaligned.eq(
            (token.pc[HOLE_BITS:_PC_ALIGNMENT_BITS].any() | hole_bits) & ~is_pop_quad)

    def _conclude(self, m: Module) -> None:
        """The outcome of an unwind: it continues, has found a token, has found none, or has
        failed."""
        stage = self.stage
        step = stage.step
        is_unwind = stage.valid & step.operation.is_unwind
        ends_well = ~self._is_bad & ~self._is_misaligned
        m.d.comb += self._must_not_end_warp.eq(step.operation.needs_token | stage.is_stuck)
        with m.If(stage.may_continue & ~self.ends):
            m.d.comb += self.continues.eq(1)
        with m.Elif(is_unwind & step.fault):
            m.d.comb += self._failed.eq(1)
        with m.Elif(is_unwind & self.ends):
            m.d.comb += self._found.eq(ends_well)
            m.d.comb += self._failed.eq(~ends_well)
        with m.Elif(is_unwind):
            m.d.comb += self._ends_warp.eq(1)
            m.d.comb += self._is_emptied.eq(~self._must_not_end_warp)
            m.d.comb += self._failed.eq(self._must_not_end_warp)
        outcomes = self.continues + self._found + self._is_emptied + self._failed
        m.d.sync += Assert(
            outcomes == is_unwind, "an unwind has none or several of its four outcomes")

    def _answer(self, m: Module) -> None:
        """The result, in the next cycle."""
        stage = self.stage
        step = stage.step
        token = stage.token
        operation = step.operation
        result = self.result
        is_restore = operation == StepOperation.RESTORE
        codes: Any = Signal(ThreadCodes, name="result_codes")
        for thread, code in enumerate(stage.codes):
            revived = self._revived[thread]
            m.d.comb += codes[thread].as_value().eq(
                code.as_value() & ~revived.replicate(len(code.as_value())))

        # The lowest bits of a TRAP token's pc are the number of holes under the frame.
        pc = Cat(Mux(is_restore, 0, token.pc[:HOLE_BITS]), token.pc[HOLE_BITS:])
        m.d.sync += result.valid.eq(stage.valid & ~self.continues & ~operation.has_no_result)
        m.d.sync += result.payload.eq(struct_value(
            result.payload.shape(),
            warp=step.warp,
            resume=self._found,
            empty=self._is_emptied,
            error=self._error,
            kind=token.kind,
            pc=pc,
            mask=self._matching,
            codes=codes,
            value=stage.value))

    def _find_error(self, m: Module) -> None:
        """Why the operation fails. The change stage has found the error of every other
        operation."""
        stage = self.stage
        operation = stage.step.operation
        error = self._error
        with m.If(operation.is_unwind & stage.step.fault):
            m.d.comb += error.eq(WarpError.MMU_FAULT)
        with m.Elif(self.ends & self._is_bad):
            m.d.comb += error.eq(WarpError.STACK_ERROR)
        with m.Elif(self.ends & self._is_misaligned):
            m.d.comb += error.eq(WarpError.MISALIGNED_PC)
        with m.Elif(self.ends):
            m.d.comb += error.eq(WarpError.NONE)
        with m.Elif(operation.is_unwind & self._must_not_end_warp):
            m.d.comb += error.eq(WarpError.STACK_ERROR)
        with m.Elif(operation.is_unwind & stage.has_returned):
            m.d.comb += error.eq(WarpError.RET_EMPTY_STACK_ERROR)
        with m.Elif(operation.is_unwind):
            m.d.comb += error.eq(WarpError.NONE)
        with m.Else():
            m.d.comb += error.eq(stage.error)

    def _assign_codes(self, m: Module) -> None:
        """In a trap frame a token gives its codes to the threads that have none yet."""
        stage = self.stage
        token = stage.token
        for thread, code in enumerate(stage.codes):
            next_code = self.unwind.payload.codes[thread]
            with m.If(code != ThreadCode.NONE):
                m.d.comb += next_code.eq(code)
            with m.Elif(token.pc[thread]):
                m.d.comb += next_code.eq(stage.code_by_pc)
            with m.Elif(token.mask[thread]):
                m.d.comb += next_code.eq(stage.code_by_mask)
            with m.Else():
                m.d.comb += next_code.eq(ThreadCode.NONE)

    def _continue(self, m: Module) -> None:
        """The step that the unwind's next token starts from."""
        stage = self.stage
        step = stage.step
        unwind = self.unwind
        next_step = unwind.payload.step
        closes_call = (
            stage.has_token & stage.token.counted & (stage.token.kind == TokenKind.RETURN))
        m.d.comb += unwind.valid.eq(stage.may_continue & stage.has_next)
        m.d.comb += unwind.payload.ends.eq(self.ends)
        m.d.comb += next_step.eq(step)
        m.d.comb += next_step.in_frame.eq(stage.is_masks)
        m.d.comb += next_step.state.calls.eq(step.state.calls - closes_call)

    def _leave(self, m: Module) -> None:
        """What the commit stage does to the warp's stack."""
        stage = self.stage
        step = stage.step
        operation = step.operation
        left_step: Any = Signal(stack_step(self._params))
        last = step.state.last
        is_launch = operation == StepOperation.LAUNCH
        is_restore = operation == StepOperation.RESTORE
        sets_pointer = operation == StepOperation.SET_POINTER
        is_loaded = (operation == StepOperation.LOAD) & ~step.fault

        # An unwind that has passed all lines on chip, none of which was dirty, drops them.
        leaves_lines = self.continues & ~stage.has_next & stage.has_token & step.was_clean
        m.d.comb += left_step.eq(self.unwind.payload.step)
        m.d.comb += left_step.state.is_provisional.eq(leaves_lines)

        # The pointer. SET_POINTER fills the topmost line; a trap frame takes the holes under it
        # along, if there is a line for them.
        takes_holes = is_restore & stage.must_end & ~last[-1]
        with m.If(is_launch | self._ends_warp | (sets_pointer & ~step.has_region)):
            m.d.comb += left_step.state.last.eq(~0)
        with m.Elif(sets_pointer):
            m.d.comb += left_step.state.last[:HOLE_BITS].eq(~0)
        with m.Elif(takes_holes):
            m.d.comb += left_step.state.last[:HOLE_BITS].eq(
                last[:HOLE_BITS] ^ stage.token.pc[:HOLE_BITS])

        unwind_writes = (
            self._found | self._is_emptied | leaves_lines
            | (self._failed & step.state.is_provisional))
        other_writes = stage.valid & (sets_pointer | is_launch | is_loaded)
        is_done = (
            stage.valid & operation.is_blocking & ~self.continues
            & (operation != StepOperation.WRITE_BACK))
        m.d.comb += self.outcome.eq(struct_value(
            judged_step(self._params),
            step=left_step,
            writes=unwind_writes | other_writes,
            rolls_back=self._failed,
            origin=self._states.origins.read(m, step.warp),
            ends_warp=is_launch | self._ends_warp,
            empties=self._failed | self._is_emptied | sets_pointer | is_launch,
            moves_region=stage.valid & (operation == StepOperation.SET_BASE),
            is_done=is_done,
            parks=self.continues & ~self.unwind_remains,
            parking=Mux(stage.has_next | step.was_clean, Parking.UNWIND, Parking.EVICT)))
