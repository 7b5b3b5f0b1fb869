"""The examples of the commands page print the documented text, including cycles, which depend on
the RTL alone.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from sim.dis import main as dis
from sim.run import main as run
from testbench.simulation import as_here

ROOT = Path(__file__).parents[2]


def examples() -> list[tuple[list[str], str]]:
    """Returns the words of each example command of this project, and its documented output."""
    text = (ROOT / "docs" / "commands.md").read_text()
    blocks = re.findall(r"^```\n(\$ .*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [
        part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    split = [re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", command, re.DOTALL) for command in commands]
    return [(shlex.split(found[1].replace("\\\n", " ")), found[2]) for found in split if found]


EXAMPLES = examples()
RUNS = [
    (words[3:], printed) for words, printed in EXAMPLES if words[:3] == ["python", "-m", "sim.run"]
]


@pytest.mark.parametrize(
    ("arguments", "expected"), RUNS, ids=lambda part: Path(part[0]).stem if part else ""
)
def test_a_run_prints_what_the_page_says(arguments, expected, tmp_path, monkeypatch, capsys):
    (tmp_path / "testbench").symlink_to(ROOT / "testbench")
    monkeypatch.chdir(tmp_path)
    run(arguments)
    assert capsys.readouterr().out.startswith(as_here(expected))
    for words, content in EXAMPLES:
        if words[0] == "cat" and (tmp_path / words[1]).exists():
            assert json.loads((tmp_path / words[1]).read_text()) == json.loads(content)


def test_the_disassembler_prints_what_the_page_says(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    ((words, expected),) = (example for example in EXAMPLES if example[0][1:3] == ["-m", "sim.dis"])
    dis(words[3 : words.index("|")])
    assert capsys.readouterr().out.startswith(expected)


def test_two_runs_are_on_the_page():
    assert len(RUNS) == 2
