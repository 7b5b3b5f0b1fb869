"""What the engine knows of a compiled design: where each signal and memory is, the messages of
prints and assertions.

A :class:`StateLayout` is made from an elaborated design, or from the record of an earlier one, for a design that was
not elaborated. In a record, signals and memories are numbered as :class:`~sim.engine.identity.Identity` lists them.
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
    """Testbenches."""
    CLOCK = 1
    """A clock process; it is the clock of a domain."""
    RESET = 2
    """Testbenches; it is the asynchronous reset of a domain."""
    REGISTER = 3
    """The design, from a clock domain."""
    COMBINATIONAL = 4
    """The design, from the domain comb."""


@dataclass(frozen=True)
class DesignSignal:
    """A signal of the design: its driver, and where it is; None where the model does not have
    it."""

    role: SignalDriver
    place: SignalLocation | None


@dataclass
class StateLayout:
    """All facts about a compiled design.

    Attributes:
        library: The compiled model.
        settles: More than rising clock edges has an effect on what is kept.
        messages: The prints and checks, by number.
        domains (dict of ClockDomain): Those of the top module.
        inputs: Those that the design uses and does not drive.
    """

    library: Path
    settles: bool
    messages: list[Message]
    domains: dict[str, Any]
    signals: Any = field(default_factory=SignalDict)
    memories: list[tuple[MemoryData, MemoryLocation]] = field(default_factory=list)
    inputs: list[Signal] = field(default_factory=list)

    def memory(self, memory: MemoryData) -> MemoryLocation | None:
        """Where a memory is, None when the design has no such memory."""
        return next((place for data, place in self.memories if data is memory), None)

    def record(self, identity: Identity) -> dict[str, Any]:
        """The record of this, for a design of that identity: numbers, texts, lists and dicts."""
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
        """The layout from a record of a design with this identity, its library in ``folder``."""
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
