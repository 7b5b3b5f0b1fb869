"""Documented cycles that involve several units are those of the whole machine: operations of the
lanes, trap entry, the phases of the serial machine.
"""

import re
from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import pytest

from rtl.fetch.predecode import constant_of
from rtl.isa.table import FORMS, find
from rtl.layouts import InstructionKind as Kind
from rtl.params import PRESETS, WARP_THREADS
from rtl.serial.fetch.diagram import Decision
from rtl.serial.fetch.walk import InstructionDiagram
from rtl.serial.lane import BYTE_LANE_CYCLES
from rtl.sm import Sm
from sim.checks.benchmarks.machine import LoopKernel, launch_loop
from sim.launch import Buffer, prepare
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from testbench.commands.test_figures import table
from testbench.commands.test_unit_cycles import NUMERALS, cycles, text_of
from testbench.engine.designs import needs_compiled
from testbench.execute.lane_client_driver import GATHERED_CYCLES, WANTED_CYCLES
from testbench.programs import PROGRAMS
from testbench.project.test_manual import DOCS
from testbench.simulation import ENGINE
from testbench.watch import MachineWatch

pytestmark = needs_compiled
LIMIT = 100_000


def loop(
    preset: str, body: str, turns: int, signals: Callable[[Sm], dict[str, Any]]
) -> MachineWatch:
    """Runs a loop on one warp; returns the samples of the signals."""
    watch = MachineWatch(signals)
    hardware = Hardware(PRESETS[preset], ENGINE, watched=watch.watched)
    kernel = LoopKernel("loop", body, directives=".shared 256")
    result = hardware.run(launch_loop(kernel.module(), turns, 1), LIMIT)
    assert result.status == "ok", result
    return watch


# Operations of the lanes

CLIENTS = ("memory", "conversion", "double", "barrier")


def operations(sm: Sm) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for client in CLIENTS:
        port: Any = getattr(sm.core, client).port
        for kind, beat in (("gather", "gathered"), ("write", "wanted")):
            if hasattr(port, kind):
                found[f"{client} {kind} offered"] = getattr(port, kind).valid
                found[f"{client} {kind} ready"] = getattr(port, kind).ready
                found[f"{client} {kind} beat"] = getattr(port.data, beat).valid
    return found


def test_beats_of_the_lanes_come_after_the_cycles_of_the_manual():
    """The lanes in testbenches of units have the same latency."""
    body = "I2I.U32.U32 R10, R4\nDADD R12, R14, R16\nLDS R8, [RZ]\nMUFU.RCP R6, R7\nB2R.RESULT R5"
    watch = loop("default", body, 1, operations)
    delays: dict[str, set[int]] = {"gather": set(), "write": set()}
    for name in [name.removesuffix(" offered") for name in watch.rows[0] if "offered" in name]:
        offered, ready = watch.cycles(f"{name} offered"), set(watch.cycles(f"{name} ready"))
        granted, beats = (
            [cycle for cycle in offered if cycle in ready],
            watch.cycles(f"{name} beat"),
        )
        assert granted, name
        first = beats[:: PRESETS["default"].beats]
        delays[name.split()[1]] |= {
            beat - grant for grant, beat in zip(granted, first, strict=True)
        }
    assert delays == {"gather": {GATHERED_CYCLES}, "write": {WANTED_CYCLES}}
    row = (
        f"gather: beats of registers arrive, the first one {GATHERED_CYCLES} cycles after the grant"
    )
    assert cycles("convert", row) == cycles("convert", "write; two writes") == "1 a beat"
    for unit in ("convert", "double"):
        assert cycles(unit, "from the grant of a write") == f"{WANTED_CYCLES}"


# Traps


def test_a_drained_warp_enters_the_trap_after_the_cycles_of_the_manual():
    def signals(sm: Sm) -> dict[str, Any]:
        trap, issued = sm.core.trap, sm.core.issue.instruction
        return {
            "drained": trap.drained,
            "enter": trap.control.enter,
            "issued": issued.valid,
            "kind": issued.payload.kind,
            "dispatched": trap.dispatch.valid,
            "trapping": trap.state.trapping,
            "inside": trap.inside,
        }

    watch = MachineWatch(signals)
    hardware = Hardware(PRESETS["tiny"], ENGINE, watched=watch.watched)
    program = read_program(str(PROGRAMS / "tour" / "trap.sass"))
    hardware.run(prepare(program, [Buffer("OUT", bytes(256))], block=(64, 1, 1)), LIMIT)
    rows = list(enumerate(watch.rows))
    entered = [cycle for cycle, row in rows if row["issued"] and row["kind"] == Kind.ENTER.value]
    assert len(entered) == 2
    # A warp is drained until its ENTER is in flight.
    ready = [cycle for cycle, row in rows if row["drained"] & row["enter"]]
    first = [cycle for cycle in ready if cycle - 1 not in ready]
    delays = {enter - drained for enter, drained in zip(entered, first, strict=True)}
    assert delays == {int(cycles("trap", "drained of a warp that is to enter").split(",")[0])}
    # The sums that a waveform shows.
    trapping = next(cycle for cycle, row in rows if row["trapping"])
    dispatched = [cycle for cycle, row in rows if row["dispatched"]]
    trap_issued = next(
        cycle for cycle, row in rows if row["issued"] and row["kind"] == Kind.TRAP.value
    )
    inside = next(cycle for cycle, row in rows if row["inside"])
    to_dispatch = cycles("trap", "issue of BPT, RTT, IDE, ENTER or LEAVE")
    assert {dispatched[0] - trap_issued, dispatched[1] - entered[0]} == {int(to_dispatch)}
    assert trapping - trap_issued == int(cycles("trap", "issue of BPT.TRAP"))
    assert entered[0] - trapping == int(cycles("trap", "TRAPPING, after a BPT.TRAP"))
    assert inside - entered[0] == int(cycles("trap", "issue of ENTER: 2"))


# Serial machine

PHASES = ("decode", "start", "scan", "collect", "compute", "gather", "write", "dispatch")
SERIAL_BODY = """\
IADD R4, R5, R6
LDS R8, [RZ]
IADD R4, R4, c[0x0][buffer]
I2I.U32.U32 R10, R4
S2R R11, SR_CTAID.X
MOV R14, RZ
BRX R14 0x0
"""
"""A loop body with each phase and every kind of selection."""


@pytest.fixture(scope="module")
def serial() -> MachineWatch:
    def signals(sm: Sm) -> dict[str, Any]:
        core: Any = sm.core
        phases = core.execute.sequencer.phase
        return {
            **{phase: getattr(phases, phase) for phase in PHASES},
            "issued": core.issue._issues,
            "kind": core.issue._kind,
            "in flight": core.issue._is_busy,
            "word": core.fetch._word,
            "checks registers": core.fetch._predecoder._has_facts,
            **{
                f"{kind} {name}": getattr(getattr(core.memory.port, kind), name)
                for kind in ("gather", "write")
                for name in ("valid", "ready")
            },
            "gather leaves": core.issue.gather.valid,
            "write leaves": core.issue.write.valid,
        }

    return loop("least", SERIAL_BODY, 2, signals)


def phase_cycles(watch: MachineWatch, phase: str) -> int:
    """Returns the length of a phase each time that it occurs."""
    (taken,) = {
        len(list(rows)) for value, rows in groupby(row[phase] for row in watch.rows) if value
    }
    return taken


def test_phases_of_the_serial_machine_take_the_cycles_of_the_manual(serial):
    taken = {phase: phase_cycles(serial, phase) for phase in PHASES}
    lanes = {row[0]: row[2] for row in table(DOCS / "lanes.md", "### A serial machine", "phase")}
    assert lanes.pop("decode, start") == f"{taken['decode'] + taken['start']}"
    each = taken["compute"] // WARP_THREADS
    besides = each - BYTE_LANE_CYCLES
    assert lanes.pop("compute") == f"32 times the lane's cycles and {besides}"
    assert lanes == {phase: f"{taken[phase]}" for phase in lanes}
    assert set(lanes) == {"scan", "collect", "dispatch", "gather", "write"}
    ready = f"stable until the result is ready, {BYTE_LANE_CYCLES} cycles later."
    assert ready in text_of("docs/lanes.md")

    parts = dict(table(DOCS / "serial.md", "## Cycles", "part"))
    assert parts[f"any instruction of the lanes: {each} for each thread"] == f"{taken['compute']}"
    assert parts["reading which threads execute an instruction of another unit"] == lanes["scan"]
    row = parts["gather of registers; write of a unit's results"]
    assert row == f"{taken['gather']}; {taken['write']}"

    for row, phase in (("gather; two gathers", "gather"), ("write; two writes", "write")):
        page = cycles("convert", row, heading="### With one lane")
        assert page == f"{taken[phase] // WARP_THREADS} a thread"


def test_an_operation_of_the_serial_machine_leaves_after_the_cycles_of_the_manual(serial):
    delays = set()
    for kind in ("gather", "write"):
        offered = serial.cycles(f"{kind} valid")
        granted = [cycle for cycle in offered if serial.rows[cycle][f"{kind} ready"]]
        assert granted
        delays |= {serial.first(f"{kind} leaves", cycle) - cycle for cycle in granted}
    (delay,) = delays
    text = text_of("docs/front_end.md")
    assert f"when the lanes are idle (`collecting`), and leaves {NUMERALS[delay]} cycles" in text


def test_a_selection_of_the_serial_machine_takes_the_cycles_of_the_manual(serial):
    sentence = re.search(
        r"selected about (\d+) cycles after the end of the previous one: (\d+) for the choice and the request, "
        r"(\d+) for the read, one for each bit of the word that decides \((\d+) to (\d+) for most forms\), "
        r"(\d+) for its registers, (\d+) for its bank, (\d+) to send it; a constant operand takes (\d+) more\.",
        text_of("docs/front_end.md"),
    )
    assert sentence is not None
    about, choice, read, least, most, registers, bank, send, constant = map(int, sentence.groups())
    params = PRESETS["least"]
    diagram = InstructionDiagram(params.floats, params.doubles)

    def bits(word: int) -> int:
        """Returns the bits of a word that determine its instruction."""
        node, count = diagram.diagram.nodes[diagram.root], 0
        while isinstance(node, Decision):
            node = diagram.diagram.nodes[node.one if word >> node.bit & 1 else node.zero]
            count += 1
        return count

    issued, in_flight = serial.cycles("issued"), set(serial.cycles("in flight"))
    found = []
    for before, cycle in list(pairwise(issued))[len(issued) // 2 :]:
        if serial.rows[before]["kind"] in (Kind.FLOW.value, Kind.FLOW_INDEXED.value):
            continue  # another warp is searched
        form = find(word := serial.rows[cycle]["word"])
        assert form is not None
        end = max(each for each in in_flight if each < cycle)
        reads_constant = constant_of(form) is not None
        expected = choice + read + bits(word) + registers + bank + send
        assert cycle - end == expected + constant * reads_constant
        found.append((cycle - end, reads_constant))
    assert {reads for _, reads in found} == {True, False}
    assert all(abs(taken - about) < 6 for taken, _ in found)
    assert registers == phase_cycles(serial, "checks registers")
    usual = [least <= bits(form.default) <= most for form in FORMS]
    assert sum(usual) > 0.8 * len(usual)
    assert dict(table(DOCS / "serial.md", "## Cycles", "part"))[
        "selection, with the instruction's group in the cache"
    ] == (f"about {about}")
