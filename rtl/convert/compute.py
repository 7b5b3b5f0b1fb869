"""The second step of the conversion unit: computes the results of an instruction's threads."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import Event
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .buffers import GROUPS, SourceRead, result_write, source_place
from .collect import ResultCollector, collected_instruction
from .datapath import DATAPATH_STAGES, FUNCTION_DELAY, ConversionDatapath
from .entries import pending_entry
from .instruction import (
    DOUBLE_BITS,
    ENTRY_BITS,
    THREAD_BITS,
    WORD_BITS,
    ConversionOperation,
    conversion_entry,
    size_code,
)
from .narrow import NarrowBound, NarrowConversion, bound_of, is_narrow

__all__ = ["ComputeStep"]

_GROUP_COLLECTED = 3
"""Index in ``in_flight`` of a group whose results are written to the buffer."""
_THREAD_LEAVES = DATAPATH_STAGES + 1
"""Index in ``in_flight`` of a thread whose result the datapath outputs, except with MUFU."""
_FUNCTION_LEAVES = _THREAD_LEAVES + FUNCTION_DELAY
"""The same with MUFU: the last index."""
_LAST_THREAD = WARP_THREADS - 1


class ComputeStep(Component):
    """Takes instructions in order, reads the sources of all 32 threads, and writes their results.

    POPC and I2I are computed in the narrow parts, half a beat a cycle: a group of neighbouring
    threads. All other operations are computed in the datapath, a thread a cycle. ::

                                      +--> narrow parts, 2 cycles ------+
        thread --> source --> operand |                                 +--> result buffer
             0          1           2 +--> datapath, 13 cycles; MUFU 19 +

    The numbers are cycles since the thread was requested from the source buffer. ``in_flight[n]``
    is the thread, or the first one of the group, that was requested n + 1 cycles ago.

    The next instruction can be taken a cycle after the sources of the last group are in the
    narrow parts, or after the result of the last thread has left the datapath. An instruction that
    writes nothing is taken in one cycle, without any of this.

    Members
    -------
    next : In(stream of pending_entry)
    read : Out(SourceRead)
    write : Out(Event(result_write) for each lane)
    has_results : Out(Event(ENTRY_BITS))
        The write step may begin to write the results of that entry, a beat a cycle. Those that are
        not in the buffer yet will be before they are read.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._group_threads = params.lanes // GROUPS
        super().__init__({
            "next": In(stream.Signature(pending_entry(params))),
            "read": Out(SourceRead(params)),
            "write": Out(Event(result_write(params))).array(params.lanes),
            "has_results": Out(Event(ENTRY_BITS)),
        })
        self.datapath = ConversionDatapath(params.floats, params.doubles)
        self.narrow = [NarrowConversion() for _ in range(self._group_threads)]
        self.collector = ResultCollector(params)
        self.current: Any = Signal(conversion_entry(params), name="current")
        """The instruction that is computed."""
        self._computed: Any = Signal(collected_instruction, name="computed")
        """Its entry, and whether it is narrow: computed by groups."""
        self._collected: Any = Signal(collected_instruction, name="collected")
        """``_computed`` a cycle later: that of the instruction whose results are collected. The
        next instruction may have been taken before the last group is collected."""
        self._requested: Any = Event(THREAD_BITS).create(path=("requested",))
        """The thread, or the first one of the group, that is requested from the source buffer."""
        self._in_flight: list[Any] = [
            Event(THREAD_BITS).create(path=(f"in_flight_{stage}",))
            for stage in range(_FUNCTION_LEAVES + 1)]
        self._leaving: Any = Event(THREAD_BITS).create(path=("leaving",))
        """The thread whose result the datapath outputs."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.datapath = self.datapath
        m.submodules.collector = self.collector
        for number, part in enumerate(self.narrow):
            m.submodules[f"lane_{number}"] = part
        self._sequence(m)
        self._follow_threads(m)
        self._feed(m)
        self._collect(m)
        return m

    def _sequence(self, m: Module) -> None:
        """Takes instructions, and requests the sources of their threads."""
        following = self.next
        thread = self._requested.payload
        last_group = WARP_THREADS - self._group_threads
        last_group_in_parts = _is_thread(self._in_flight[_GROUP_COLLECTED - 2], last_group)
        last_thread_leaves = _is_thread(self._leaving, _LAST_THREAD)
        with m.FSM(name="step"):
            with m.State("TAKE"):
                m.d.comb += following.ready.eq(1)
                with m.If(following.valid):
                    m.d.sync += self.current.eq(following.payload.instruction)
                    m.d.sync += self._computed.eq(struct_value(
                        collected_instruction,
                        entry=following.payload.number,
                        is_narrow=is_narrow(following.payload.instruction.decoded.instruction)))
                    m.d.sync += thread.eq(0)
                with m.If(following.valid & ~following.payload.writes_nothing):
                    m.next = "COMPUTE"
            with m.State("COMPUTE"):
                m.d.comb += self._requested.valid.eq(1)
                m.d.sync += thread.eq(
                    thread + Mux(self._computed.is_narrow, self._group_threads, 1))
                with m.If(self._computed.is_narrow & (thread == last_group)):
                    m.next = "DRAIN_GROUPS"
                with m.Elif(thread == _LAST_THREAD):
                    m.next = "DRAIN_THREADS"
            with m.State("DRAIN_GROUPS"), m.If(last_group_in_parts):
                m.next = "TAKE"
            with m.State("DRAIN_THREADS"), m.If(last_thread_leaves):
                m.next = "TAKE"

    def _follow_threads(self, m: Module) -> None:
        """Threads in flight. A group is dropped from ``in_flight`` once it is collected, and a
        thread once it has left the datapath: the last stages are for MUFU only."""
        in_flight = self._in_flight
        leaving = self._leaving
        operation = self.current.decoded.instruction.operation
        is_function = operation == ConversionOperation.FUNCTION
        for before, after in pairwise((self._requested, *in_flight)):
            m.d.sync += after.valid.eq(before.valid)
            m.d.sync += after.payload.eq(before.payload)
        with m.If(self._collected.is_narrow):
            m.d.sync += in_flight[_GROUP_COLLECTED + 1].valid.eq(0)
        with m.If(~is_function):
            m.d.sync += in_flight[_THREAD_LEAVES + 1].valid.eq(0)
        with m.If(is_function):
            m.d.comb += leaving.valid.eq(in_flight[_FUNCTION_LEAVES].valid)
            m.d.comb += leaving.payload.eq(in_flight[_FUNCTION_LEAVES].payload)
        with m.Else():
            m.d.comb += leaving.valid.eq(in_flight[_THREAD_LEAVES].valid)
            m.d.comb += leaving.payload.eq(in_flight[_THREAD_LEAVES].payload)

    def _feed(self, m: Module) -> None:
        """Registers the sources, from the buffer or the uniform operand, for the narrow parts and
        the datapath."""
        current = self.current
        decoded = current.decoded
        read = self.read
        m.d.comb += read.place.eq(struct_value(
            source_place, entry=self._computed.entry, thread=self._requested.payload))
        m.d.comb += self.datapath.instruction.eq(decoded.instruction)
        m.d.sync += self.datapath.source.eq(Mux(decoded.gathers, read.value, current.operand))

        bound = Signal(NarrowBound)
        m.d.sync += bound.eq(bound_of(decoded.instruction))
        for gathered_word, part in zip(read.group, self.narrow, strict=True):
            m.d.comb += part.instruction.eq(decoded.instruction)
            m.d.comb += part.bound.eq(bound)
            m.d.sync += part.source.eq(
                Mux(decoded.gathers, gathered_word, current.operand[:WORD_BITS]))

    def _collect(self, m: Module) -> None:
        """Collects results, and reports ``has_results`` when a write may begin."""
        collector = self.collector
        group_leaving = self._in_flight[_GROUP_COLLECTED]
        instruction = self.current.decoded.instruction
        m.d.sync += self._collected.eq(self._computed)
        m.d.comb += collector.instruction.eq(self._collected)
        m.d.comb += collector.is_wide.eq(instruction.to_size == size_code(DOUBLE_BITS))
        connect(m, group_leaving, collector.group_leaving)
        connect(m, self._leaving, collector.thread_leaving)
        m.d.comb += collector.result.eq(self.datapath.result)
        m.d.comb += collector.group.eq(Cat(part.result for part in self.narrow))
        for written, write in zip(collector.write, self.write, strict=True):
            connect(m, written, flipped(write))

        # Half of the groups are enough. A write begins to read some cycles later, a beat a cycle;
        # the other groups, half a beat a cycle, are in the buffer before their beats are read.
        m.d.comb += self.has_results.payload.eq(self._collected.entry)
        with m.If(self._collected.is_narrow):
            m.d.comb += self.has_results.valid.eq(
                _is_thread(group_leaving, WARP_THREADS // GROUPS))
        with m.Else():
            m.d.comb += self.has_results.valid.eq(_is_thread(self._leaving, _LAST_THREAD))


def _is_thread(moving: Any, thread: int) -> Any:
    """Whether an event is valid, and of that thread."""
    return moving.valid & (moving.payload == thread)
