"""The commands that pages document, each with the extras that are named beside it.

``python -m testbench.project.documented`` runs those that take seconds.

An extra is named beside a command in its own line (``pip install -e '.[fpga]' && python -m ...``),
in the row of a table, in its paragraph or block of text, the one before or the one after, or at the
beginning of its page.

Commands without an extra are run, in the present environment, one at a time in a copy of the
project, as typed by a reader. Exit code 1: one of them has failed; its last line is the reason.
"""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory

__all__ = ["ROOT", "Documented", "commands_of", "documented", "is_quick"]

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"pip install (?:-q )?-e '\.\[([\w,]+)\]'")
_QUOTED = re.compile(r"`((?:pip install [^`]*)?python(?:3)? [^`]+)`")
_LINE = re.compile(r"^(?:\$ )?((?:python3 -m venv .*?)?(?:pip install .*?)?python .*)$")
_SERVER = ("http.server",)
"""A module of Python's that waits for requests without end."""
_PLACEHOLDER = re.compile(r"\.\.\.|\[-|\b(?:NAME|PROGRAM|FILE|BOARD|k\.ptx)\b|[a-z]\|[a-z]")
"""Patterns of placeholders, with which a command can't be executed."""


_BARE = {"sim": 3, "testbench": 2}
"""Number of words of a command that is only mentioned, by its package."""


@dataclass(frozen=True)
class Documented:
    """A command: the page, its words from ``python`` on, and the extras that are named beside it."""

    page: str
    words: tuple[str, ...]
    extras: frozenset[str]

    @property
    def text(self) -> str:
        """The command as typed."""
        return shlex.join(self.words)


def _blocks(text: str) -> list[str]:
    """Returns the paragraphs of a page, each row of its tables, and each fenced text."""
    blocks: list[str] = []
    for at, part in enumerate(
        re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ):
        if at % 2:
            blocks.append(f"```\n{part}")
            continue
        for paragraph in re.split(r"\n\s*\n", part):
            rows = paragraph.strip().splitlines()
            if rows and rows[0].startswith("|"):
                blocks += rows
            elif rows:
                blocks.append("\n".join(rows))
    return blocks


def _commands(block: str) -> Iterator[str]:
    """Yields the commands in a block."""
    if not block.startswith("```"):
        yield from _QUOTED.findall(block.replace("\n", " "))
        return
    for line in block.replace("\\\n", " ").splitlines():
        if match := _LINE.match(line):
            yield match[1].partition(" #")[0]


def commands_of(page: Path) -> list[Documented]:
    """Returns the commands of a page that can be executed as written."""
    blocks = _blocks(page.read_text(encoding="utf-8"))
    named = [
        frozenset(extra for found in _NAMED.findall(block) for extra in found.split(","))
        for block in blocks
    ]
    begins = next((at for at, block in enumerate(blocks) if block.startswith("## ")), 0)
    found = []
    for at, block in enumerate(blocks):
        around = (
            [at]
            if block.startswith("|")
            else [
                other
                for other in range(max(0, at - 1), min(len(blocks), at + 2))
                if other == at or not blocks[other].startswith("|")
            ]
        )
        extras = frozenset[str]().union(*(named[other] for other in around), *named[:begins])
        for text in _commands(block):
            command = re.sub(r"^.*?(?=python (?:-m (?!venv)|\w+/))", "", text)
            command = re.split(r" [|>] | && pytest", command)[0]
            words = tuple(shlex.split(command))
            is_whole = len(words) > 1 and len(words) > _BARE.get(words[-1].partition(".")[0], 1)
            # A text of Python (-c) is no command of the project.
            is_command = words[:1] == ("python",) and words[1:2] != ("-c",)
            is_tried = is_command and words[2:3] != _SERVER
            if is_tried and is_whole and not _PLACEHOLDER.search(command):
                found.append(Documented(str(page.relative_to(ROOT)), words, extras))
    return found


def documented() -> list[Documented]:
    """Returns all commands, each once for each set of extras."""
    pages = [
        ROOT / "README.md",
        *sorted(ROOT.glob("*/README.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "testbench" / "programs").rglob("README.md")),
    ]
    found: dict[tuple[tuple[str, ...], frozenset[str]], Documented] = {}
    for page in dict.fromkeys(pages):
        for command in commands_of(page):
            found.setdefault((command.words, command.extras), command)
    return list(found.values())


_QUICK = ("sim.dis", "sim.asm", "sim.ptx")
_QUICK_RUNS = (
    ("sim.run", "--engine", "model"),
    ("sim.run_tb", "--list"),
    ("sim.prove", "--list"),
    ("sim.mutate", "--list"),
    ("sim.waves", "flow"),
    ("sim.waves.picture", "waveforms/flow.vcd"),
)
_FIRST = ("python", "-m", "sim.run_tb", "crs")
"""The first command of the README."""
_MORE = (("python", "-m", "sim.run_tb", "double", "--engine", "pysim", "--record"),)
"""Commands that are not documented, and once needed an extra."""


_PARTS = ("docs", "rtl", "sim", "testbench", "waveforms")


def is_quick(command: Documented) -> bool:
    """Returns whether a command takes seconds on any machine, and needs no file that another
    command makes.
    """
    words = command.words[2:]
    if command.words == _FIRST or (words[:1] and words[0] in _QUICK and "--source" not in words):
        return True
    return any(
        words[:1] == run[:1] and set(run[1:]) <= set(words) and "increment.sass" not in words
        for run in _QUICK_RUNS
    )


def main() -> int:
    """Runs the quick commands and returns the exit code."""
    quick = [command.words for command in documented() if is_quick(command) and not command.extras]
    source = (
        "python",
        "-m",
        "sim.dis",
        "--source",
        "testbench/programs/k08_fib_recursion.O3.cubin",
    )
    failed = 0
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "project")
        for part in _PARTS:
            copytree(
                ROOT / part, folder / part, ignore=ignore_patterns("__pycache__", "*.vcd", "*.fst")
            )
        (folder / "fib.sass").write_bytes(
            subprocess.run(
                [sys.executable, *source[1:]], cwd=folder, stdout=subprocess.PIPE, check=True
            ).stdout
        )
        for words in (*dict.fromkeys(quick), *_MORE):
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, *words[1:]],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            # Kernels that must fail do so.
            is_well = done.returncode <= (words[2] == "sim.run") and "Traceback" not in done.stderr
            failed += not is_well
            result = (
                ""
                if is_well
                else f": {' '.join((done.stderr or done.stdout).strip().splitlines()[-1:])}"
            )
            print(
                f"{time.monotonic() - began:5.1f} s  {shlex.join(words)[:100]}{result}", flush=True
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
