"""Assumptions and assertions about the hardware that is proved, and its surroundings."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from amaranth.asserts import AnySeq  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import (
    Assert,
    Assume,
    Cat,
    Cover,
    Elaboratable,
    Fragment,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.hdl._ast import Property  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.lib import fifo
from amaranth.lib.wiring import In, Out

from rtl.component import Component

__all__ = [
    "Anything",
    "Past",
    "ShownQueue",
    "can_happen",
    "claim",
    "contracts",
    "ever",
    "free",
    "inside",
    "no_reset",
    "presume",
    "presumed",
    "put",
    "silenced",
]


class Past:
    """Values of the previous cycle; 0 in the first one. Call it outside of conditions, since it
    makes a register.

    Attributes:
        valid: 1 from the second cycle on.
    """

    def __init__(self, m: Module) -> None:
        self._m = m
        self._made = 0
        self.valid = Signal()
        m.d.sync += self.valid.eq(1)

    def __call__(self, value: Any) -> Any:
        """Returns the value of the previous cycle."""
        self._made += 1
        before: Any = Signal.like(value, name=f"past_{self._made}", init=0)
        self._m.d.sync += before.eq(value)
        return before


def claim(m: Module, condition: Any, message: str, *, when: Any = 1, src_loc_at: int = 0) -> None:
    """Asserts a condition in every cycle, or in those in which ``when`` is true."""
    m.d.comb += Assert(
        ~Value.cast(when).any() | Value.cast(condition).any(), message, src_loc_at=1 + src_loc_at
    )


def can_happen(m: Module, condition: Any, message: str) -> None:
    """Adds a cover: the condition must be reachable."""
    m.d.comb += Cover(condition, message, src_loc_at=1)


def contracts(m: Module, past: Past, part: Component) -> None:
    """Checks the contract of all streams of a component: an offered payload is stable until it is
    accepted.

    It is assumed of input streams and asserted of output streams.
    """
    members = {
        path: (member, Value.cast(value)) for path, member, value in part.signature.flatten(part)
    }
    for path in [path[:-1] for path in members if path[-1] == "ready"]:
        (member, valid), (_, ready), (_, payload) = (
            members[*path, name] for name in ("valid", "ready", "payload")
        )
        stays = ~past(valid & ~ready) | (valid & (payload == past(payload)))
        if member.flow is In:
            m.d.comb += Assume(stays, "what is offered stays")
        else:
            claim(m, stays, f"what {'.'.join(map(str, path))} offers stays")
            can_happen(m, past(valid & ~ready), f"{'.'.join(map(str, path))} has to wait")


def free(m: Module, *signals: Any) -> None:
    """Lets signals have any value in every cycle; for a component or an interface, its inputs."""
    for signal in signals:
        targets = (
            [value for _, member, value in signal.signature.flatten(signal) if member.flow is In]
            if hasattr(signal, "signature")
            else [signal]
        )
        for target in map(Value.cast, targets):
            m.d.comb += target.eq(AnySeq(len(target)))


def no_reset(m: Module) -> None:
    """Assumes no reset after the first cycle."""
    m.d.comb += Assume(~ResetSignal(), "no reset")


class Anything(Component):
    """A replacement of a part: it has the part's ports, with free outputs."""

    def __init__(self, part: Component) -> None:
        super().__init__(dict(part.signature.members))

    def elaborate(self, platform: object) -> Module:
        """Makes the outputs free."""
        m = Module()
        for _, member, value in self.signature.flatten(self):
            if member.flow is Out:
                free(m, value)
        return m


class ShownQueue(Elaboratable, fifo.FIFOInterface):
    """A model of a SyncFIFO with visible entries: ``level`` of the ``entries`` are used, the oldest
    entry is the first one.
    """

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__(width=width, depth=depth)
        self.entries = [Signal(width, name=f"place_{number}") for number in range(depth)]
        self.level = Signal(range(depth + 1))

    def elaborate(self, platform: object) -> Module:
        """Builds the queue: when the first entry leaves, all others move up."""
        m = Module()
        left = self.level - (self.r_en & self.r_rdy)
        m.d.comb += [
            self.w_rdy.eq(self.level != self.depth),
            self.r_rdy.eq(self.level != 0),
            self.r_data.eq(self.entries[0]),
        ]
        m.d.sync += self.level.eq(left + (self.w_en & self.w_rdy))
        for number, (place, behind) in enumerate(
            zip(self.entries, [*self.entries[1:], self.w_data], strict=True)
        ):
            with m.If(self.w_en & (left == number)):
                m.d.sync += place.eq(self.w_data)
            with m.Elif(self.r_en & self.r_rdy):
                m.d.sync += place.eq(behind)
        return m


def ever(m: Module, condition: Any) -> Signal:
    """Returns whether a condition was true in an earlier cycle."""
    before = Signal()
    m.d.sync += before.eq(before | condition)
    return before


def put(m: Module, name: str, part: Elaboratable) -> Callable[..., Value]:
    """Makes a part with a state machine a submodule; returns a function that tests whether it is in
    one of the named states.
    """
    fragment = Fragment.get(part, platform="formal")
    m.submodules[name] = fragment
    machine = fragment.generated["fsm"]

    def at(*states: str) -> Value:
        return Cat(machine.state == machine.encoding[state] for state in states).any()

    return at


def inside(part: Any) -> tuple[Module, dict[str, dict[str, Any]]]:
    """Elaborates a part to inspect its internals.

    Returns:
        The module to use as a submodule in its place, and, for each of its methods, the local
        variables by name; a memory among these can get further ports.
    """
    known: dict[str, dict[str, Any]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_locals.get("self") is part:
            known[frame.f_code.co_name] = dict(frame.f_locals)

    part._MustUse__used = True  # Prevents Amaranth's warning that it was not elaborated
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        elaborated = part.elaborate("formal")
    finally:
        sys.setprofile(before)
    return elaborated, known


def presume(m: Module, name: str, part: Elaboratable) -> None:
    """Makes a part a submodule whose own assertions, and those of its parts, are assumed, not
    proved.
    """
    m.submodules[name] = presumed(Fragment.get(part, platform="formal"))


def silenced(part: Elaboratable) -> Any:
    """Returns the fragment of a part without its own assertions and those of its parts, for a
    theorem that states these assertions itself.
    """

    def silence(fragment: Any) -> Any:
        for domain, statements in list(fragment.statements.items()):
            statements[:] = [each for each in statements if not isinstance(each, Property)]
            if not statements:
                del fragment.statements[domain]
        for inner, _, _ in fragment.subfragments:
            silence(inner)
        return fragment

    return silence(Fragment.get(part, platform="formal"))


def presumed(fragment: Any) -> Any:
    """Returns the fragment with its assertions turned into assumptions."""
    properties: list[Any] = [
        each
        for statements in fragment.statements.values()
        for each in statements
        if isinstance(each, Property)
    ]
    for statement in properties:
        if statement.kind.name == "Assert":
            statement._kind = type(statement.kind).Assume
    for part, _, _ in fragment.subfragments:
        presumed(part)
    return fragment
