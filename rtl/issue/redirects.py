"""Redirects of fetch: by branches that issue, and by flow results."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.flow_forms import target_of
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import Event, redirect
from rtl.params import SmParams
from rtl.structs import struct_value

__all__ = ["Redirects", "predicted_branch"]

_PC_BITS = 32
_PLACES = 8
"""Redirects of flow results that can wait. At most five do: while one waits, no flow instruction
becomes ready, so that the last branch leaves S3 four cycles after the first one had to wait."""


def predicted_branch(params: SmParams) -> data.StructLayout:
    """A direct branch or call that is predicted taken.

    Fields
    ------
    warp
    pc, word
        Of the instruction.
    is_unconditional : 1
        All active threads take it; see rtl.flow_forms.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "pc": _PC_BITS,
        "word": WORD_BITS,
        "is_unconditional": 1,
    })


class Redirects(Component):
    """Where fetch continues, for one warp a cycle.

    =====  =========================================================================
    cycle  what happens
    =====  =========================================================================
    S2     the target of a branch that leaves issue is added up
    S3     fetch is redirected to it
    R1     fetch is redirected by a flow result of the cycle before; if a branch is in S3, the flow
           result waits
    =====  =========================================================================

    A branch goes before a flow result, so that a warp's redirect by a branch is always older than
    that by its flow result.

    Members
    -------
    branch : In(Event of predicted_branch)
        S2.
    needs_no_result : Out(1)
        Beside ``branch``: it cannot fail, and all active threads take it.
    result : In(Event of redirect)
        R1.
    has_room : Out(1)
        No flow result waits.
    redirect : Out(Event of redirect)
    is_final : Out(1)
        Beside ``redirect``: it is that of a branch with ``needs_no_result``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "branch": In(Event(predicted_branch(params))),
            "needs_no_result": Out(1),
            "result": In(Event(redirect(params))),
            "has_room": Out(1),
            "redirect": Out(Event(redirect(params))),
            "is_final": Out(1),
        })
        self.results = DispatchQueue(
            redirect(params), places=_PLACES, under_way=_PLACES, bypass=True)
        """Redirects of flow results. It has room if it is empty."""
        self._taken: Any = Event(redirect(params)).create(path=("taken",))
        """S3: the branch."""
        self._is_unconditional = Signal(name="is_unconditional")
        """S3: the branch had ``needs_no_result``."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.results = results = self.results
        connect(m, flipped(self.result), results.arriving)
        m.d.comb += self.has_room.eq(results.room)
        self._add_target(m)
        self._select(m)
        return m

    def _add_target(self, m: Module) -> None:
        """S2: the target. A target that is no pc is an error: its flow result leads elsewhere."""
        branch = self.branch.payload
        target = Signal(_PC_BITS + 2)
        m.d.comb += target.eq(target_of(branch.word, branch.pc + INSTRUCTION_BYTES))
        m.d.comb += self.needs_no_result.eq(
            self.branch.valid & branch.is_unconditional & ~target[_PC_BITS:].any())
        m.d.sync += self._taken.valid.eq(self.branch.valid)
        m.d.sync += self._taken.payload.eq(struct_value(
            redirect(self._params), warp=branch.warp, pc=target[:_PC_BITS]))
        m.d.sync += self._is_unconditional.eq(self.needs_no_result)

    def _select(self, m: Module) -> None:
        """The branch in S3, or else the oldest flow result."""
        waiting = self.results.head
        with m.If(self._taken.valid):
            m.d.comb += self.redirect.valid.eq(1)
            m.d.comb += self.redirect.payload.eq(self._taken.payload)
            m.d.comb += self.is_final.eq(self._is_unconditional)
        with m.Else():
            m.d.comb += waiting.ready.eq(1)
            m.d.comb += self.redirect.valid.eq(waiting.valid)
            m.d.comb += self.redirect.payload.eq(waiting.payload)
