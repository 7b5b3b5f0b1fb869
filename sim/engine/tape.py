"""A recording of the calls to a compiled model; a program without Python replays it."""

import shlex
from array import array
from pathlib import Path
from subprocess import PIPE
from typing import Any

from sim.engine.build import compiler
from sim.engine.errors import EngineError
from sim.support.children import run_child

__all__ = ["Tape", "build_replay", "replayed_seconds"]

_REPLAY = Path(__file__).with_name("replay.cc")
_PLAIN = {"model_step": "s", "model_look": "l", "model_sample": "l", "model_reset": "r"}


class Tape:
    """A proxy between a model and its library that records the calls.

    The recording consists of 64-bit numbers: a letter, then the arguments that ``replay.cc`` reads.
    External writes to memories and checks without a clock are not recorded.

    Attributes:
        library: The model's library.
        cycles: Number of cycles that the clock loop has run.
    """

    def __init__(self, library: Any, words: Any) -> None:
        self.library, self._words = library, words
        self._noted = array("Q")
        self.cycles = 0

    def __getattr__(self, name: str) -> Any:
        """Returns a function of the library."""
        function = getattr(self.library, name)
        if name in _PLAIN:

            def noted(*arguments: Any) -> Any:
                self._note(_PLAIN[name])
                return function(*arguments)

            return noted
        return function

    def model_touch(self, model: int, place: int) -> None:
        """Records the change of a word."""
        self._note("t", place, self._words[place])
        self.library.model_touch(model, place)

    def model_run(self, model: int, *arguments: Any) -> int:
        """Runs and records the clock loop."""
        *numbers, hit = arguments
        self._note("c", *(number & (1 << 64) - 1 for number in map(int, numbers)))
        cycles = self.library.model_run(model, *numbers, hit)
        self.cycles += cycles
        return cycles

    def _note(self, letter: str, *numbers: int) -> None:
        self._noted.append(ord(letter))
        self._noted.extend(numbers)

    def write(self, path: Path) -> None:
        """Writes the recording to a file."""
        path.write_bytes(self._noted.tobytes())


def build_replay(target: Path) -> None:
    """Compiles the program that replays tapes: ``target LIBRARY TAPE CYCLES [seconds]``;
    EngineError if that fails.
    """
    command = compiler() or []
    done = run_child(
        [*command, "-O1", "-std=c++17", "-o", target, _REPLAY, "-ldl"], stdout=PIPE, stderr=PIPE
    )
    if done.returncode:
        raise EngineError(
            f"{shlex.join(command)} failed on {_REPLAY.name}: {done.stderr.splitlines()[-1]}"
        )


def replayed_seconds(replay: Path, library: Path, tape: Path, cycles: int) -> float:
    """Replays a number of cycles of a tape file; returns the processor time in seconds. EngineError
    if the tape has fewer.
    """
    done = run_child([replay, library, tape, str(cycles), "seconds"], stdout=PIPE, stderr=PIPE)
    if done.returncode:
        raise EngineError(f"{tape.name}: {(done.stderr or 'it has fewer cycles').splitlines()[-1]}")
    return float(done.stdout.split()[1])
