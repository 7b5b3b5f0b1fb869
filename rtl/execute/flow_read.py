"""What the flow unit reads goes to a register."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT
from rtl.layouts import SERIAL_BITS, InstructionKind, dispatched, flow_result, is_kind, register_write, warp_launch
from rtl.params import WARP_THREADS, SmParams
from rtl.word import field_of
from rtl.words import Words

__all__ = ["FlowReads"]

_UNDER_WAY_BITS = 6
"""Width of the number of instructions that a warp has in the flow unit and its queue."""


def _note(params: SmParams) -> data.StructLayout:
    """What is remembered of an instruction until its result comes."""
    return data.StructLayout({"register": 8, "threads": WARP_THREADS, "serial": SERIAL_BITS, "barrier": 3})


class FlowReads(Component):
    """Makes a write by the lanes of the result of each FLOW_READ, which that write completes.

    A warp waits for its FLOW_READ, so it has one at most; its results come in order, and those of tokens that it
    pushed before come first. An instruction that failed writes nothing, but completes all the same.

    Members
    -------
    dispatch : In(valid, payload: dispatched)
        What goes to the flow unit.
    launch : In(valid, payload: warp_launch)
        The warp has nothing in the flow unit.
    result_valid, result : In(1), In(flow_result)
    write : Out(stream of register_write)
    warp, value : In, Out(32)
        What the write of a warp writes; combinational.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "result_valid": In(1), "result": In(flow_result(params)),
            "write": Out(stream.Signature(register_write(params))), "warp": In(params.warp_bits), "value": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, sent, result, came, failed = (
            self._params.warps, self.dispatch.payload, Signal.like(self.result), Signal(), Signal())
        # A result is known late in its cycle.
        m.d.sync += [
            came.eq(self.result_valid), result.eq(self.result), failed.eq(self.result.error != WarpError.NONE)]

        # Which result is awaited.
        under_way = Array(Signal(_UNDER_WAY_BITS, name=f"under_way{warp}") for warp in range(warps))
        awaits = Array(Signal(name=f"awaits{warp}") for warp in range(warps))
        is_flow, reads, arrives = Signal(), Signal(), Signal(warps)
        m.d.comb += [
            is_flow.eq(self.dispatch.valid & is_kind(
                sent.kind, lambda rule: rule.unit == "flow" and not rule.injected)),
            reads.eq(self.dispatch.valid & (sent.kind == InstructionKind.FLOW_READ))]
        for warp in range(warps):
            more, fewer = is_flow & (sent.warp == warp), came & (result.warp == warp)
            m.d.comb += arrives[warp].eq(fewer & awaits[warp] & (under_way[warp] == 1))
            with m.If(self.launch.valid & (self.launch.payload.warp == warp)):
                m.d.sync += [under_way[warp].eq(0), awaits[warp].eq(0)]
            with m.Else():
                m.d.sync += under_way[warp].eq(under_way[warp] + more - (fewer & under_way[warp].any()))
                with m.If(reads & more):
                    m.d.sync += awaits[warp].eq(1)
                with m.Elif(arrives[warp]):
                    m.d.sync += awaits[warp].eq(0)

        # What is to be done with it, and what came.
        outcome = data.StructLayout({"value": 32, "failed": 1})
        m.submodules.notes = notes = Words(_note(self._params), warps)
        m.submodules.outcomes = outcomes = Words(outcome, warps)
        note, noted = notes.write_port(), notes.read_port(domain="comb")
        keep, kept, value = outcomes.write_port(), outcomes.read_port(domain="comb"), outcomes.read_port(domain="comb")
        m.d.comb += [
            note.en.eq(reads), note.addr.eq(sent.warp), note.data.register.eq(field_of(sent.word, FIELDS["Rd"])),
            note.data.threads.eq(sent.active & sent.guard), note.data.serial.eq(sent.serial),
            note.data.barrier.eq(sent.write_barrier), keep.en.eq(arrives.any()), keep.addr.eq(result.warp),
            keep.data.value.eq(result.value), keep.data.failed.eq(failed),
            value.addr.eq(self.warp), self.value.eq(value.data.value)]

        # Whose write is next. There are no more of them than warps.
        m.submodules.order = order = Words(self._params.warp_bits, warps)
        put, taken, last, first, write = order.write_port(), Signal(), Signal(warps.bit_length()), Signal(
            warps.bit_length()), self.write.payload
        warp = order.read(m, first[:self._params.warp_bits])
        m.d.sync += [last.eq(last + arrives.any()), first.eq(first + taken)]
        m.d.comb += [
            put.en.eq(arrives.any()), put.addr.eq(last), put.data.eq(result.warp),
            self.write.valid.eq(first != last), taken.eq(self.write.valid & self.write.ready), noted.addr.eq(warp),
            kept.addr.eq(warp), write.warp.eq(warp), write.serial.eq(noted.data.serial),
            write.register.eq(noted.data.register), write.predicate.eq(PT), write.last.eq(1),
            write.barrier.eq(noted.data.barrier),
            write.threads.eq(noted.data.threads & ~kept.data.failed.replicate(WARP_THREADS))]
        return m
