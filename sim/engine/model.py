"""A compiled model, through ctypes: its objects (the design's signals and memories) and its clock loop."""

import ctypes
import weakref
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Field", "Model", "words_of"]

_Words = ctypes.POINTER(ctypes.c_uint32)
TEXT, FAILURE = 1, 2
"""Bits of what a step reports: the design printed something, an assertion failed."""
ROOM = 1 << 18
"""Words of changes that the clock loop collects before it returns to hand them over."""


class _Object(ctypes.Structure):
    """``struct cxxrtl_object`` of CXXRTL's C interface."""

    _fields_ = [("type", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("width", ctypes.c_size_t),
                ("lsb_at", ctypes.c_size_t), ("depth", ctypes.c_size_t), ("zero_at", ctypes.c_size_t),
                ("curr", ctypes.c_void_p), ("next", ctypes.c_void_p), ("outline", ctypes.c_void_p),
                ("attrs", ctypes.c_void_p)]


_OUTLINE, _DRIVEN_COMB = 4, 1 << 3


def words_of(width: int) -> int:
    """The 32-bit words that hold ``width`` bits."""
    return (width + 31) // 32


def _library(path: Path) -> ctypes.CDLL:
    """The shared object with the types of shim.cc's functions."""
    library = ctypes.CDLL(str(path))
    pointer, size, flag, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
    for name, result, *arguments in (
            ("create", pointer), ("destroy", None, pointer), ("reset", None, pointer),
            ("find", ctypes.POINTER(_Object), pointer, text), ("storage", pointer, pointer, pointer),
            ("step", flag, pointer), ("commit", None, pointer), ("refresh", flag, pointer),
            ("text", text, pointer), ("clear_text", None, pointer), ("failure", text, pointer),
            ("watch", None, pointer, pointer, size), ("sample", size, pointer),
            ("changes", _Words, pointer), ("clear_changes", None, pointer),
            ("run", size, pointer, pointer, size, pointer, size, ctypes.POINTER(flag)),
            ("changes_size", size, pointer), ("events", flag, pointer), ("settles", flag)):
        function = getattr(library, f"model_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Field:
    """The bits of one object: a signal, or a memory with ``depth`` rows.

    Values are unsigned. Reading a combinational signal first brings all of them up to date.
    """

    __slots__ = ("_model", "_read", "_write", "combinational", "words")

    def __init__(self, model: "Model", item: _Object) -> None:
        self._model = model
        self.words = words_of(item.width)
        self.combinational = item.type == _OUTLINE or bool(item.flags & _DRIVEN_COMB)
        self._read = (ctypes.c_uint32 * (self.words * item.depth)).from_address(item.curr)
        self._write = self._read

    @property
    def address(self) -> int:
        """Where the words are."""
        return ctypes.addressof(self._read)

    def store_in(self, address: int) -> None:
        """Makes writes go to ``address`` as well: the other half of a double-buffered register."""
        self._write = (ctypes.c_uint32 * len(self._read)).from_address(address)

    def read(self, row: int = 0) -> int:
        """The value now."""
        if self.combinational and not self._model.fresh:
            self._model.refresh()
        if self.words == 1:
            return self._read[row]
        start = row * self.words
        return int.from_bytes(memoryview(self._read)[start:start + self.words].tobytes(), "little")

    def write(self, value: int, row: int = 0) -> None:
        """Changes the value; what depends on it follows with the next step or read."""
        start = row * self.words
        for word in range(self.words):
            bits = value >> 32 * word & 0xFFFF_FFFF
            self._read[start + word] = bits
            self._write[start + word] = bits
        self._model.fresh = False


class Model:
    """One instance of a compiled design.

    Attributes
    ----------
    fresh : bool
        Whether combinational values are up to date.
    settles : bool
        Whether every change of an input needs a step, not only rising clock edges.
    watched : list[int]
        The widths of the watched signals.
    """

    def __init__(self, path: Path) -> None:
        self._library = _library(path)
        self._model = self._library.model_create()
        weakref.finalize(self, self._library.model_destroy, self._model)
        self._step = self._library.model_step
        self.settles = bool(self._library.model_settles())
        self.fresh = False
        self.watched: list[int] = []

    def find(self, path: Sequence[str]) -> Field | None:
        """The object with this hierarchical name, None when the model has none."""
        item = self._library.model_find(self._model, " ".join(path).encode())
        self.fresh = False
        return Field(self, item.contents) if item else None

    def storage(self, field: Field) -> int | None:
        """The address where the register that ``field`` shows is stored; None when it is no register."""
        return self._library.model_storage(self._model, field.address)

    def reset(self) -> None:
        """Back to the initial state; inputs keep their values."""
        self._library.model_reset(self._model)
        self.fresh = False

    def step(self) -> int:
        """Evaluates until nothing changes any more; returns TEXT and FAILURE bits."""
        self.fresh = False
        return self._step(self._model)

    def commit(self) -> None:
        """Takes note of the clock's level, for models that need no step there."""
        self._library.model_commit(self._model)

    def refresh(self) -> None:
        """Brings combinational values up to date."""
        self._library.model_refresh(self._model)
        self.fresh = True

    def take_text(self) -> str:
        """What the design printed since the last call."""
        text = self._library.model_text(self._model).decode()
        self._library.model_clear_text(self._model)
        return text

    def failure(self) -> tuple[str, str]:
        """The first failed assertion: its source location ``file:line`` and its message."""
        location, _, message = self._library.model_failure(self._model).decode().partition("\n")
        return location, message

    def watch(self, field: Field, width: int) -> None:
        """Adds a signal to those that :meth:`sample` and :meth:`run` sample."""
        self._library.model_watch(self._model, field.address, field.words)
        self.watched.append(width)

    def sample(self) -> bool:
        """Records the changes of the watched signals, as one cycle; returns whether it is time to take them."""
        self.fresh = True
        return self._library.model_sample(self._model) >= ROOM

    def take_changes(self) -> list[tuple[int, int, int]]:
        """The recorded changes since the last call: cycle, number of the watched signal, value."""
        size = self._library.model_changes_size(self._model)
        words = self._library.model_changes(self._model)[:size]
        changes = []
        at = 0
        while at < size:
            cycle, index = words[at], words[at + 1]
            count = words_of(self.watched[index])
            value = words[at + 2] if count else 0
            for word in range(1, count):
                value |= words[at + 2 + word] << 32 * word
            changes.append((cycle, index, value))
            at += 2 + count
        self._library.model_clear_changes(self._model)
        return changes

    def run(self, clock: Field, count: int, until: Field | None) -> tuple[int, bool, int]:
        """Runs up to ``count`` clock cycles; ``until`` at 1 before an edge makes that edge the last.

        Returns the cycles, whether ``until`` ended them, and TEXT and FAILURE bits. It may return early, to have text
        or changes taken.
        """
        hit = ctypes.c_int()
        cycles = self._library.model_run(self._model, clock.address, count, until.address if until else None, ROOM,
                                         ctypes.byref(hit))
        self.fresh = False
        return cycles, bool(hit.value), self._library.model_events(self._model)
