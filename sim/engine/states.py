"""The states of signals and memories while a compiled model runs.

Amaranth's simulator keeps a state for every signal; these classes replace its own for signals in
the model.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import MemoryData, Shape, Signal

from sim.engine.internals import BaseSignalState, PyMemoryState, PySignalState, run_wakers
from sim.engine.model import Field, MemoryField

__all__ = ["ClockState", "DrivenState", "InputState", "MemoryState"]


def _as_signed(value: int, shape: Shape) -> int:
    """Interprets bits as a number of the shape."""
    return value - (1 << shape.width) if shape.signed and value >> shape.width - 1 & 1 else value


class InputState(PySignalState):
    """A signal that testbenches and processes drive. A commit writes it to the model."""

    __slots__ = ("_field", "_notify", "mask", "signed")

    def __init__(
        self, signal: Signal, pending: set[Any], field: Field, notify: Callable[[], None]
    ) -> None:
        self._field = field
        self.mask = (1 << len(signal)) - 1
        self.signed = signal.shape().signed
        self._notify = notify
        super().__init__(signal, pending)

    def reset(self) -> None:
        """Restores the initial value."""
        super().reset()
        self._field.write(self.curr & self.mask)

    def commit(self) -> bool:
        """Applies the new value; returns whether it has changed."""
        changed = super().commit()
        if changed:
            self._field.write(self.curr & self.mask)
            self._notify()
        return changed


class ClockState(PySignalState):
    """A clock. Its edges reach the model only at a step: values read before that are from before
    the edge.
    """

    __slots__ = ("_notify", "field")

    def __init__(
        self,
        signal: Signal,
        pending: set[Any],
        field: Field,
        notify: Callable[["ClockState"], None],
    ) -> None:
        self.field = field
        self._notify = notify
        super().__init__(signal, pending)

    def reset(self) -> None:
        """Restores the initial level."""
        super().reset()
        self.field.write(self.curr)

    def commit(self) -> bool:
        """Applies the new level; returns whether it has changed."""
        changed = super().commit()
        if changed:
            self._notify(self)
        return changed

    def jump(self, level: int) -> None:
        """Follows edges that the model has executed by itself, without informing observers."""
        self.curr = self.next = level


class DrivenState(BaseSignalState):
    """A signal that the design drives. Its value is read from the model; that of a register can be
    changed.
    """

    __slots__ = ("_field", "_notify", "_on_watch", "_shape", "is_comb", "last", "signal", "wakers")

    def __init__(
        self,
        signal: Signal,
        field: Field,
        is_comb: bool,
        notify: Callable[[], None],
        on_watch: Callable[["DrivenState"], None],
    ) -> None:
        self.signal = signal
        self.is_comb = is_comb
        self.wakers: list[Any] = []
        self.last = signal.init
        self._shape = signal.shape()
        self._field = field
        self._notify = notify
        self._on_watch = on_watch

    @property
    def curr(self) -> int:
        """The current value."""
        value = self._field.read()
        return _as_signed(value, self._shape) if self._shape.signed else value

    next = curr

    def reset(self) -> None:
        """Discards the last observed values; the model resets itself."""
        self.last = self.signal.init

    def add_waker(self, waker: Callable[[int, int], bool]) -> None:
        """Registers ``waker`` to be called when the value changes."""
        if not self.wakers:
            self.last = self.curr
            self._on_watch(self)
        self.wakers.append(waker)

    def check(self) -> None:
        """Calls the wakers if the value has changed since the last call."""
        value = self.curr
        if value != self.last:
            last, self.last = self.last, value
            run_wakers(self.wakers, last, value)

    def update(self, value: int, mask: int = ~0) -> None:
        """Changes a register, as a testbench may."""
        value = self.curr & ~mask | value & mask
        self._field.write(value & (1 << self._shape.width) - 1)
        self._notify()


class MemoryState(PyMemoryState):
    """A memory, whose rows are in the model. A commit applies what testbenches write, as in
    Amaranth's own.
    """

    __slots__ = ("_field", "_notify")

    def __init__(
        self, memory: MemoryData, pending: set[Any], field: MemoryField, notify: Callable[[], None]
    ) -> None:
        self._field = field
        self._notify = notify
        super().__init__(memory, pending)

    def reset(self) -> None:
        """Discards pending writes; the model resets itself."""
        self.data, self.write_queue = (), {}

    def read(self, addr: int) -> int:
        """Returns a row; 0 outside the memory."""
        return (
            _as_signed(self._field.read(addr), self.shape)
            if addr in range(self.memory.depth)
            else 0
        )

    def write(self, addr: int, value: int, mask: int | None = None) -> None:
        """Queues a write, which is ignored outside the memory."""
        if addr in range(self.memory.depth):
            old = self.write_queue.get(addr, self.read(addr))
            self.write_queue[addr] = value if mask is None else value & mask | old & ~mask
            self.pending.add(self)

    def commit(self) -> bool:
        """Applies the queued writes; returns whether a row changed."""
        run_wakers(self.wakers)
        changed = False
        for row, value in self.write_queue.items():
            bits = value & (1 << self.shape.width) - 1
            if self._field.read(row) != bits:
                self._field.write(bits, row)
                changed = True
        self.write_queue.clear()
        if changed:
            self._notify()
        return changed
