"""A controller of a 16-bit SDRAM chip: a port of beats, eight of which are a line of 64 bytes.

A line is four bursts of eight half words, one behind the other, so lines of open rows follow each other without a gap.
Rows stay open until another row of their bank is wanted, or a refresh is due. While a line is transferred, the row of
the next request is opened, if it lies in another bank; that is tRCD or more after the row before, so there is no timer
for tRRD, which is shorter. Lines wait in memories of LUTs: two to write, of which one is transferred, and two that were
read. Bits of a line's number, from the lowest: 4 of the column, the bank, the row. So lines that
follow each other lie in one row, 1 KiB of it, and then in that of the next bank.

Nothing here knows of pads: :mod:`rtl.fpga.sdram_pads` has them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS, BeatPort, ends_answer, ends_request
from rtl.params import LINE_ADDRESS_BITS

__all__ = ["BURST", "MT48LC16M16A2", "SdramBus", "SdramChip", "SdramCommand", "SdramController"]

HALF_WORD = 2
"""Bytes on the chip's data pins."""
BURST = 8
"""Half words of a burst."""
_LINE = LINE_BYTES // HALF_WORD
_BEAT = BEAT_BYTES // HALF_WORD
"""Half words of a beat."""
_WITHIN = (_BEAT - 1).bit_length()
_BEGUN = 2
"""Requests that are begun and not answered, at most: so many lines have room where answers wait."""
_PAUSE = 1
"""Cycles in which nobody drives the data pins, between the chip and the controller."""
_FIRST_REFRESHES = 8
"""Before the mode register is written."""
_ALL_BANKS = 1 << 10
"""Address of a PRECHARGE of all banks."""


class SdramCommand(enum.Enum, shape=3):
    """RAS, CAS and WE, from the upper bit; 1 is active."""

    NOP = 0b000
    WRITE = 0b011
    READ = 0b010
    ACTIVATE = 0b100
    PRECHARGE = 0b101
    REFRESH = 0b110
    MODE = 0b111


@dataclass(frozen=True)
class SdramChip:
    """A chip: its size, and its times in nanoseconds.

    The defaults are those of the MT48LC16M16A2-75 (32 MiB); faster grades, and the IS42S16160G-7, are within them.

    Attributes
    ----------
    row_bits, column_bits, bank_bits : int
        Widths of addresses; a column is a half word.
    rcd, ras, rc : float
        From ACTIVATE to READ or WRITE; to PRECHARGE; to the bank's next ACTIVATE.
    rp : float
        From PRECHARGE to ACTIVATE or REFRESH.
    wr : float
        From the last half word written to PRECHARGE.
    rfc : float
        From REFRESH to anything else.
    mrd : int
        From writing the mode register to anything else, in cycles.
    refresh, refreshes : float, int
        So many refreshes are due in so long a time.
    power_up : float
        From power to the first command.
    access, output_hold : float
        From the clock until what is read is stable, and from the next one until it is not.
    setup, hold : float
        What the chip takes is stable for so long before its clock, and after.
    fast_hz : float
        Up to this clock the CAS latency is 2 cycles; above it is 3.
    """

    row_bits: int = 13
    column_bits: int = 9
    bank_bits: int = 2
    rcd: float = 20
    ras: float = 44
    rc: float = 66
    rp: float = 20
    wr: float = 15
    rfc: float = 66
    mrd: int = 2
    refresh: float = 64e6
    refreshes: int = 8192
    power_up: float = 200e3
    access: float = 6
    output_hold: float = 2.7
    setup: float = 1.5
    hold: float = 0.8
    fast_hz: float = 100e6

    @property
    def size(self) -> int:
        """Bytes."""
        return HALF_WORD << self.row_bits + self.column_bits + self.bank_bits

    def cas(self, clock_hz: float) -> int:
        """The CAS latency in cycles."""
        return 2 if clock_hz <= self.fast_hz else 3


MT48LC16M16A2 = SdramChip()
"""The defaults."""


class SdramBus(wiring.Signature):
    """The chip's pins, seen from the controller; all active at 1.

    Members
    -------
    cke, cs, ras, cas, we : Out(1)
    ba, a : Out
        Bank and address.
    dqm : Out(2)
        Bytes of the half word that are not written.
    dq_o, dq_oe, dq_i : Out(16), Out(1), In(16)
    """

    def __init__(self, chip: SdramChip) -> None:
        bits = 8 * HALF_WORD
        super().__init__({
            "cke": Out(1), "cs": Out(1), "ras": Out(1), "cas": Out(1), "we": Out(1), "ba": Out(chip.bank_bits),
            "a": Out(chip.row_bits), "dqm": Out(HALF_WORD), "dq_o": Out(bits), "dq_oe": Out(1), "dq_i": In(bits)})


class _Timer:
    """Counts the cycles that have to pass between two commands.

    ``ready``: the second one may be given. ``soon``: it may be given in the next cycle; ``early``: in that behind it.
    """

    def __init__(self, m: Module, name: str, cycles: int, start: Value) -> None:
        left = Signal(range(max(cycles, 2)), name=name)
        with m.If(start):
            m.d.sync += left.eq(max(cycles, 1) - 1)
        with m.Elif(left.any()):
            m.d.sync += left.eq(left - 1)
        self.ready: Value = left == 0
        self.soon: Value = left <= 1
        self.early: Value = left <= 2


class SdramController(Component):
    """A port of beats onto an SDRAM.

    A request beyond the chip's size is answered with an error, and takes as long as another.

    Parameters
    ----------
    tag_bits : int
        Of the port.
    clock_hz : float
        Of the domain ``sync``, which is the chip's clock, too.
    chip : SdramChip
    pad_cycles : int
        Cycles by which pads delay the way to the chip and back.

    Members
    -------
    port : In(BeatPort)
    bus : Out(SdramBus)
    initialised : Out(1)
        The chip can be used. Requests wait until then.
    """

    def __init__(self, tag_bits: int, clock_hz: float, chip: SdramChip = MT48LC16M16A2, pad_cycles: int = 0) -> None:
        self._chip, self._clock_hz, self._tag_bits = chip, clock_hz, tag_bits
        self._cas = chip.cas(clock_hz)
        self._pad_cycles = pad_cycles
        self.size = chip.size
        """Bytes."""
        super().__init__({"port": In(BeatPort(tag_bits)), "bus": Out(SdramBus(chip)), "initialised": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        chip = self._chip
        banks = 1 << chip.bank_bits
        self._command = Signal(SdramCommand)
        self._bank = Signal(chip.bank_bits)
        self._address = Signal(chip.row_bits)
        self._refresh_due = Signal()
        self._active = Signal()
        """A line is being transferred: this is its half word number ``position``."""
        self._position = Signal(range(_LINE))
        self._burst: data.View = Signal(data.StructLayout({
            "write": 1, "error": 1, "tag": self._tag_bits, "bank": chip.bank_bits, "column": chip.column_bits}))
        self._last = Signal()
        self._head: data.View = Signal(data.StructLayout({
            "write": 1, "tag": self._tag_bits, "address": LINE_ADDRESS_BITS}))
        """The request that is transferred next."""
        self._known, self._whole = Signal(), Signal()
        """There is one; all of it has come."""
        self._side = Signal()
        """The half of the memory of lines to write that is for it; the other one is for what is transferred."""
        self._enter = Signal()
        """It becomes the line that is transferred."""
        self._open = Signal(banks)
        """Banks with an open row."""
        self._rows = Array(Signal(chip.row_bits, name=f"row_{bank}") for bank in range(banks))
        m.d.comb += self._last.eq(self._active & (self._position == _LINE - 1))
        self._timers(m, banks)
        self._initialisation(m)
        self._refreshes(m)
        self._port(m)
        self._requests(m)
        self._transfer(m)
        self._answers(m)
        bus = self.bus
        m.d.sync += [bus.cke.eq(1), bus.cs.eq(1), Cat(bus.we, bus.cas, bus.ras).eq(self._command.as_value()),
                     bus.ba.eq(self._bank), bus.a.eq(self._address)]
        return m

    def _cycles(self, nanoseconds: float) -> int:
        return math.ceil(nanoseconds * self._clock_hz / 1e9 - 1e-6)

    def _timers(self, m: Module, banks: int) -> None:
        """What has to pass between commands: a timer a rule, for each bank where it is the bank's."""
        chip, command = self._chip, self._command

        def given(which: SdramCommand) -> list[Value]:
            """Whether a command is given, for each bank."""
            return [(command == which) & (self._bank == bank) for bank in range(banks)]

        def each(name: str, cycles: int, starts: Sequence[Value]) -> list[_Timer]:
            return [_Timer(m, f"{name}_{bank}", cycles, start) for bank, start in enumerate(starts)]

        activated = given(SdramCommand.ACTIVATE)
        every = (command == SdramCommand.PRECHARGE) & ((self._address & _ALL_BANKS) != 0)
        closed = [every | one for one in given(SdramCommand.PRECHARGE)]
        self._rcd = each("rcd", self._cycles(chip.rcd), activated)
        rp = each("rp", self._cycles(chip.rp), closed)
        rc = each("rc", self._cycles(chip.rc), activated)
        ras = each("ras", self._cycles(chip.ras), activated)
        read = each("read", BURST, given(SdramCommand.READ))
        written = each("written", BURST - 1 + self._cycles(chip.wr), given(SdramCommand.WRITE))
        self._may_close = [Cat(timers[bank].ready for timers in (ras, read, written)).all() for bank in range(banks)]
        rfc = _Timer(m, "rfc", self._cycles(chip.rfc), command == SdramCommand.REFRESH)
        mode = _Timer(m, "mode", chip.mrd, command == SdramCommand.MODE)
        self._refreshed = rfc.ready
        self._idle = [Cat(rc[bank].ready, rp[bank].ready, rfc.ready, mode.ready).all() for bank in range(banks)]
        self._turned = _Timer(m, "turn", BURST + self._cas + _PAUSE, command == SdramCommand.READ)
        for bank in range(banks):
            with m.If(closed[bank]):
                m.d.sync += self._open[bank].eq(0)
            with m.If(activated[bank]):
                m.d.sync += [self._open[bank].eq(1), self._rows[bank].eq(self._address)]

    def _initialisation(self, m: Module) -> None:
        """Power, all banks closed, refreshes, mode register; then, for each refresh, all banks closed and that."""
        pause = self._cycles(self._chip.power_up)
        wait = Signal(range(pause + 1))
        left = Signal(range(_FIRST_REFRESHES + 1), init=_FIRST_REFRESHES)
        self._serving = Signal()
        with m.FSM(name="course"):
            with m.State("POWER"):
                m.d.sync += wait.eq(wait + 1)
                with m.If(wait == pause):
                    m.next = "CLOSE"
            with m.State("CLOSE"), m.If(Cat(self._may_close).all()):
                m.d.comb += [self._command.eq(SdramCommand.PRECHARGE), self._address.eq(_ALL_BANKS)]
                m.next = "REFRESH"
            with m.State("REFRESH"), m.If(Cat(self._idle).all()):
                m.d.comb += self._command.eq(SdramCommand.REFRESH)
                with m.If(left > 1):
                    m.d.sync += left.eq(left - 1)
                with m.Elif(left == 1):
                    m.d.sync += left.eq(0)
                    m.next = "MODE"
                with m.Else():
                    m.next = "SERVE"
            with m.State("MODE"), m.If(self._refreshed):
                m.d.comb += [self._command.eq(SdramCommand.MODE),
                             self._address.eq(self._cas << 4 | BURST.bit_length() - 1)]
                m.d.sync += self.initialised.eq(1)
                m.next = "SERVE"
            with m.State("SERVE"):
                m.d.comb += self._serving.eq(~self._refresh_due)
                with m.If(self._refresh_due & ~self._active):
                    m.next = "CLOSE"

    def _refreshes(self, m: Module) -> None:
        """Tells when the next refresh is due. A cycle earlier than need be: a line in transfer delays it."""
        interval = int(self._chip.refresh * self._clock_hz / 1e9) // self._chip.refreshes - 1
        since = Signal(range(max(interval, 2)))
        with m.If(since == interval - 1):
            m.d.sync += [since.eq(0), self._refresh_due.eq(self.initialised)]
            m.d.sync += Assert(~self._refresh_due, "a refresh is due, and the last one was not given")
        with m.Else():
            m.d.sync += since.eq(since + 1)
            with m.If(self._command == SdramCommand.REFRESH):
                m.d.sync += self._refresh_due.eq(0)

    def _port(self, m: Module) -> None:
        """Takes the beats of a request."""
        request, head = self.port.request, self._head
        m.d.comb += request.ready.eq(~self._whole)
        with m.If(self._enter):
            m.d.sync += [self._known.eq(0), self._whole.eq(0), self._side.eq(~self._side)]
        with m.Elif(request.valid & request.ready):
            m.d.sync += [self._known.eq(1), self._whole.eq(ends_request(request.payload))]
            pass_on(m, request.payload, head, "write", "tag", "address", domain="sync")

    def _requests(self, m: Module) -> None:
        """Opens the row of the next request, which enters when its first half word may be next."""
        chip, head, burst = self._chip, self._head, self._burst
        lines = chip.column_bits - (_LINE - 1).bit_length()
        column, bank = head.address[:lines], head.address[lines:lines + chip.bank_bits]
        row = head.address[lines + chip.bank_bits:][:chip.row_bits]
        outside = head.address[lines + chip.bank_bits + chip.row_bits:].any()
        is_open, fits = self._open.bit_select(bank, 1), self._rows[bank] == row
        self._room = room = Signal()
        beyond, fitting = Signal(), Signal()
        """Of the request, a cycle after it has come: it is outside; its row can be read and written."""
        early = Array(timer.early for timer in self._rcd)[bank]
        m.d.sync += [beyond.eq(self._known & ~self._enter & outside),
                     fitting.eq(self._known & ~self._enter & is_open & fits & early & self._serving)]
        m.d.comb += self._enter.eq(self._whole & self._serving & room & (~self._active | self._last)
                                   & (beyond | fitting & (~head.write | self._turned.soon)))
        wants_row = self._known & self._serving & ~outside
        busy = self._active & (burst.bank == bank)
        columns = self._active & (self._position % BURST == 0) & ~burst.error
        with m.If(columns):
            m.d.comb += [
                self._command.eq(Mux(burst.write, SdramCommand.WRITE, SdramCommand.READ)), self._bank.eq(burst.bank),
                self._address.eq(burst.column | self._position)]
        with m.Elif(wants_row & is_open & ~fits & ~busy & Array(self._may_close)[bank]):
            m.d.comb += [self._command.eq(SdramCommand.PRECHARGE), self._bank.eq(bank)]
        with m.Elif(wants_row & ~is_open & Array(self._idle)[bank]):
            m.d.comb += [self._command.eq(SdramCommand.ACTIVATE), self._bank.eq(bank), self._address.eq(row)]
        with m.If(self._enter):
            m.d.sync += [
                burst.write.eq(head.write), burst.error.eq(beyond), burst.tag.eq(head.tag), burst.bank.eq(bank),
                burst.column.eq(Cat(Const(0, (_LINE - 1).bit_length()), column))]

    def _transfer(self, m: Module) -> None:
        """Counts a line's half words, and drives those to write."""
        burst, bus, request = self._burst, self.bus, self.port.request
        beat = data.StructLayout({"data": data.ArrayLayout(8 * HALF_WORD, _BEAT),
                                  "mask": data.ArrayLayout(HALF_WORD, _BEAT)})
        m.submodules.to_write = memory = Memory(shape=beat, depth=2 * BEATS, init=[])
        store, load = memory.write_port(), memory.read_port(domain="comb")
        place, within = self._position[_WITHIN:], self._position[:_WITHIN]
        m.d.comb += [
            store.en.eq(request.valid & request.ready), store.addr.eq(Cat(request.payload.beat, self._side)),
            load.addr.eq(Cat(place, ~self._side))]
        m.d.comb += [store.data[name].as_value().eq(request.payload[name]) for name in ("data", "mask")]
        writes = self._active & burst.write & ~burst.error
        with m.If(self._active):
            m.d.sync += self._position.eq(self._position + 1)
        with m.If(self._enter | self._last):
            m.d.sync += [self._active.eq(self._enter), self._position.eq(0)]
        m.d.sync += [
            bus.dq_oe.eq(writes), bus.dq_o.eq(load.data.data[within]),
            bus.dqm.eq(Mux(self.initialised, Mux(writes, ~load.data.mask[within], 0), ~0))]

    def _answers(self, m: Module) -> None:
        """Gathers what is read; gives the answers, in the order of the requests."""
        burst, response = self._burst, self.port.response
        arriving = Signal(1 + self._cas + self._pad_cycles)
        earlier, received = Signal(8 * (BEAT_BYTES - HALF_WORD)), Signal(range(_LINE))
        """Half words of the beat that is being read; the number of that which comes next."""
        kind = data.StructLayout({"write": 1, "tag": self._tag_bits, "error": 1})
        of_read: data.View = Signal(kind)
        """Of the line that is being read: what is transferred may be the next one already."""
        entry = data.StructLayout({"kind": kind, "data": 8 * BEAT_BYTES})
        read, written = Signal(), Signal()
        """A beat has been read; a line has been written."""
        m.submodules.answers = answers = SyncFIFO(width=entry.size, depth=_BEGUN * BEATS)
        into, out = data.View(entry, answers.w_data), data.View(entry, answers.r_data)
        m.d.sync += arriving.eq(Cat(self._active & ~burst.write, arriving))
        m.d.comb += [
            read.eq(arriving[-1] & (received[:_WITHIN] == _BEAT - 1)), written.eq(self._last & burst.write),
            into.kind.eq(of_read), into.data.eq(Cat(earlier, self.bus.dq_i)), answers.w_en.eq(read | written)]
        with m.If(arriving[-1]):
            m.d.sync += [earlier.eq(Cat(earlier[8 * HALF_WORD:], self.bus.dq_i)), received.eq(received + 1)]
            with m.If(received == 0):       # the line that follows has not begun yet
                pass_on(m, burst, of_read, "write", "tag", "error", domain="sync")
        with m.If(written):
            pass_on(m, burst, into.kind, "write", "tag", "error")
        m.d.sync += [Assert(~(read & written), "two requests end in one cycle"),
                     Assert(~answers.w_en | answers.w_rdy, "an answer is lost")]

        number, over, waiting = Signal(range(BEATS)), Signal(), Signal(range(_BEGUN + 1))
        pass_on(m, out.kind, response.payload, "write", "tag", "error")
        m.d.comb += [
            response.valid.eq(answers.r_rdy), answers.r_en.eq(response.ready), response.payload.data.eq(out.data),
            response.payload.beat.eq(number), over.eq(response.valid & response.ready & ends_answer(response.payload)),
            self._room.eq(waiting < _BEGUN)]
        with m.If(response.valid & response.ready & ~out.kind.write):
            m.d.sync += number.eq(number + 1)
        m.d.sync += waiting.eq(waiting + self._enter - over)
