"""Which token of a line ends an unwind."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import ThreadCode, ThreadCodes
from rtl.params import WARP_THREADS

from .lines import TokensOfLine

__all__ = ["TokenMatch", "TokenVerdict"]

_WAITED_FOR = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
_RECONVERGING = (TokenKind.SYNC, TokenKind.DIVERGE)


_PC_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


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

    Members
    -------
    line, valid : In(TokensOfLine), In(4)
        The line, and which of its tokens are on the stack.
    codes : In(ThreadCodes)
    quad : In(1)
        The line is looked at for a QUAD token.
    verdicts : Out(array of 4 TokenVerdict)
    revived : Out(array of 4 masks)
        The threads that would go on at the token.
    returned, stuck : Out(1)
        Some thread has returned; some thread has neither exited nor returned: what an empty stack means.
    """

    line: In(TokensOfLine)
    valid: In(TOKENS_PER_LINE)
    codes: In(ThreadCodes)
    quad: In(1)
    verdicts: Out(data.ArrayLayout(TokenVerdict, TOKENS_PER_LINE))
    revived: Out(data.ArrayLayout(WARP_THREADS, TOKENS_PER_LINE))
    returned: Out(1)
    stuck: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(TOKENS_PER_LINE):
            token, verdict = self.line[index], self.verdicts[index]
            # The code that a thread must have to go on at this token.
            wanted = Signal(ThreadCode, name=f"wanted{index}")
            waited_for, reconverging = Signal(name=f"waited_for{index}"), Signal(name=f"reconverging{index}")
            with m.Switch(token.kind):
                with m.Case(*_WAITED_FOR):
                    m.d.comb += [waited_for.eq(1), wanted.eq(token.kind.as_value()[:3])]
                with m.Case(*_RECONVERGING):
                    m.d.comb += reconverging.eq(1)
            matching = Signal(WARP_THREADS, name=f"matching{index}")
            waiting = Signal(WARP_THREADS, name=f"waiting{index}")
            for thread in range(WARP_THREADS):
                code = self.codes[thread].as_value()
                m.d.comb += [matching[thread].eq(token.mask[thread] & (code == wanted.as_value())),
                             waiting[thread].eq(token.mask[thread] & (code == ThreadCode.NONE.value))]
            alive, passed = matching.any(), waited_for & waiting.any()
            fits = Mux(self.quad, token.kind == TokenKind.QUAD, waited_for | reconverging)
            m.d.comb += [
                self.revived[index].eq(matching),
                verdict.error.eq(passed | ~fits | (self.quad & ~alive)),
                verdict.misaligned.eq(token.pc[:_PC_ALIGNMENT_BITS].any() & ~self.quad),
                verdict.stop.eq(self.valid[index] & (token.kind != TokenKind.NONE) & (
                    alive | passed | ~fits | self.quad)),
                verdict.call.eq(self.valid[index] & token.counted & (token.kind == TokenKind.RETURN))]
        codes = [self.codes[thread] for thread in range(WARP_THREADS)]
        m.d.comb += [
            self.returned.eq(Cat(code == ThreadCode.RETURN for code in codes).any()),
            self.stuck.eq(Cat((code == ThreadCode.NONE) | (code == ThreadCode.BREAK) | (code == ThreadCode.CONTINUE)
                              | (code == ThreadCode.LONGJMP) for code in codes).any())]
        return m
