"""From ENTER and LEAVE to what the flow unit does."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.layouts import FlowOperation, InstructionKind, TrapMove, error_event
from rtl.params import SmParams

from .warps import change

__all__ = ["ORIGINS", "Origin", "TrapFlow"]

_RETURNS = {ReturnFromTrapMode.POPCRS: FlowOperation.RESTORE, ReturnFromTrapMode.FALLTHROUGH: FlowOperation.LEAVE_TRAP,
            ReturnFromTrapMode.TERMINATE: FlowOperation.TERMINATE}


class Origin(enum.Enum, shape=2):
    """Where a warp that enters the trap comes back to."""

    NEXT = 0
    """Its next instruction."""
    LAST = 1
    """The instruction that it issued last: it failed, and nothing has issued behind it."""
    FLOW = 2
    """A flow instruction that failed. A push may have been overtaken by the warp's later instructions, but for those
    that can fail: issue keeps them until its result is known."""
    MEMORY = 3
    """A memory instruction that failed; it may have been overtaken by whatever (ours)."""


ORIGINS = {"lanes": Origin.LAST, "flow": Origin.FLOW, "memory": Origin.MEMORY, "conversion": Origin.LAST,
           "barrier": Origin.LAST, "trap": Origin.LAST, "stack": Origin.NEXT}
"""For each source of errors. A line of the stack that memory did not take belongs to no instruction."""
_NOTED = ("flow", "memory")


class TrapFlow(Component):
    """Knows, of each warp, which instruction failed first; combinational but for that.

    A memory instruction is older than whatever else has failed, since it has issued when the flow results before it
    were known; the first of several is the one that is told first. A push is older than what could not be overtaken.

    Members
    -------
    errors, failing : In(array of error_event), In(array of warps), by ORIGINS
        Errors, and of each its warp among all.
    outside : In(warps)
        Warps whose errors count.
    clear : In(warps)
        Warps that leave the trap, or begin: nothing has failed.
    warp, kind, pc : In, In(InstructionKind), In(32)
        What is dispatched, and the address of the instruction in whose place it is.
    installed, handler, rolled_back, mode : In
        There is a handler, and where; of the warp, whether it is to come back to its BAR, and how it leaves.
    flow : Out(TrapMove)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), len(ORIGINS))),
            "failing": In(data.ArrayLayout(params.warps, len(ORIGINS))), "outside": In(params.warps),
            "clear": In(params.warps), "warp": In(params.warp_bits), "kind": In(InstructionKind), "pc": In(32),
            "installed": In(1), "handler": In(32), "rolled_back": In(1), "mode": In(ReturnFromTrapMode),
            "flow": Out(TrapMove)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        last, flows, memories = (Signal(params.warps, name=f"origin_{origin.name.lower()}")
                                 for origin in (Origin.LAST, Origin.FLOW, Origin.MEMORY))
        noted = {Origin.FLOW: flows, Origin.MEMORY: memories}
        failing: dict[Origin, Any] = dict.fromkeys(Origin, 0)
        known = {}
        for index, (name, origin) in enumerate(ORIGINS.items()):
            event = self.errors[index]
            failing[origin] = failing[origin] | self.failing[index]
            if name in _NOTED:
                m.submodules[name] = table = memory.Memory(shape=32, depth=params.warps, init=[])
                write, known[origin] = table.write_port(), table.read_port(domain="comb")
                m.d.comb += [
                    write.addr.eq(event.warp), write.data.eq(event.pc), known[origin].addr.eq(self.warp),
                    write.en.eq(event.valid & ~noted[origin].bit_select(event.warp, 1))]
        fresh = self.outside & ~(last | flows | memories)
        change(m, last, (failing[Origin.LAST] & fresh, 1), (self.clear, 0))
        change(m, flows, (failing[Origin.FLOW] & fresh, 1), (self.clear, 0))
        change(m, memories, (failing[Origin.MEMORY] & self.outside, 1), (self.clear, 0))

        # Where to come back to.
        number, first = self.pc[3:5], self.pc[3:5] == 1
        assert GROUP_BYTES == 4 * INSTRUCTION_BYTES
        before = Cat(self.pc[:3], Mux(first, 3, number - 1)[:2], (self.pc[5:] - first)[:27])
        saved, of = Signal(32), self.warp
        m.d.comb += saved.eq(Mux(self.rolled_back | last.bit_select(of, 1), before, self.pc))
        for origin, flags in noted.items():
            with m.If(flags.bit_select(of, 1)):
                m.d.comb += saved.eq(known[origin].data)

        # What to do.
        flow = self.flow
        with m.If(self.kind == InstructionKind.ENTER):
            m.d.comb += [
                flow.operation.eq(Mux(self.installed, FlowOperation.ENTER_TRAP, FlowOperation.BRANCH)),
                flow.pc.eq(saved), flow.target.eq(Mux(self.installed, self.handler, saved))]
        with m.Else():
            m.d.comb += [flow.pc.eq(self.pc), flow.target.eq(self.pc)]
            with m.Switch(self.mode):
                for mode, operation in _RETURNS.items():
                    with m.Case(mode):
                        m.d.comb += flow.operation.eq(operation)
        return m


