"""The serial conversion unit: its parts connected, and the phases of an instruction."""

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.convert.formats import SINGLE
from rtl.convert.instruction import CONSTANT_ADDRESS_BITS, DOUBLE_BITS, WORD_BITS, size_code
from rtl.convert.ports import unit_ports
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ
from rtl.layouts import dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields
from rtl.word import field_of

from .decode import SerialConversionDecoder
from .exponents import SerialExponents
from .instruction import (
    BYTE,
    FILL_LAST,
    INDEX,
    OUTPUT_FIRST,
    OUTPUT_LAST,
    SCAN_FIRST,
    SCAN_LAST,
    STEP,
    Phase,
)
from .integer import SourceInteger
from .reciprocal import ReciprocalSum
from .result import SerialResult
from .results import ResultWords
from .sources import SourceBytes

__all__ = ["SerialConversionUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_BYTE_NUMBER_BITS = ceil_log2(BYTE)
_DOUBLE = size_code(DOUBLE_BITS)
_REGISTER_BITS = 8


class SerialConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I and MUFU.RCP in a machine without floating point: one
    instruction at a time, and of that a thread at a time. ::

        registers  --> SourceBytes --> SourceInteger --> SerialResult --> ResultWords --> registers
        constants        ^               ^    | ^            ^   |
                         | index         |    | +------------+---+ shifted by one, in the scan
                         |  ReciprocalSum+    v              |
                         +---- shift ---- SerialExponents ---+ exponent

    What happens for an instruction:

    =========  =====================================================================================
    gather     a gather operation for each register of the source; a beat is a thread. A constant or
               a zero, to which an immediate operand is added, is written as thread 0's source
    convert    for each thread, or once if the source is not in registers: see Phase. 11 cycles of
               SCAN, one of SHIFT, one of EXPONENT, 21 of OUTPUT, 1 to 8 of FILL
    write      a write operation for each register of the result; a beat is a thread. The last one
               completes the instruction
    =========  =====================================================================================

    A byte of the source is requested three steps before the step of the result's byte: it is read
    in the next cycle; in the two cycles after that it is the upper and the lower one of two bytes,
    of which SerialResult selects eight bits.

    An instruction that no thread executes, or that writes nothing, or whose constant is missing, is
    complete after it was decoded.

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
        self.results = ResultWords()
        self.held = Signal(dispatched(params))
        """The instruction. Synthesis removes fields that are not read."""
        self.threads = Signal(WARP_THREADS)
        """The threads that execute it."""
        self.constant_is_missing = Signal()
        """Its constant is, and that is reported."""
        self._constant_lower = Signal(WORD_BITS)
        self._constant_upper = Signal(WORD_BITS)
        """Words of a constant until they are written to the sources; one of them is 0."""
        self._thread = Signal(_THREAD_BITS)
        self._second = Signal()
        """The second register or word of two."""
        self._phase = Signal(Phase)
        self._step = Signal(STEP)
        self._is_idle = Signal()
        self._is_gathering = Signal()
        self._is_writing = Signal()
        """Beats of a gather are due; data for beats of a write are."""
        self._is_skipped = Signal()
        """Nothing is converted."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = self.decoder
        m.submodules.sources = self.sources
        m.submodules.integer = self.integer
        m.submodules.reciprocal = self.reciprocal
        m.submodules.exponents = self.exponents
        m.submodules.result = self.result
        m.submodules.results = self.results
        self._accept(m)
        self._connect_decoder(m)
        self._connect_sources(m)
        self._connect_reciprocal(m)
        self._connect_integer(m)
        self._connect_exponents(m)
        self._connect_result(m)
        self._connect_results(m)
        self._connect_gather(m)
        self._connect_write(m)
        self._connect_constant(m)
        self._complete(m)
        self._sequence(m)
        self._promise(m)
        return m

    @property
    def _source_is_double(self) -> Value:
        return self.decoder.instruction.size == _DOUBLE

    @property
    def _result_is_double(self) -> Value:
        return self.decoder.instruction.to_size == _DOUBLE

    @property
    def _computes_parabola(self) -> Value:
        """The byte of the source that is read is that of a parabola's constant."""
        return (self._phase == Phase.OUTPUT) & self.decoder.instruction.is_rcp

    @property
    def _rcp_is_special(self) -> Value:
        """MUFU.RCP: the result is not calculated."""
        exponent = self.exponents.result
        is_number = exponent.gives_zero | exponent.gives_infinity | exponent.gives_one
        return is_number | exponent.is_nan

    def _accept(self, m: Module) -> None:
        """Keeps an instruction that is dispatched."""
        instruction = self.dispatch.payload
        has_fault = instruction.fault != WarpError.NONE
        is_reported = self.report_mask[WarpError.INVALID_CONST_ADDR.value]
        m.d.comb += self.room.eq(1)
        with m.If(self.dispatch.valid):
            m.d.sync += self.held.eq(instruction)
            m.d.sync += self.threads.eq(instruction.active & instruction.guard)
            m.d.sync += self.constant_is_missing.eq(has_fault & is_reported)

    def _connect_decoder(self, m: Module) -> None:
        """The decoded instruction is stable until the next one is dispatched."""
        instruction = self.decoder.instruction
        m.d.comb += self.decoder.word.eq(self.held.word)
        m.d.comb += self.sources.instruction.eq(instruction)
        m.d.comb += self.integer.instruction.eq(instruction)
        m.d.comb += self.exponents.instruction.eq(instruction)
        m.d.comb += self.result.instruction.eq(instruction)

    def _connect_sources(self, m: Module) -> None:
        """Words that are written, and the byte that is read."""
        sources = self.sources
        gathered = self.port.data.gathered
        constant = self._constant_lower | self._constant_upper
        fraction = SINGLE.fraction_of(self.integer.head)
        shift_in_bytes = self.exponents.shift >> _BYTE_NUMBER_BITS
        m.d.comb += sources.value.eq(Mux(gathered.valid, gathered.payload["values"][0][0], constant))
        m.d.comb += sources.second.eq(self._second)
        m.d.comb += sources.thread.eq(self._thread)
        m.d.comb += sources.index.eq(self._step + shift_in_bytes)
        m.d.comb += sources.word.eq(self.held.word)
        m.d.comb += sources.is_parabola.eq(self._computes_parabola)
        m.d.comb += sources.interval.eq(fraction[-len(sources.interval):])

    def _connect_reciprocal(self, m: Module) -> None:
        """The terms of a parabola that are added to its constant."""
        reciprocal = self.reciprocal
        m.d.comb += reciprocal.enable.eq(self._computes_parabola & ~self._rcp_is_special)
        m.d.comb += reciprocal.fraction.eq(SINGLE.fraction_of(self.integer.head))
        m.d.comb += reciprocal.step.eq(self._step)

    def _connect_integer(self, m: Module) -> None:
        """The byte that was read, a cycle after its request."""
        instruction = self.decoder.instruction
        integer = self.integer
        index = Signal(INDEX)
        is_flushed = instruction.is_f2i & self.exponents.is_flushed
        is_output = self._phase == Phase.OUTPUT
        m.d.sync += index.eq(self.sources.index)
        m.d.comb += integer.phase.eq(self._phase)
        m.d.comb += integer.step.eq(self._step)
        m.d.comb += integer.index.eq(index)
        m.d.comb += integer.byte.eq(self.sources.byte)
        m.d.comb += integer.addend.eq(self.reciprocal.byte)
        m.d.comb += integer.is_parabola.eq(self._computes_parabola)
        m.d.comb += integer.is_normal.eq(self.exponents.is_normal & is_output)
        m.d.comb += integer.is_zero.eq(
            Mux(instruction.is_rcp, self._rcp_is_special, is_flushed))
        m.d.comb += integer.shifted.eq(self.result.shifted)

    def _connect_exponents(self, m: Module) -> None:
        """What the scan has found."""
        exponents = self.exponents
        m.d.comb += exponents.phase.eq(self._phase)
        m.d.comb += exponents.head.eq(self.integer.head)
        m.d.comb += exponents.source.eq(self.integer.source)

    def _connect_result(self, m: Module) -> None:
        """The integer's bytes, and what the result depends on beside them."""
        result = self.result
        integer = self.integer
        exponents = self.exponents
        m.d.comb += result.phase.eq(self._phase)
        m.d.comb += result.step.eq(self._step)
        m.d.comb += result.lower.eq(integer.lower)
        m.d.comb += result.upper.eq(integer.upper)
        m.d.comb += result.source.eq(integer.source)
        m.d.comb += result.places.eq(exponents.shift[:_BYTE_NUMBER_BITS])
        m.d.comb += result.exponent.eq(exponents.result)

    def _connect_results(self, m: Module) -> None:
        """Bytes are written, words are read for the lanes."""
        results = self.results
        port = self.port
        is_output = self._phase == Phase.OUTPUT
        is_fill = self._phase == Phase.FILL
        is_upper = self._result_is_double & port.write.payload.last
        m.d.comb += results.thread.eq(self._thread)
        m.d.comb += results.step.eq(self._step)
        m.d.comb += results.byte.eq(self.result.byte)
        m.d.comb += results.write.eq(is_output | is_fill)
        m.d.comb += results.reads_upper.eq(is_upper)
        m.d.comb += port.data.values[0].eq(results.value)
        m.d.comb += port.data.conditions[0].zero.eq(results.is_zero)
        m.d.comb += port.data.conditions[0].sign.eq(results.value[-1])

    def _connect_gather(self, m: Module) -> None:
        """The gather operation. If the source is not in registers there may be one of RZ, which
        only releases the read barrier."""
        instruction = self.decoder.instruction
        gather = self.port.gather.payload
        no_register = (~instruction.reads_register).replicate(_REGISTER_BITS)
        is_single = ~self._source_is_double | ~instruction.reads_register
        m.d.comb += gather.warp.eq(self.held.warp)
        m.d.comb += gather.serial.eq(self.held.serial)
        m.d.comb += gather.registers[0].eq(self.decoder.source | self._second | no_register)
        m.d.comb += gather.registers[1].eq(RZ)
        m.d.comb += gather.registers[2].eq(RZ)
        m.d.comb += gather.last.eq(self._second | is_single)
        m.d.comb += gather.barrier.eq(self.held.read_barrier)

    def _connect_write(self, m: Module) -> None:
        """The write operation. Without a register one is enough, which writes CC."""
        instruction = self.decoder.instruction
        destination = self.decoder.destination
        write = self.port.write.payload
        is_last = Signal()
        m.d.comb += is_last.eq(self._second | ~self._result_is_double | (destination == RZ))
        m.d.comb += write.warp.eq(self.held.warp)
        m.d.comb += write.serial.eq(self.held.serial)
        m.d.comb += write.threads.eq(self.threads)
        m.d.comb += write.register.eq(destination | self._second)
        m.d.comb += write.predicate.eq(PT)
        m.d.comb += write.conditional.eq(instruction.conditional & is_last)
        m.d.comb += write.last.eq(is_last)
        m.d.comb += write.barrier.eq(Mux(is_last, self.held.write_barrier, NO_BARRIER))

    def _connect_constant(self, m: Module) -> None:
        """The lower word of a constant is dispatched with the instruction, the upper one is
        requested."""
        request = self.indexed.payload
        field = FIELDS["offset"]
        offset = field_of(self.held.word, field).as_unsigned() * field.scale
        m.d.comb += request.bank.eq(field_of(self.held.word, FIELDS["bank"]))
        m.d.comb += request.address.eq(
            offset[:CONSTANT_ADDRESS_BITS - 1] + WORD_BITS // 8)
        m.d.comb += self.value.ready.eq(1)
        with m.If(self.dispatch.valid):
            m.d.sync += self._constant_lower.eq(self.dispatch.payload.operands[0])
        with m.If(self.value.valid):
            m.d.sync += self._constant_upper.eq(self.value.payload.value)

    def _complete(self, m: Module) -> None:
        """Who converts nothing is complete without a write operation."""
        held = self.held
        writes_nothing = (self.decoder.destination == RZ) & ~self.decoder.instruction.conditional
        m.d.comb += self._is_skipped.eq(
            self.constant_is_missing | ~self.threads.any() | writes_nothing)
        m.d.comb += common_fields(self.completion.payload, held)
        m.d.comb += common_fields(self.error.payload, held)
        m.d.comb += self.error.payload.error.eq(WarpError.INVALID_CONST_ADDR)

    def _sequence(self, m: Module) -> None:
        """The steps are counted in all states; who needs a count begins it."""
        m.d.sync += self._step.eq(self._step + 1)
        with m.FSM(name="state"):
            self._begin_states(m)
            self._gather_states(m)
            self._constant_states(m)
            self._convert_states(m)
            self._write_states(m)

    def _begin_states(self, m: Module) -> None:
        """IDLE, DECODE."""
        instruction = self.decoder.instruction
        releases_barrier = self.held.read_barrier != NO_BARRIER
        with m.State("IDLE"):
            m.d.comb += self._is_idle.eq(1)
            m.d.sync += self._second.eq(0)
            m.d.sync += self._thread.eq(0)
            m.d.sync += self._constant_upper.eq(0)
            with m.If(self.dispatch.valid):
                m.next = "DECODE"
        with m.State("DECODE"):
            with m.If(~instruction.reads_constant):
                m.d.sync += self._constant_lower.eq(0)
            with m.If(self._is_skipped):
                m.d.comb += self.completion.valid.eq(1)
                m.d.comb += self.error.valid.eq(
                    self.constant_is_missing & self.threads.any())
                m.next = "IDLE"
            with m.Elif(instruction.reads_register | releases_barrier):
                m.next = "GATHER"
            with m.Else():
                m.next = "WRITE_LOWER"

    def _gather_states(self, m: Module) -> None:
        """GATHER, GATHER_BEATS: a register of all threads."""
        port = self.port
        instruction = self.decoder.instruction
        with m.State("GATHER"):
            m.d.comb += port.gather.valid.eq(1)
            with m.If(port.gather.ready):
                m.next = "GATHER_BEATS"
        with m.State("GATHER_BEATS"):
            m.d.comb += self._is_gathering.eq(1)
            m.d.comb += self.sources.write.eq(port.data.gathered.valid)
            self._start_scan(m)
            with m.If(port.data.gathered.valid):
                m.d.sync += self._thread.eq(self._thread + 1)
                with m.If(port.data.gathered.payload.beat == self._params.beats - 1):
                    m.d.sync += self._second.eq(~port.gather.payload.last)
                    with m.If(~port.gather.payload.last):
                        m.next = "GATHER"
                    with m.Elif(instruction.reads_register):
                        m.next = "SCAN"
                    with m.Else():
                        m.next = "WRITE_LOWER"

    def _constant_states(self, m: Module) -> None:
        """WRITE_LOWER, REQUEST_UPPER, AWAIT_UPPER, WRITE_UPPER: a source that is not in
        registers."""
        instruction = self.decoder.instruction
        with m.State("WRITE_LOWER"):
            m.d.comb += self.sources.write.eq(1)
            m.d.sync += self._constant_lower.eq(0)
            m.d.sync += self._second.eq(1)
            with m.If(instruction.reads_constant & self._source_is_double):
                m.next = "REQUEST_UPPER"
            with m.Else():
                m.next = "WRITE_UPPER"
        with m.State("REQUEST_UPPER"):
            m.d.comb += self.indexed.valid.eq(1)
            with m.If(self.indexed.ready):
                m.next = "AWAIT_UPPER"
        with m.State("AWAIT_UPPER"), m.If(self.value.valid):
            m.next = "WRITE_UPPER"
        with m.State("WRITE_UPPER"):
            m.d.comb += self.sources.write.eq(1)
            m.d.sync += self._second.eq(0)
            self._start_scan(m)
            m.next = "SCAN"

    def _start_scan(self, m: Module) -> None:
        m.d.sync += self._step.eq(SCAN_FIRST)

    def _convert_states(self, m: Module) -> None:
        """SCAN, SHIFT, EXPONENT, OUTPUT, FILL: the phases of a thread."""
        instruction = self.decoder.instruction
        step = self._step
        with m.State("SCAN"):
            m.d.comb += self._phase.eq(Phase.SCAN)
            m.d.sync += self._second.eq(0)
            with m.If(step == SCAN_LAST):
                m.d.sync += step.eq(OUTPUT_FIRST)
                m.next = "SHIFT"
        with m.State("SHIFT"):
            m.d.comb += self._phase.eq(Phase.SHIFT)
            m.d.sync += step.eq(OUTPUT_FIRST)
            m.next = "EXPONENT"
        with m.State("EXPONENT"):
            m.d.comb += self._phase.eq(Phase.EXPONENT)
            m.d.sync += step.eq(OUTPUT_FIRST)
            m.next = "OUTPUT"
        with m.State("OUTPUT"):
            m.d.comb += self._phase.eq(Phase.OUTPUT)
            with m.If(step == OUTPUT_LAST):
                m.d.sync += step.eq(0)
                m.next = "FILL"
        with m.State("FILL"):
            is_last_thread = (self._thread == WARP_THREADS - 1) | ~instruction.reads_register
            with m.If(self.result.needs_fill):
                m.d.comb += self._phase.eq(Phase.FILL)
            with m.If((step == FILL_LAST) | ~self.result.needs_fill):
                self._start_scan(m)
                with m.If(instruction.reads_register):
                    m.d.sync += self._thread.eq(self._thread + 1)
                with m.If(is_last_thread):
                    m.next = "WRITE"
                with m.Else():
                    m.next = "SCAN"

    def _write_states(self, m: Module) -> None:
        """WRITE, WRITE_BEATS: a register of all threads. All threads have thread 0's result if the
        source is not in registers."""
        port = self.port
        instruction = self.decoder.instruction
        with m.State("WRITE"):
            m.d.comb += port.write.valid.eq(1)
            with m.If(port.write.ready):
                m.next = "WRITE_BEATS"
        with m.State("WRITE_BEATS"):
            m.d.comb += self._is_writing.eq(1)
            with m.If(port.data.wanted.valid & instruction.reads_register):
                m.d.sync += self._thread.eq(self._thread + 1)
            with m.If(port.data.wanted.valid & (port.data.wanted.payload.beat == self._params.beats - 1)):
                m.d.sync += self._second.eq(1)
                with m.If(port.write.payload.last):
                    m.next = "IDLE"
                with m.Else():
                    m.next = "WRITE"

    def _promise(self, m: Module) -> None:
        """What the other units promise this one."""
        gathered = self.port.data.gathered
        is_next_beat = self._is_gathering & (gathered.payload.beat == self._thread)
        m.d.sync += Assert(
            ~self.dispatch.valid | self._is_idle,
            "an instruction is dispatched while another one is under way")
        m.d.sync += Assert(
            ~gathered.valid | is_next_beat,
            "a beat is gathered out of order, or without a gather operation")
        m.d.sync += Assert(
            ~self.port.data.wanted.valid | self._is_writing,
            "data are requested without a write operation")
