"""The issue unit: selections against the model of its rules, and the rate of fetch and issue
connected.
"""

import itertools
from dataclasses import replace
from functools import partial

import pytest

from rtl.isa.control_code import ControlCode
from rtl.layouts import InstructionKind as Kind
from rtl.layouts import Policy, WaitReason, kinds_where
from rtl.params import SmParams
from sim.checks.testbench import Bench
from testbench import simulation
from testbench.project.test_manual import DOCS, table
from testbench.scheduler import issue_model, tb_scheduler
from testbench.scheduler.issue_driver import WILLING, Behaviour, IssueDriver
from testbench.scheduler.issue_programs import MIXED, random_program, same_program
from testbench.scheduler.operation_streams import OPERATION_STREAMS
from testbench.scheduler.serial_issue import Chances, SerialIssueDriver
from testbench.simulation import failure

passes = partial(simulation.passes, "scheduler")
SERIAL = replace(tb_scheduler.SERIAL, warps=4)


def test_a_warp_issues_as_soon_as_the_rules_let_it_and_no_sooner():
    checks = passes(tb_scheduler.check_rules, 1).checks
    assert checks["instructions and operations, random"] > 800
    assert checks["flow results that wait to redirect fetch"] > 10
    assert all(checks[f"reasons of warps, {reason.name}"] > 20 for reason in WaitReason)


def test_scoreboards_collections_and_counters_that_go_both_ways():
    passes(tb_scheduler.check_edges)


def test_each_policy_selects_the_warp_that_it_says():
    passes(tb_scheduler.check_policies)


def test_no_ready_warp_waits_for_ever():
    passes(tb_scheduler.check_waits)


def test_operations_and_instructions_alternate():
    passes(tb_scheduler.check_operations)


def test_a_warp_that_waits_at_a_limit_continues_however_busy_others_are():
    passes(tb_scheduler.check_limits)


def test_an_instruction_waits_for_the_stall_count_before_it():
    passes(tb_scheduler.check_stalls)


def test_an_event_lets_the_next_instruction_issue_after_the_documented_cycles():
    passes(tb_scheduler.check_latencies)


def test_warps_share_the_issue_slots_at_the_documented_rates():
    report = passes(tb_scheduler.check_rates)
    rates = {row[0]: f"{row[-1]:.2f}" for row in report.tables[0][1][1:]}
    page = dict(table(DOCS / "benchmarks.md", "## Fetch and issue"))
    gap, _ = report.figures["cycles from a taken branch without a guard to its target"]
    assert page == {
        "cycles from a taken branch without a guard to its target in the cache": f"{gap:g}",
        "instructions a cycle, loops of 24 additions, 8 warps, stall 6, 32 lanes": rates[
            "additions, 32 lanes"
        ],
        "the same with stall 1": rates["additions, stall 1, 32 lanes"],
        "the same with stall 6 and constant operands": rates["additions of constants, 32 lanes"],
        "the same with stall 6, 8 lanes: four beats an instruction": rates["additions, 8 lanes"],
        "pushes, 8 warps": rates["pushes"],
        "pushes, one warp; additions with stall 1, one warp, 32 lanes": (
            f"{rates['pushes, one warp']}; {rates['additions of one warp, 32 lanes']}"
        ),
    }


def other_kind(kind, **changes):
    """The issue model with another rule for a kind."""
    return pytest.param(
        lambda monkeypatch: monkeypatch.setitem(
            issue_model.KIND_RULES, kind, replace(issue_model.KIND_RULES[kind], **changes)
        ),
        id=f"{kind.name}-{[*changes]}",
    )


def other_number(name, change):
    """The issue model with one of its constants changed."""
    return pytest.param(
        lambda monkeypatch: monkeypatch.setattr(
            issue_model, name, change(getattr(issue_model, name))
        ),
        id=name,
    )


@pytest.mark.parametrize(
    "change",
    [
        other_number("APART", lambda apart: apart + 1),
        other_number("COLLECTING", lambda cycles: cycles + 4),
        other_number("SURE", lambda cycles: 4),
        other_number("PATIENCE", lambda cycles: 3),
        other_kind(Kind.PUSH, silent=False),
        other_kind(Kind.MEMORY, silent=True),
        other_kind(Kind.FLOW, after=None),
        other_kind(Kind.LANES, after="drained"),
        other_kind(Kind.CONVERSION, before=frozenset({"complete"})),
        other_kind(Kind.NOTHING, before=frozenset({"complete"})),
        other_kind(Kind.NOTHING, lanes=True),
        other_kind(Kind.DEPENDENCY, unit="barrier"),
    ],
)
def test_another_rule_is_seen(monkeypatch, change):
    monkeypatch.setattr(issue_model, "KIND_RULES", dict(issue_model.KIND_RULES))
    change(monkeypatch)

    def body(bench: Bench) -> None:
        for _ in range(3):
            IssueDriver(
                bench, SmParams(warps=4), random_program(bench.random), Behaviour(room=0.95)
            ).run(600)
        tb_scheduler.check_edges(bench)

    assert failure("scheduler", body)


@pytest.mark.parametrize(
    "reason", [reason for reason in WaitReason if reason is not WaitReason.READY]
)
def test_another_reason_is_seen(reason):
    """A warp that waits for this reason but is reported as ready is detected."""

    def body(bench: Bench) -> None:
        driver = IssueDriver(
            bench, SmParams(warps=4, lanes=8), random_program(bench.random), Behaviour(holds=0.02)
        )
        check = driver.waited.check
        driver.waited.check = lambda reasons, inputs: check(
            [WaitReason.READY if each is reason else each for each in reasons], inputs
        )
        driver.run(1500)

    assert ", not READY" in failure("scheduler", body)


@pytest.mark.parametrize("policy", list(Policy))
def test_another_policy_is_seen(policy):
    def body(bench: Bench) -> None:
        program = same_program(Kind.LANES, ControlCode(stall=1))
        driver = IssueDriver(
            bench, SmParams(warps=8, lanes=4), program, replace(WILLING, policy=policy)
        )
        step = driver.model.step

        def with_other_policy(inputs, selection):
            return step(
                replace(inputs, policy=next(other for other in Policy if other is not policy)),
                selection,
            )

        driver.model.step = with_other_policy
        driver.run(500)

    assert "goes before" in failure("scheduler", body)


@pytest.mark.parametrize(
    "chances",
    [
        Chances(),
        Chances(holds=0.02, injects=0.01, ends=0.3),
        Chances(room=0.5, launches=0.05, operations=0.9),
        Chances(policy=Policy.ROUND_ROBIN, branches=0.1),
        Chances(ends=0.9, launches=1.0, operations=0.9),
    ],
)
def test_a_serial_machine_has_one_instruction_under_way(chances):
    def body(bench: Bench) -> None:
        driver = SerialIssueDriver(
            bench, SERIAL, random_program(bench.random, dict.fromkeys(MIXED, 1)), chances
        )
        driver.run(3000)
        kinds = {kind for _, _, kind in driver.selected}
        bench.expect(
            "kinds that were selected", kinds >= kinds_where(lambda rule: not rule.injected), True
        )
        bench.expect("operations that passed", set(driver.operations), set(OPERATION_STREAMS))
        if chances.policy is Policy.ROUND_ROBIN:
            bench.expect(
                "a warp waits for one instruction of each other one",
                driver.passed < SERIAL.warps,
                True,
            )

    passes(body)


def test_a_serial_machine_changes_warps_at_flow_instructions_if_it_is_greedy():
    """It changes warps only at flow instructions, also with requests of other warps."""

    def body(bench: Bench) -> None:
        driver = SerialIssueDriver(
            bench,
            SERIAL,
            random_program(bench.random, {Kind.LANES: 3, Kind.FLOW: 1}),
            Chances(room=1.0, ends=0.0, launches=1.0),
        )
        driver.run(3000)
        late = [
            (kind, warp == other)
            for (cycle, warp, kind), (_, other, _) in itertools.pairwise(driver.selected)
            if cycle > 300
        ]
        bench.expect(
            "whether the same warp goes on behind each kind",
            set(late),
            {(Kind.LANES, True), (Kind.FLOW, False)},
        )

    passes(body)
