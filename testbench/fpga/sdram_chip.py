"""A model of an SDRAM chip by its data sheet, which rejects commands that violate its timing."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

DATA_SHEET: Mapping[str, float] = MappingProxyType(
    {
        "tRCD": 20,
        "tRP": 20,
        "tRAS": 44,
        "tRAS maximum": 120_000,
        "tRC": 66,
        "tRFC": 66,
        "tRRD": 15,
        "tWR": 15,
        "tMRD": 2,
        "tREF": 64e6,
        "power up": 100_000,
    }
)
"""Times of the MT48LC16M16A2-75 in nanoseconds; tMRD in cycles."""
_REFRESHES = 8192
"""Number of refreshes in tREF."""
_BURST = 8
_MODE_BURST = 0b011
"""Mode register: bursts of eight columns, for reads and writes."""
_FIRST_REFRESHES = 2
_DQM_LATENCY = 2
"""Number of edges from DQM to the half word that is read."""
_MASK = 0xFFFF


class BrokenRuleError(Exception):
    """A use of the chip that its data sheet does not permit."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class Pins(NamedTuple):
    """The chip's inputs at an edge of its clock; all active high."""

    cke: int
    cs: int
    ras: int
    cas: int
    we: int
    ba: int
    a: int
    dqm: int
    dq: int
    driven: int


@dataclass
class _Bank:
    """A bank: its open row, times of its last commands in nanoseconds; ``busy`` is the first edge
    after its bursts.
    """

    row: int | None = None
    activated: float = -math.inf
    closed: float = -math.inf
    written: float = -math.inf
    busy: int = 0
    cells: dict[tuple[int, int], int] = field(default_factory=dict)


class SdramModel:
    """Four banks of 8192 rows of 512 half words.

    Attributes:
        commands: Number of executions of each command.
    """

    def __init__(self, random: Random, rules: Mapping[str, float] = DATA_SHEET) -> None:
        self._random, self._rules = random, rules
        self._banks = [_Bank() for _ in range(4)]
        self._edge, self._time = 0, 0.0
        self._cas: int | None = None
        self._out: dict[int, int] = {}
        """Half words that are read, by the edge at which they are driven."""
        self._writing: tuple[int, int, int, int] | None = None
        """Bank, row, first column and first edge of the burst that is written."""
        self._burst_end = 0
        self._blocked: dict[str, float] = {}
        self._mode_edge = -math.inf
        self._first_refresh: float | None = None
        self._closed_all = False
        self._dqm: list[int] = [3, 3]
        self.commands: dict[str, int] = {}

    def load(self, address: int, content: bytes) -> None:
        """Stores bytes in the controller's order: in a row, then in that of the next bank, then in
        the next row.
        """
        for at in range(0, len(content), 2):
            column, bank, row = (
                (address + at) // 2 & 0x1FF,
                (address + at) >> 10 & 3,
                (address + at) >> 12,
            )
            self._banks[bank].cells[row, column] = int.from_bytes(content[at : at + 2], "little")

    async def serve(self, ctx: Any, bus: Any, clock_hz: float, pads: int = 0) -> None:
        """Serves a controller's bus without end. ``pads`` is the number of registers on the way to
        the chip and back.
        """
        pins = [
            bus.cke,
            bus.cs,
            bus.ras,
            bus.cas,
            bus.we,
            bus.ba,
            bus.a,
            bus.dqm,
            bus.dq_o,
            bus.dq_oe,
        ]
        way, number = deque([0] * pads), 0
        async for _, _, *values in ctx.tick().sample(*pins):
            number += 1
            driven = self.edge(number * 1e9 / clock_hz, Pins(*values))
            way.append(self._random.getrandbits(16) if driven is None else driven)
            ctx.set(bus.dq_i, way.popleft())

    def edge(self, time: float, pins: Pins) -> int | None:
        """Processes a rising edge of the clock at ``time``; returns what the chip drives at the
        next one, None for nothing.

        Raises BrokenRuleError.
        """
        self._edge += 1
        self._time = time
        if not self.commands and not (pins.cke and pins.cs):
            return None
        self._check(bool(pins.cke and pins.cs), "CKE", "low after power up")
        self._check(
            not (pins.driven and (self._edge in self._out or self._edge - 1 in self._out)),
            "owner",
            "chip and controller drive the data pins",
        )
        name = {
            0b000: "",
            0b001: "STOP",
            0b010: "READ",
            0b011: "WRITE",
            0b100: "ACTIVATE",
            0b101: "PRECHARGE",
            0b110: "REFRESH",
            0b111: "MODE",
        }[pins.ras << 2 | pins.cas << 1 | pins.we]
        if name:
            self.commands[name] = self.commands.get(name, 0) + 1
            self._check(name != "STOP", "burst", "a burst is stopped")
            self._check(
                time >= self._rules["power up"], "power up", f"{name} comes {time:g} ns after power"
            )
            if self.commands[name] > 1 or name != "MODE":
                self._since("tRFC", self._blocked.get("REFRESH", -math.inf), name)
            self._check(
                self._edge - self._mode_edge >= self._rules["tMRD"], "tMRD", f"{name} after MODE"
            )
            getattr(self, f"_{name.lower()}")(pins)
        self._write_data(pins)
        self._refresh_in_time()
        if self._out.get(self._edge + _DQM_LATENCY) is not None and pins.dqm:
            self._out[self._edge + _DQM_LATENCY] = self._random.getrandbits(16)
        for bank in self._banks:
            self._check(
                bank.row is None or time - bank.activated <= self._rules["tRAS maximum"],
                "tRAS maximum",
                "a row is open for too long",
            )
        return self._out.get(self._edge + 1)

    def _check(self, good: bool, rule: str, what: str) -> None:
        if not good:
            raise BrokenRuleError(rule, f"{what}, {self._time:g} ns after power")

    def _since(self, rule: str, earlier: float, what: str) -> None:
        """Checks that the time of a rule has elapsed since ``earlier``."""
        passed = self._time - earlier
        self._check(passed >= self._rules[rule] - 1e-6, rule, f"{what} comes after {passed:g} ns")

    def _activate(self, pins: Pins) -> None:
        self._check(
            self._cas is not None, "initialisation", "ACTIVATE before the mode register is written"
        )
        bank = self._banks[pins.ba]
        self._check(bank.row is None, "row", "ACTIVATE in a bank with an open row")
        self._since("tRP", bank.closed, "ACTIVATE")
        self._since("tRC", bank.activated, "ACTIVATE")
        self._since("tRRD", max(bank.activated for bank in self._banks), "ACTIVATE")
        bank.row, bank.activated = pins.a, self._time

    def _precharge(self, pins: Pins) -> None:
        everything = bool(pins.a >> 10 & 1)
        for bank in self._banks if everything else [self._banks[pins.ba]]:
            if bank.row is not None:
                self._since("tRAS", bank.activated, "PRECHARGE")
                self._check(self._edge >= bank.busy, "burst", "PRECHARGE cuts a burst")
                self._since("tWR", bank.written, "PRECHARGE")
            bank.row, bank.closed = None, self._time
        self._closed_all |= everything

    def _refresh(self, _pins: Pins) -> None:
        self._check(self._closed_all, "initialisation", "REFRESH before PRECHARGE of all banks")
        for bank in self._banks:
            self._check(bank.row is None, "row", "REFRESH with an open row")
            self._since("tRP", bank.closed, "REFRESH")
            self._since("tRC", bank.activated, "REFRESH")
        self._blocked["REFRESH"] = self._time

    def _mode(self, pins: Pins) -> None:
        self._check(
            self.commands.get("REFRESH", 0) >= _FIRST_REFRESHES,
            "initialisation",
            "MODE before two REFRESH",
        )
        self._check(all(bank.row is None for bank in self._banks), "row", "MODE with an open row")
        self._check(
            pins.a & 0b1_1000_1111 == _MODE_BURST and pins.a >> 4 & 7 in (2, 3) and not pins.ba,
            "mode",
            f"{pins.a:#x} is not what is known here",
        )
        self._cas, self._mode_edge = pins.a >> 4 & 7, self._edge
        self._first_refresh, self.commands["REFRESH"] = self._time, 0

    def _column(self, pins: Pins, name: str) -> _Bank:
        bank = self._banks[pins.ba]
        self._check(bank.row is not None, "row", f"{name} in a bank without an open row")
        self._check(not pins.a >> 10 & 1, "burst", "a burst closes its row by itself")
        self._since("tRCD", bank.activated, name)
        self._check(self._edge >= self._burst_end, "burst", f"{name} cuts a burst")
        self._burst_end = bank.busy = self._edge + _BURST
        return bank

    def _read(self, pins: Pins) -> None:
        bank = self._column(pins, "READ")
        assert self._cas is not None and bank.row is not None
        for number in range(_BURST):
            column = _wrapped(pins.a & 0x1FF, number)
            self._out[self._edge + self._cas + number] = bank.cells.get((bank.row, column), 0)

    def _write(self, pins: Pins) -> None:
        bank = self._column(pins, "WRITE")
        assert bank.row is not None
        self._writing = (pins.ba, bank.row, pins.a & 0x1FF, self._edge)

    def _write_data(self, pins: Pins) -> None:
        """Stores a half word of a write burst."""
        if self._writing is None or self._edge >= self._writing[3] + _BURST:
            return
        number, row, column, first = self._writing
        self._check(bool(pins.driven), "owner", "nobody drives the data to write")
        cells, place = self._banks[number].cells, (row, _wrapped(column, self._edge - first))
        kept = (0xFF if pins.dqm & 1 else 0) | (0xFF00 if pins.dqm & 2 else 0)
        cells[place] = cells.get(place, 0) & kept | pins.dq & ~kept & _MASK
        self._banks[number].written = self._time

    def _refresh_in_time(self) -> None:
        """Checks that refreshes are at most one behind an even distribution over tREF."""
        if self._first_refresh is not None:
            due = int((self._time - self._first_refresh) * _REFRESHES / self._rules["tREF"])
            self._check(self.commands["REFRESH"] >= due - 1, "tREF", f"{due} refreshes are due")


def _wrapped(column: int, number: int) -> int:
    """Returns the column of a half word of a burst, which wraps within eight columns."""
    return column & ~(_BURST - 1) | column + number & _BURST - 1
