"""The SDRAM controller: lines are those of a plain memory, and the rules of the chip's data sheet
are obeyed.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from amaranth.hdl import ClockDomain, ClockSignal
from amaranth.lib.wiring import connect

from rtl.fpga import sdram
from rtl.fpga.sdram import SdramChip, SdramController
from rtl.fpga.sdram_pads import PAD_DELAY, SdramPads, clock_phase
from rtl.layouts import BEATS
from testbench.fpga import beats
from testbench.fpga.beats import LineClient
from testbench.fpga.platform import on_ulx3s
from testbench.fpga.sdram_chip import DATA_SHEET, BrokenRuleError, SdramModel
from testbench.project.test_manual import DOCS, table
from testbench.simulation import simulate
from testbench.watch import Watch

QUICK = SdramChip(power_up=500)
"""A chip with a short power-up time."""
BUSY = replace(QUICK, refresh=64e6 / 8, rc=100)
"""A chip with frequent refreshes, which collide with all other commands; its tRC is longer than
tRAS and tRP together.
"""
BUSY_RULES = {**DATA_SHEET, "tREF": BUSY.refresh, "tRC": BUSY.rc}
TAGS = 2
LINES = [
    bank << 4 | row << 6 | column
    for bank in (0, 1, 3)
    for row in (0, 1, 8191)
    for column in (0, 1, 15)
]
OUTSIDE = 1 << 19


def play(
    controller: SdramController,
    clock_hz: float,
    requests: list[dict[str, int]],
    *,
    pads: int = 0,
    takes: float = 1.0,
    pauses: float = 0.0,
    power_up: float = 400,
    rules: Mapping[str, float] = DATA_SHEET,
    watch: Watch | None = None,
) -> tuple[LineClient, SdramModel]:
    """Sends requests; every answer is compared with a plain memory.

    ``pads`` is the number of registers on the way to the chip and back. For ``takes`` and
    ``pauses`` see LineClient.
    """
    random = Random(1)
    chip = SdramModel(random, {**rules, "power up": power_up})
    client = LineClient(
        controller.port, requests, range(OUTSIDE), random, takes=takes, pauses=pauses
    )
    simulate(
        controller,
        client.ask,
        client.hear,
        clocks={"sync": 1 / clock_hz},
        background=[
            partial(chip.serve, bus=controller.bus, clock_hz=clock_hz, pads=pads),
            *([] if watch is None else [watch.serve]),
        ],
    )
    return client, chip


def random_requests(count: int, seed: int) -> list[dict[str, int]]:
    """Returns requests to few lines, so that rows, banks, reads and writes conflict in every way."""
    random = Random(seed)
    outside = [OUTSIDE << random.randrange(14) for _ in range(max(1, len(LINES) // 20))]
    return beats.random_requests(count, [*LINES, *outside], 1 << TAGS, random)


def stream(write: bool, count: int) -> list[dict[str, int]]:
    """Returns requests to consecutive lines."""
    return [
        {"write": write, "tag": 0, "address": line, "data": line, "mask": (1 << 64) - 1}
        for line in range(count)
    ]


@pytest.mark.parametrize(
    ("clock_hz", "pads", "takes", "pauses"),
    [(50e6, 1, 1.0, 0), (100e6, 2, 0.05, 0), (133e6, 0, 0.5, 0.9)],
)
def test_lines_are_those_of_a_plain_memory(clock_hz, pads, takes, pauses):
    requests = random_requests(90, seed=int(clock_hz))
    client, chip = play(
        SdramController(TAGS, clock_hz, BUSY, pads),
        clock_hz,
        requests,
        pads=pads,
        takes=takes,
        pauses=pauses,
        rules=BUSY_RULES,
    )
    assert client.errors == sum(request["address"] >= OUTSIDE for request in requests) > 0
    assert chip.commands["REFRESH"] > 10


@pytest.mark.parametrize(("write", "most"), [(False, 33), (True, 33)])
def test_lines_of_a_row_follow_each_other_without_a_gap(write, most):
    few, many = (
        play(SdramController(TAGS, 100e6, QUICK), 100e6, stream(write, count))[0].cycles
        for count in (8, 40)
    )
    assert (many - few) / 32 <= most


ROUGH = 0.5
"""Cycles for each line by which a short run may differ from the manual: one refresh more or less,
and other random lines.
"""


def line_of(row: int, bank: int = 0) -> int:
    """Returns the first line of a row of a bank."""
    return row << 6 | bank << 4


@pytest.mark.parametrize(("clock_hz", "column"), [(50e6, 1), (100e6, 2)])
def test_lines_take_the_cycles_of_the_manual(clock_hz, column):
    """Lines that are in flight at the start are not counted."""
    first, count, random = 8, 40, Random(5)
    anywhere = [random.randrange(OUTSIDE) for _ in range(count)]
    kinds = {
        "reads, or writes, of consecutive lines": ([0] * count, range(count)),
        "reads at random": ([0] * count, anywhere),
        "writes at random": ([1] * count, anywhere),
        "reads and writes in turn, in open rows": ([0, 1] * (count // 2), range(count)),
        "reads of one bank, each in another row": ([0] * count, map(line_of, range(count))),
        "writes of one bank, each in another row": ([1] * count, map(line_of, range(count))),
    }
    rows = {
        row[0]: row[column] for row in table(DOCS / "board_video.md", "## SDRAM", "consecutive")
    }
    assert rows.keys() == kinds.keys()
    for name, (writes, lines) in kinds.items():
        requests = [
            {"write": write, "tag": 0, "address": line, "data": line, "mask": (1 << 64) - 1}
            for write, line in zip(writes, lines, strict=True)
        ]
        few, many = (
            play(SdramController(TAGS, clock_hz, QUICK), clock_hz, requests[:number])[0].cycles
            for number in (first, count)
        )
        found = (many - few) / (count - first)
        assert abs(found - float(rows[name])) <= ROUGH, f"{name}: {found}"


def test_beats_of_a_line_take_the_cycles_of_the_manual():
    found = []
    for write, transfer in ((True, "request"), (False, "response")):
        controller = SdramController(TAGS, 50e6, QUICK)
        port = getattr(controller.port, transfer)
        watch = Watch(beat=port.valid & port.ready)
        play(controller, 50e6, stream(write, 1), watch=watch)
        (apart,) = {later - earlier for earlier, later in pairwise(watch.cycles("beat"))}
        found.append(BEATS * apart)
    rows = {row[0]: row[2] for row in table(DOCS / "board.md", "## Block diagram", "component")}
    assert rows["SdramController"] == (f"{found[0]}, {found[1]}: its pins take two bytes a cycle")


def test_power_up_takes_200_microseconds():
    assert (
        play(SdramController(TAGS, 25e6), 25e6, stream(False, 1), power_up=200_000)[0].cycles > 5000
    )


BROKEN = {
    "tRCD": {"rcd": 0},
    "tRP": {"rp": 0},
    "tRAS": {"ras": 0},
    "tRC": {"rc": 0},
    "tWR": {"wr": 0},
    "tRFC": {"rfc": 0},
    "tMRD": {"mrd": 1},
    "tREF": {"refresh": 32e6},
    "power up": {"power_up": 100},
}
"""Rule -> the controller's constant that violates it."""


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_constant_is_found(rule):
    """The controller takes three cycles for tRCD in any case. Write data arrive slowly, so that
    refreshes close rows that have just been opened for them.
    """
    chip, clock_hz = replace(BUSY, **BROKEN[rule]), 200e6 if rule == "tRCD" else 133e6
    with pytest.raises(BrokenRuleError) as broken:
        play(
            SdramController(TAGS, clock_hz, chip),
            clock_hz,
            random_requests(60, seed=8),
            pauses=0.95,
            rules=BUSY_RULES,
        )
    assert broken.value.rule == rule


def test_two_that_drive_the_data_pins_are_found(monkeypatch):
    monkeypatch.setattr(sdram, "TURNAROUND", 0)
    with pytest.raises(BrokenRuleError) as broken:
        play(SdramController(TAGS, 100e6, QUICK), 100e6, random_requests(60, seed=3))
    assert broken.value.rule == "owner"


@pytest.mark.parametrize("pads", [0, 2])
def test_data_taken_a_cycle_beside_the_latency_are_found(pads):
    with pytest.raises(AssertionError):
        play(SdramController(TAGS, 100e6, QUICK, 1), 100e6, random_requests(20, seed=3), pads=pads)


@pytest.mark.parametrize("clock_hz", [25e6, 50e6, 65e6, 100e6, 133e6])
def test_the_clock_of_the_chip_fits_both_ways(clock_hz):
    """Time windows in nanoseconds after the edge at which a command leaves; the chip's edge belongs
    to that command.
    """
    chip, period, phase = SdramChip(), 1e9 / clock_hz, clock_phase(clock_hz)
    edge = phase.degrees / 360 * period
    assert chip.setup < edge < period - chip.hold
    taken = phase.cycles * period - PAD_DELAY
    assert edge + chip.access + phase.margin <= taken + 1e-6
    assert taken + phase.margin <= edge + period + chip.output_hold + 1e-6
    assert phase.margin > 1.5


def test_a_clock_without_a_phase_is_refused():
    with pytest.raises(ValueError, match=r"at 400 MHz the chip's data are not stable at any phase"):
        clock_phase(400e6)


def test_the_pads_are_those_of_a_board():
    """Every pin has a register in its pad; only the clock's register uses both edges."""

    def describe(m, platform):
        m.domains.sdram = ClockDomain(reset_less=True)
        m.d.comb += ClockSignal("sdram").eq(ClockSignal())
        m.submodules.controller = controller = SdramController(TAGS, 25e6)
        m.submodules.pads = pads = SdramPads(platform.request("sdram", dir="-"), "sdram")
        connect(m, controller.bus, pads.bus)

    cells = Counter(re.findall(r"cell \\(\w+)", on_ulx3s(describe)))
    pins = 13 + 2 + 2 + len(("cke", "cs", "ras", "cas", "we")) + 16
    assert (cells["OFS1P3DX"], cells["IFS1P3DX"], cells["ODDRX1F"]) == (2 * pins + 1, 16, 1)
