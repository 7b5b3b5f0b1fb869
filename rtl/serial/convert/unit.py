"""The serial conversion unit: its parts connected, and the phases of an instruction."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import connect

from rtl.component import Component
from rtl.convert.instruction import CONSTANT_ADDRESS_BITS, WORD_BITS
from rtl.convert.ports import unit_ports
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ
from rtl.layouts import dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields, struct_value
from rtl.word import field_of

from .decode import SerialConversionDecoder
from .exponents import SerialExponents
from .instruction import (
    FILL_LAST,
    OUTPUT_FIRST,
    OUTPUT_LAST,
    SCAN_FIRST,
    SCAN_LAST,
    ConversionState,
    Phase,
    SourceWord,
)
from .integer import SourceInteger
from .reciprocal import ReciprocalSum
from .result import SerialResult
from .results import ResultWords
from .sources import SourceBytes

__all__ = ["SerialConversionUnit"]


class SerialConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I and MUFU.RCP in a machine without floating point: one
    instruction at a time, and of that a thread at a time. ::

        registers  --> SourceBytes --> SourceInteger --> SerialResult --> ResultWords --> registers
        constants                        ^    | ^                |
                                         |    | +----------------+ shifted by one, in the scan
                            ReciprocalSum+    v
                                          SerialExponents

    All parts read the ConversionState: the source as SourceInteger has scanned it, and shift and
    exponent of SerialExponents among it.

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
        self._state: Any = ConversionState().create(path=("state",))
        self.held = Signal(dispatched(params))
        """The instruction. Synthesis removes fields that are not read."""
        self.threads = Signal(WARP_THREADS)
        """The threads that execute it."""
        self.constant_is_missing = Signal()
        """Its constant is, and that is reported."""
        self._constant_lower = Signal(WORD_BITS)
        self._constant_upper = Signal(WORD_BITS)
        """Words of a constant until they are written to the sources; one of them is 0."""
        self._second = Signal()
        """The second register or word of two."""
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
        self._connect_parts(m)
        self._connect_sources(m)
        self._connect_results(m)
        self._connect_gather(m)
        self._connect_write(m)
        self._connect_constant(m)
        self._complete(m)
        self._sequence(m)
        self._promise(m)
        return m

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

    def _connect_parts(self, m: Module) -> None:
        """The state, which all parts read, and a byte's path through them."""
        state = self._state
        m.d.comb += self.decoder.word.eq(self.held.word)
        m.d.comb += state.instruction.eq(self.decoder.instruction)
        m.d.comb += state.source.eq(self.integer.source)
        m.d.comb += state.scaling.eq(self.exponents.scaling)
        connect(
            m, state, self.sources.state, self.integer.state, self.reciprocal.state,
            self.exponents.state, self.result.state, self.results.state)
        m.d.comb += self.integer.read.eq(self.sources.read)
        m.d.comb += self.integer.addend.eq(self.reciprocal.byte)
        m.d.comb += self.integer.shifted.eq(self.result.shifted)
        m.d.comb += self.result.pair.eq(self.integer.pair)
        m.d.comb += self.results.byte.eq(self.result.byte)

    def _connect_sources(self, m: Module) -> None:
        """Words that are written: of a register, or of a constant."""
        gathered = self.port.data.gathered
        constant = self._constant_lower | self._constant_upper
        m.d.comb += self.sources.write.payload.eq(struct_value(
            SourceWord,
            value=Mux(gathered.valid, gathered.payload["values"][0][0], constant),
            is_upper=self._second))

    def _connect_results(self, m: Module) -> None:
        """Words are read for the lanes."""
        results = self.results
        written = self.port.data
        m.d.comb += results.reads_upper.eq(
            self._state.instruction.result_is_double & self.port.write.payload.last)
        m.d.comb += written.values[0].eq(results.value)
        m.d.comb += written.conditions[0].zero.eq(results.is_zero)
        m.d.comb += written.conditions[0].sign.eq(results.value[-1])

    def _connect_gather(self, m: Module) -> None:
        """The gather operation. If the source is not in registers there may be one of RZ, which
        only releases the read barrier."""
        instruction = self._state.instruction
        gather = self.port.gather.payload
        none = Const(RZ, len(instruction.register))
        register = Mux(instruction.reads_register, instruction.register | self._second, none)
        is_single = ~instruction.source_is_double | ~instruction.reads_register
        m.d.comb += gather.eq(struct_value(
            gather.shape(),
            warp=self.held.warp,
            sequence=self.held.sequence,
            index=0,
            last=self._second | is_single,
            barrier=self.held.read_barrier,
            registers=Cat(register, none, none)))

    def _connect_write(self, m: Module) -> None:
        """The write operation. Without a register one is enough, which writes CC."""
        instruction = self._state.instruction
        destination = instruction.destination
        write = self.port.write.payload
        is_last = Signal()
        m.d.comb += is_last.eq(
            self._second | ~instruction.result_is_double | (destination == RZ))
        m.d.comb += write.eq(struct_value(
            write.shape(),
            warp=self.held.warp,
            sequence=self.held.sequence,
            index=0,
            last=is_last,
            barrier=Mux(is_last, self.held.write_barrier, NO_BARRIER),
            register=destination | self._second,
            predicate=PT,
            conditional=instruction.conditional & is_last,
            threads=self.threads))

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
        """An instruction without a result completes without a write operation."""
        held = self.held
        instruction = self._state.instruction
        writes_nothing = (instruction.destination == RZ) & ~instruction.conditional
        m.d.comb += self._is_skipped.eq(
            self.constant_is_missing | ~self.threads.any() | writes_nothing)
        m.d.comb += common_fields(self.completion.payload, held)
        m.d.comb += common_fields(self.error.payload, held)
        m.d.comb += self.error.payload.error.eq(WarpError.INVALID_CONST_ADDR)

    def _sequence(self, m: Module) -> None:
        """The steps are counted in all states; a state that needs the count starts it."""
        m.d.sync += self._state.step.eq(self._state.step + 1)
        with m.FSM(name="state"):
            self._begin_states(m)
            self._gather_states(m)
            self._constant_states(m)
            self._convert_states(m)
            self._write_states(m)

    def _begin_states(self, m: Module) -> None:
        """IDLE, DECODE."""
        instruction = self._state.instruction
        releases_barrier = self.held.read_barrier != NO_BARRIER
        with m.State("IDLE"):
            m.d.comb += self._is_idle.eq(1)
            m.d.sync += self._second.eq(0)
            m.d.sync += self._state.thread.eq(0)
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
        gathered = port.data.gathered
        instruction = self._state.instruction
        is_last_beat = gathered.payload.beat == self._params.beats - 1
        with m.State("GATHER"):
            m.d.comb += port.gather.valid.eq(1)
            with m.If(port.gather.ready):
                m.next = "GATHER_BEATS"
        with m.State("GATHER_BEATS"):
            m.d.comb += self._is_gathering.eq(1)
            m.d.comb += self.sources.write.valid.eq(gathered.valid)
            self._start_scan(m)
            with m.If(gathered.valid):
                m.d.sync += self._state.thread.eq(self._state.thread + 1)
                with m.If(is_last_beat):
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
        instruction = self._state.instruction
        with m.State("WRITE_LOWER"):
            m.d.comb += self.sources.write.valid.eq(1)
            m.d.sync += self._constant_lower.eq(0)
            m.d.sync += self._second.eq(1)
            with m.If(instruction.reads_constant & instruction.source_is_double):
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
            m.d.comb += self.sources.write.valid.eq(1)
            m.d.sync += self._second.eq(0)
            self._start_scan(m)
            m.next = "SCAN"

    def _start_scan(self, m: Module) -> None:
        m.d.sync += self._state.step.eq(SCAN_FIRST)

    def _convert_states(self, m: Module) -> None:
        """SCAN, SHIFT, EXPONENT, OUTPUT, FILL: the phases of a thread."""
        instruction = self._state.instruction
        step = self._state.step
        with m.State("SCAN"):
            m.d.comb += self._state.phase.eq(Phase.SCAN)
            m.d.sync += self._second.eq(0)
            with m.If(step == SCAN_LAST):
                m.d.sync += step.eq(OUTPUT_FIRST)
                m.next = "SHIFT"
        with m.State("SHIFT"):
            m.d.comb += self._state.phase.eq(Phase.SHIFT)
            m.d.sync += step.eq(OUTPUT_FIRST)
            m.next = "EXPONENT"
        with m.State("EXPONENT"):
            m.d.comb += self._state.phase.eq(Phase.EXPONENT)
            m.d.sync += step.eq(OUTPUT_FIRST)
            m.next = "OUTPUT"
        with m.State("OUTPUT"):
            m.d.comb += self._state.phase.eq(Phase.OUTPUT)
            with m.If(step == OUTPUT_LAST):
                m.d.sync += step.eq(0)
                m.next = "FILL"
        with m.State("FILL"):
            is_last_thread = (self._state.thread == WARP_THREADS - 1) | ~instruction.reads_register
            with m.If(self.result.needs_fill):
                m.d.comb += self._state.phase.eq(Phase.FILL)
            with m.If((step == FILL_LAST) | ~self.result.needs_fill):
                self._start_scan(m)
                with m.If(instruction.reads_register):
                    m.d.sync += self._state.thread.eq(self._state.thread + 1)
                with m.If(is_last_thread):
                    m.next = "WRITE"
                with m.Else():
                    m.next = "SCAN"

    def _write_states(self, m: Module) -> None:
        """WRITE, WRITE_BEATS: a register of all threads. All threads have thread 0's result if the
        source is not in registers."""
        port = self.port
        wanted = port.data.wanted
        instruction = self._state.instruction
        is_last_beat = wanted.payload.beat == self._params.beats - 1
        with m.State("WRITE"):
            m.d.comb += port.write.valid.eq(1)
            with m.If(port.write.ready):
                m.next = "WRITE_BEATS"
        with m.State("WRITE_BEATS"):
            m.d.comb += self._is_writing.eq(1)
            with m.If(wanted.valid & instruction.reads_register):
                m.d.sync += self._state.thread.eq(self._state.thread + 1)
            with m.If(wanted.valid & is_last_beat):
                m.d.sync += self._second.eq(1)
                with m.If(port.write.payload.last):
                    m.next = "IDLE"
                with m.Else():
                    m.next = "WRITE"

    def _promise(self, m: Module) -> None:
        """What the other units promise this one."""
        gathered = self.port.data.gathered
        is_next_beat = self._is_gathering & (gathered.payload.beat == self._state.thread)
        m.d.sync += Assert(
            ~self.dispatch.valid | self._is_idle,
            "an instruction is dispatched while another one is under way")
        m.d.sync += Assert(
            ~gathered.valid | is_next_beat,
            "a beat is gathered out of order, or without a gather operation")
        m.d.sync += Assert(
            ~self.port.data.wanted.valid | self._is_writing,
            "data are requested without a write operation")
