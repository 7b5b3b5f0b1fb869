"""Theorems about the hardware: how they are found and refused; the short ones are proved, with
their faults.
"""

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assert, Const, Elaboratable, Module, Signal
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory

from sim.checks import prove
from sim.checks.formal import convert
from sim.checks.formal.fault import Fault, InjectionError
from sim.checks.formal.prover import ask, missing_prover
from sim.checks.formal.surroundings import ShownQueue, claim, inside, presume, silenced
from sim.checks.formal.theorem import load
from sim.checks.run_tb import ROOT
from testbench.project.test_manual import DOCS, table
from testbench.refusal import refused
from testbench.simulation import simulate

MISSING = missing_prover()
KNOWN = prove.theorems()
PAGE = {
    re.findall(r"\w+", row[0])[0]: row[2:] for row in table(DOCS / "proofs.md", "## What is proved")
}
"""The row of each theorem in the document: hardware, induction over, covers, faults."""
SHORT = ("error_status",)
"""Theorems that are proved in seconds; ``python -m sim.prove`` proves all of them."""


def test_a_folder_of_other_files_keeps_no_proof(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prove, "missing_prover", lambda: None)
    monkeypatch.setattr(prove, "_prove", lambda options, folder, paths: True)
    assert prove.main(["rtt", "--keep", str(tmp_path)]) == 0
    assert prove.main(["rtt", "--keep", str(tmp_path)]) == 0
    (tmp_path / "prove_error_status").mkdir()
    (tmp_path / "prove_error_status" / "notes").write_text("kept")
    assert "did not make this folder" in refused(
        capsys, prove.main, ["error_status", "--keep", str(tmp_path)]
    )


def test_theorems_are_listed_with_their_titles(capsys):
    assert prove.main(["--list"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed.keys() == KNOWN.keys() >= {"error_status", "dispatch_queue", "rtt"}
    assert [title for title in listed.values() if not title.endswith(".")] == []
    assert prove.main(["--list", "--short"]) == 0
    short = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert short == {name for name, path in KNOWN.items() if not load(path).long}


@pytest.mark.parametrize("name", KNOWN)
def test_faults_stand_once_in_the_source(name):
    """Otherwise a fault could be checked on hardware without it."""
    theorem = load(KNOWN[name])
    assert theorem.faults
    for fault in theorem.faults:
        source = Path(*fault.module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        assert fault.applied(source) != source


@pytest.mark.parametrize("name", KNOWN)
def test_theorems_and_their_examples_elaborate(name, tmp_path):
    """Theorems with long proofs are elaborated as well, so that a changed port is noticed."""
    command = [sys.executable, "-W", "ignore", "-m", "sim.checks.formal.convert"]
    done = subprocess.run(
        [*command, KNOWN[name], tmp_path / "theorem.il", "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    netlist = (tmp_path / "theorem.il").read_text()
    covers = netlist.count('FLAVOR "cover"')
    assert PAGE[name][2] == f"{covers}"


def test_the_queue_that_shows_its_places_does_what_the_library_s_does():
    """A theorem uses it in place of the library's queue; their outputs are equal in every cycle."""
    random, m = Random(3), Module()
    queues = [SyncFIFO(width=4, depth=3), ShownQueue(width=4, depth=3)]
    m.submodules += queues
    seen = set()

    async def testbench(ctx):
        for _ in range(400):
            written, taken, word = (
                random.random() < 0.5,
                random.random() < 0.5,
                random.randrange(16),
            )
            for queue in queues:
                for port, value in (
                    (queue.w_en, written),
                    (queue.r_en, taken),
                    (queue.w_data, word),
                ):
                    ctx.set(port, value)
            theirs, ours = (
                (
                    ctx.get(queue.w_rdy),
                    ctx.get(queue.r_rdy),
                    ctx.get(queue.level),
                    ctx.get(queue.r_data) if ctx.get(queue.r_rdy) else None,
                )
                for queue in queues
            )
            assert ours == theirs
            seen.add((ours[2], written, taken))
            await ctx.tick()

    simulate(m, testbench)
    assert len(seen) == 16


def test_a_fault_that_is_not_there_is_refused():
    with pytest.raises(InjectionError, match="'c' is in its source 0 times, not once"):
        Fault("rtl.wires", "c", "d").applied("a b")
    with pytest.raises(InjectionError, match="2 times"):
        Fault("rtl.wires", "a", "d").applied("a a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], f"no theorem nothing: there are {', '.join(KNOWN)}"),
        (["rtt", "--depth", "0"], "--depth must be at least 1, not 0"),
        (["rtt", "--workers", "-1"], "--workers must be at least 1, not -1"),
    ],
)
def test_bad_arguments_get_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        prove.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"python -m sim.prove: {message}\n"


def test_missing_tools_are_named(monkeypatch, capsys):
    monkeypatch.setattr("sim.checks.formal.prover.find_spec", lambda package: None)
    with pytest.raises(SystemExit, match="2"):
        prove.main(["rtt"])
    assert capsys.readouterr().err == (
        "python -m sim.prove: the extra 'formal' is not installed: pip install -e '.[formal]'\n"
    )


def test_long_theorems_are_left_out(monkeypatch):
    proved = []
    monkeypatch.setattr(prove, "missing_prover", lambda: None)

    def none_of(_work, asked, *_, workers):
        proved.extend(question.theorem for (question,) in asked)
        yield from ()

    monkeypatch.setattr(prove, "results_of", none_of)
    assert prove.main(["--short", "--workers", "3"]) == 0
    assert (
        set(proved) == {name for name, path in KNOWN.items() if not load(path).long} < KNOWN.keys()
    )


def test_the_page_of_theorems_has_their_depths_their_faults_and_those_that_take_long():
    loaded = {name: load(path) for name, path in KNOWN.items()}
    assert PAGE.keys() == loaded.keys()
    for name, (_, depth, _, faults) in PAGE.items():
        assert depth.split()[0] == f"{loaded[name].depth}", name
        assert faults == f"{len(loaded[name].faults)}", name
    text = (DOCS / "proofs.md").read_text(encoding="utf-8")
    (long,) = re.findall(r"\n\n(`[^\n]*(?:\n[^\n]+)*?) take minutes", text)
    takes_long = {name for name, theorem in loaded.items() if theorem.long}
    assert set(re.findall(r"`(\w+)`", long)) == takes_long


def test_assertions_of_a_part_are_assumed_or_left_out():
    class AssertingUnit(Elaboratable):
        def elaborate(self, platform):
            m = Module()
            m.d.sync += Assert(Const(1), "promised")
            return m

    def properties(add):
        m = Module()
        add(m)
        return set(re.findall(r'FLAVOR "(\w+)"', rtlil.convert(m, ports=[], platform="formal")))

    assert properties(lambda m: m.submodules.__setattr__("part", AssertingUnit())) == {"assert"}
    assert properties(lambda m: presume(m, "part", AssertingUnit())) == {"assume"}
    assert (
        properties(lambda m: m.submodules.__setattr__("part", silenced(AssertingUnit()))) == set()
    )


def test_memories_that_are_written_begin_with_anything():
    """Therefore a theorem holds for any initial content of them; a memory that is never written has
    its initial content.
    """
    m = Module()
    m.submodules.written = written = Memory(shape=4, depth=2, init=[1, 2])
    m.submodules.constant = constant = Memory(shape=4, depth=2, init=[3, 4])
    write, port = written.write_port(), Signal(4)
    ports = [each.read_port(domain="comb") for each in (written, constant)]
    m.d.comb += [write.en.eq(1), port.eq(ports[0].data ^ ports[1].data)]
    text = rtlil.convert(m, ports=[port], platform="formal")
    assert re.findall(r"connect \\DATA 8'(\d+)", text) == ["00100001", "01000011"]
    assert re.findall(r"connect \\DATA 8'(\d+)", convert.without_contents(text)) == ["01000011"]


def test_what_a_part_names_is_known_by_method():
    class NamingUnit(Elaboratable):
        def elaborate(self, platform):
            m = Module()
            count = Signal(3)
            self._more(m, count)
            return m

        def _more(self, m, number):
            count = Signal()
            m.d.sync += count.eq(number == 2)

    m, before = Module(), sys.getprofile()
    m.submodules.part, names = inside(NamingUnit())
    assert (len(names["elaborate"]["count"]), len(names["_more"]["count"])) == (3, 1)
    assert names["_more"]["number"] is names["elaborate"]["count"]
    claim(m, names["_more"]["count"] == 0, "it is never two")
    assert 'FLAVOR "assert"' in rtlil.convert(m, ports=[], platform="formal")
    assert sys.getprofile() is before


def test_examples_are_made_instead(tmp_path):
    path, outs = (
        tmp_path / "prove_counter.py",
        {which: tmp_path / which for which in ("all", "examples")},
    )
    path.write_text(
        COUNTER.replace("faults=()", "faults=(), examples=lambda: Counter(2)"), encoding="utf-8"
    )
    for which, out in outs.items():
        convert.main([str(path), str(out), which])
    assert [
        f"wire width {bits}" in outs[which].read_text(encoding="utf-8")
        for which, bits in (("all", 4), ("examples", 2))
    ] == [True, True]
    assert "wire width 4" not in outs["examples"].read_text(encoding="utf-8")


@pytest.mark.skipif(MISSING is not None, reason=f"sim.prove: {MISSING}")
@pytest.mark.parametrize("name", SHORT)
def test_a_short_theorem_holds_and_sees_its_faults(name, capsys):
    assert prove.main([name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(load(KNOWN[name]).faults)
    assert all(" yes " in line for line in lines)


@pytest.mark.skipif(MISSING is not None, reason=f"sim.prove: {MISSING}")
def test_a_false_theorem_is_reported(tmp_path):
    """The theorem is too strong: it is about a counter that reaches 3."""
    path = tmp_path / "prove_counter.py"
    path.write_text(COUNTER, encoding="utf-8")
    holds, happens = ask(path, load(path), tmp_path / "work")
    assert (holds.right, holds.explanation) == (False, "prove_counter.py:16")
    assert (happens.right, happens.explanation) == (False, "prove_counter.py:17")


@pytest.mark.skipif(MISSING is not None, reason=f"sim.prove: {MISSING}")
def test_a_step_checks_each_assertion(tmp_path):
    """A counter counts up to 32. The assertion that it is never 50 can't be proved without this
    fact; with a fault it counts up to 50, too far from reset to be reached by the base case.
    """

    def answers(text):
        path = tmp_path / "prove_wraps.py"
        path.write_text(text, encoding="utf-8")
        return [(each.right, each.explanation) for each in ask(path, load(path), tmp_path / "work")]

    assert answers(WRAPS) == [(True, ""), (True, ""), (True, "")]
    alone = WRAPS.replace('        claim(m, count <= API_CALL_LIMIT, "it wraps")\n', "\n")
    assert answers(alone) == [(False, "prove_wraps.py:16"), (True, ""), (True, "")]
    assert answers(WRAPS.replace("cover_depth=4", "cover_depth=2"))[1] == (
        False,
        "prove_wraps.py:17",
    )


WRAPS = """
from amaranth.hdl import Elaboratable, Module, Mux, Signal
from rtl.isa.tokens import API_CALL_LIMIT
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import can_happen, claim, no_reset
from sim.checks.formal.theorem import Theorem

class Counter(Elaboratable):
    def elaborate(self, platform):
        m = Module()
        no_reset(m)
        count = Signal(6)
        m.d.sync += count.eq(Mux(count == API_CALL_LIMIT, 0, count + 1))
        claim(m, count <= API_CALL_LIMIT, "it wraps")

        claim(m, count != 50, "50 is never reached")
        can_happen(m, count == 2, "two is")
        return m

THEOREM = Theorem(Counter, depth=1, cover_depth=4, split=True, faults=(
    Fault("rtl.isa.tokens", "API_CALL_LIMIT = 32", "API_CALL_LIMIT = 50"),))
"""
COUNTER = """
from amaranth.hdl import Elaboratable, Module, Signal
from sim.checks.formal.surroundings import can_happen, claim, no_reset
from sim.checks.formal.theorem import Theorem

class Counter(Elaboratable):
    def __init__(self, bits=4):
        self.count = Signal(bits)

    def elaborate(self, platform):
        m = Module()
        no_reset(m)
        count = self.count
        m.d.sync += count.eq(count + 1)

        claim(m, count != 3, "three is never reached")
        can_happen(m, count == 12, "twelve is, but not within ten cycles")
        return m

THEOREM = Theorem(Counter, depth=5, cover_depth=10, faults=())
"""
