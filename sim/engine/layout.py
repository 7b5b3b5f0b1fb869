"""The layout of a compiled design: the location of each signal and memory, and the messages of
prints and assertions.

A :class:`StateLayout` is made from an elaborated design or, without elaboration, from the record of
an earlier one. In a record, signals and memories are numbered in the order of
:class:`~sim.engine.identity.Identity`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from amaranth.hdl import ClockDomain, MemoryData, Shape, Signal

from sim.engine.identity import Identity
from sim.engine.internals import SignalDict
from sim.engine.locations import MemoryLocation, SignalLocation
from sim.engine.messages import Message

__all__ = ["DesignSignal", "SignalDriver", "StateLayout"]


class SignalDriver(IntEnum):
    """The driver of a signal."""

    INPUT = 0
    """Driven by testbenches."""
    CLOCK = 1
    """Driven by a clock process; the clock of a domain."""
    RESET = 2
    """Driven by testbenches; the asynchronous reset of a domain."""
    REGISTER = 3
    """Driven by the design, from a clock domain."""
    COMBINATIONAL = 4
    """Driven by the design, from the domain comb."""


@dataclass(frozen=True)
class DesignSignal:
    """A signal of the design: its driver, and its location; None if the model does not have the
    signal.
    """

    role: SignalDriver
    place: SignalLocation | None


@dataclass
class StateLayout:
    """The layout of a compiled design.

    Attributes:
        library: The compiled model.
        settles: Whether events other than rising clock edges change stored words.
        messages: The prints and checks, by number.
        domains (dict of ClockDomain): The clock domains of the top module.
        signals: The signals of the design, each as DesignSignal.
        memories: The memories with their locations.
        inputs: The signals that the design uses and does not drive.
    """

    library: Path
    settles: bool
    messages: list[Message]
    domains: dict[str, Any]
    signals: Any = field(default_factory=SignalDict)
    memories: list[tuple[MemoryData, MemoryLocation]] = field(default_factory=list)
    inputs: list[Signal] = field(default_factory=list)

    def memory(self, memory: MemoryData) -> MemoryLocation | None:
        """Returns the location of a memory; None if the design has no such memory."""
        return next((place for data, place in self.memories if data is memory), None)

    def record(self, identity: Identity) -> dict[str, Any]:
        """Returns the record of this layout, for a design of that identity, as JSON values."""
        numbers: Any = SignalDict()
        for number, signal in enumerate(identity.signals):
            numbers[signal] = number
        signals: list[Any] = [None] * len(identity.signals)
        hidden = []
        for signal, trace in self.signals.items():
            if signal in numbers:
                signals[numbers[signal]] = [trace.role, trace.place and trace.place.record()]
        for signal in self.inputs:
            if signal not in numbers:
                numbers[signal] = len(signals) + len(hidden)
                trace = self.signals[signal]
                shape = signal.shape()
                hidden.append(
                    [
                        signal.name,
                        shape.width,
                        shape.signed,
                        signal.init,
                        trace.role,
                        trace.place and trace.place.record(),
                    ]
                )
        places = [self.memory(memory) for memory in identity.memories]
        domains = [
            [
                name,
                domain.clk_edge,
                domain.async_reset,
                numbers.get(domain.clk),
                None if domain.rst is None else numbers.get(domain.rst),
            ]
            for name, domain in self.domains.items()
        ]
        return {
            "library": self.library.name,
            "settles": self.settles,
            "messages": [message.record() for message in self.messages],
            "domains": domains,
            "signals": signals,
            "hidden": hidden,
            "memories": [place and place.record() for place in places],
            "inputs": [numbers[signal] for signal in self.inputs],
        }

    @classmethod
    def restore(cls, record: dict[str, Any], identity: Identity, folder: Path) -> "StateLayout":
        """Returns the layout from a record of a design with this identity; the library is in
        ``folder``.
        """
        signals = list(identity.signals)
        traces = [trace and _trace(*trace) for trace in record["signals"]]
        for name, width, signed, init, role, place in record["hidden"]:
            signals.append(_signal(name, width, signed, init))
            traces.append(_trace(role, place))
        domains: dict[str, Any] = {}
        for name, edge, async_reset, clock, reset in record["domains"]:
            domain: Any = ClockDomain(
                name, clk_edge=edge, async_reset=async_reset, reset_less=reset is None
            )
            domains[name] = domain
            domain.clk = signals[clock] if clock is not None else domain.clk
            if reset is not None:
                domain.rst = signals[reset]
        layout = cls(
            folder / record["library"],
            record["settles"],
            [Message.restore(message) for message in record["messages"]],
            domains,
        )
        for signal, trace in zip(signals, traces, strict=True):
            if trace is not None:
                layout.signals[signal] = trace
        layout.memories = [
            (memory, MemoryLocation(*place))
            for memory, place in zip(identity.memories, record["memories"], strict=True)
            if place is not None
        ]
        layout.inputs = [signals[number] for number in record["inputs"]]
        return layout


def _trace(role: int, place: Sequence[Any] | None) -> DesignSignal:
    return DesignSignal(
        SignalDriver(role), None if place is None else SignalLocation.restore(place)
    )


def _signal(name: str, width: int, signed: bool, init: int) -> Signal:
    return Signal(Shape(width, signed), name=name, init=init)
