"""What it takes to enter the trap handler."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import TRAP_FRAME, StackOperation, ThreadCode
from rtl.params import WARP_THREADS, SmParams

from .stages import decide_stage

__all__ = ["TrapEntry"]

_ENTERS = 0b11
"""The operand of a SET_MODE that enters the trap handler if there is room."""


class TrapEntry(Component):
    """The requests to the stack that make a warp enter its trap handler, one after the other: the mode, NONE tokens
    up to a full line, the tokens of the frame. A cycle after the first the stack tells whether there is room for all of
    them, so that no push is refused; if not, the mode stays as it was, and the one request behind that asks for
    nothing.

    Members
    -------
    taken : In(1)
        The stack takes the request of this cycle.
    stage : In(decide_stage)
        The ENTER_TRAP. Its ``target_error`` keeps the warp from entering, too.
    holes, refusal : In(2), In(WarpError)
        See StackPort.
    operation, enable, kind, operand, mask : Out
        The request.
    last : Out(1)
        It is the last.
    enters, error : Out(1), Out(WarpError)
        What the last one comes to: the frame is on the stack, or why it is not.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "taken": In(1), "stage": In(decide_stage(params)), "holes": In(range(TOKENS_PER_LINE)),
            "refusal": In(WarpError), "operation": Out(StackOperation), "enable": Out(1), "kind": Out(TokenKind),
            "operand": Out(32), "mask": Out(WARP_THREADS), "last": Out(1), "enters": Out(1), "error": Out(WarpError)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, begun, told, refused = self.stage, Signal(), Signal(), Signal()
        under, holes, token = (Signal(range(TOKENS_PER_LINE), name=name) for name in ("under", "holes", "token"))
        error, refusal = Signal(WarpError), Signal(WarpError)
        frames = holes == 0
        m.d.comb += [
            refusal.eq(Mux(stage.target_error != WarpError.NONE, stage.target_error, self.refusal)),
            self.last.eq(begun & (refused | (frames & (token == TOKENS_PER_LINE - 1)))),
            self.enters.eq(self.last & ~refused), self.error.eq(error)]
        m.d.sync += told.eq(self.taken & ~begun)
        with m.If(told):
            m.d.sync += [under.eq(self.holes), holes.eq(self.holes), token.eq(0), error.eq(refusal),
                         refused.eq(refusal != WarpError.NONE)]
        with m.Elif(self.taken):
            m.d.sync += begun.eq(~self.last)
            with m.If(~begun):
                m.d.sync += refused.eq(0)
            with m.Elif(~frames):
                m.d.sync += holes.eq(holes - 1)
            with m.Else():
                m.d.sync += token.eq(token + 1)

        # The tokens.
        begins, saves = frames & (token == 0), frames & (token != 0)
        of_mask, of_pc = (Array(Const(code.value, 3) for code in (ThreadCode.NONE, *codes))[token]
                          for codes in zip(*TRAP_FRAME, strict=True))
        in_mask, in_pc = (Cat(saves & (code.as_value() == wanted) for code in stage.codes)
                          for wanted in (of_mask, of_pc))
        active, pc = stage.group | stage.left, Signal(32)
        m.d.comb += [
            pc.eq(Mux(begins, Cat(under, stage.pc[HOLE_BITS:]), in_pc)), self.mask.eq(Mux(begins, active, in_mask)),
            self.kind.eq(Mux(frames, Mux(begins, TokenKind.TRAP, TokenKind.MASKS), TokenKind.NONE)),
            self.operation.eq(Mux(begun, StackOperation.PUSH, StackOperation.SET_MODE)),
            self.operand.eq(Mux(begun, pc, _ENTERS)),
            self.enable.eq(Mux(begun, ~refused, stage.target_error == WarpError.NONE))]
        return m
