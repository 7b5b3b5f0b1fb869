"""What the scheduler needs of an instruction: decoded when its group arrives, and stored."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Value, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.flow_forms import DIRECT_BRANCHES, has_form, is_predicted_taken, is_unconditional
from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS, Form
from rtl.isa.table import BY_NAME
from rtl.layouts import UNITS, ControlBits, FetchedInstruction, InstructionKind, KindRule, is_kind
from rtl.params import SmParams
from rtl.structs import common_fields
from rtl.word import field_of

from .records import INCOMPLETE, RESULTS, TIME_BITS, Effects, Requirements, Resource

__all__ = ["DEPENDENCY_FORMS", "IssueDecoder", "StoredInstruction"]

DEPENDENCY_FORMS: dict[str, Form] = {form.variant: form for form in BY_NAME["DEPBAR"]}
"""The forms of DEPBAR: "zero", and "at_most" with a limit for one scoreboard."""
_LEAST_STALL = 2
"""Cycles between two instructions of a warp, at least."""
_MOST_STALL = (1 << ControlBits.as_shape()["stall"].width) - 1
"""The longest stall count."""


class StoredInstruction(data.Struct):
    """The part of an instruction that is sent out when it issues: fields of FetchedInstruction and
    of its ControlBits, and of :func:`~rtl.layouts.issued`."""

    word: unsigned(WORD_BITS)
    kind: InstructionKind
    quarter: unsigned(1)
    error: WarpError
    constant: unsigned(32)
    constant_missing: unsigned(1)
    write_barrier: unsigned(3)
    read_barrier: unsigned(3)
    is_predicted: unsigned(1)
    """Fetch continues at its target when it issues; see rtl.flow_forms."""
    is_unconditional: unsigned(1)
    """The same, and its warp does not wait for the flow result."""


class IssueDecoder(Component):
    """Decodes a fetched instruction for issue: only its kind and its control code count, and the
    fields of DEPBAR.

    Members
    -------
    fetched : In(FetchedInstruction)
    requirements, effects : Out(Requirements), Out(Effects)
    stored : Out(StoredInstruction)
        Its read barrier is none if both barrier fields name one scoreboard: that is raised once,
        until the instruction is complete.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "fetched": In(FetchedInstruction),
            "requirements": Out(Requirements),
            "effects": Out(Effects),
            "stored": Out(StoredInstruction),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._store(m)
        self._require(m)
        self._find_resource(m)
        self._find_blocks(m)
        self._find_stall(m)
        return m

    def _is(self, test: Callable[[KindRule], bool]) -> Value:
        """Whether the rule of the instruction's kind passes a test."""
        return is_kind(self.fetched.kind, test)

    def _store(self, m: Module) -> None:
        """What leaves, and what is pending from then on."""
        fetched = self.fetched
        stored = self.stored
        write = fetched.control.write_barrier
        read = fetched.control.read_barrier
        m.d.comb += common_fields(stored, fetched)
        m.d.comb += common_fields(stored, fetched.control)
        is_flow = fetched.kind == InstructionKind.FLOW
        m.d.comb += stored.is_predicted.eq(
            is_flow & self._is_direct_branch(is_predicted_taken))
        m.d.comb += stored.is_unconditional.eq(
            is_flow & self._is_direct_branch(is_unconditional))
        with m.If(read == write):
            m.d.comb += stored.read_barrier.eq(NO_BARRIER)

        raises = self.effects.raises
        m.d.comb += raises[RESULTS].eq(self._is(lambda rule: rule.unit == "flow"))
        with m.If(~self._is(lambda rule: rule.silent)):
            m.d.comb += raises[INCOMPLETE].eq(1)
            for number in range(SCOREBOARDS):
                is_named = (write == number) | (read == number)
                m.d.comb += raises[number].eq(is_named)

    def _is_direct_branch(self, rule: Callable[[Value, Form], Value]) -> Value:
        """Whether the word of a flow instruction is a direct branch or call that passes a rule."""
        word = self.fetched.word
        return Cat(
            has_form(word, [form]) & rule(word, form) for form in DIRECT_BRANCHES).any()

    def _require(self, m: Module) -> None:
        """What it waits for. An instruction that may fail waits for the results of all pushes
        before it: if one of these fails, that is the oldest error."""
        fetched = self.fetched
        required = self.requirements
        waits_for = required.waits_for
        depbar_set = field_of(fetched.word, DEPENDENCY_FORMS["zero"].fields["wait"])
        m.d.comb += waits_for[:SCOREBOARDS].eq(fetched.control.wait)
        with m.If(fetched.kind == InstructionKind.DEPENDENCY):
            m.d.comb += waits_for[:SCOREBOARDS].eq(fetched.control.wait | depbar_set)
        m.d.comb += waits_for[INCOMPLETE].eq(self._is(lambda rule: "complete" in rule.before))
        m.d.comb += waits_for[RESULTS].eq(
            self._is(lambda rule: "results" in rule.before) | fetched.constant_missing)
        m.d.comb += required.has_waits.eq(waits_for.any())
        m.d.comb += required.uses_lanes.eq(self._is(lambda rule: rule.lanes))
        m.d.comb += required.is_collected.eq(self._is(lambda rule: rule.collected))
        m.d.comb += required.is_quarter.eq(fetched.quarter)

    def _find_resource(self, m: Module) -> None:
        """Whose room it needs: its unit's; if it has none and lowers scoreboards, or is refused, it
        needs the lanes'."""
        has_unit = self._is(lambda rule: rule.unit is not None)
        is_refused = self.fetched.kind == InstructionKind.REFUSED
        sends_events = self.effects.raises[:SCOREBOARDS].any() | is_refused
        with m.If(~has_unit & sends_events):
            m.d.comb += self.requirements.resource.eq(Resource.EVENTS)
        for unit in UNITS:
            with m.If(self._is(lambda rule, unit=unit: rule.unit == unit)):
                m.d.comb += self.requirements.resource.eq(Resource[unit.upper()])

    def _find_blocks(self, m: Module) -> None:
        """What blocks the warp's next instruction, of any kind. An instruction without its constant
        fails: what follows an error must not be executed."""
        fetched = self.fetched
        blocks = self.effects.blocks
        has_limit = field_of(fetched.word, DEPENDENCY_FORMS["at_most"].fields["at_most"])
        m.d.comb += blocks.until_results.eq(self._is(lambda rule: rule.after == "result"))
        with m.If(self._is(lambda rule: rule.after == "resumed")):
            m.d.comb += blocks.until_resumed.eq(1)
        with m.Else():
            m.d.comb += blocks.until_drained.eq(
                self._is(lambda rule: rule.after == "drained") | fetched.constant_missing)
        with m.If(fetched.kind == InstructionKind.DEPENDENCY):
            m.d.comb += blocks.until_limit.eq(has_limit.any())
        m.d.comb += blocks.until_redirected.eq(self.stored.is_predicted)

    def _find_stall(self, m: Module) -> None:
        """The stall, from S1 on: two cycles less than the control code's stall, since the earliest
        next selection is two cycles later; where the next instruction is not found on the bus, a
        third cycle has passed.

        An instruction of a quarter of the rate, or of the lanes where ``lanes_stall`` is not 0, has
        a fixed stall: what the lanes need, and at least the longest stall count. Its own count is
        ignored: a constant takes no comparison."""
        code = self.fetched.control
        required = self.requirements
        effects = self.effects
        lanes_stall = self._params.lanes_stall
        m.d.comb += effects.no_yield.eq(code.no_yield)
        needs_lanes_stall = required.uses_lanes if lanes_stall else Const(0)
        with m.If(required.is_quarter):
            m.d.comb += effects.stall.eq(
                max(self._params.quarter_stall, _MOST_STALL) - _LEAST_STALL)
        with m.Elif(needs_lanes_stall):
            m.d.comb += effects.stall.eq(max(lanes_stall, _MOST_STALL) - _LEAST_STALL)
        with m.Elif(code.stall > _LEAST_STALL):
            m.d.comb += effects.stall.eq(code.stall - _LEAST_STALL)
        with m.Else():
            m.d.comb += effects.stall.eq(1)
            m.d.comb += required.has_short_stall.eq(~effects.blocks.as_value().any())


assert max(_MOST_STALL, SmParams(lanes=2).quarter_stall) < 1 << TIME_BITS
