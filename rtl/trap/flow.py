"""From ENTER and LEAVE to what the flow unit does."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.layouts import FlowOperation, InstructionKind, TrapMove, error_event, warp_launch
from rtl.params import SmParams

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
    """A flow instruction that failed. A push may have been overtaken by the warp's later instructions."""
    MEMORY = 3
    """A memory instruction that failed; it, too, may have been overtaken (ours)."""


ORIGINS = {"lanes": Origin.LAST, "flow": Origin.FLOW, "memory": Origin.MEMORY, "conversion": Origin.LAST,
           "barrier": Origin.LAST, "trap": Origin.LAST, "stack": Origin.NEXT}
"""For each source of errors. A line of the stack that memory did not take belongs to no instruction."""
_NOTED = ("flow", "memory")


class TrapFlow(Component):
    """Knows, of each warp, which instruction failed first; combinational but for that.

    Members
    -------
    errors : In(array of error_event), by ORIGINS
    outside : In(warps)
        Warps whose errors count.
    launch : In(valid and warp_launch)
    left : In(warps)
        Warps that leave the trap: nothing has failed.
    warp, kind, pc : In, In(InstructionKind), In(32)
        What is dispatched, and the address of the instruction in whose place it is.
    installed, handler, rolled_back, mode : In
        There is a handler, and where; of the warp, whether it is to come back to its BAR, and how it leaves.
    flow : Out(TrapMove)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), len(ORIGINS))), "outside": In(params.warps),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})), "left": In(params.warps),
            "warp": In(params.warp_bits), "kind": In(InstructionKind), "pc": In(32), "installed": In(1),
            "handler": In(32), "rolled_back": In(1), "mode": In(ReturnFromTrapMode), "flow": Out(TrapMove)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        origins: Any = Signal(data.ArrayLayout(Origin, params.warps))
        origin: Any = Signal(Origin)
        m.d.comb += origin.eq(origins[self.warp])

        # The first instruction that failed. A memory instruction is older than one that could not be overtaken.
        known = {}
        for index, (name, of_source) in enumerate(ORIGINS.items()):
            event = self.errors[index]
            if name in _NOTED:
                m.submodules[name] = table = memory.Memory(shape=32, depth=params.warps, init=[])
                write, known[of_source] = table.write_port(), table.read_port(domain="comb")
                here: Any = Signal(Origin, name=f"origin_{name}")
                m.d.comb += [
                    here.eq(origins[event.warp]), write.addr.eq(event.warp), write.data.eq(event.pc),
                    write.en.eq(event.valid & ((here == Origin.NEXT) | (here == Origin.LAST))),
                    known[of_source].addr.eq(self.warp)]
            if of_source is Origin.NEXT:
                continue
            for warp in range(params.warps):
                later = Origin.LAST if of_source is Origin.MEMORY else Origin.NEXT
                with m.If(event.valid & (event.warp == warp) & self.outside[warp]
                          & ((origins[warp] == Origin.NEXT) | (origins[warp] == later))):
                    m.d.sync += origins[warp].eq(of_source)
        for warp in range(params.warps):
            with m.If(self.left[warp] | (self.launch.valid & (self.launch.payload.warp == warp))):
                m.d.sync += origins[warp].eq(Origin.NEXT)

        # Where to come back to.
        number, first = self.pc[3:5], self.pc[3:5] == 1
        assert GROUP_BYTES == 4 * INSTRUCTION_BYTES
        before = Cat(self.pc[:3], Mux(first, 3, number - 1)[:2], (self.pc[5:] - first)[:27])
        saved = Signal(32)
        with m.Switch(origin):
            with m.Case(Origin.NEXT):
                m.d.comb += saved.eq(Mux(self.rolled_back, before, self.pc))
            with m.Case(Origin.LAST):
                m.d.comb += saved.eq(before)
            for which, port in known.items():
                with m.Case(which):
                    m.d.comb += saved.eq(port.data)

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


