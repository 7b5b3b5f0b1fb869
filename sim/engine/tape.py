"""A recording of the calls to a compiled model, replayed by a program that has only the model."""

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

    Numbers of 64 bits: a letter, then what ``replay.cc`` reads behind it. Memories that are written from outside and
    checks of no clock are not noted.

    Attributes:
        library: The model's.
        cycles: That the clock loop has run.
    """

    def __init__(self, library: Any, words: Any) -> None:
        self.library, self._words = library, words
        self._noted = array("Q")
        self.cycles = 0

    def __getattr__(self, name: str) -> Any:
        """A function of the library."""
        function = getattr(self.library, name)
        if name in _PLAIN:

            def noted(*arguments: Any) -> Any:
                self._note(_PLAIN[name])
                return function(*arguments)

            return noted
        return function

    def model_touch(self, model: int, place: int) -> None:
        """A word was changed."""
        self._note("t", place, self._words[place])
        self.library.model_touch(model, place)

    def model_run(self, model: int, *arguments: Any) -> int:
        """The clock loop."""
        *numbers, hit = arguments
        self._note("c", *(number & (1 << 64) - 1 for number in map(int, numbers)))
        cycles = self.library.model_run(model, *numbers, hit)
        self.cycles += cycles
        return cycles

    def _note(self, letter: str, *numbers: int) -> None:
        self._noted.append(ord(letter))
        self._noted.extend(numbers)

    def write(self, path: Path) -> None:
        """Writes it to a file."""
        path.write_bytes(self._noted.tobytes())


def build_replay(target: Path) -> None:
    """Compiles the program that plays tapes: ``target LIBRARY TAPE CYCLES [seconds]``. EngineError when that fails."""
    command = compiler() or []
    done = run_child(
        [*command, "-O1", "-std=c++17", "-o", target, _REPLAY, "-ldl"], stdout=PIPE, stderr=PIPE
    )
    if done.returncode:
        raise EngineError(
            f"{shlex.join(command)} failed on {_REPLAY.name}: {done.stderr.splitlines()[-1]}"
        )


def replayed_seconds(replay: Path, library: Path, tape: Path, cycles: int) -> float:
    """Seconds of the processor that a model takes for so many cycles of a tape, which is in a file. EngineError when
    the tape has fewer."""
    done = run_child([replay, library, tape, str(cycles), "seconds"], stdout=PIPE, stderr=PIPE)
    if done.returncode:
        raise EngineError(f"{tape.name}: {(done.stderr or 'it has fewer cycles').splitlines()[-1]}")
    return float(done.stdout.split()[1])
