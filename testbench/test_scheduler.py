"""The issue unit: selections against the model of its rules, and the speed of fetch and issue joined."""

from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.issue import IssueUnit, Policy
from rtl.params import PRESETS, SmParams
from sim.engine import PysimEngine
from sim.testbench import Bench, run
from testbench import issue_model, tb_scheduler
from testbench.issue_driver import Behaviour, IssueDriver
from testbench.issue_programs import random_program


def passes(body, seed=0):
    report = run("scheduler", body, PysimEngine, seed=seed)
    assert report.passed, report.failure
    return report


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_converts_for_every_preset(preset):
    assert rtlil.convert(IssueUnit(preset))


def test_rules():
    assert passes(tb_scheduler.check_rules, 1).checks["instructions and operations, random"] > 800


def test_scoreboards_are_seen_up_after_two_cycles_and_collections_after_four():
    passes(tb_scheduler.check_edges)


def test_policies():
    passes(tb_scheduler.check_policies)


def test_no_ready_warp_waits_for_ever():
    passes(tb_scheduler.check_waits)


def test_rates():
    passes(tb_scheduler.check_rates)


def other_rule(name, change):
    """The model with another rule in the place of one of its own."""
    return pytest.param(name, change, id=name)


@pytest.mark.parametrize(("name", "change"), [
    other_rule("RISE", lambda rise: rise + 1), other_rule("LANES", lambda kinds: kinds[:1]),
    other_rule("SILENT", lambda kinds: kinds[1:]), other_rule("COLLECTING", lambda cycles: cycles + 1),
    other_rule("FLOW", lambda kinds: kinds[:-1]), other_rule("FAVOUR_INTERVAL", lambda interval: interval // 2)])
def test_another_rule_is_seen(monkeypatch, name, change):
    monkeypatch.setattr(issue_model, name, change(getattr(issue_model, name)))

    def body(bench: Bench) -> None:
        tb_scheduler.check_edges(bench)
        program, behaviour = random_program(bench.random), Behaviour(room=0.95)
        IssueDriver(bench, SmParams(warps=4), program, behaviour).run(1500)

    assert not run("scheduler", body, PysimEngine).passed


@pytest.mark.parametrize("policy", list(Policy))
def test_another_policy_is_seen(policy):
    def body(bench: Bench) -> None:
        driver = IssueDriver(bench, SmParams(warps=4), random_program(bench.random), Behaviour(policy=policy))
        step = driver.model.step

        def with_other_policy(inputs):
            return step(replace(inputs, policy=next(other for other in Policy if other is not policy)))

        driver.model.step = with_other_policy
        driver.run(1500)

    assert not run("scheduler", body, PysimEngine).passed


def test_the_kept_save_file_is_the_one_that_is_written(tmp_path):
    report = run("scheduler", tb_scheduler.record, PysimEngine, vcd=tmp_path / "scheduler.vcd")
    assert report.passed, report.failure
    kept = Path(__file__).parent.parent / "waveforms" / "scheduler.gtkw"
    assert (tmp_path / "scheduler.gtkw").read_text() == kept.read_text()
