"""A compiled model, through ctypes: its stored words, its memories, and its clock loop."""

import ctypes
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from sim.engine.locations import MemoryLocation, SignalLocation, WordBits
from sim.engine.messages import Messages
from sim.engine.tape import Tape

__all__ = ["FAILURE", "TEXT", "ClockRun", "CompiledModel", "Field", "MemoryField"]

TEXT, FAILURE = 1, 2
"""Bits of the result of a step: the design printed something, an assertion failed."""
ROOM = 1 << 18
"""Size in words of the buffer of changes; when it is full the clock loop returns."""
_SAMPLE = 32
_NOTHING = WordBits(-1, 0, 1, 0)
"""Passed to the clock loop in place of a signal, for none."""


def _library(path: Path) -> ctypes.CDLL:
    """Loads the shared object and sets the types of runtime.cc's functions."""
    library = ctypes.CDLL(str(path))
    pointer, size, flag, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint32
    words, halves = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(number)
    for name, result, *arguments in (
        ("create", pointer),
        ("destroy", None, pointer),
        ("reset", None, pointer),
        ("words", words, pointer),
        ("memory", words, pointer),
        ("touch", None, pointer, number),
        ("touch_memory", None, pointer, number),
        ("look", None, pointer),
        ("step", None, pointer),
        ("checks", None, pointer),
        ("events_size", size, pointer),
        ("events", words, pointer),
        ("clear_events", None, pointer),
        ("watch", None, pointer, halves, size, halves, size),
        ("sample", size, pointer),
        ("changes_size", size, pointer),
        ("changes", halves, pointer),
        ("clear_changes", None, pointer),
        (
            "run",
            size,
            pointer,
            number,
            number,
            size,
            ctypes.c_int64,
            number,
            size,
            ctypes.POINTER(flag),
        ),
    ):
        function = getattr(library, f"model_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Field:
    """The bits of a signal, as an unsigned number. Reading a combinational signal first updates all
    of them.
    """

    __slots__ = ("_model", "_pieces", "combinational", "constant", "pieces")

    def __init__(self, model: "CompiledModel", place: SignalLocation) -> None:
        self._model = model
        self.pieces: tuple[WordBits, ...] = place.pieces
        self._pieces = [
            (number, shift, (1 << width) - 1, at) for number, shift, width, at in place.pieces
        ]
        self.constant = place.constant
        self.combinational = place.combinational

    def read(self) -> int:
        """Returns the current value."""
        if self.combinational and not self._model.fresh:
            self._model.refresh()
        words, value = self._model.words, self.constant
        for place, shift, mask, at in self._pieces:
            value |= (words[place] >> shift & mask) << at
        return value

    def write(self, value: int) -> None:
        """Writes an input or a register; signals that depend on it follow with the next step or
        read.
        """
        model = self._model
        for place, shift, mask, at in self._pieces:
            model.words[place] = (
                model.words[place] & ~(mask << shift) | (value >> at & mask) << shift
            )
            model.touch(place)
        model.fresh = False


class MemoryField:
    """The rows of a memory."""

    __slots__ = ("_base", "_model", "_number", "_words")

    def __init__(self, model: "CompiledModel", place: MemoryLocation) -> None:
        self._model, self._number, self._base, self._words = (
            model,
            place.number,
            place.base,
            place.words,
        )

    def read(self, row: int = 0) -> int:
        """Returns the value of a row."""
        first = self._base + row * self._words
        return sum(self._model.rows[first + index] << 64 * index for index in range(self._words))

    def write(self, value: int, row: int = 0) -> None:
        """Writes a row."""
        first = self._base + row * self._words
        for index in range(self._words):
            self._model.rows[first + index] = value >> 64 * index & (1 << 64) - 1
        self._model.touch_memory(self._number)
        self._model.fresh = False


class ClockRun(NamedTuple):
    """Number of clock cycles that have passed, whether the awaited signal ended them, and the TEXT
    and FAILURE bits.
    """

    cycles: int
    ended: bool
    events: int


class CompiledModel:
    """One instance of a compiled design.

    Attributes:
        words: The stored words.
        rows: The words of all memories.
        fresh: Whether combinational signals are up to date.
        settles: Whether every change of an input needs a step, not only rising clock edges.
        path: The library.
    """

    def __init__(self, path: Path, messages: Messages, settles: bool) -> None:
        self.path = path
        library = _library(path)
        self._library: Any = library
        self._model = library.model_create()
        weakref.finalize(self, library.model_destroy, self._model)
        self._messages = messages
        self._widths: list[int] = []
        self.words: Any = library.model_words(self._model)
        self.rows: Any = library.model_memory(self._model)
        self.settles = settles
        self.fresh = False

    def reset(self) -> None:
        """Restores the initial state; the drivers of inputs write them again."""
        self._library.model_reset(self._model)
        self._messages.clear()
        self.fresh = False

    def record(self) -> Tape:
        """Records the calls to the model on a tape, up to :meth:`stop` or the next :meth:`reset`."""
        self._library = tape = Tape(self._library, self.words)
        return tape

    def stop(self, tape: Tape) -> None:
        """Ends the recording."""
        self._library = tape.library

    def touch(self, place: int) -> None:
        """Informs the model that a stored word was changed."""
        self._library.model_touch(self._model, place)

    def touch_memory(self, number: int) -> None:
        """Informs the model that a memory was changed."""
        self._library.model_touch_memory(self._model, number)

    def step(self) -> int:
        """Applies changed clocks, and settles; returns TEXT and FAILURE bits."""
        self.fresh = False
        self._library.model_step(self._model)
        if self._messages.combinational:
            self._library.model_checks(self._model)
        return self._events()

    def refresh(self) -> None:
        """Updates combinational signals."""
        self._library.model_look(self._model)
        self.fresh = True

    def _events(self) -> int:
        """Processes the recorded prints and checks; returns TEXT and FAILURE bits."""
        size = self._library.model_events_size(self._model)
        if size:
            self._messages.take(self._library.model_events(self._model)[:size])
            self._library.model_clear_events(self._model)
        return (TEXT if self._messages.text else 0) | (FAILURE if self._messages.failure else 0)

    def take_text(self) -> str:
        """Returns the text that the design printed since the last call."""
        return self._messages.take_text()

    def failure(self) -> tuple[str, str]:
        """The first failed assertion: its source location ``file:line`` and its message."""
        assert self._messages.failure is not None
        return self._messages.failure

    def watch(self, field: Field, width: int) -> None:
        """Adds a signal to the ones that :meth:`sample` and :meth:`run` sample."""
        numbers = [number for piece in field.pieces for number in piece]
        words = -(-width // _SAMPLE)
        constant = [field.constant >> _SAMPLE * index & 0xFFFF_FFFF for index in range(words)]
        self._library.model_watch(
            self._model,
            (ctypes.c_uint32 * max(len(numbers), 1))(*numbers),
            len(field.pieces),
            (ctypes.c_uint32 * words)(*constant),
            words,
        )
        self._widths.append(words)

    def sample(self) -> bool:
        """Records the changes of the watched signals, as one cycle; returns whether the buffer
        should be emptied.
        """
        self.fresh = True
        return self._library.model_sample(self._model) >= ROOM

    @property
    def recorded(self) -> int:
        """Number of words of changes that :meth:`take_changes` would return."""
        return self._library.model_changes_size(self._model)

    def take_changes(self) -> list[tuple[int, int, int]]:
        """Returns the changes recorded since the last call: cycle, index of the watched signal,
        value.
        """
        size = self._library.model_changes_size(self._model)
        octets = ctypes.string_at(self._library.model_changes(self._model), _SAMPLE // 8 * size)
        words, widths, changes, at = memoryview(octets).cast("I"), self._widths, [], 0
        while at < size:
            index = words[at + 1]
            end = at + 2 + widths[index]
            changes.append(
                (words[at], index, int.from_bytes(octets[4 * at + 8 : 4 * end], "little"))
            )
            at = end
        self._library.model_clear_changes(self._model)
        return changes

    def run(self, clock: Field, count: int, until: Field | None) -> ClockRun:
        """Runs up to ``count`` clock cycles; an edge that finds ``until`` at 1 is the last.

        It may return early, if text is printed or the buffer of changes is full.
        """
        hit = ctypes.c_int()
        (clock_bit,) = clock.pieces
        constant = False
        if until is not None and not until.pieces:
            constant = bool(until.constant)
            until, count = None, 1 if constant else count
        (awaited,) = until.pieces if until is not None else [_NOTHING]
        cycles = self._library.model_run(
            self._model,
            clock_bit.word,
            clock_bit.shift,
            count,
            awaited.word,
            awaited.shift,
            ROOM,
            ctypes.byref(hit),
        )
        self.fresh = False
        return ClockRun(cycles, bool(hit.value) or constant, self._events())
