"""Writes the results of FLOW_READ instructions to registers."""

from typing import Any

from amaranth.hdl import Array, Assert, Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT
from rtl.layouts import (
    SEQUENCE_BITS,
    Event,
    InstructionKind,
    delayed,
    dispatched,
    flow_result,
    is_kind,
    register_write,
    warp_launch,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value
from rtl.word import field_of
from rtl.words import Words

from .reads import WarpRead

__all__ = ["FlowReads"]

_IN_FLIGHT_BITS = 6
"""Width of a warp's count of instructions in the flow unit and its queue."""


def _pending_read() -> data.StructLayout:
    """The fields of a FLOW_READ that are stored until its result arrives."""
    return data.StructLayout({
        "register": 8,
        "threads": WARP_THREADS,
        "sequence": SEQUENCE_BITS,
        "barrier": 3,
    })


class FlowReads(Component):
    """Requests, for the result of each FLOW_READ, a write by the lanes; the write completes it.

    A warp waits for its FLOW_READ, so that it has at most one. The flow unit's results of a warp
    are in program order, including those of earlier pushes. So the result of the FLOW_READ is the
    one after which no instruction of the warp is in flight in the flow unit. A FLOW_READ with an
    error writes no thread's register, but completes. ::

        dispatch --> pending read, by warp ---------------------------+
        result ----> value, by warp; the warp joins a queue --> write +--> write

    Members
    -------
    dispatch : In(Event of dispatched)
        Every dispatched instruction, of any unit.
    launch : In(Event of warp_launch)
        The state of the warp is cleared.
    result : In(Event of flow_result)
    write : Out(stream of register_write)
    value : In(WarpRead of 32 bits)
        The value of a warp's write.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "launch": In(Event(warp_launch(params))),
            "result": In(Event(flow_result(params))),
            "write": Out(stream.Signature(register_write(params))),
            "value": In(WarpRead(params, 32)),
        })
        self._is_flow_read = Signal(name="is_flow_read")
        """A FLOW_READ is dispatched."""
        self._failed = Signal(name="failed")
        self._completes_read = Signal(params.warps, name="completes_read")
        """The warp of the FLOW_READ that the result belongs to."""
        self._next_warp = Signal(params.warp_bits, name="next_warp")
        """The warp whose register is written next."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A result is late in its cycle, so that it is registered.
        result = delayed(m, self.result)
        m.d.sync += self._failed.eq(self.result.payload.error != WarpError.NONE)
        self._match_results(m, result)
        pending = self._keep_reads(m)
        failed = self._keep_results(m, result)
        self._queue(m, result)
        self._write(m, pending, failed)
        return m

    def _match_results(self, m: Module, result: Any) -> None:
        """Finds the result of a FLOW_READ, by a count of the warp's instructions in flight."""
        warps = self._params.warps
        dispatched_kind = self.dispatch.payload.kind
        is_flow = Signal()
        m.d.comb += is_flow.eq(self.dispatch.valid & is_kind(
            dispatched_kind, lambda rule: rule.unit == "flow" and not rule.injected))
        m.d.comb += self._is_flow_read.eq(
            self.dispatch.valid & (dispatched_kind == InstructionKind.FLOW_READ))
        in_flight = Array(
            Signal(_IN_FLIGHT_BITS, name=f"in_flight{warp}") for warp in range(warps))
        awaits = Array(Signal(name=f"awaits{warp}") for warp in range(warps))
        for warp in range(warps):
            count = in_flight[warp]
            is_dispatched = is_flow & (self.dispatch.payload.warp == warp)
            has_result = result.valid & (result.payload.warp == warp)
            m.d.comb += self._completes_read[warp].eq(has_result & awaits[warp] & (count == 1))
            m.d.sync += Assert(
                ~(self._is_flow_read & is_dispatched & awaits[warp]),
                "a warp has two FLOW_READs pending")
            with m.If(self.launch.valid & (self.launch.payload.warp == warp)):
                m.d.sync += count.eq(0)
                m.d.sync += awaits[warp].eq(0)
            with m.Else():
                m.d.sync += count.eq(count + is_dispatched - (has_result & count.any()))
                with m.If(self._is_flow_read & is_dispatched):
                    m.d.sync += awaits[warp].eq(1)
                with m.Elif(self._completes_read[warp]):
                    m.d.sync += awaits[warp].eq(0)

    def _keep_reads(self, m: Module) -> Any:
        """Returns the stored fields of the FLOW_READ of the warp that is written next."""
        instruction = self.dispatch.payload
        m.submodules.notes = pending = Words(_pending_read(), self._params.warps)
        pending.write(m, self._is_flow_read, instruction.warp, {
            "register": field_of(instruction.word, FIELDS["Rd"]),
            "threads": instruction.active & instruction.guard,
            "sequence": instruction.sequence,
            "barrier": instruction.write_barrier,
        })
        return pending.read(m, self._next_warp)

    def _keep_results(self, m: Module, result: Any) -> Any:
        """Returns whether the FLOW_READ of the warp that is written next has failed."""
        outcome = data.StructLayout({"value": 32, "failed": 1})
        m.submodules.outcomes = outcomes = Words(outcome, self._params.warps)
        outcomes.write(m, self._completes_read.any(), result.payload.warp, {
            "value": result.payload.value,
            "failed": self._failed,
        })
        m.d.comb += self.value.value.eq(outcomes.read(m, self.value.warp).value)
        return outcomes.read(m, self._next_warp).failed

    def _queue(self, m: Module, result: Any) -> None:
        """The queue of warps with a result to be written, in the order of results. It has a place
        for each warp, so that it is never full."""
        warps = self._params.warps
        warp_bits = self._params.warp_bits
        last = Signal(warps.bit_length())
        first = Signal(warps.bit_length())
        m.submodules.order = order = Words(warp_bits, warps)
        order.write(m, self._completes_read.any(), last[:warp_bits], result.payload.warp)
        m.d.comb += self._next_warp.eq(order.read(m, first[:warp_bits]))
        m.d.sync += last.eq(last + self._completes_read.any())
        m.d.comb += self.write.valid.eq(first != last)
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += first.eq(first + 1)

    def _write(self, m: Module, pending: Any, failed: Any) -> None:
        """The write."""
        m.d.comb += self.write.payload.eq(struct_value(
            register_write(self._params),
            warp=self._next_warp,
            sequence=pending.sequence,
            index=0,
            last=1,
            barrier=pending.barrier,
            register=pending.register,
            predicate=PT,
            conditional=0,
            threads=pending.threads & ~failed.replicate(WARP_THREADS)))
