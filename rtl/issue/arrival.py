"""What an instruction that arrives from fetch means for the scheduler: found out once, before it is stored."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS
from rtl.isa.syntax import Form
from rtl.isa.table import BY_NAME
from rtl.layouts import KIND_RULES, FetchedInstruction, InstructionKind, is_kind
from rtl.word import field_of

from .records import COMPLETE, RESULTS, Control, Head, Need

__all__ = ["DEPENDENCY_FORMS", "ArrivalDecoder"]

DEPENDENCY_FORMS: dict[str, Form] = {form.variant: form for form in BY_NAME["DEPBAR"]}
"""The forms of DEPBAR: "zero", and "at_most" with a limit for one scoreboard."""
_SHORT = 2
"""Cycles between two instructions of a warp, at least."""


class ArrivalDecoder(wiring.Component):
    """Combinational.

    An instruction whose two barrier fields name the same scoreboard raises it once, until it is complete: its read
    barrier is none.

    Members
    -------
    instruction : In(FetchedInstruction)
    head, control : Out(Head), Out(Control)
    read_barrier : Out(3)
    """

    instruction: In(FetchedInstruction)
    head: Out(Head)
    control: Out(Control)
    read_barrier: Out(3)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, head, control = self.instruction, self.head, self.control
        kind, word, code = instruction.kind, instruction.word, instruction.control
        write, read = code.write_barrier, code.read_barrier
        at_most = DEPENDENCY_FORMS["at_most"]
        silent, dependency, barriers, after = Signal(), Signal(), Signal(SCOREBOARDS), control.after
        m.d.comb += [
            silent.eq(is_kind(kind, lambda rule: rule.silent)), dependency.eq(kind == InstructionKind.DEPENDENCY),
            barriers.eq(Mux(silent, 0, Cat((write == number) | (read == number) for number in range(SCOREBOARDS)))),
            self.read_barrier.eq(Mux(read == write, NO_BARRIER, read))]

        # What it waits for, and which room it needs.
        dependencies = field_of(word, DEPENDENCY_FORMS["zero"].fields["wait"]) & dependency.replicate(SCOREBOARDS)
        m.d.comb += [
            head.wait[:SCOREBOARDS].eq(code.wait | dependencies),
            head.wait[COMPLETE].eq(is_kind(kind, lambda rule: "complete" in rule.before)),
            head.wait[RESULTS].eq(is_kind(kind, lambda rule: "results" in rule.before) | instruction.constant_missing),
            head.waits.eq(head.wait.any()), head.lanes.eq(is_kind(kind, lambda rule: rule.lanes)),
            head.collected.eq(is_kind(kind, lambda rule: rule.collected)),
            Value.cast(head.need).eq(self._need(kind, barriers))]

        # What it changes.
        m.d.comb += [
            after.resume.eq(is_kind(kind, lambda rule: rule.after == "resumed")),
            after.drain.eq(~after.resume & (is_kind(kind, lambda rule: rule.after == "drained")
                                            | instruction.constant_missing)),
            after.results.eq(is_kind(kind, lambda rule: rule.after == "result")),
            after.limit.eq(dependency & field_of(word, at_most.fields["at_most"]).any()),
            head.short.eq((code.stall <= _SHORT) & ~after.as_value().any()), control.no_yield.eq(code.no_yield),
            control.rest.eq(Mux(code.stall <= _SHORT, 1, code.stall - _SHORT)),
            control.raises.eq(Cat(barriers, ~silent, is_kind(kind, lambda rule: rule.unit == "flow")))]
        return m

    def _need(self, kind: Any, barriers: Signal) -> Value:
        """Whose room. What has no unit lowers scoreboards by way of the lanes."""
        need: Any = Mux(barriers.any() & is_kind(kind, lambda rule: rule.unit is None), Need.EVENTS.value, 0)
        for unit in dict.fromkeys(rule.unit for rule in KIND_RULES.values() if rule.unit is not None):
            chosen = is_kind(kind, lambda rule, unit=unit: rule.unit == unit)
            need = need | Mux(chosen, Need[unit.upper()].value, 0)
        return need
