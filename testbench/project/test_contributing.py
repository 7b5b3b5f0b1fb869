"""The worked examples of CONTRIBUTING.md, executed in a copy of the project: each change is applied
at the described position, and the commands print the documented text.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim.engine.build import missing_tool
from testbench.engine.designs import needs_compiled
from testbench.project.documented import ROOT

PAGE = ROOT / "CONTRIBUTING.md"
EDIT = re.compile(r"\[([\w/.]+)\]\(\1(?:#\w+)?\),\s(before|behind)\s`([^`]+)`")
"""The position of an inserted block of text: before or behind the first line of a file that has the
quoted text.
"""
NEW_FILE = re.compile(r"[Ss]ave this program as `([\w.]+)`")


class Example:
    """A worked example: the section of the page, and a copy of the project."""

    def __init__(self, heading: str, folder: Path) -> None:
        text = PAGE.read_text(encoding="utf-8")
        self.text = re.split(r"^##", text.partition(f"### {heading}\n")[2], flags=re.MULTILINE)[0]
        self.folder = folder
        for name in ("rtl", "sim", "testbench", "docs", "waveforms", "constraints"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "build")
            )
        for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.cff")):
            shutil.copy(path, folder)
        self._parts = re.split(r"^```\w*\n(.*?)^```$", self.text, flags=re.MULTILINE | re.DOTALL)
        self._next = 1

    def follow(self, blocks: int) -> None:
        """Applies the next ``blocks`` changes, in the order of the page. Blocks of commands are no
        changes.
        """
        while blocks:
            before, block = self._parts[self._next - 1 : self._next + 1]
            self._next += 2
            introduction = before.strip().rpartition("\n\n")[2]
            if match := EDIT.search(introduction):
                self._insert(block, *match.groups())
                blocks -= 1
            elif match := NEW_FILE.search(introduction):
                (self.folder / match[1]).write_text(block, encoding="utf-8")
                blocks -= 1
            else:
                assert re.match("python|[|]", block), f"no place for: {block}"

    def _insert(self, block: str, name: str, side: str, anchor: str) -> None:
        path = self.folder / name
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        at = next((at for at, line in enumerate(lines) if anchor in line), None)
        assert at is not None, f"{name} has no {anchor}"
        is_function = block.startswith(("def ", "@"))
        lines.insert(at + (side == "behind"), block + "\n\n" * is_function)
        path.write_text("".join(lines), encoding="utf-8")

    def run(
        self, command: str, *more: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of the page, in the copy unless another folder of the project is given."""
        assert command in self.text
        words = [word for word in shlex.split(command) if word != "python"]
        if words[0] == "pytest":
            words = ["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *words[1:]]
        return subprocess.run(
            [sys.executable, *words, *more],
            cwd=folder or self.folder,
            env={**os.environ, "PYTHONPATH": str(folder or self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def passes(self, command: str, *more: str, folder: Path | None = None) -> str:
        """Runs a command that must succeed, and returns its output."""
        done = self.run(command, *more, folder=folder)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def example(tmp_path, request) -> Example:
    return Example(request.param, tmp_path)


def figures(output: str) -> dict[str, str]:
    """Returns the lines of a report, by their first words."""
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in output.splitlines())


@needs_compiled
@pytest.mark.parametrize("example", ["Change a parameter"], indirect=True)
def test_a_parameter_is_changed_as_described(example):
    example.follow(1)
    known, changed = (
        line for line in example.text.splitlines() if line.startswith("python -m sim.run")
    )
    found = [
        # The first machine is not changed: the project's own one is compiled for other tests, too.
        figures(example.passes(known, folder=ROOT)),
        figures(example.passes(changed)),
    ]
    assert [
        tuple(re.findall(r"\d+", row.replace("`", "")))
        for row in re.findall(r"^\| \d+ \(.*$", example.text, re.MULTILINE)
    ] == [
        (tokens, each["cycles"], each["spills"], each["fills"])
        for tokens, each in zip(("16", "8"), found, strict=True)
    ]
    assert found[0]["buffer"] == found[1]["buffer"]
    manual = "pytest testbench/project/test_manual.py"
    assert "[presets]" in example.run(manual, "-k", "presets").stdout
    example.follow(1)
    example.passes(manual, "-k", "presets")


@pytest.mark.parametrize("example", ["Add an instruction"], indirect=True)
def test_an_instruction_is_added_as_described(example):
    example.follow(2)
    for command in ("python -m sim.asm andn.sass -o andn.cubin", "python -m sim.dis andn.cubin"):
        output = example.passes(command)
    assert "ANDN R4, R0, 0x1;" in output
    example.follow(2)
    run = "python -m sim.run andn.sass --engine model --block 4 --arg 'buf:OUT=u32[4]'"
    assert example.passes(run).endswith(": 0 0 2 2\n")
    example.follow(3)
    models = "pytest testbench/instructions -k ANDN"
    assert "1 passed" in example.passes(models)
    assert "2 passed" in example.passes("pytest testbench/execute -k every_mode")
    manual = "pytest testbench/project/test_manual.py"
    assert "[classes of instructions]" in example.run(manual, "-k", "classes").stdout
    page = example.folder / "docs" / "implemented.md"
    page.write_text(page.read_text(encoding="utf-8").replace(" SEL ", " SEL ANDN "), "utf-8")
    example.passes(manual, "-k", "classes")

    path = example.folder / "sim/model/warp/vector/comparison.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("sources.a & ~sources.b", "sources.a & sources.b"), "utf-8")
    assert "1 failed" in example.run(models).stdout


@pytest.mark.skipif(missing_tool() is not None, reason=missing_tool() or "")
@pytest.mark.parametrize("example", ["Add a CUDA call"], indirect=True)
def test_a_cuda_call_is_added_as_described(example):
    shapes = "pytest testbench/cuda/test_client.py -k shapes"
    example.follow(2)
    assert "801 (CUDA_ERROR_NOT_SUPPORTED)" in example.run(shapes).stdout
    example.follow(1)
    assert "1 passed" in example.passes(shapes)
    example.passes("pytest testbench/cuda/test_client.py -k public_name")
