"""Mutants: which there are, their results, that results are kept; tables of units and
equivalents."""

import ast
import json
import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rtl.fpga.units import UNITS
from sim.checks import mutate
from sim.checks.mutation.covering import covering_tests, importing_tests
from sim.checks.mutation.judge import Plugin
from sim.checks.mutation.mutants import OPERATORS, mutants_of, statement_at
from sim.checks.mutation.store import Store, StoreError
from sim.checks.mutation.trial import Baseline, MutantState, Trial, TrialPlan, baseline, trial
from sim.checks.mutation.units import Unit, reasons_of, units_of

KNOWN = units_of(mutate.ROOT, mutate.FOLDER)

COUNTER = '''
from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

class Counter(Component):
    """Counts 1 to 3 ones, then stops."""

    def __init__(self, params):
        super().__init__({"one": In(1), "count": Out(4)})

    def elaborate(self, platform):
        m = Module()
        limit, spare, top = Signal(2 + 1), 5, self.count[3]
        m.d.comb += limit.eq(3)
        m.d.sync += Assert(self.count != 9, "nine")
        with m.If(self.one & (self.count < limit)):
            m.d.sync += [self.count.eq(self.count + 1)]
        return m
'''
TEST = """
import warnings
from amaranth.sim import Simulator
from rtl.toy import Counter

def test_it_counts():
    dut, done = Counter(None), []
    async def testbench(ctx):
        ctx.set(dut.one, 1)
        while ctx.get(dut.count) != 2:
            await ctx.tick()
        await ctx.tick().repeat(3)
        done.append(ctx.get(dut.count))
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert done == [3]
"""
TEST_NAME = "testbench/toy/test_toy.py::test_it_counts"
TOY = Unit("toy", {"own": ("testbench/toy/test_toy.py",)}, ("toy",), {})


@pytest.fixture
def project(tmp_path) -> Path:
    """One with a unit and its test."""
    root = tmp_path / "project"
    for name, text in {
        "pyproject.toml": "[tool.pytest.ini_options]\nfilterwarnings = ['error']\n",
        "rtl/__init__.py": "",
        "rtl/toy/__init__.py": COUNTER,
        "rtl/fpga/__init__.py": "",
        "rtl/fpga/units.py": "from rtl.toy import Counter\nUNITS = {'toy': Counter}\n",
        "rtl/params.py": "from collections import defaultdict\nPRESETS = defaultdict(int)\n",
        "testbench/toy/test_toy.py": TEST,
        "testbench/mutation/equivalents.toml": "",
        "testbench/mutation/units.toml": "[toy]\nown = ['testbench/toy/test_toy.py']\nnetlists = ['toy']\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def command(project, monkeypatch, tmp_path):
    """The command, in that project."""
    monkeypatch.setattr(mutate, "ROOT", project)
    monkeypatch.setattr(mutate, "FOLDER", project / "testbench" / "mutation")
    return lambda *arguments: mutate.main(
        [
            "--theorems",
            "none",
            "--workers",
            "1",
            "--store",
            str(tmp_path / "kept.sqlite"),
            *arguments,
        ]
    )


def changes(source: str, operator: str, file: str = "rtl/a.py") -> list[str]:
    return [mutant.change for mutant in mutants_of(file, source) if mutant.operator == operator]


@pytest.mark.parametrize(
    ("source", "operator", "expected"),
    [
        ("a = b & c", "operator", ["a = b [-&-]{+|+} c"]),
        ("a = b == c", "operator", ["a = b [-==-]{+!=+} c"]),
        ("a = ~(b | c)", "invert", ["a = [-~-]{++}(b | c)"]),
        ("with m.If(a & b):\n    pass", "negate", ["with m.If([-a & b-]{+(a & b) == 0+}):"]),
        (
            "with m.If(~a):\n    pass",
            "stuck",
            ["with m.If([-~a-]{+0+}):", "with m.If([-~a-]{+1+}):"],
        ),
        ("with m.If(~a):\n    pass", "negate", []),
        ("a = Mux(b, c, d)", "swap", ["a = Mux(b, [-c, d-]{+d, c+})"]),
        ("a = b - (c | d)", "swap", ["a = [-b - (c | d)-]{+(c | d) - (b)+}"]),
        ("a = 7", "constant", ["a = [-7-]{+6+}", "a = [-7-]{+8+}"]),
        ("a = True", "constant", ["a = [-True-]{+False+}"]),
        ("a = b[:N]", "index", ["a = b[:[-N-]{+N + 1+}]", "a = b[:[-N-]{+N - 1+}]"]),
        ("a = Signal(8)", "width", ["a = Signal([-8-]{+7+})"]),
        ("a = Signal(8)", "constant", []),
        (
            "a = {'valid': 1, 'word': B}",
            "width",
            ["a = {'valid': [-1-]{+0+}, 'word': B}", "a = {'valid': 1, 'word': [-B-]{+B - 1+}}"],
        ),
        ("m.d.comb += a.eq(b)", "drop", ["m.d.comb += [-a.eq(b)-]{+[]+}"]),
        (
            "m.d.sync += [a.eq(b), Assert(c)]",
            "drop",
            ["m.d.sync += [[-a.eq(b)-]{+*()+}, Assert(c)]"],
        ),
        ("def f():\n    connect(m, a, b)", "drop", ["[-connect(m, a, b)-]{+None+}"]),
        ("m.d.comb += Assert(a & 1)", "drop", []),
        ("m.d.comb += Assert(a & 1)", "operator", []),
        ("a = f(b, name='c', src_loc_at=1)", "constant", []),
        ("a = (b #  &\n     & c)", "operator", ["[-&-]{+|+} c)"]),
    ],
)
def test_an_operator_makes_these_changes_of_a_source(source, operator, expected):
    assert changes(source, operator) == expected


@pytest.mark.parametrize(
    ("source", "operator", "expected"),
    [
        ("a = b * c", "operator", ["a = b [-*-]{+++} c"]),
        ("a = b // c", "operator", ["a = b [-//-]{+*+} c"]),
        ("a = b in c", "operator", ["a = b [-in-]{+not in+} c"]),
        ("a = b is not c", "operator", ["a = b [-is not-]{+is+} c"]),
        ("a = min(b, c)", "swap", ["a = [-min-]{+max+}(b, c)"]),
        ("a = 0.5", "constant", ["a = [-0.5-]{+1.0+}"]),
        ("a = {'b': 4}", "constant", ["a = {'b': [-4-]{+5+}}", "a = {'b': [-4-]{+3+}}"]),
        ("a = [b for b in c if b]", "stuck", ["a = [b for b in c if [-b-]{+True+}]"]),
        ("while b:\n    c()", "negate", ["while [-b-]{+not (b)+}:"]),
        (
            "match b:\n    case d if d > c:\n        pass",
            "negate",
            ["case d if [-d > c-]{+not (d > c)+}:"],
        ),
        ("def f():\n    return b", "return", ["return [-b-]{+None+}"]),
        ("def f():\n    return None", "return", []),
        ("for b in c:\n    break", "jump", ["[-break-]{+continue+}"]),
        ("for b in c:\n    continue", "jump", ["[-continue-]{+break+}"]),
        ("def f():\n    raise ValueError(b + 1)", "drop", ["[-raise ValueError(b + 1)-]{+pass+}"]),
        ("def f():\n    raise ValueError(b + 1)", "operator", []),
        ("def f():\n    b.c = d", "drop", ["[-b.c = d-]{+pass+}"]),
        ("def f():\n    b += 1", "drop", ["[-b += 1-]{+pass+}"]),
        ("def f(b=3):\n    pass", "constant", ["def f(b=[-3-]{+2+}):", "def f(b=[-3-]{+4+}):"]),
        ("async def f():\n    return b", "return", ["return [-b-]{+None+}"]),
    ],
)
def test_an_operator_makes_these_changes_of_host_code(source, operator, expected):
    assert sorted(changes(source, operator, "sim/a.py")) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""Says 1 + 1."""',
        "a = 'text'",
        "a: int | None",
        "def f(a: b | c) -> b | c:\n    'Says 1.'",
        "A = B | C",
        "__all__ = ['a', 'b'][:1]",
        "if TYPE_CHECKING:\n    a = 1",
        'if __name__ == "__main__":\n    main(1)',
        "import a",
        "assert a + 1",
        "a = f'{b + 1}'",
        "a = 'b' + c",
        "@dataclass(frozen=True)\nclass A:\n    pass",
        "for a in tqdm(b, unit=1):\n    pass",
        "f(timeout=5)",
        "a = cast('b | c', d)",
    ],
)
def test_texts_types_and_messages_of_host_code_are_left_alone(source):
    assert mutants_of("sim/a.py", source) == []


STATEMENTS = """\
@decorated(
    1)
def f(a,
      b):
    if (a and
            b):
        c = (a +
             b)
    elif a:
        pass
    return c


D = 1
"""


@pytest.mark.parametrize(
    ("line", "statement", "function"),
    [
        (2, (1, 4), (1, 11)),
        (4, (1, 4), (1, 11)),
        (6, (5, 6), (1, 11)),
        (8, (7, 8), (1, 11)),
        (9, (9, 9), (1, 11)),
        (11, (11, 11), (1, 11)),
        (14, (14, 14), None),
    ],
)
def test_a_line_is_of_its_innermost_statement(line, statement, function):
    found, around = statement_at(ast.parse(STATEMENTS), line)
    assert (found[0], found[-1]) == statement
    assert (around[0], around[-1]) == function if function else not around


def test_every_kind_of_change_is_made_somewhere():
    assert {
        mutant.operator for unit in KNOWN.values() for mutant in unit.mutants(mutate.ROOT)
    } == OPERATORS.keys()


def test_mutants_are_numbered_alike_and_are_sources_with_one_change():
    for unit in KNOWN.values():
        for file in unit.files(mutate.ROOT):
            source = (mutate.ROOT / file).read_text()
            mutants = mutants_of(file, source)
            assert mutants == mutants_of(file, source)
            assert [mutant.number for mutant in mutants] == list(range(len(mutants)))
            assert (
                len({mutant.key for mutant in mutants})
                == len({mutant.fault for mutant in mutants})
                == len(mutants)
            )
            assert all(mutant.fault.applied(source) != source for mutant in mutants)
            for mutant in mutants[::50]:
                ast.parse(mutant.fault.applied(source))


def test_a_key_and_a_sample_do_not_depend_on_lines():
    before, after = (
        mutants_of("rtl/a.py", f"{lines}{COUNTER}") for lines in ("", "\n# another line\n")
    )
    assert [mutant.key for mutant in before] == [mutant.key for mutant in after]
    assert [mutant.rank(3) for mutant in before] == [mutant.rank(3) for mutant in after]
    assert before[0].line != after[0].line
    assert before[0].rank(3) != before[0].rank(4)


def test_equivalents_are_mutants():
    keys = {mutant.key for unit in KNOWN.values() for mutant in unit.mutants(mutate.ROOT)}
    reasons = reasons_of(mutate.FOLDER)
    assert [key for key in reasons if key not in keys] == []
    assert all(reason.endswith(".") for reason in reasons.values())


def test_a_folder_of_host_code_has_all_its_files():
    for unit in KNOWN.values():
        if unit.is_host:
            folder = mutate.ROOT / "sim" / unit.name
            files = {str(path.relative_to(mutate.ROOT)) for path in folder.rglob("*.py")}
            assert set(unit.files(mutate.ROOT)) == files, unit.name


def test_units_have_their_tests_and_theorems():
    for unit in KNOWN.values():
        assert unit.files(mutate.ROOT)
        assert bool(unit.netlists) != unit.is_host
        assert set(unit.netlists) <= UNITS.keys()
        assert all(
            (mutate.ROOT / test.partition("::")[0]).exists()
            for tests in unit.stages.values()
            for test in tests
        )
    theorems = {
        name: set(unit.theorems)
        for name, unit in units_of(mutate.ROOT, mutate.FOLDER, theorems="all").items()
    }
    assert theorems["crs"] == {
        "conservation",
        "stack",
        "stack_8",
        "stack_limit",
        "stack_limit_8",
        "tokens",
    }
    assert theorems["barrier"] == {"barrier"}
    assert theorems["issue"] >= {"order"}
    assert theorems["flow"] == {"conservation"}
    assert list(units_of(mutate.ROOT, mutate.FOLDER, theorems="short")["crs"].theorems) == [
        "tokens"
    ]
    assert not any(unit.theorems for unit in KNOWN.values())


@pytest.mark.parametrize(
    ("operator", "change", "state", "by"),
    [
        ("operator", "[-<-]{+<=+}", MutantState.KILLED, TEST_NAME),
        ("stuck", "{+0+}", MutantState.HANGS, TEST_NAME),
        ("constant", "Signal([-2-]{+3+} + 1)", MutantState.SURVIVED, ""),
        ("constant", "[-5-]{+6+}", MutantState.EQUIVALENT, ""),
        ("index", "[-3-]{+4+}", MutantState.STILLBORN, "IndexError"),
    ],
)
def test_what_becomes_of_mutants(project, monkeypatch, operator, change, state, by):
    monkeypatch.setattr("sim.checks.mutation.trial._LEAST_CPU", 1.0)
    mutant = next(
        mutant
        for mutant in TOY.mutants(project)
        if mutant.operator == operator and change in mutant.change
    )
    netlists = baseline(project, TOY).netlists if state is MutantState.EQUIVALENT else ("another",)
    found = trial(project, TOY, mutant, TrialPlan((), {"own": 1.0, TEST_NAME: 0.1}, netlists))
    assert (found.state, found.by) == (state, by)
    assert (project / mutant.file).read_text() == COUNTER


HOST = """
LIMIT = 3

class Kept:
    def __init__(self, number):
        self.number = number

KEPT = Kept(11)

def doubled(number):
    if number > LIMIT:
        return LIMIT
    return number * 2

def shared():
    return 12

def unused():
    return 7
"""
HOST_TESTS = """
import subprocess, sys
import pytest
from sim.toy import KEPT, doubled, shared

BUSY = "import time\\nwhile time.process_time() < 0.5: pass\\n"

def test_small():
    assert doubled(1) == 2

def test_large():
    assert doubled(8) == 3

def test_in_a_process_of_its_own():
    child = BUSY + "import sim.toy; assert sim.toy.doubled(1)"
    assert subprocess.run([sys.executable, "-c", child]).returncode == 0

def test_nothing():
    pass

@pytest.fixture(scope="module")
def twelve():
    return shared()

def test_shared_first(twelve):
    assert twelve > 1

def test_shared_second(twelve):
    assert (twelve, KEPT.number) == (12, 11)
"""


def test_host_code_is_shown_to_the_tests_that_run_it(project):
    """Also in processes that they start, and those that share what it has made; no test runs the last function, any may
    depend on what runs at the import."""
    package = (
        f"__path__.append({str(Path(__file__).parents[2] / 'sim')!r})"  # the judge is in it, too
    )
    for name, text in {
        "sim/__init__.py": package,
        "sim/toy/__init__.py": HOST,
        "testbench/host/test_toy.py": HOST_TESTS,
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    unit = Unit("toy", {"own": ("testbench/host",)}, (), {}, ("sim/toy/*.py",), True)
    alone = baseline(project, unit)
    small, large, apart, nothing, first, second = (
        f"testbench/host/test_toy.py::test_{name}"
        for name in (
            "small",
            "large",
            "in_a_process_of_its_own",
            "nothing",
            "shared_first",
            "shared_second",
        )
    )
    every = (apart, large, nothing, first, second, small)
    assert (alone.failed, alone.tests.keys()) == ((), set(every))
    # With the CPU of the process that it starts.
    assert alone.tests[apart] > 0.4 > alone.tests[small]
    for change, tests, state, by in (
        ("[-*-]{+++} 2", (apart, small), MutantState.KILLED, small),
        ("return [-LIMIT-]{+None+}", (large,), MutantState.KILLED, large),
        ("number [->-]{+>=+} LIMIT", (apart, large, small), MutantState.SURVIVED, ""),
        ("LIMIT = [-3-]{+4+}", every, MutantState.KILLED, large),
        ("[-self.number = number-]{+pass+}", every, MutantState.KILLED, second),
        ("return [-12-]{+13+}", every, MutantState.KILLED, second),
        ("return [-7-]{+8+}", (), MutantState.SURVIVED, "no test runs it"),
    ):
        (mutant,) = (mutant for mutant in unit.mutants(project) if change in mutant.change)
        only = covering_tests(mutant, HOST, alone.lines, alone.tests)
        assert only == tests
        found = trial(
            project, unit, mutant, TrialPlan((small, large), alone.tests | alone.stages, (), only)
        )
        assert (found.state, found.by) == (state, by)
    assert (project / "sim/toy/__init__.py").read_text() == HOST


KEEPING = """\
from functools import cache, lru_cache, wraps

@lru_cache(maxsize=4)
def kept():
    return 1

@wraps(kept)
def computed(default=7):
    return 2

@cache
def unused():
    return 3
"""


@pytest.mark.parametrize(
    ("change", "importing", "tests"),
    [
        ("return [-1-]{+2+}", (), ("a::1", "a::2", "b::1")),
        ("return [-1-]{+2+}", ("c::1",), ("a::1", "a::2", "b::1", "c::1")),
        ("return [-2-]{+3+}", ("c::1",), ("b::1",)),
        ("default=[-7-]{+8+}", ("c::1",), ("b::1",)),
        ("return [-3-]{+4+}", ("c::1",), ()),
    ],
)
def test_results_that_a_function_keeps_are_shown_to_all_tests_of_its_file(change, importing, tests):
    from coverage import CoverageData

    data = CoverageData(no_disk=True)
    for context, lines in (("", [1, 3, 4, 7, 8, 11, 12]), ("a", [5]), ("b::1 (call)", [9])):
        data.set_context(context)
        data.add_lines({"/copy/sim/kept.py": lines})
    (mutant,) = (mutant for mutant in mutants_of("sim/kept.py", KEEPING) if change in mutant.change)
    every = ("a::1", "a::2", "b::1", "b::2", "c::1")
    assert covering_tests(mutant, KEEPING, data.dumps(), every, importing) == tests


def test_what_a_file_makes_at_its_import_is_shown_to_the_tests_that_import_it(tmp_path):
    for name, text in {
        "a/test_one.py": "from sim.toy.table import NUMBERS",
        "a/test_two.py": "import sim.toy.table as made",
        "a/test_three.py": "def test(): from sim.toy import table",
        "a/test_four.py": "from sim.toy import other\nimport sim.toy.tables",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    tests = [f"a/test_{name}.py::test" for name in ("one", "two", "three", "four", "none")]
    assert importing_tests("sim/toy/table.py", tests, tmp_path) == tuple(tests[:3])
    assert importing_tests("sim/toy/__init__.py", tests, tmp_path) == (tests[2], tests[3])


MODELS_TEST = """
import os
from pathlib import Path
from time import process_time
from rtl.toy import Counter

def test_models():
    kept = Path(os.environ["WARPSTACK_CACHE"], "model")
    kept.parent.mkdir(exist_ok=True)
    with Path({path!r}).open("a") as output:
        print(Path.cwd(), kept.exists(), file=output)
    began = process_time()
    while not kept.exists() and process_time() < began + 0.8:
        pass
    kept.touch()

def test_that_is_short():
    assert Counter
"""


def test_trials_have_the_copy_and_the_models_of_the_run_without_a_mutant(project, tmp_path):
    output = tmp_path / "output"
    (project / "testbench/toy/test_toy.py").write_text(MODELS_TEST.format(path=str(output)))
    folder = tmp_path / "copies"
    folder.mkdir()
    asked = (
        "from dataclasses import replace; from sim.checks.mutation.trial import *\n"
        "from testbench.mutation.test_mutation import *\n"
        "root, folder, unit = Path(sys.argv[1]), Path(sys.argv[2]), "
        "replace(TOY, netlists=(), keeps_models=True)\n"
    )
    for last in (
        "assert baseline(root, unit, folder).tests",
        "trial(root, unit, unit.mutants(root)[0], TrialPlan((), {'own': 1.0}), folder)",
    ):
        subprocess.run(
            [sys.executable, "-c", asked + last, str(project), str(folder)],
            check=True,
            env={**os.environ, "PYTHONPATH": str(mutate.ROOT)},
        )
    lines = [line.rsplit(" ", 1) for line in output.read_text().splitlines()]
    # The time of a test that compiles a model is the one that it takes with the model.
    assert [line[1] for line in lines] == ["False", "True", "True"]
    assert {line[0] for line in lines} == {str(folder / "0" / "project")}


def test_tests_that_fail_without_a_mutant_are_reported(project, command, capsys):
    test = project / "testbench/toy/test_toy.py"
    test.write_text(TEST.replace("[3]", "[4]"))
    found = baseline(project, TOY)
    assert found.failed == (TEST_NAME,)
    assert found.tests.keys() == set(found.failed)
    with pytest.raises(SystemExit, match="2"):
        command("toy", "--sample", "1")
    assert capsys.readouterr().err == (
        "python -m sim.mutate: toy: without a mutant there fails "
        "testbench/toy/test_toy.py::test_it_counts\n"
    )


def test_the_command_continues_where_it_ended(project, command, capsys, monkeypatch):
    survivor, victim = (
        next(mutant for mutant in TOY.mutants(project) if text in mutant.change)
        for text in ("Signal([-2-]{+3+} + 1)", "[-<-]{+<=+}")
    )
    tried, honest = [], mutate.results_of

    def noted(work, tasks, *arguments, **options):
        return honest(
            work,
            (tried.append(task[2:3] if len(task) == 5 else ()) or task for task in tasks),
            *arguments,
            **options,
        )

    monkeypatch.setattr(mutate, "results_of", noted)
    monkeypatch.setattr(Unit, "mutants", lambda self, root: [survivor])
    assert command() == 1
    output = capsys.readouterr().out
    assert f"survived: {survivor}\n" in output
    assert " ".join(output.splitlines()[1].split()) == "toy all 1 0 0 1 0 0 0 0 0.0 %"
    assert tried == [(), (survivor,)]

    monkeypatch.setattr(Unit, "mutants", lambda self, root: [survivor, victim])
    tried.clear()
    assert command("--least", "50") == 0
    assert (
        " ".join(capsys.readouterr().out.splitlines()[1].split())
        == "toy all 2 1 0 1 0 0 0 0 50.0 %"
    )
    assert tried == [(victim,)]

    tried.clear()
    (project / "testbench/mutation/equivalents.toml").write_text(
        "".join(
            [
                "[[equivalent]]\n",
                *(
                    f"{name} = {json.dumps(text)}\n"
                    for name, text in zip(
                        ("file", "scope", "change", "reason"),
                        (*survivor.key, "No bit of it is missed."),
                        strict=True,
                    )
                ),
            ]
        )
    )
    assert command("--again") == 0
    assert (
        " ".join(capsys.readouterr().out.splitlines()[1].split())
        == "toy all 2 1 0 0 0 1 0 0 100.0 %"
    )
    assert tried == []


def test_mutants_are_listed(command, capsys):
    assert command("--list", "--sample", "3", "--seed", "1") == 0
    assert len(three := capsys.readouterr().out.splitlines()) == 3
    assert command("--list", "--sample", "2", "--seed", "1") == 0
    assert capsys.readouterr().out.splitlines() == three[:2]
    assert all(line.split()[0] in OPERATORS for line in three)
    assert all(" rtl/toy/__init__.py:" in line for line in three)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], f"no unit nothing: there are {', '.join(KNOWN)}"),
        (["crs", "--sample", "0"], "--sample must be at least 1, not 0"),
        (["--workers", "0"], "--workers must be at least 1, not 0"),
        (["--minutes", "0"], "--minutes must be more than 0, not 0"),
        (["--minutes", "nan"], "--minutes must be more than 0, not nan"),
        (["--longest", "0"], "--longest must be more than 0, not 0"),
        (["--least", "101"], "--least must be from 0 to 100, not 101"),
        (
            ["crs", "--sample", "1", "--store", "nowhere/kept"],
            "nowhere/kept: unable to open database file",
        ),
    ],
)
def test_bad_arguments_get_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        mutate.main([*arguments, "--theorems", "none"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"python -m sim.mutate: {message}\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(mutate, "missing_prover", lambda: "no prover")
    with pytest.raises(SystemExit, match="2"):
        mutate.main(["crs"])
    assert capsys.readouterr().err == "python -m sim.mutate: no prover, or --theorems none\n"
    monkeypatch.setattr(
        "sim.support.entry.find_spec", lambda name: None if name == "distributed" else name
    )
    with pytest.raises(SystemExit, match="2"):
        mutate.main(["crs", "--scheduler", "tcp://localhost:1"])
    assert "the extra 'cluster' is not installed" in capsys.readouterr().err


def test_tests_that_killed_soonest_go_first(tmp_path):
    mutant = mutants_of("rtl/toy/a.py", "a = 1")[0]
    store = Store(tmp_path / "kept.sqlite")
    tests, stages = {"slow": 9.0, "quick": 1.0, "middle": 2.0}, {"own": 12.0}
    store.add_baseline(Baseline("toy", tests, stages, (), ("a", "b")), "sources")
    assert store.plan(TOY, "sources") == TrialPlan(
        ("quick", "middle", "slow"), tests | stages, ("a", "b")
    )
    for _ in range(9):
        store.add(
            TOY,
            "digest",
            Trial(mutant, MutantState.KILLED, "slow", 2.0, {"quick": 1.0, "slow": 1.0}),
        )
    assert store.plan(TOY, "sources").order == ("slow", "middle", "quick")
    store.close()
    store = Store(tmp_path / "kept.sqlite")
    assert store.netlists(TOY, "sources") == ("a", "b")
    assert store.netlists(TOY, "others") is None
    kept = store.of(mutant, "digest")
    assert kept is not None
    assert (kept.state, kept.by) == (MutantState.KILLED, "slow")
    assert store.of(mutant, "another text of the file") is None
    store.close()


def test_tests_of_a_file_stay_together():
    plan = {"order": ["b::2", "a::1", "b::1"], "only": None, "limits": {}}
    items = [
        SimpleNamespace(nodeid=name, path=Path(name[0]))
        for name in ("a::1", "a::2", "b::1", "b::2", "c::1")
    ]
    Plugin(plan, print).pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["b::2", "b::1", "a::1", "a::2", "c::1"]


def test_a_store_is_a_database(tmp_path):
    (tmp_path / "other").write_text("no database, but long enough to be looked at" * 9)
    with pytest.raises(StoreError, match="file is not a database"):
        Store(tmp_path / "other")
    with sqlite3.connect(tmp_path / "notes") as other:
        other.execute("CREATE TABLE notes (id INTEGER)")
    with pytest.raises(StoreError, match="another program's database: it has a table notes"):
        Store(tmp_path / "notes")


def test_a_plan_may_leave_out_tests_that_take_long():
    plan = TrialPlan(("a", "b", "c"), {"a": 1.0, "b": 5.0, "c": 2.0, "own": 9.0})
    assert plan.limited_to(math.inf) == plan
    assert plan.limited_to(2.0).only == ("a", "c")
    assert TrialPlan(("a", "b"), {"a": 1.0, "b": 5.0}, (), ("b", "new")).limited_to(4.9).only == (
        "new",
    )


PRELOADING = """
import sys
from pathlib import Path
from sim.checks.mutation.preloading import Preloaded

loaded = Preloaded(["json"], ["preloaded_toy"])
names = [f"preloaded_toy.{name}" for name in ("base", "user", "part.user", "apart")]
before = {name: sys.modules[name] for name in names}
loaded.forget_changed()
assert all(sys.modules.get(name) is before[name] for name in names)
Path("preloaded_toy", "base.py").write_text("VALUE = 20  # changed")
loaded.forget_changed()
from preloaded_toy import apart, user
from preloaded_toy.part import user as other
assert (user.VALUE, other.doubled()) == (20, 40)
assert apart is before["preloaded_toy.apart"]
"""


def test_a_changed_module_and_those_that_import_it_are_imported_again(tmp_path):
    package = tmp_path / "preloaded_toy"
    for name, text in {
        "__init__.py": "",
        "base.py": "VALUE = 1",
        "user.py": "from preloaded_toy.base import VALUE",
        "apart.py": "",
        "broken.py": "import preloaded_toy.nowhere",
        "part/__init__.py": "",
        "part/user.py": "from preloaded_toy import user\ndef doubled():\n    return 2 * user.VALUE",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    path = os.pathsep.join((str(tmp_path), str(mutate.ROOT)))
    subprocess.run(
        [sys.executable, "-c", PRELOADING],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
