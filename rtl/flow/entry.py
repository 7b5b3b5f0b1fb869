"""What it takes to enter the trap handler."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import TRAP_FRAME, StackOperation, ThreadCode, ThreadCodes
from rtl.params import WARP_THREADS

__all__ = ["TrapEntry"]

_ENTERS = 0b11
"""What the operand of a SET_MODE ends in that enters the trap handler if there is room."""


class TrapEntry(Component):
    """The requests to the stack that make a warp enter its trap handler, one after the other: the mode, NONE tokens
    up to a full line, the tokens of the frame. A cycle after the first the stack tells whether there is room for all of
    them, so that no push is refused; if not, the mode stays as it was, and the one request behind that asks for
    nothing.

    Members
    -------
    enters, taken : In(1)
        The request of this cycle is of an ENTER_TRAP; the stack takes it.
    codes, target_error : In(ThreadCodes), In(WarpError)
        Of the threads; of the handler's address, which keeps the warp from entering, too.
    holes, refusal : In(2), In(WarpError)
        See StackPort.
    operation, enable, kind : Out
        Of the request.
    begins, begun : Out(1)
        It pushes the frame's first token, with the warp's pc and active threads; it is none for the mode.
    operand, mask : Out(32)
        Set in the token beside those.
    last : Out(1)
        It is the last.
    moves, error : Out(1), Out(WarpError)
        What the last one comes to: the frame is on the stack, or why it is not.
    """

    def __init__(self) -> None:
        super().__init__({
            "enters": In(1), "taken": In(1), "codes": In(ThreadCodes), "target_error": In(WarpError),
            "holes": In(range(TOKENS_PER_LINE)), "refusal": In(WarpError), "operation": Out(StackOperation),
            "enable": Out(1), "kind": Out(TokenKind), "begins": Out(1), "begun": Out(1), "operand": Out(32),
            "mask": Out(WARP_THREADS), "last": Out(1), "moves": Out(1), "error": Out(WarpError)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        begun, told, refused = self.begun, Signal(), Signal()
        under, holes, token = (Signal(range(TOKENS_PER_LINE), name=name) for name in ("under", "holes", "token"))
        frames, taken = holes == 0, self.taken & self.enters
        m.d.comb += [
            self.last.eq(begun & (refused | (frames & (token == TOKENS_PER_LINE - 1)))),
            self.moves.eq(self.last & ~refused), self.begins.eq(self.enters & begun & frames & (token == 0))]

        # The first request, what the stack tells of it, and the others. Nothing else is asked until the last.
        m.d.sync += told.eq(taken & ~begun)
        with m.If(taken):
            m.d.sync += begun.eq(~self.last)
        with m.If(told):
            m.d.sync += [
                under.eq(self.holes), holes.eq(self.holes), token.eq(0),
                self.error.eq(Mux(self.target_error != WarpError.NONE, self.target_error, self.refusal)),
                refused.eq((self.target_error != WarpError.NONE) | (self.refusal != WarpError.NONE))]
        with m.Elif(taken & ~begun):
            m.d.sync += refused.eq(0)
        with m.Elif(taken & ~frames):
            m.d.sync += holes.eq(holes - 1)
        with m.Elif(taken):
            m.d.sync += token.eq(token + 1)

        # The tokens.
        saves, ends = self.enters & begun & frames & (token != 0), Signal(HOLE_BITS)
        in_mask, in_pc = (Array(Const(code.value, 3) for code in (ThreadCode.NONE, *codes))[token]
                          for codes in zip(*TRAP_FRAME, strict=True))
        m.d.comb += [
            ends.eq(Mux(self.enters & ~begun, _ENTERS, Mux(self.begins, under, 0))),
            self.mask.eq(Cat(saves & (code.as_value() == in_mask) for code in self.codes)),
            self.operand.eq(Cat(saves & (code.as_value() == in_pc) for code in self.codes) | ends),
            self.kind.eq(Mux(frames, Mux(token == 0, TokenKind.TRAP, TokenKind.MASKS), TokenKind.NONE)),
            self.operation.eq(Mux(begun, StackOperation.PUSH, StackOperation.SET_MODE)),
            self.enable.eq(Mux(begun, ~refused, self.target_error == WarpError.NONE))]
        return m
