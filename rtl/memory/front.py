"""The next instruction: its registers are read and its addresses judged while the one before is under way."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .instruction import MemoryInstruction, MemoryOperation, queued

__all__ = ["MemoryFront"]


class MemoryFront(Component):
    """Prepares one instruction, and hands it on when it is asked for it.

    Members
    -------
    head_valid, begin : In(1), Out(1)
        There is an instruction; it is the next one.
    job, instruction : In(queued), In(MemoryInstruction)
        The one at the last ``begin``.
    gather, gathered : Out(1), In(1)
        Read the registers; they are read, and the addresses are judged.
    ready, take : Out(1), In(1)
        The instruction can be taken, and is.
    idle : Out(1)
        It has nothing to do, and no register was read: nobody executes it, or it only orders or hints.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "head_valid": In(1), "begin": Out(1), "job": In(queued(params)), "instruction": In(MemoryInstruction),
            "gather": Out(1), "gathered": In(1), "ready": Out(1), "take": In(1), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.idle.eq(~self.job.threads.any() | (self.instruction.operation == MemoryOperation.NONE))
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.begin.eq(self.head_valid)
                with m.If(self.head_valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += self.gather.eq(~self.idle)
                m.next = "GATHER"
                with m.If(self.idle):
                    m.next = "READY"
            with m.State("GATHER"), m.If(self.gathered):
                m.next = "READY"
            with m.State("READY"):
                m.d.comb += self.ready.eq(1)
                with m.If(self.take):
                    m.next = "IDLE"
        return m
