"""Which token of a line ends an unwind."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import TRAP_FRAME, ThreadCode, ThreadCodes
from rtl.params import WARP_THREADS

from .lines import TokensOfLine

__all__ = ["TokenMatch", "TokenVerdict"]

_WAITED_FOR = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
_RECONVERGING = (TokenKind.SYNC, TokenKind.DIVERGE)


_PC_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


class TokenRole(data.Struct):
    """What a token's kind means to an unwind."""

    code: ThreadCode
    """That a thread must have to go on at this token."""
    waited_for: unsigned(1)
    """Threads left early to wait for it."""
    reconverges: unsigned(1)
    """Threads wait under it for each other."""
    quad: unsigned(1)
    hole: unsigned(1)
    trap: unsigned(1)
    masks: unsigned(1)


def role_of(kind: Any) -> Value:
    """The TokenRole of a kind."""
    waited_for = reduce(or_, (kind == each for each in _WAITED_FOR))
    return Cat(Mux(waited_for, kind.as_value()[:3], ThreadCode.NONE.value), waited_for,
               reduce(or_, (kind == each for each in _RECONVERGING)), kind == TokenKind.QUAD, kind == TokenKind.NONE,
               kind == TokenKind.TRAP, kind == TokenKind.MASKS)


class TokenVerdict(data.Struct):
    """What a token does to an unwind."""

    stop: unsigned(1)
    """The unwind ends here: a thread goes on, or it is an error."""
    error: unsigned(1)
    """The token can't be popped as the stack and the threads are."""
    misaligned: unsigned(1)
    """No instruction starts at the token's pc."""
    call: unsigned(1)
    """The token counted as an API call."""


class TokenMatch(wiring.Component):
    """Looks at the four tokens of a line at once.

    A SYNC or DIVERGE token revives the threads of its mask that wait for nothing else; a token of another
    kind those whose code is its kind, and it is an error if a thread of its mask has synchronised past it.
    The instruction that pops a QUAD token accepts no other, and gives the codes of threads that live as NONE; it is
    an error if none of the token's threads does.

    What looks for a trap frame, a line that begins with a TRAP token, stops at nothing else, and gives all codes as
    NONE: the threads of the TRAP token go on. It is an error if there are none, or if the MASKS tokens are not there.

    Members
    -------
    line, roles, valid : In(TokensOfLine), In(array of 4 TokenRole), In(4)
        The line, what its kinds mean, and which of its tokens are on the stack.
    codes : In(ThreadCodes)
    quad : In(1)
        The line is looked at for a QUAD token.
    frame : In(1)
        The line is looked at for a trap frame.
    verdicts : Out(array of 4 TokenVerdict)
    revived : Out(array of 4 masks)
        The threads that would go on at the token.
    saved : Out(ThreadCodes)
        The codes of the other threads, if the line is a trap frame. Of a thread's masks the first of killed, exit,
        longjmp, return, continue, break counts.
    returned, stuck : Out(1)
        Some thread has returned; some thread has neither exited nor returned: what an empty stack means.
    """

    line: In(TokensOfLine)
    roles: In(data.ArrayLayout(TokenRole, TOKENS_PER_LINE))
    valid: In(TOKENS_PER_LINE)
    codes: In(ThreadCodes)
    quad: In(1)
    frame: In(1)
    verdicts: Out(data.ArrayLayout(TokenVerdict, TOKENS_PER_LINE))
    revived: Out(data.ArrayLayout(WARP_THREADS, TOKENS_PER_LINE))
    saved: Out(ThreadCodes)
    returned: Out(1)
    stuck: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        whole = self.valid.all() & Cat(role.masks for role in self.roles[1:]).all()
        for index in range(TOKENS_PER_LINE):
            token, role, verdict = self.line[index], self.roles[index], self.verdicts[index]
            matching = Signal(WARP_THREADS, name=f"matching{index}")
            waiting = Signal(WARP_THREADS, name=f"waiting{index}")
            for thread in range(WARP_THREADS):
                code = self.codes[thread].as_value()
                m.d.comb += [matching[thread].eq(token.mask[thread] & (code == role.code.as_value())),
                             waiting[thread].eq(token.mask[thread] & (code == ThreadCode.NONE.value))]
            alive, passed = matching.any(), role.waited_for & waiting.any()
            fits = Mux(self.quad, role.quad, role.waited_for | role.reconverges)
            framed = self.frame & role.trap if index == 0 else Const(0, 1)
            looked_for = Mux(self.frame, framed, ~role.hole & (~fits | self.quad))
            m.d.comb += [
                self.revived[index].eq(matching),
                verdict.error.eq(passed | Mux(self.frame, ~whole, ~fits) | ((self.quad | self.frame) & ~alive)),
                verdict.misaligned.eq((token.pc[HOLE_BITS:_PC_ALIGNMENT_BITS].any()
                                       | (token.pc[:HOLE_BITS].any() & ~self.frame)) & ~self.quad),
                verdict.stop.eq(self.valid[index] & (looked_for | (~role.hole & ~self.frame & (alive | passed)))),
                verdict.call.eq(self.valid[index] & token.counted & (token.kind == TokenKind.RETURN))]
        for token, (by_mask, by_pc) in zip(list(self.line)[1:], TRAP_FRAME, strict=True):
            for thread, code in enumerate(self.saved):
                with m.If(token.mask[thread]):
                    m.d.comb += code.eq(by_mask)
                with m.If(token.pc[thread]):
                    m.d.comb += code.eq(by_pc)
        codes = [self.codes[thread] for thread in range(WARP_THREADS)]
        m.d.comb += [
            self.returned.eq(Cat(code == ThreadCode.RETURN for code in codes).any()),
            self.stuck.eq(Cat((code == ThreadCode.NONE) | (code == ThreadCode.BREAK) | (code == ThreadCode.CONTINUE)
                              | (code == ThreadCode.LONGJMP) for code in codes).any())]
        return m
