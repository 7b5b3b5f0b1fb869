"""The serial conversion unit, joined."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.convert.formats import SINGLE
from rtl.convert.instruction import CONSTANT_ADDRESS_BITS, DOUBLE_BITS, SIZES, WORD_BITS
from rtl.convert.ports import unit_ports
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ
from rtl.layouts import (
    dispatched,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS
from rtl.word import field_of

from .decode import SerialConversionDecoder
from .exponents import SerialExponents
from .instruction import BYTE, INDEX, OUTPUT_FIRST, SCAN_FIRST, STEP
from .integer import SourceInteger
from .reciprocal import ReciprocalSum
from .result import SerialResult
from .sources import SourceBytes

__all__ = ["SerialConversionUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_WORD_BYTES = WORD_BITS // BYTE


class SerialConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I, and MUFU.RCP, in a machine without floating point: one at a time, and of
    that a thread at a time. The result of a source that is not in registers is computed once.

    ::

        registers -> SourceBytes -> SourceInteger -> SerialResult -> block memory -> registers
                     ReciprocalSum --^     SerialExponents --^

    Members
    -------
    dispatch, room, port, completion, error, report_mask, indexed, value
        See ConversionUnit. There is always room, for one instruction.
    """

    def __init__(self, params: SmParams) -> None:
        assert params.serial and not params.floats
        self._params = params
        super().__init__(unit_ports(params))
        self.decoder = SerialConversionDecoder()
        self.sources = SourceBytes()
        self.integer = SourceInteger()
        self.reciprocal = ReciprocalSum()
        self.exponents = SerialExponents()
        self.result = SerialResult()
        self.held = Signal(dispatched(params))
        """The instruction. What nobody reads of it is not there."""
        self.threads = Signal(WARP_THREADS)
        """Those that execute it."""
        self.fails = Signal()
        self._low, self._high = Signal(WORD_BITS), Signal(WORD_BITS)
        """Words of a constant on their way to the sources; one of them is 0."""
        self._thread, self._second, self._step = Signal(_THREAD_BITS), Signal(), Signal(STEP)
        self._scans, self._gives, self._fills = Signal(), Signal(), Signal()
        self._idle, self._gathers, self._written = Signal(), Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("decoder", "sources", "integer", "reciprocal", "exponents", "result"):
            m.submodules[name] = getattr(self, name)
        self._take(m)
        self._join(m)
        self._write(m)
        self._steps(m)
        return m

    def _take(self, m: Module) -> None:
        """An instruction comes."""
        arriving, held = self.dispatch.payload, self.held
        missing = arriving.fault != WarpError.NONE
        m.d.comb += [self.room.eq(1), self.decoder.word.eq(held.word)]
        with m.If(self.dispatch.valid):
            m.d.sync += [held.eq(arriving), self.threads.eq(arriving.active & arriving.guard),
                         self.fails.eq(missing & self.report_mask[WarpError.INVALID_CONST_ADDR.value])]

    def _join(self, m: Module) -> None:
        """The way of a byte, from the sources to the results."""
        sources, integer, reciprocal = self.sources, self.integer, self.reciprocal
        exponents, result = self.exponents, self.result
        instruction, step = self.decoder.instruction, self._step
        index, asked = Signal(INDEX), Signal(INDEX)
        special, parabola = Signal(), self._gives & instruction.calculates
        fraction = SINGLE.fraction_of(integer.head)
        m.d.sync += asked.eq(index)
        for part in (sources, integer, exponents, result):
            m.d.comb += part.instruction.eq(instruction)
        for part in (integer, result):
            m.d.comb += [part.scans.eq(self._scans), part.gives.eq(self._gives), part.step.eq(step)]
        m.d.comb += [
            index.eq(step + (exponents.shift >> 3)), sources.index.eq(index), sources.word.eq(self.held.word),
            sources.parabola.eq(parabola), sources.interval.eq(fraction[-len(sources.interval):]),
            sources.thread.eq(self._thread), sources.second.eq(self._second),
            special.eq(exponents.empty | exponents.infinite | exponents.one | exponents.none),
            reciprocal.calculates.eq(parabola & ~special), reciprocal.fraction.eq(fraction),
            reciprocal.step.eq(step),
            integer.index.eq(asked), integer.byte.eq(sources.byte), integer.added.eq(reciprocal.byte),
            integer.parabola.eq(parabola), integer.hidden.eq(exponents.hidden & self._gives),
            integer.empty.eq(Mux(instruction.calculates, special, instruction.to_integer & exponents.flushed)),
            integer.between.eq(result.shifted),
            exponents.gives.eq(self._gives), exponents.head.eq(integer.head),
            result.before.eq(integer.before), result.behind.eq(integer.behind), result.places.eq(exponents.shift),
            result.fills.eq(self._fills)]
        pass_on(m, integer, exponents, "sign", "found", "position")
        pass_on(m, integer, result, "negative", "sign", "found", "position")
        pass_on(m, exponents, result, "exponent", "none", "excess", "infinite", "empty")

    def _write(self, m: Module) -> None:
        """Results are kept as bytes, each with a bit that says whether it, or one below it, is not 0."""
        step, byte, port, last = self._step, self.result.byte, self.port, Signal()
        m.submodules.results = results = memory.Memory(
            shape=data.ArrayLayout(BYTE + 1, _WORD_BYTES), depth=2 * WARP_THREADS, init=[], attrs=IN_BLOCKS)
        kept, read, some = results.write_port(granularity=1), results.read_port(domain="comb"), Signal()
        word = Signal(read.data.shape())
        wide = self.decoder.instruction.to_size == SIZES.index(DOUBLE_BITS)
        any_set = byte.any() | some & (step[:3] != 0)
        m.d.comb += [
            kept.addr.eq(Cat(self._thread, step[2])),
            kept.en.eq(Mux((self._gives | self._fills) & (step[3:] == 0), 1 << step[:2], 0)),
            kept.data.eq(Cat(byte, any_set).replicate(_WORD_BYTES)),
            read.addr.eq(Cat(self._thread, wide & last)),
            port.values[0].eq(Cat(part[:BYTE] for part in word)),
            port.conditions[0].zero.eq(~word[-1][-1]), port.conditions[0].sign.eq(word[-1][BYTE - 1])]
        m.d.sync += [some.eq(any_set), word.eq(read.data)]
        instruction, write, destination = self.decoder.instruction, port.write, self.decoder.destination
        m.d.comb += [
            last.eq(self._second | ~wide | (destination == RZ)),
            write.payload.predicate.eq(PT), write.payload.register.eq(destination | self._second),
            write.payload.last.eq(last), write.payload.conditional.eq(instruction.conditional & last),
            write.payload.barrier.eq(Mux(last, self.held.write_barrier, NO_BARRIER)),
            write.payload.threads.eq(self.threads)]
        pass_on(m, self.held, write.payload, "warp", "serial")

    def _steps(self, m: Module) -> None:
        """The steps of an instruction."""
        held, decoder, port, sources = self.held, self.decoder, self.port, self.sources
        instruction, gather, write, step = decoder.instruction, port.gather, port.write, self._step
        source_wide = instruction.size == SIZES.index(
            DOUBLE_BITS)
        nothing, last_beat = Signal(), self._params.beats - 1
        fails = self.fails & self.threads.any()
        m.d.comb += [
            nothing.eq(fails | ~self.threads.any() | (decoder.destination == RZ) & ~instruction.conditional),
            gather.payload.registers[0].eq(decoder.source | self._second | (~instruction.gathers).replicate(8)),
            gather.payload.registers[1].eq(RZ), gather.payload.registers[2].eq(RZ),
            gather.payload.last.eq(self._second | ~source_wide | ~instruction.gathers),
            gather.payload.barrier.eq(held.read_barrier),
            sources.value.eq(Mux(port.gathered.valid, port.gathered["values"][0][0], self._low | self._high)),
            self.indexed.payload.bank.eq(field_of(held.word, FIELDS["bank"])),
            self.indexed.payload.address.eq((
                field_of(held.word, FIELDS["offset"]).as_unsigned() * FIELDS["offset"].scale)[
                    :CONSTANT_ADDRESS_BITS - 1] + WORD_BITS // 8),
            self.value.ready.eq(1)]
        pass_on(m, held, gather.payload, "warp", "serial")
        pass_on(m, held, self.completion, "warp", "serial", "write_barrier", "read_barrier")
        m.d.comb += [self.error.warp.eq(held.warp), self.error.pc.eq(held.pc),
                     self.error.error.eq(WarpError.INVALID_CONST_ADDR)]
        with m.If(self.dispatch.valid):
            m.d.sync += self._low.eq(self.dispatch.payload.operands[0])
        with m.If(self.value.valid):
            m.d.sync += self._high.eq(self.value.payload.value)
        m.d.sync += [
            step.eq(step + 1),
            Assert(~self.dispatch.valid | self._idle, "an instruction beside another one"),
            Assert(~port.gathered.valid | self._gathers & (port.gathered.beat == self._thread), "gathered by nobody"),
            Assert(~port.wanted.valid | self._written, "data wanted that nobody offered")]

        with m.FSM(name="state"):
            with m.State("IDLE"):
                m.d.comb += self._idle.eq(1)
                m.d.sync += [self._second.eq(0), self._thread.eq(0), self._high.eq(0)]
                with m.If(self.dispatch.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
                with m.If(~instruction.constant):
                    m.d.sync += self._low.eq(0)
                with m.If(nothing):
                    m.d.comb += [self.completion.valid.eq(1), self.error.valid.eq(fails)]
                    m.next = "IDLE"
                with m.Elif(instruction.gathers | (held.read_barrier != NO_BARRIER)):
                    m.next = "GATHER"
                with m.Else():
                    m.next = "CONSTANT"
            with m.State("GATHER"):
                m.d.comb += gather.valid.eq(1)
                with m.If(gather.ready):
                    m.next = "GATHERED"
            with m.State("GATHERED"):
                m.d.comb += [self._gathers.eq(1), sources.write.eq(port.gathered.valid)]
                m.d.sync += step.eq(SCAN_FIRST)
                with m.If(port.gathered.valid):
                    m.d.sync += self._thread.eq(self._thread + 1)
                    with m.If(port.gathered.beat == last_beat):
                        m.d.sync += self._second.eq(~gather.payload.last)
                        m.next = "GATHER"
                        with m.If(gather.payload.last):
                            m.next = "CONSTANT"
                            with m.If(instruction.gathers):
                                m.next = "SCAN"
            with m.State("CONSTANT"):
                m.d.comb += sources.write.eq(1)
                m.d.sync += [self._low.eq(0), self._second.eq(1)]
                m.next = "UPPER"
                with m.If(instruction.constant & source_wide):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.indexed.valid.eq(1)
                with m.If(self.indexed.ready):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(self.value.valid):
                m.next = "UPPER"
            with m.State("UPPER"):
                m.d.comb += sources.write.eq(1)
                m.d.sync += [self._second.eq(0), step.eq(SCAN_FIRST)]
                m.next = "SCAN"
            with m.State("SCAN"):
                m.d.comb += self._scans.eq(1)
                m.d.sync += self._second.eq(0)
                with m.If(step == 7):
                    m.d.sync += step.eq(OUTPUT_FIRST)
                    m.next = "SHIFT"
            with m.State("SHIFT"):
                m.d.comb += self.exponents.first.eq(1)
                m.d.sync += step.eq(OUTPUT_FIRST)
                m.next = "EXPONENT"
            with m.State("EXPONENT"):
                m.d.comb += self.exponents.second.eq(1)
                m.d.sync += step.eq(OUTPUT_FIRST)
                m.next = "OUTPUT"
            with m.State("OUTPUT"):
                m.d.comb += self._gives.eq(1)
                with m.If(step == 9):
                    m.d.sync += step.eq(0)
                    m.next = "AGAIN"
            with m.State("AGAIN"):
                m.d.comb += self._fills.eq(self.result.again)
                with m.If((step == 7) | ~self.result.again):
                    m.d.sync += step.eq(SCAN_FIRST)
                    with m.If(instruction.gathers):
                        m.d.sync += self._thread.eq(self._thread + 1)
                    m.next = "SCAN"
                    with m.If((self._thread == WARP_THREADS - 1) | ~instruction.gathers):
                        m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += write.valid.eq(1)
                with m.If(write.ready):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.d.comb += self._written.eq(1)
                with m.If(port.wanted.valid & instruction.gathers):
                    m.d.sync += self._thread.eq(self._thread + 1)
                with m.If(port.wanted.valid & (port.wanted.beat == last_beat)):
                    m.d.sync += self._second.eq(1)
                    m.next = "WRITE"
                    with m.If(write.payload.last):
                        m.next = "IDLE"
