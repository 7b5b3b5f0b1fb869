"""A controller of a 16-bit SDRAM chip: a port of beats, eight of which are a line of 64 bytes.

A line is four bursts of eight half words without a gap between them. There is no gap either between
two lines whose rows are open. A row stays open until a request needs another row of its bank, or
until a refresh is due. While a line is transferred, the row of the next request is opened if it is
in another bank.

No timer checks tRRD. Between two ACTIVATE commands the first of the two rows is accessed, for which
tRCD has to elapse, or the chip is refreshed. Both take longer than tRRD.

Two buffers of LUT memory hold lines to write: one is transferred while the other one is filled. A
FIFO holds two lines that were read.

A line's number is, from the lowest bit: 4 bits of the column, the bank, the row. So consecutive
lines fill the row of a bank (1 KiB), then the same row of the next bank.

The pads are in :mod:`rtl.fpga.sdram_pads`.
"""

import math
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, enum, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS, BeatPort, beat_response, ends_answer, ends_request
from rtl.params import LINE_ADDRESS_BITS
from rtl.structs import common_fields, struct_value

__all__ = ["BURST", "MT48LC16M16A2", "SdramBus", "SdramChip", "SdramCommand", "SdramController"]

HALF_WORD = 2
"""Bytes on the chip's data pins."""
BURST = 8
"""Half words of a burst."""
LINE_HALF_WORDS = LINE_BYTES // HALF_WORD
BEAT_HALF_WORDS = BEAT_BYTES // HALF_WORD
POSITION_BITS = (LINE_HALF_WORDS - 1).bit_length()
"""Bits of a half word's number in its line."""
BEAT_POSITION_BITS = (BEAT_HALF_WORDS - 1).bit_length()
"""Bits of a half word's number in its beat."""
OUTSTANDING = 2
"""The largest number of requests whose transfer has started and which are not answered; the FIFO of
answers has room for the same number of lines."""
TURNAROUND = 1
"""Cycles in which neither side drives the data pins, when the driver changes from the chip to the
controller."""
FIRST_REFRESHES = 8
"""Refreshes before the mode register is written."""
ALL_BANKS = 1 << 10
"""Address of a PRECHARGE of all banks."""


class SdramCommand(enum.Enum, shape=3):
    """RAS (bit 2), CAS, WE (bit 0); 1 is active."""

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

    The defaults are those of the MT48LC16M16A2-75 (32 MiB). They are long enough for its faster
    grades and for the IS42S16160G-7.

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
        The chip needs ``refreshes`` REFRESH commands in each period ``refresh``.
    power_up : float
        From stable supply to the first command.
    access, output_hold : float
        From a clock edge until data read are stable; from the next edge until they change.
    setup, hold : float
        How long the chip's inputs have to be stable before a clock edge, and after it.
    fast_hz : float
        Up to this clock rate the CAS latency is 2 cycles; above, it is 3.
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
"""The chip with the default attributes."""


class SdramBus(wiring.Signature):
    """The chip's pins, directions are the controller's; all are active high, the pads invert as
    needed.

    Members
    -------
    cke, cs, ras, cas, we : Out(1)
    ba, a : Out
        Bank and address.
    dqm : Out(2)
        Mask: 1 for a byte of the half word that is not written.
    dq_o, dq_oe, dq_i : Out(16), Out(1), In(16)
    """

    def __init__(self, chip: SdramChip) -> None:
        bits = 8 * HALF_WORD
        super().__init__({
            "cke": Out(1),
            "cs": Out(1),
            "ras": Out(1),
            "cas": Out(1),
            "we": Out(1),
            "ba": Out(chip.bank_bits),
            "a": Out(chip.row_bits),
            "dqm": Out(HALF_WORD),
            "dq_o": Out(bits),
            "dq_oe": Out(1),
            "dq_i": In(bits),
        })


class _Timer:
    """Counts the cycles that have to elapse between two commands. ``start`` is the first command.

    Attributes
    ----------
    elapsed : Value
        The second command may be issued in this cycle.
    elapsed_in_1, elapsed_in_2 : Value
        It may be issued in the next cycle; in the one after that. Both assume that ``start`` is 0
        in this cycle and until then.
    """

    def __init__(self, m: Module, name: str, cycles: int, start: Value) -> None:
        remaining = Signal(range(max(cycles, 2)), name=name)
        with m.If(start):
            m.d.sync += remaining.eq(max(cycles, 1) - 1)
        with m.Elif(remaining.any()):
            m.d.sync += remaining.eq(remaining - 1)
        self.elapsed: Value = remaining == 0
        self.elapsed_in_1: Value = remaining <= 1
        self.elapsed_in_2: Value = remaining <= 2


class _CommandSignals:
    """The command that is issued in this cycle; it is registered, and on the bus in the next one.

    Attributes
    ----------
    kind : Value
        A SdramCommand; NOP if none is issued.
    bank : Value
    address : Value
        Row, column or mode.
    """

    def __init__(self, chip: SdramChip) -> None:
        self._command: Any = Signal(
            data.StructLayout({
                "kind": SdramCommand, "bank": chip.bank_bits, "address": chip.row_bits}),
            name="command")
        self.kind = self._command.kind
        self.bank = self._command.bank
        self.address = self._command.address

    def issue(self, kind: ValueLike, bank: ValueLike = 0, address: ValueLike = 0) -> Any:
        """Returns the statement that issues a command; to be added to the domain comb."""
        return self._command.eq(struct_value(
            self._command.shape(), kind=kind, bank=bank, address=address))

    def is_kind(self, kind: SdramCommand) -> Value:
        """A command of this kind is issued."""
        return self.kind == kind

    def is_for(self, kind: SdramCommand, bank: int) -> Value:
        """A command of this kind is issued to a bank."""
        return (self.kind == kind) & (self.bank == bank)

    @property
    def closes_all(self) -> Value:
        """All banks are precharged."""
        return self.is_kind(SdramCommand.PRECHARGE) & ((self.address & ALL_BANKS) != 0)


class _Bank:
    """The state of a bank of the chip: its open row, and which commands may be issued to it.

    Attributes
    ----------
    is_open : Signal(1)
        A row is open.
    row : Signal
        The row that was opened last; open if ``is_open``.
    may_precharge : Value
        tRAS has elapsed since its ACTIVATE, the data of a READ have been transferred, and tWR has
        elapsed since the last half word of a WRITE.
    may_activate : Value
        tRC has elapsed since its last ACTIVATE, and tRP since its last PRECHARGE.
    may_access_in_2 : Value
        READ or WRITE may be issued two cycles from now, as to tRCD. To be used with ``is_open``,
        which is 0 in the cycle of the ACTIVATE.
    """

    def __init__(self, m: Module, number: int, chip: SdramChip, clock_hz: float,
                 command: _CommandSignals) -> None:
        def timer(name: str, cycles: int, start: Value) -> _Timer:
            return _Timer(m, f"{name}_{number}", cycles, start)

        self.is_open = Signal(name=f"is_open_{number}")
        self.row = Signal(chip.row_bits, name=f"row_{number}")
        opens = command.is_for(SdramCommand.ACTIVATE, number)
        closes = command.closes_all | command.is_for(SdramCommand.PRECHARGE, number)
        reads = command.is_for(SdramCommand.READ, number)
        writes = command.is_for(SdramCommand.WRITE, number)

        rcd = timer("rcd", _cycles(chip.rcd, clock_hz), opens)
        rc = timer("rc", _cycles(chip.rc, clock_hz), opens)
        ras = timer("ras", _cycles(chip.ras, clock_hz), opens)
        rp = timer("rp", _cycles(chip.rp, clock_hz), closes)
        burst_read = timer("read", BURST, reads)
        burst_written = timer("written", BURST - 1 + _cycles(chip.wr, clock_hz), writes)
        self.may_precharge: Value = ras.elapsed & burst_read.elapsed & burst_written.elapsed
        self.may_activate: Value = rc.elapsed & rp.elapsed
        self.may_access_in_2: Value = rcd.elapsed_in_2

        with m.If(closes):
            m.d.sync += self.is_open.eq(0)
        with m.If(opens):
            m.d.sync += self.is_open.eq(1)
            m.d.sync += self.row.eq(command.address)


class _LineAddress:
    """The address of a line on the chip.

    Attributes
    ----------
    column, bank, row : Value
        Column of its first half word; bank; row.
    is_outside : Value
        The chip has no such line.
    """

    def __init__(self, number: Value, chip: SdramChip) -> None:
        bank_at = chip.column_bits - POSITION_BITS
        row_at = bank_at + chip.bank_bits
        end = row_at + chip.row_bits
        self.column = Cat(Const(0, POSITION_BITS), number[:bank_at])
        self.bank = number[bank_at:row_at]
        self.row = number[row_at:end]
        self.is_outside = number[end:].any()


def _cycles(nanoseconds: float, clock_hz: float) -> int:
    """The least number of cycles that last at least this time."""
    return math.ceil(nanoseconds * clock_hz / 1e9 - 1e-6)


def _request_head(tag_bits: int) -> data.StructLayout:
    """The fields that are the same in all beats of a request."""
    return data.StructLayout({"write": 1, "tag": tag_bits, "address": LINE_ADDRESS_BITS})


def _answer_head(tag_bits: int) -> data.StructLayout:
    """The fields that are the same in all beats of an answer."""
    return data.StructLayout({"write": 1, "tag": tag_bits, "error": 1})


def _transfer(tag_bits: int, chip: SdramChip) -> data.StructLayout:
    """A line that is transferred: the head of its answer, its bank, and the column of its first
    half word."""
    return data.StructLayout({
        "head": _answer_head(tag_bits), "bank": chip.bank_bits, "column": chip.column_bits})


_BEAT_TO_WRITE = data.StructLayout({
    "data": data.ArrayLayout(8 * HALF_WORD, BEAT_HALF_WORDS),
    "mask": data.ArrayLayout(HALF_WORD, BEAT_HALF_WORDS),
})
"""A beat of a line to write, by half words."""


class SdramController(Component):
    """Serves a port of beats from an SDRAM, all requests in order.

    A request for a line outside the chip has the timing of any other, without commands; it is
    answered with ``error``.

    Steps of a request::

        beats --> next request --> transfer, 32 half words --> FIFO of answers --> beats
                  row is opened    bursts are read or written

    ============  ==================================================================
    step          when
    ============  ==================================================================
    next request  from its first beat on: a conflicting row is closed, the row that it
                  needs is opened
    start         all beats are received; the row is open, and tRCD has elapsed by the
                  first cycle of the transfer; before a write, the chip has released
                  the data pins; the FIFO has room; no line is transferred, or this is
                  the cycle of its last half word; no refresh is due
    transfer      32 cycles; a READ or WRITE in every eighth, from the first one on
    answer        of a read: a beat with every fourth half word that arrives; of a
                  write: with the last half word
    ============  ==================================================================

    One command is issued in a cycle: READ and WRITE of the transfer have priority over PRECHARGE
    and ACTIVATE for the next request. When a refresh is due, no transfer starts and no row is
    opened; when the current transfer has ended, all banks are closed and the chip is refreshed.

    A reset of ``sync`` starts the initialisation of the chip again; requests in progress are lost.

    Parameters
    ----------
    tag_bits : int
        Of the port.
    clock_hz : float
        Clock rate of the domain ``sync`` and of the chip.
    chip : SdramChip
    pad_cycles : int
        Cycles by which pads delay commands to the chip and data from it, together.

    Members
    -------
    port : In(BeatPort)
    bus : Out(SdramBus)
    initialised : Out(1)
        The initialisation has ended. Until then beats of one request are accepted, and its
        transfer waits.
    """

    def __init__(self, tag_bits: int, clock_hz: float, chip: SdramChip = MT48LC16M16A2,
                 pad_cycles: int = 0) -> None:
        self._chip = chip
        self._clock_hz = clock_hz
        self._tag_bits = tag_bits
        self._cas = chip.cas(clock_hz)
        self._pad_cycles = pad_cycles
        self.size = chip.size
        """Bytes."""
        super().__init__({
            "port": In(BeatPort(tag_bits)),
            "bus": Out(SdramBus(chip)),
            "initialised": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._declare_signals()
        self._make_timers(m)
        self._sequence_maintenance(m)
        self._schedule_refreshes(m)
        self._take_request(m)
        self._decide_start(m)
        self._choose_command(m)
        self._count_position(m)
        self._store_write_data(m)
        self._drive_data_pins(m)
        self._receive_read_data(m)
        self._queue_answers(m)
        self._send_answers(m)
        self._drive_command_pins(m)
        return m

    def _declare_signals(self) -> None:
        """Declares the signals that several methods use."""
        chip = self._chip
        self._command = _CommandSignals(chip)
        self._refresh_is_due = Signal()
        self._is_serving = Signal()
        """Requests are served: no initialisation, and no refresh is due or in progress."""
        self._request: Any = Signal(_request_head(self._tag_bits))
        """The next request to transfer."""
        self._has_request = Signal()
        """At least its first beat has been accepted."""
        self._is_complete = Signal()
        """All of its beats have been accepted."""
        self._place = _LineAddress(self._request.address, chip)
        """The address of its line on the chip."""
        self._starts = Signal()
        """Its transfer starts in the next cycle."""
        self._has_room = Signal()
        """The FIFO of answers has room for another line."""
        self._is_transferring = Signal()
        """A line is transferred; ``_position`` is the number of its half word in this cycle."""
        self._position = Signal(range(LINE_HALF_WORDS))
        self._transfer: Any = Signal(_transfer(self._tag_bits, chip))
        """The line that is transferred."""
        self._is_last = Signal()
        """Its last half word is transferred in this cycle."""
        self._write_buffer = Signal()
        """Number of the write buffer that the next request fills; the transfer reads the other
        one. Inverted at each start."""
        self._write_beat: Any = Signal(_BEAT_TO_WRITE)
        """The beat with the half word to write in this cycle."""
        self._read_beat = Signal(8 * BEAT_BYTES)
        """A beat that was read: three half words that have arrived and the one that arrives."""
        self._read_is_complete = Signal()
        """Its last half word arrives in this cycle."""
        self._read_head: Any = Signal(_answer_head(self._tag_bits))
        """Its head. Not that of ``_transfer``: the transfer of the next line may have started
        before the last data arrive."""

    def _make_timers(self, m: Module) -> None:
        """The timers of banks and of commands to all banks."""
        chip = self._chip
        command = self._command
        self._banks = [
            _Bank(m, number, chip, self._clock_hz, command)
            for number in range(1 << chip.bank_bits)]
        refreshed = _Timer(m, "rfc", _cycles(chip.rfc, self._clock_hz),
                           command.is_kind(SdramCommand.REFRESH))
        mode_written = _Timer(m, "mode", chip.mrd, command.is_kind(SdramCommand.MODE))
        self._refresh_is_over: Value = refreshed.elapsed
        self._chip_is_ready: Value = refreshed.elapsed & mode_written.elapsed
        # From a READ until the controller may drive the data pins.
        self._read_to_write = _Timer(m, "turn", BURST + self._cas + TURNAROUND,
                                     command.is_kind(SdramCommand.READ))

    def _sequence_maintenance(self, m: Module) -> None:
        """The state machine of initialisation and refreshes.

        Initialisation: POWER, CLOSE, REFRESH (eight commands), MODE, SERVE. When a refresh is due:
        SERVE, CLOSE, REFRESH (one command), SERVE.
        """
        self._first_refreshes = Signal(range(FIRST_REFRESHES + 1), init=FIRST_REFRESHES)
        with m.FSM(name="course") as fsm:
            with m.State("POWER"):
                self._wait_for_power(m)
            with m.State("CLOSE"):
                self._close_all_banks(m)
            with m.State("REFRESH"):
                self._refresh(m)
            with m.State("MODE"):
                self._write_mode(m)
            with m.State("SERVE"):
                self._serve(m)
            m.d.sync += Assert(
                ~self._is_transferring | fsm.ongoing("SERVE"),
                "a line is transferred while the chip is initialised or refreshed")

    def _wait_for_power(self, m: Module) -> None:
        """POWER: issues no command during the time ``power_up``."""
        pause = _cycles(self._chip.power_up, self._clock_hz)
        waited = Signal(range(pause + 1))
        m.d.sync += waited.eq(waited + 1)
        with m.If(waited == pause):
            m.next = "CLOSE"

    def _close_all_banks(self, m: Module) -> None:
        """CLOSE: issues a PRECHARGE of all banks, as soon as the timers of all banks permit."""
        with m.If(Cat(bank.may_precharge for bank in self._banks).all()):
            m.d.comb += self._command.issue(SdramCommand.PRECHARGE, address=ALL_BANKS)
            m.next = "REFRESH"

    def _refresh(self, m: Module) -> None:
        """REFRESH: issues one REFRESH, or FIRST_REFRESHES of them before the mode register is
        written. It does not wait for tRFC of the last one: that delays the next command."""
        remaining = self._first_refreshes
        all_idle = Cat(bank.may_activate for bank in self._banks).all()
        with m.If(all_idle & self._chip_is_ready):
            m.d.comb += self._command.issue(SdramCommand.REFRESH)
            with m.If(remaining > 1):
                m.d.sync += remaining.eq(remaining - 1)
            with m.Elif(remaining == 1):
                m.d.sync += remaining.eq(0)
                m.next = "MODE"
            with m.Else():
                m.next = "SERVE"

    def _write_mode(self, m: Module) -> None:
        """MODE: writes CAS latency and burst length to the mode register."""
        burst_code = BURST.bit_length() - 1
        with m.If(self._refresh_is_over):
            mode = self._cas << 4 | burst_code
            m.d.comb += self._command.issue(SdramCommand.MODE, address=mode)
            m.d.sync += self.initialised.eq(1)
            m.next = "SERVE"

    def _serve(self, m: Module) -> None:
        """SERVE: serves requests, until a refresh is due and the transfer has ended."""
        m.d.comb += self._is_serving.eq(~self._refresh_is_due)
        with m.If(self._refresh_is_due & ~self._is_transferring):
            m.next = "CLOSE"

    def _schedule_refreshes(self, m: Module) -> None:
        """Sets ``_refresh_is_due`` at regular intervals, and clears it when the REFRESH is issued.
        A transfer may delay a refresh; to compensate, the interval is a cycle shorter than the
        chip's average."""
        chip = self._chip
        interval = int(chip.refresh * self._clock_hz / 1e9) // chip.refreshes - 1
        elapsed = Signal(range(max(interval, 2)))
        with m.If(elapsed == interval - 1):
            m.d.sync += elapsed.eq(0)
            m.d.sync += self._refresh_is_due.eq(self.initialised)
            m.d.sync += Assert(
                ~self._refresh_is_due, "a refresh is due, and the one before was not issued")
        with m.Else():
            m.d.sync += elapsed.eq(elapsed + 1)
            with m.If(self._command.is_kind(SdramCommand.REFRESH)):
                m.d.sync += self._refresh_is_due.eq(0)

    def _take_request(self, m: Module) -> None:
        """Accepts the beats of the next request. After its last beat, none is accepted until its
        transfer starts."""
        port = self.port.request
        request = self._request
        m.d.comb += port.ready.eq(~self._is_complete)
        with m.If(self._starts):
            m.d.sync += self._has_request.eq(0)
            m.d.sync += self._is_complete.eq(0)
            m.d.sync += self._write_buffer.eq(~self._write_buffer)
        with m.Elif(port.valid & port.ready):
            m.d.sync += self._has_request.eq(1)
            m.d.sync += self._is_complete.eq(ends_request(port.payload))
            m.d.sync += common_fields(request, port.payload)

    def _decide_start(self, m: Module) -> None:
        """Starts the transfer of the next request.

        Whether its row is ready is registered, to shorten the path: ``row_is_ready``, computed in
        cycle t, is used in cycle t + 1, and the transfer with its first command starts in cycle
        t + 2. So the timer of tRCD is read two cycles ahead. No command of the cycles between can
        close the row.
        """
        request = self._request
        place = self._place
        is_outside = Signal()
        row_is_ready = Signal()
        is_waiting = self._has_request & ~self._starts
        may_access = Array(bank.may_access_in_2 for bank in self._banks)[place.bank]
        m.d.sync += is_outside.eq(is_waiting & place.is_outside)
        row_is_open = self._bank_is_open & self._row_matches
        m.d.sync += row_is_ready.eq(is_waiting & self._is_serving & row_is_open & may_access)

        pins_are_free = ~request.write | self._read_to_write.elapsed_in_1
        can_be_served = is_outside | (row_is_ready & pins_are_free)
        transfer_ends = ~self._is_transferring | self._is_last
        may_start = self._is_serving & self._has_room & transfer_ends
        m.d.comb += self._starts.eq(self._is_complete & may_start & can_be_served)
        with m.If(self._starts):
            head = struct_value(
                _answer_head(self._tag_bits),
                write=request.write,
                tag=request.tag,
                error=is_outside)
            m.d.sync += self._transfer.eq(struct_value(
                self._transfer.shape(),
                head=head,
                bank=place.bank,
                column=place.column))

    @property
    def _bank_is_open(self) -> Value:
        """The bank of the next request has an open row."""
        return Array(bank.is_open for bank in self._banks)[self._place.bank]

    @property
    def _row_matches(self) -> Value:
        """The row that was opened last in that bank is the one of the next request."""
        return Array(bank.row for bank in self._banks)[self._place.bank] == self._place.row

    def _choose_command(self, m: Module) -> None:
        """Issues the command of this cycle when requests are served: for the transfer, or else for
        the row of the next request."""
        command = self._command
        transfer = self._transfer
        place = self._place
        starts_burst = self._is_transferring & (self._position % BURST == 0) & ~transfer.head.error
        needs_row = self._has_request & self._is_serving & ~place.is_outside
        bank_is_busy = self._is_transferring & (transfer.bank == place.bank)
        may_precharge = Array(bank.may_precharge for bank in self._banks)[place.bank]
        may_activate = Array(
            bank.may_activate & self._chip_is_ready for bank in self._banks)[place.bank]
        has_conflict = self._bank_is_open & ~self._row_matches
        with m.If(starts_burst):
            kind = Mux(transfer.head.write, SdramCommand.WRITE, SdramCommand.READ)
            column = transfer.column | self._position
            m.d.comb += command.issue(kind, transfer.bank, column)
        with m.Elif(needs_row & has_conflict & ~bank_is_busy & may_precharge):
            m.d.comb += command.issue(SdramCommand.PRECHARGE, place.bank)
        with m.Elif(needs_row & ~self._bank_is_open & may_activate):
            m.d.comb += command.issue(SdramCommand.ACTIVATE, place.bank, place.row)

    def _count_position(self, m: Module) -> None:
        """Counts the half words of a transfer. The next transfer may follow without a gap."""
        m.d.comb += self._is_last.eq(
            self._is_transferring & (self._position == LINE_HALF_WORDS - 1))
        with m.If(self._starts):
            m.d.sync += self._is_transferring.eq(1)
            m.d.sync += self._position.eq(0)
        with m.Elif(self._is_last):
            m.d.sync += self._is_transferring.eq(0)
            m.d.sync += self._position.eq(0)
        with m.Elif(self._is_transferring):
            m.d.sync += self._position.eq(self._position + 1)

    def _store_write_data(self, m: Module) -> None:
        """The two write buffers, in one memory: beats are written as they are accepted, and read
        at the position of the transfer."""
        request = self.port.request
        m.submodules.to_write = memory = Memory(shape=_BEAT_TO_WRITE, depth=2 * BEATS, init=[])
        store = memory.write_port()
        load = memory.read_port(domain="comb")
        m.d.comb += store.en.eq(request.valid & request.ready)
        m.d.comb += store.addr.eq(Cat(request.payload.beat, self._write_buffer))
        m.d.comb += common_fields(store.data, request.payload)
        beat_number = self._position[BEAT_POSITION_BITS:]
        m.d.comb += load.addr.eq(Cat(beat_number, ~self._write_buffer))
        m.d.comb += self._write_beat.eq(load.data)

    def _drive_data_pins(self, m: Module) -> None:
        """Drives the half word of a write, and the mask. The mask is 1 before the chip is
        initialised; it is 0 in a read, where it would disable the chip's outputs."""
        bus = self.bus
        head = self._transfer.head
        writes = self._is_transferring & head.write & ~head.error
        in_beat = self._position[:BEAT_POSITION_BITS]
        m.d.sync += bus.dq_oe.eq(writes)
        m.d.sync += bus.dq_o.eq(self._write_beat.data[in_beat])
        with m.If(~self.initialised):
            m.d.sync += bus.dqm.eq(~0)
        with m.Elif(writes):
            m.d.sync += bus.dqm.eq(~self._write_beat.mask[in_beat])
        with m.Else():
            m.d.sync += bus.dqm.eq(0)

    def _receive_read_data(self, m: Module) -> None:
        """Gathers the half words of a beat that is read. A half word arrives ``latency`` cycles
        after its cycle of the transfer: one for the register of the bus, the CAS latency, and the
        pads. Reads outside the chip have the same latency, and arbitrary data."""
        transfer = self._transfer
        latency = 1 + self._cas + self._pad_cycles
        requested = Signal(latency)
        earlier = Signal(8 * (BEAT_BYTES - HALF_WORD))
        """The half words of the beat that arrived before the one of this cycle."""
        position = Signal(range(LINE_HALF_WORDS))
        """The number of the half word that arrives next."""
        reads = self._is_transferring & ~transfer.head.write
        arrives = requested[-1]
        m.d.sync += requested.eq(Cat(reads, requested))
        with m.If(arrives):
            m.d.sync += earlier.eq(Cat(earlier[8 * HALF_WORD:], self.bus.dq_i))
            m.d.sync += position.eq(position + 1)
            with m.If(position == 0):       # the transfer of the next line has not started yet
                m.d.sync += self._read_head.eq(transfer.head)
        is_last_of_beat = position[:BEAT_POSITION_BITS] == BEAT_HALF_WORDS - 1
        m.d.comb += self._read_beat.eq(Cat(earlier, self.bus.dq_i))
        m.d.comb += self._read_is_complete.eq(arrives & is_last_of_beat)

    def _queue_answers(self, m: Module) -> None:
        """Puts beats that were read, and heads of lines that were written, into the FIFO of
        answers, in the order of the requests. A read and a write never need the FIFO in the same
        cycle: the last data of a read arrive before the transfer of the following write ends."""
        head = self._transfer.head
        entry = data.StructLayout({
            "head": _answer_head(self._tag_bits), "data": 8 * BEAT_BYTES})
        m.submodules.answers = answers = SyncFIFO(width=entry.size, depth=OUTSTANDING * BEATS)
        self._answers = answers
        self._answer: Any = data.View(entry, answers.r_data)
        """The oldest entry of the FIFO."""
        queued: Any = data.View(entry, answers.w_data)
        is_written = Signal()
        m.d.comb += is_written.eq(self._is_last & head.write)
        m.d.comb += answers.w_en.eq(self._read_is_complete | is_written)
        m.d.comb += queued.eq(struct_value(
            entry,
            head=Mux(is_written, head, self._read_head),
            data=self._read_beat))
        m.d.sync += Assert(~(self._read_is_complete & is_written), "two requests end in one cycle")
        m.d.sync += Assert(~answers.w_en | answers.w_rdy, "an answer is lost")

    def _send_answers(self, m: Module) -> None:
        """Sends the answers, and counts the requests that are outstanding: their transfer has
        started, and the last beat of their answer has not been accepted."""
        response = self.port.response
        payload: Any = response.payload
        answer = self._answer
        number = Signal(range(BEATS))
        outstanding = Signal(range(OUTSTANDING + 1))
        is_over = Signal()
        is_taken = response.valid & response.ready
        m.d.comb += response.valid.eq(self._answers.r_rdy)
        m.d.comb += self._answers.r_en.eq(response.ready)
        m.d.comb += payload.eq(struct_value(
            beat_response(self._tag_bits),
            write=answer.head.write,
            tag=answer.head.tag,
            error=answer.head.error,
            beat=number,
            data=answer.data))
        with m.If(is_taken & ~answer.head.write):
            m.d.sync += number.eq(number + 1)

        m.d.comb += is_over.eq(is_taken & ends_answer(payload))
        m.d.comb += self._has_room.eq(outstanding < OUTSTANDING)
        m.d.sync += outstanding.eq(outstanding + self._starts - is_over)

    def _drive_command_pins(self, m: Module) -> None:
        """Drives the pins of the command, a cycle after it was issued."""
        bus = self.bus
        command = self._command
        m.d.sync += bus.cke.eq(1)
        m.d.sync += bus.cs.eq(1)
        m.d.sync += Cat(bus.we, bus.cas, bus.ras).eq(command.kind.as_value())
        m.d.sync += bus.ba.eq(command.bank)
        m.d.sync += bus.a.eq(command.address)
