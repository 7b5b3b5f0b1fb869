"""The command that runs third-party tests: its result for each test, and the page that it writes."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sim.engine.build import missing_tool
from testbench.cuda.numba_tests import main
from testbench.cuda.suite import Outcome, Suite, run_tests, section, test_names, with_section
from testbench.refusal import refused

test_names.__test__ = False  # pytest would take it for a test, by its name
_TESTS = """
import os, time, unittest
class First(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): self.assertEqual(1, 2)
    def test_c(self): self.skipTest("no such device")
    @unittest.expectedFailure
    def test_d(self): self.fail()
    def test_e(self): time.sleep(60)
    def test_f(self): os._exit(3)
    def test_g(self): raise RuntimeError("Call to cuInit results in CUDA_ERROR_UNKNOWN")
class Second(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("not here")
    def test_a(self): pass
class Third(unittest.TestCase):
    def test_a(self): pass
"""
_SUITE = Suite("Cases 1", "pytest", "0", "cases", "cases")


def run(
    tmp_path,
    every=1,
    suite=_SUITE,
    name="cases.test_them",
    text=_TESTS,
    file="test_them.py",
    names=(),
):
    """Returns the result of each test of a file."""
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / file).write_text(text)
    server: Any = SimpleNamespace(name="nobody")
    return list(run_tests(server, sys.executable, suite, name, 3, every, tmp_path, names))


@pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
def test_each_test_has_a_result_even_if_its_process_dies(tmp_path):
    found = {
        one.test.removeprefix("cases.test_them."): (one.outcome, one.reason)
        for one in run(tmp_path)
    }
    assert found == {
        "First.test_a": ("passed", ""),
        "First.test_b": ("failed", "AssertionError: 1 != 2"),
        "First.test_c": ("skipped", "no such device"),
        "First.test_d": ("expected failure", ""),
        "First.test_e": ("too slow", "more than 3 s"),
        "First.test_f": ("failed", "the process ended"),
        "First.test_g": ("failed", "RuntimeError: Call to cuInit results in CUDA_ERROR_UNKNOWN"),
        "Second.test_a": ("skipped", "not here"),
        "Third.test_a": ("passed", ""),
    }


@pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
def test_files_of_pytest_are_run_too(tmp_path):
    suite = Suite("Cases 1", "pytest", "0", "cases", checkout=True)
    text = (
        "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_even(n): assert n % 2 == 0\n"
        "def test_left_out(): pytest.skip('no such device')\n"
    )
    found = run(tmp_path, 2, suite, "cases/test_them.py", text)
    assert [(one.test.partition("::")[2], one.outcome) for one in found] == [
        ("test_even[0]", "passed"),
        ("test_even[2]", "passed"),
        ("test_left_out", "skipped"),
    ]


@pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
def test_only_tests_with_one_of_the_names_are_run(tmp_path):
    found = run(tmp_path, names=("First.test_a", "Third"))
    assert [(one.test.removeprefix("cases.test_them."), one.outcome) for one in found] == [
        ("First.test_a", "passed"),
        ("Third.test_a", "passed"),
    ]


@pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
def test_a_module_that_pytest_would_skip_is_skipped(tmp_path):
    (one,) = run(tmp_path, text="import pytest\npytest.importorskip('nothing_of_that_name')\n")
    assert (one.outcome, one.reason) == (
        "skipped",
        "Skipped: could not import 'nothing_of_that_name': No module named 'nothing_of_that_name'",
    )


@pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
def test_a_module_that_is_not_imported_is_one_failure(tmp_path):
    (one,) = run(tmp_path, text="import nothing_of_that_name\n")
    assert (one.outcome, one.reason) == (
        "failed",
        "ImportError: Failed to import test module: test_them",
    )


def test_one_part_of_the_page_is_rewritten_and_the_others_stay():
    bad = [
        Outcome("cases.test_them.First.test_b", "failed", "1 | 2\nlines"),
        Outcome("cases.a", "passed"),
    ]
    part = section(_SUITE, bad, "A note.")
    assert "| passed, of those that are neither skipped nor expected to fail | 1 of 2 |" in part
    assert "| `test_them.First.test_b` | 1 \\| 2 lines |" in part
    page = with_section("# Page\n\n## Cases 1\n\nold\n\n## Others\n\nstay\n", "Cases 1", part)
    assert "old" not in page and page.index("A note.") < page.index("## Others\n\nstay\n")
    assert with_section("# Page\n", "Cases 1", part).startswith("# Page\n\n## Cases 1\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--python", "no-such-python"],
            "no-such-python: no Python with numba: pip install 'numba==0.60.0'",
        ),
        (["--suite", "nothing"], "invalid choice: 'nothing'"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_bad_arguments_get_one_line(arguments, line, capsys):
    assert line in refused(capsys, main, arguments)
