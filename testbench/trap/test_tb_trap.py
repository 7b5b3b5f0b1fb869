"""Traps of the whole machine: the short form of the testbench, its table, and faults that it must
detect.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from amaranth.hdl import Fragment

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.params import PRESETS
from sim.engine import CompiledEngine
from sim.machine.hardware import PERIOD
from sim.machine.harness import Harness
from sim.machine.traces import machine_traces
from sim.model.warp.model import WarpModel
from sim.waves import write_save_file
from testbench import simulation
from testbench.engine.designs import needs_compiled
from testbench.project.test_manual import DOCS, table
from testbench.trap import tb_trap
from testbench.trap.case import Debugger
from testbench.trap.cases import CASES
from testbench.trap.driver import TrapDriver
from testbench.trap.injection import Counted
from testbench.trap.programs import kernel, with_handler
from testbench.waves.save_files import marks_of, without_times
from testbench.words import address

WAVEFORMS = Path(__file__).parents[2] / "waveforms"


@pytest.fixture(scope="module")
def driver():
    return TrapDriver(PRESETS["default"], CompiledEngine, always=True)


passes = partial(simulation.passes, "trap", engine=CompiledEngine)

failure_of = partial(simulation.failure, "trap", engine=CompiledEngine)


@needs_compiled
@pytest.mark.parametrize("name", CASES)
def test_each_case_of_traps_passes(driver, name):
    passes(lambda bench: tb_trap.check_cases(bench, driver, [name]))


@needs_compiled
def test_a_handler_may_end_in_front_of_the_instruction_before_where_it_goes_back_to(driver):
    launch = kernel(
        "BRA start",
        "RTT",
        "start:",
        "BPT.TRAP 0x1",
        "MOV R2, c[0x0][out]",
        "MOV R3, c[0x0][out+4]",
        "MOV32I R4, 0x7",
        "STG.E [R2], R4",
        "EXIT",
    )
    launch = replace(launch, trap_handler=address(1))

    async def script(d: Debugger) -> None:
        await d.end(words=[7])

    passes(
        lambda bench: driver.debug(
            bench, "a handler in front", launch, script, "ok", REPORT_MASK_RESET
        )
    )


@needs_compiled
def test_programs_stopped_once(driver):
    passes(lambda bench: tb_trap.check_window(bench, driver, range(300, 1100, 73)))


@needs_compiled
def test_warps_in_every_state_stopped_once(driver):
    passes(lambda bench: tb_trap.check_states(bench, driver, tb_trap.STATES[30::67]))


@needs_compiled
def test_programs_stopped_often(driver):
    passes(lambda bench: tb_trap.check_random_times(bench, driver, 1, 120))


@needs_compiled
def test_random_programs_stopped_often(driver):
    passes(lambda bench: tb_trap.check_random_programs(bench, driver, 6, 12, 200))


@needs_compiled
def test_kernels_stopped_often(driver):
    passes(lambda bench: tb_trap.check_kernels(bench, driver, tb_trap.SHORT[2:5], gap=100))


def test_the_table_names_every_case_once():
    named = [
        name
        for row in table(DOCS / "traps.md", "## What traps do, and the cases that show it")
        for name in row[1].split(", ")
    ]
    assert sorted(named) == sorted(CASES)


def test_the_kept_save_files_of_the_whole_machine_are_those_that_are_written(tmp_path):
    harness = Harness(PRESETS["tiny"])
    Fragment.get(harness, None)  # the harness is inspected, not simulated
    for name in ("sm", "trap", "esr"):
        path = tmp_path / f"{name}.gtkw"
        kept = (WAVEFORMS / path.name).read_text()
        found = dict.fromkeys(marks_of(kept), 100)
        assert found
        write_save_file(
            path,
            path.with_suffix(".vcd"),
            machine_traces(harness),
            period=PERIOD,
            root="sm",
            marked_cycles=found,
        )
        assert without_times(path.read_text()) == without_times(kept)


# Faults that must be detected


@needs_compiled
def test_a_warp_that_does_not_enter_is_found(driver, monkeypatch):
    counts = Counted.counts
    monkeypatch.setattr(Counted, "counts", lambda self, host: [0, *counts(self, host)[1:]])
    failure = failure_of(lambda bench: tb_trap.check_window(bench, driver, [600]))
    assert "stopped at cycle 600: entries by slot" in failure


@needs_compiled
def test_a_handler_that_changes_something_is_found(driver, monkeypatch):
    """In lockstep both sides are affected alike: the testbench must also check the results."""
    monkeypatch.setattr(tb_trap, "HANDLERS", [("MOV32I R4, 0x1", "RTT")] * 2)
    failure = failure_of(lambda bench: tb_trap.check_window(bench, driver, [600]))
    assert "stopped at cycle 600: what it leaves" in failure


def test_threads_have_as_many_registers_as_the_trap_handler_needs():
    launch = with_handler(kernel("BPT.TRAP 0x1", "EXIT"), "MOV32I R47, 0x7", "RTT", registers=48)
    assert launch.registers == 48
    assert WarpModel(launch).run().status == "ok"
