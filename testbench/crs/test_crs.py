"""The testbench of the call/return stack: its short form, its waveform, and faults that it must
detect.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pywellen
from vcdvcd import VCDVCD

from sim.checks.testbench import run
from sim.engine import CompiledEngine
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from testbench import simulation
from testbench.crs.limits import TOKEN_CYCLES
from testbench.crs.memory import StackMemory
from testbench.crs.programs import requests_of
from testbench.crs.reference import StackReference
from testbench.crs.speed import check_rate
from testbench.crs.tb_crs import PARTS, RECURSIVE, check_directed, check_recursion
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import RUNS, build
from testbench.project.test_manual import DOCS, table
from testbench.simulation import ENGINE

PERIOD = 10
"""Clock period in nanoseconds."""
COMPARED = 150
"""Number of requests of the first warp whose traces are compared; the waveform has more."""


def failure(part, **options):
    """The message with which a part of the testbench fails; None if it passes."""

    def body(bench):
        part(bench)

    return run("crs", body, options.pop("engine", ENGINE), **options).failure


@pytest.mark.parametrize(
    "part", [part for part in PARTS if part != "recursion"]
)  # that is the waveform's
def test_the_hardware_does_what_a_list_does(part):
    assert failure(PARTS[part]) is None


def test_warps_share_the_stack_at_the_documented_rate():
    (rate, _), *_ = simulation.passes("crs", check_rate).figures.values()
    rates = {row[0]: row[1] for row in table(DOCS / "benchmarks.md", "## The flow unit", "rate")}
    assert rates["requests to the stack, 8 warps that push and pop"] == f"{rate:.2f} a cycle"
    assert rates["unwind on chip"] == f"a token in {TOKEN_CYCLES} cycles"


@pytest.fixture(scope="module")
def waveform(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("waveform") / "crs.vcd"
    assert failure(check_recursion, vcd=path) is None
    return path


@pytest.fixture(scope="module")
def retired() -> list[Retirement]:
    """The first retired instructions of the first recursive kernel that use the stack."""
    machine = WarpModel(build(RUNS[RECURSIVE[0]], "O3"), warps=1)
    records = []
    while sum(len(requests_of(record)) for record in records) < COMPARED:
        record = machine.step()
        assert record is not None
        if requests_of(record):
            records.append(record)
    return records


def test_the_waveform_names_the_kinds_of_tokens_as_the_kernel_uses_them(waveform, retired):
    wave = pywellen.Waveform(str(waveform))  # pyright: ignore
    signals = {variable.full_name: variable.signal for variable in wave.all_vars()}
    last = max(time for time, _ in next(v for v in wave.all_vars() if v.full_name == "crs.clk").tv)

    def at(name, time):
        return signals[f"crs.warp0.{name}"].value_at(time)

    shown = [
        at("kind", time)
        for time in range(0, last, PERIOD)
        if at("resume", time) or (at("taken", time) and at("operation", time) in ("PUSH", "CALL"))
    ]
    kinds = []
    for record in retired:
        kinds += [token.kind.name for token in (*record.pushed, *record.popped[-1:])]
    assert set(kinds) == {"RETURN", "DIVERGE"}
    assert shown[: len(kinds)] == kinds


def test_the_waveform_shows_depth_and_active_threads_as_the_kernel_has_them(waveform, retired):
    wave: Any = VCDVCD(str(waveform))
    depths = [int(value, 2) for _, value in wave["crs.warp0.depth"].tv]
    expected = [0]
    for record in retired:
        below = record.depth_after - len(record.pushed)
        expected += [below + pushed for pushed in range(1, len(record.pushed) + 1)] or [
            record.depth_after
        ]
    assert len(set(expected)) > 5
    assert depths[: len(expected)] == expected
    active = [int(value, 2) for _, value in wave["crs.warp0.active"].tv]
    assert {record.before.active for record in retired} <= set(active)


def test_the_save_file_shows_what_is_there(waveform):
    names = {variable.full_name for variable in pywellen.Waveform(str(waveform)).all_vars()}  # pyright: ignore
    shown = [
        line.split()[1].partition("[")[0]
        for line in waveform.with_suffix(".gtkw").read_text().splitlines()
        if line.startswith("+{")
    ]
    assert len(shown) > 4 * 15
    assert set(shown) <= names


@needs_compiled
def test_both_engines_write_the_same_waveform(waveform, tmp_path):
    path = tmp_path / "crs.vcd"
    assert failure(check_recursion, engine=CompiledEngine, vcd=path) is None
    assert path.read_bytes() == waveform.read_bytes()


def test_another_outcome_is_found(monkeypatch):
    honest = StackReference.apply

    def one_mask_wrong(self, request):
        outcome = honest(self, request)
        return replace(outcome, mask=outcome.mask ^ 1 << 31) if outcome.mask == 1 << 7 else outcome

    monkeypatch.setattr(StackReference, "apply", one_mask_wrong)
    assert "mask" in (failure(check_directed) or "")


def test_another_byte_in_memory_is_found(monkeypatch):
    honest = StackMemory.write

    def one_byte_wrong(self, address, content):
        honest(self, address, bytes(content[:-1]) + b"\x80")  # an undefined byte that must be zero

    monkeypatch.setattr(StackMemory, "write", one_byte_wrong)
    assert " in memory" in (failure(check_directed) or "")


def test_a_line_that_is_lost_is_found(monkeypatch):
    monkeypatch.setattr(StackMemory, "read_number", lambda _memory, _address, _size: 0)
    assert failure(check_directed) is not None
