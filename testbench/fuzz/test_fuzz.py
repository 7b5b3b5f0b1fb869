"""Campaigns of random programs are reproducible from their seed, stored, continued, and detect
errors.
"""

import os
import re
import signal
import sqlite3
from dataclasses import replace
from itertools import islice

import pytest

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, unpack
from sim.checks import fuzz
from sim.checks.workers import WorkersError, results_of
from sim.engine import CompiledEngine
from sim.launch import Launch
from sim.model.warp import compute
from sim.toolchain.assembly.assembler import assemble
from testbench.engine.designs import needs_compiled
from testbench.fuzz import campaign as campaigns
from testbench.fuzz.cases import Kind, case_of
from testbench.fuzz.coverage import ENTRY, INSTRUCTIONS, STATES, Coverage, page, table
from testbench.fuzz.player import Outcome, Player
from testbench.fuzz.store import Store, StoreError

CAMPAIGN = campaigns.Campaign(148, "tiny", CompiledEngine.name)


def outcome(number, failure=None, **coverage):
    return Outcome(
        number,
        "PROGRAM",
        "ok",
        10,
        100,
        0.5,
        failure,
        Coverage({(name, "whole"): times for name, times in coverage.items()}),
    )


@pytest.fixture(scope="module")
def player():
    return Player(CAMPAIGN.preset, CompiledEngine)


def test_a_case_is_the_same_again_and_others_differ():
    texts = [case_of(1, number).program.text for number in range(20)]
    assert [case_of(1, number).program.text for number in range(20)] == texts
    assert len(set(texts)) == len(texts)
    assert case_of(2, 0) != case_of(1, 0)
    assert {case_of(1, number).kind for number in range(40)} == set(Kind)


def test_every_case_can_be_launched():
    assert all(isinstance(case_of(3, number).launch(), Launch) for number in range(30))


def test_a_store_continues_where_it_ended(tmp_path):
    path = tmp_path / "kept.sqlite"
    store = Store(path, 1, "tiny")
    store.add(outcome(0, IADD=3))
    store.add(outcome(2, "it differs", IADD=1, BRA=2))
    store.add(outcome(2, "it differs", IADD=1, BRA=2))
    store.close()
    store = Store(path, 1, "tiny")
    assert list(islice(store.missing(), 3)) == [1, 3, 4]
    assert store.coverage == {("IADD", "whole"): 4, ("BRA", "whole"): 2}
    assert store.failures == [(2, "it differs")]
    assert store.sums == {"PROGRAM": (2, 20, 200, 1.0)}
    store.close()


def test_a_store_is_of_one_campaign(tmp_path):
    Store(tmp_path / "kept.sqlite", 1, "tiny").close()
    with pytest.raises(StoreError, match="is the campaign of seed 1, preset tiny"):
        Store(tmp_path / "kept.sqlite", 2, "tiny")
    (tmp_path / "other").write_text("no database, but long enough to be looked at" * 9)
    with pytest.raises(StoreError, match="file is not a database"):
        Store(tmp_path / "other", 1, "tiny")


def test_another_programs_database_gets_no_tables(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program's database: it has a table bookmarks"):
        Store(path, 1, "tiny")
    assert path.read_bytes() == before


def test_coverage_is_reported_as_a_table_and_as_a_page():
    coverage = Coverage({("IADD", "whole"): 4321, ("BRA", "spilled"): 2, (ENTRY, "at barrier"): 7})
    text = table(coverage)
    assert f"whole           1 of {len(INSTRUCTIONS) + 1}" in text
    assert re.search(r"\nat barrier +7\n", text)
    assert " BRK " in text
    assert " IADD " not in text
    html = page(coverage, "A <title>", [("failed", "none")])
    assert "A &lt;title&gt;" in html
    assert html.count("<td") == len(STATES) * (len(INSTRUCTIONS) + 1)
    assert "4,321" in html
    assert html.count("<svg") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers must be at least 1, not 0"),
        (["--cases", "0"], "--cases must be at least 1, not 0"),
        (["--case", "-1"], "--case must be at least 0, not -1"),
        (["--minutes", "0"], "--minutes must be more than 0, not 0"),
        (["--minutes", "nan"], "--minutes must be more than 0, not nan"),
        (
            ["--html", "nowhere/page.html"],
            "nowhere/page.html: No such file or directory: there is no folder nowhere",
        ),
    ],
)
def test_bad_arguments_get_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        fuzz.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"python -m sim.fuzz: {message}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sim.support.entry.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        fuzz.main(["--scheduler", "tcp://localhost:1"])
    assert "the extra 'cluster' is not installed" in capsys.readouterr().err


@needs_compiled
def test_a_case_of_each_kind_is_right(player):
    wanted = {
        kind: next(number for number in range(99) if CAMPAIGN.case(number).kind is kind)
        for kind in Kind
    }
    for kind, number in wanted.items():
        found = player.play(CAMPAIGN.case(number))
        assert (found.kind, found.failure) == (kind.name, None)
        assert found.instructions
        assert (
            sum(
                found.coverage[key]
                for key in found.coverage
                if key[1] in ("flat", "on chip", "spilled")
            )
            >= found.instructions
        )


@needs_compiled
def test_a_wrong_reference_is_seen_and_the_program_shrinks(player, monkeypatch, tmp_path):
    """A wrong result of the warp model is detected like one of the hardware, and the failing
    program is minimized.
    """
    right = compute.OPERATIONS["LOP32I"]
    monkeypatch.setattr(
        compute,
        "OPERATIONS",
        {**compute.OPERATIONS, "LOP32I": lambda *arguments: _spoiled(right(*arguments))},
    )
    case = CAMPAIGN.case(
        next(number for number in range(99) if CAMPAIGN.case(number).kind is Kind.PROGRAM)
    )
    found = player.play(case)
    assert found.failure is not None
    assert "LOP32I" in found.failure
    monkeypatch.setattr(campaigns, "_player", lambda preset, engine: player)
    path = campaigns.save(CAMPAIGN, case.number, tmp_path)
    text = path.read_text()
    assert text.startswith(f"// Case {case.number} of seed 148")
    assert len(text.splitlines()) < len(case.program.text.splitlines())
    assert assemble(text, path.name)


def test_a_handler_is_written_beside_its_program(monkeypatch, tmp_path):
    class Shrunk:
        def smallest(self, case):
            return case.program

    monkeypatch.setattr(campaigns, "_player", lambda preset, engine: Shrunk())
    campaign = replace(CAMPAIGN, seed=5)
    case = next(case for case in map(campaign.case, range(99)) if case.kind is Kind.TRAPS)
    path = campaigns.save(campaign, case.number, tmp_path)
    handler = tmp_path / f"fuzz-5-{case.number}-handler.sass"
    assert f"// Its trap handler is {handler.name}.\n" in path.read_text()
    assert assemble(path.read_text(), path.name).sections.keys() >= {".text.k"}
    assert assemble(handler.read_text(), handler.name).sections.keys() >= {".text.handler"}
    assert campaigns.save(campaign, case.number, tmp_path) == path
    for number in (2, 3):
        for file in tmp_path.iterdir():
            file.write_text(f"{file.read_text()}// changed\n")
        again = campaigns.save(campaign, case.number, tmp_path)
        assert again.name == f"fuzz-5-{case.number}~{number}.sass"
        assert f"// Its trap handler is {handler.stem}~{number}.sass.\n" in again.read_text()
        assert len(list(tmp_path.iterdir())) == 2 * number


def test_loosened_control_codes_stall_and_wait_no_less():
    case = next(case for case in map(CAMPAIGN.case, range(99)) if case.codes is not None)
    loose, tight = case.launch(), replace(case, codes=None).launch()
    base, size = tight.memory.regions["program"]
    pairs = [
        (one, other)
        for group in range(base, base + size, GROUP_BYTES)
        for one, other in zip(
            *(
                unpack(launch.memory.read_number(group, INSTRUCTION_BYTES))
                for launch in (loose, tight)
            ),
            strict=True,
        )
    ]
    assert all(
        one.stall >= other.stall and one.wait & other.wait == other.wait for one, other in pairs
    )
    assert any(one.stall > other.stall for one, other in pairs)
    assert any(one.wait != other.wait for one, other in pairs)


def _spoiled(given):
    """Returns the result of an operation with the lowest bit of its word inverted."""
    return replace(given, value=given.value ^ 1)


@needs_compiled
def test_the_command_keeps_what_it_found(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for cases, sums in ((3, 3), (2, 5)):
        assert (
            fuzz.main(
                [
                    "--preset",
                    "tiny",
                    "--seed",
                    "148",
                    "--cases",
                    str(cases),
                    "--workers",
                    "1",
                    "--html",
                    "page.html",
                    "--minutes",
                    "5",
                ]
            )
            == 0
        )
        with sqlite3.connect("fuzz-148-tiny.sqlite") as kept:
            assert kept.execute("SELECT COUNT(*) FROM cases").fetchone() == (sums,)
    output = capsys.readouterr().out
    assert "failed        none" in output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert fuzz.main(["--preset", "tiny", "--seed", "148", "--case", "0"]) == 0
    assert capsys.readouterr().out.startswith("case          0, ")


@needs_compiled
def test_a_cluster_that_loses_a_worker_plays_every_case(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    store, killed = Store(tmp_path / "kept.sqlite", CAMPAIGN.seed, CAMPAIGN.preset), []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:

        def on_outcome(found):
            if not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        campaigns.play(
            CAMPAIGN,
            store,
            300,
            scheduler=cluster.scheduler_address,
            cases=12,
            on_outcome=on_outcome,
        )
    assert killed
    assert sum(cases for cases, *_ in store.sums.values()) == 12
    assert store.failures == []
    store.close()


def test_a_lost_worker_is_reported():
    """The worker's process ends during a task."""
    with pytest.raises(WorkersError, match=r"^workers were lost, their earlier results are kept: "):
        next(results_of(os._exit, iter([(3,)]), lambda: True))


FLOW = (
    "BRX",
    "JMX",
    "JMP",
    "JCAL",
    "PRET",
    "PEXIT",
    "PLONGJMP",
    "LONGJMP",
    "KIL",
    "SAM",
    "RAM",
    "GETCRSPTR",
    "SETCRSPTR",
    "GETLMEMBASE",
    "SETLMEMBASE",
    "B2R",
    "R2B",
    "IDE",
    "BPT",
    "RTT",
    "CCTL",
    "CCTLL",
    "LD",
    "ST",
)


def test_programs_have_flow_of_every_kind():
    programs = [case_of(1, number).program for number in range(150)]
    found = {
        word.split(".")[0]
        for program in programs
        for word in re.findall(
            r"[A-Z][A-Z0-9.]+", "\n".join([program.text, *program.handler_lines])
        )
    }
    assert found >= set(FLOW)


@needs_compiled
def test_traps_are_entered_in_many_states(player):
    coverage, campaign = Coverage(), replace(CAMPAIGN, seed=5)
    for case in [case for case in map(campaign.case, range(26)) if case.kind is Kind.TRAPS]:
        found = player.play(case)
        assert found.failure is None
        coverage += found.coverage
    assert all(
        coverage[ENTRY, state]
        for state in ("whole", "diverged", "flat", "on chip", "partial", "top SYNC")
    )
    assert any(
        times for (name, state), times in coverage.items() if name != ENTRY and state == "in trap"
    )
