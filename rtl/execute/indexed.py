"""Branches through tables in a constant bank, between dispatch and the flow unit."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import enum, stream
from amaranth.lib.wiring import In, Member, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Constant, Form, Pipe
from rtl.isa.table import FORMS
from rtl.layouts import REPORT_BITS, Event, dispatched, indexed_request, indexed_response, reported
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.word import field_of, pattern_of

__all__ = ["IndexedTargets", "target_ports"]


def _reads_table(form: Form) -> bool:
    """An instruction whose target is a table's entry."""
    target = form.operands.get("target")
    return form.pipe is Pipe.FLOW and isinstance(target, Constant) and target.index is not None


_TABLE_FORMS = tuple(form for form in FORMS if _reads_table(form))
_FIELDS = _TABLE_FORMS[0].fields
_OFFSET_BITS = 16


class _State(enum.Enum, shape=2):
    """What happens to the branch that waits."""

    IDLE = 0
    """There is none."""
    REQUEST = 1
    """Its entry is requested."""
    READ = 2
    """The request was accepted: the entry is outstanding."""
    PASS = 3
    """It has its entry, and waits for a cycle in which no other instruction is dispatched."""


def target_ports(params: SmParams) -> dict[str, Member]:
    """The ports of :class:`IndexedTargets`."""
    layout = dispatched(params)
    return {
        "dispatch": In(Event(layout)),
        "passed": Out(Event(layout)),
        "busy": Out(1),
        "report_mask": In(REPORT_BITS),
        "indexed": Out(stream.Signature(indexed_request())),
        "value": In(stream.Signature(indexed_response())),
    }


class IndexedTargets(Component):
    """Replaces the index of a branch through a table by the table's entry. All other instructions
    pass in the same cycle, and have priority over a branch that has its entry. ::

        IDLE --branch--> REQUEST --accepted--> READ --entry--> PASS --nothing else--> IDLE
                            |                                   ^
                            +-------------- entry --------------+

    The entry is requested in any case. An address that is no multiple of 4 is the error
    MISALIGNED_ADDR. One outside the bank is INVALID_CONST_ADDR if that is reported; else the entry
    is 0. The error is ``fault`` of the branch, which the flow unit raises.

    Members
    -------
    dispatch, passed : In, Out(Event of dispatched)
        While a branch waits here no other instruction whose registers were collected arrives, since
        ``busy`` keeps issue from selecting one.
    busy : Out(1)
        A branch waits, or arrives in this cycle.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The request of an entry, and the response; at the earliest in the cycle of the request.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(target_ports(params))
        self._branch: Any = Signal(dispatched(params), name="branch")
        """The branch that waits."""
        self._state = Signal(_State, name="state")
        self._address = Signal(32, name="address")
        """The address of its table's entry, in bytes."""
        self._is_misaligned = Signal(name="is_misaligned")
        self._has_branch = Signal(name="has_branch")
        """A branch through a table arrives."""
        self._has_other = Signal(name="has_other")
        """Something else does."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._find_address(m)
        self._advance(m)
        self._pass(m)
        return m

    def _find_address(self, m: Module) -> None:
        """The address of the entry: the register and the offset, which has a sign. With RZ it is
        the offset as a number without a sign."""
        branch = self._branch
        offset = field_of(branch.word, _FIELDS["offset"])
        has_no_register = field_of(branch.word, _FIELDS["Ra"]) == RZ
        m.d.comb += self._address.eq(Mux(
            has_no_register,
            offset.as_unsigned()[:_OFFSET_BITS],
            branch.operands[0] + offset))
        m.d.comb += self._is_misaligned.eq(self._address[:2] != 0)
        m.d.comb += self.indexed.payload.eq(struct_value(
            indexed_request(),
            bank=field_of(branch.word, _FIELDS["bank"]),
            address=self._address))
        m.d.comb += self.indexed.valid.eq(self._state == _State.REQUEST)
        m.d.comb += self.value.ready.eq(1)

    def _advance(self, m: Module) -> None:
        """State transitions. The response may be in the cycle of the request."""
        branch = self._branch
        entry = self.value.payload
        state = self._state
        through_table = self.dispatch.payload.word.matches(*map(pattern_of, _TABLE_FORMS))
        m.d.comb += self._has_branch.eq(self.dispatch.valid & through_table)
        error = Signal(WarpError)
        with m.If(self._is_misaligned):
            m.d.comb += error.eq(WarpError.MISALIGNED_ADDR)
        with m.Elif(entry.missing & reported(self.report_mask, WarpError.INVALID_CONST_ADDR)):
            m.d.comb += error.eq(WarpError.INVALID_CONST_ADDR)

        with m.Switch(state):
            with m.Case(_State.REQUEST, _State.READ):
                with m.If(self.value.valid):
                    m.d.sync += branch.operands[0].eq(Mux(self._is_misaligned, 0, entry.value))
                    m.d.sync += branch.fault.eq(error)
                    m.d.sync += state.eq(_State.PASS)
                with m.Elif(self.indexed.ready):
                    m.d.sync += state.eq(_State.READ)
            with m.Case(_State.PASS), m.If(~self._has_other):
                m.d.sync += state.eq(_State.IDLE)
        with m.If(self._has_branch):
            m.d.sync += branch.eq(self.dispatch.payload)
            m.d.sync += state.eq(_State.REQUEST)

        is_waiting = state != _State.IDLE
        m.d.comb += self.busy.eq(is_waiting | self._has_branch)
        m.d.sync += Assert(
            ~(self._has_branch & is_waiting), "a branch through a table while one waits")

    def _pass(self, m: Module) -> None:
        """An arriving instruction other than a branch through a table; else the branch that has its
        entry. For timing, ``dispatch.valid`` alone selects the payload."""
        m.d.comb += self._has_other.eq(self.dispatch.valid & ~self._has_branch)
        m.d.comb += self.passed.valid.eq(self._has_other | (self._state == _State.PASS))
        with m.If(self.dispatch.valid):
            m.d.comb += self.passed.payload.eq(self.dispatch.payload)
        with m.Else():
            m.d.comb += self.passed.payload.eq(self._branch)
