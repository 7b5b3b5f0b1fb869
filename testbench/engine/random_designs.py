"""Random small designs with odd widths, on which the engines are compared."""

from collections.abc import Sequence
from random import Random
from typing import Any

from amaranth.hdl import (
    Array,
    Cat,
    ClockDomain,
    Const,
    Elaboratable,
    EnableInserter,
    Module,
    Mux,
    ResetInserter,
    Shape,
    Signal,
    Value,
)
from amaranth.lib.memory import Memory

WIDEST = 150
"""Width of the widest value, in bits."""
_WIDTHS = (0, 1, 1, 2, 3, 5, 8, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, WIDEST)
_DIVIDED = 60
"""Width of the widest dividend in bits, so that it fits in one word with a sign bit."""
_SHIFTS = 6
"""Width of a shift count to the left in bits; Amaranth's result is as wide as the largest shift
makes it.
"""


def random_value(chance: Random, shape: Shape) -> int:
    """Returns a random number of a shape; limits and small numbers are more frequent."""
    width = shape.width
    bits = (
        chance.choice(
            (
                0,
                1,
                (1 << width) - 1,
                1 << width >> 1,
                chance.randrange(8),
                chance.getrandbits(width + 1),
                chance.getrandbits(width + 1),
                chance.getrandbits(width + 1),
            )
        )
        & (1 << width) - 1
    )
    return bits - (1 << width) if shape.signed and bits >> width - 1 & 1 else bits


class RandomDesign(Elaboratable):
    """A design generated from a seed.

    Attributes:
        shown: Signals with all results of the design.
        other_reset: Asynchronous reset of the second domain, ``other``, which has falling edges, as
            ``third`` has. With ``one_clock`` all registers are in the domain ``sync`` instead.
    """

    def __init__(self, seed: int, expressions: int = 8, *, one_clock: bool = False) -> None:
        self._chance = Random(seed)
        self._expressions = expressions
        # Memories are in domains without it: in pysim an asynchronous reset clocks them.
        other: Any = ClockDomain("other", clk_edge="neg", async_reset=True)
        self._domains = (
            [] if one_clock else [other, ClockDomain("third", clk_edge="neg", reset_less=True)]
        )
        self._other, self._third = ("sync", "sync") if one_clock else ("other", "third")
        self.other_reset: Signal = other.rst
        self.inputs = [Signal(self._shape(), name=f"input{number}") for number in range(8)]
        self.shown: list[Signal] = []
        self._registers = [self._signal(f"register{number}") for number in range(10)]

    def _shape(self) -> Shape:
        width = self._chance.choice((*_WIDTHS, self._chance.randrange(1, WIDEST)))
        return Shape(width, width > 0 and self._chance.random() < 0.4)

    def _signal(self, name: str, shape: Shape | None = None) -> Signal:
        shape = self._shape() if shape is None else shape
        signal = Signal(shape, name=name, init=random_value(self._chance, shape))
        self.shown.append(signal)
        return signal

    def elaborate(self, _platform: object) -> Module:
        """Adds a module for each kind of logic, some with a reset or an enable."""
        m = Module()
        m.domains += self._domains
        self._pool: list[Value] = [*self.inputs, *self._registers]
        for part in (self._values, self._statements, self._memory, self._next, self._values):
            inner = part()
            if self._chance.random() < 0.3:
                inner = ResetInserter(self._take().xor() & self._take().xor())(inner)
            if self._chance.random() < 0.3:
                inner = EnableInserter(self._take().xor() | self._take().xor())(inner)
            m.submodules += inner
        return m

    # Values

    def _take(self) -> Value:
        return self._chance.choice(self._pool)

    def _bit(self) -> Value:
        """Returns a random condition, one that changes often in most cases."""
        a, b = self._take(), self._take()
        return self._chance.choice((a.xor(), b.xor(), a.xor(), a < b, a.bool(), a == b))

    def _narrow(self, value: Value, width: int) -> Value:
        """Returns at most ``width`` bits of a value, signed or unsigned."""
        if len(value) <= width:
            return value
        start = self._chance.randrange(len(value) - width + 1)
        cut = value[start : start + width]
        return cut.as_signed() if value.shape().signed and width else cut

    def _small(self, width: int) -> Value:
        """Returns an unsigned value of up to ``width`` bits."""
        return self._narrow(self._take(), self._chance.randrange(width + 1)).as_unsigned()

    def _value(self, depth: int) -> Value:
        """Returns a value of up to WIDEST bits."""
        if depth == 0:
            if self._chance.random() < 0.15:
                shape = self._shape()
                return Const(random_value(self._chance, shape), shape)
            return self._take()
        a, b = self._value(depth - 1), self._value(depth - 1)
        return self._narrow(
            self._chance.choice((self._unary, self._binary, self._binary, self._chosen))(a, b),
            WIDEST,
        )

    def _unary(self, a: Value, _b: Value) -> Value:
        chance = self._chance
        return (
            lambda: ~a,
            lambda: -a,
            lambda: abs(a),
            lambda: chance.choice((a.bool(), a.any(), a.all(), a.xor())),
            lambda: a.as_signed() if len(a) else a,
            a.as_unsigned,
            lambda: a.rotate_left(chance.randrange(-70, 70)) if len(a) else a,
            lambda: a.shift_left(chance.randrange(40)),
            lambda: a.shift_right(chance.randrange(80)),
            lambda: a[::-1],
            lambda: a.replicate(chance.randrange(4)),
            lambda: a.matches(*self._patterns(len(a))),
            lambda: a[chance.randrange(len(a) + 1) :],
        )[chance.randrange(13)]()

    def _binary(self, a: Value, b: Value) -> Value:
        narrow = self._narrow
        return (
            lambda: a + b,
            lambda: a - b,
            lambda: narrow(a, 100) * narrow(b, 70),
            lambda: narrow(a, _DIVIDED) // narrow(b, _DIVIDED),
            lambda: narrow(a, _DIVIDED) % narrow(b, _DIVIDED),
            lambda: a & b,
            lambda: a | b,
            lambda: a ^ b,
            lambda: a == b,
            lambda: a != b,
            lambda: a < b,
            lambda: a <= b,
            lambda: a > b,
            lambda: a >= b,
            lambda: a << self._small(_SHIFTS),
            lambda: a >> b.as_unsigned(),
            lambda: a >> self._small(8),
            lambda: Cat(a, b),
        )[self._chance.randrange(18)]()

    def _chosen(self, a: Value, b: Value) -> Value:
        chance = self._chance
        named = self._take()  # pysim does not truncate ~x before it selects bits beyond its end
        match chance.randrange(5):
            case 0:
                return Mux(self._bit(), a, b)
            case 1:
                return named.bit_select(b.as_unsigned(), chance.randrange(len(named) + 1))
            case 2:
                return (
                    named.word_select(self._small(8), chance.randrange(1, len(named) + 1))
                    if len(named)
                    else a
                )
            case 3:
                return named.bit_select(self._small(8), min(len(named), chance.randrange(1, 80)))
        return Array([a, b, *(self._take() for _ in range(chance.randrange(6)))])[self._small(5)]

    def _patterns(self, width: int) -> list[str]:
        return [
            "".join(self._chance.choice("01----") for _ in range(width))
            for _ in range(self._chance.randrange(4))
        ]

    def _values(self) -> Module:
        """Adds a signal for each of some values, assigned in a module above or below the previous
        one.
        """
        m, inner = Module(), Module()
        for _ in range(self._expressions):
            value = self._value(self._chance.choice((1, 1, 2)))
            shape = value.shape() if self._chance.random() < 0.6 else self._shape()
            signal = self._signal(f"value{len(self.shown)}", shape)
            self._chance.choice((m, inner)).d.comb += signal.eq(value)
            self._pool.append(signal)
        m.submodules.inner = inner
        return m

    # Statements

    def _assign(self, m: Module, domain: str, targets: Sequence[Signal]) -> None:
        """Adds an assignment to all or some bits of a random target."""
        chance, target = self._chance, self._chance.choice(targets)
        left: Any = target
        match chance.randrange(7):
            case 0 if len(target):
                left = target[chance.randrange(len(target)) :]
            case 1 if len(target):
                left = target.bit_select(
                    self._small(8), chance.randrange(1, min(len(target), 70) + 1)
                )
            case 2 if len(target):
                left = target.word_select(self._small(6), chance.randrange(1, len(target) + 1))
            case 3:
                left = Array(targets)[self._small(3)]
            case 4:
                left = Cat(targets)[chance.randrange(20) :]
        m.d[domain] += left.eq(self._value(chance.randrange(3)))

    def _block(self, m: Module, domain: str, targets: Sequence[Signal], depth: int) -> None:
        """Adds assignments, some of them under conditions."""
        chance = self._chance
        for _ in range(chance.randrange(1, 4)):
            kind = chance.randrange(3) if depth else 2
            if kind == 0:
                with m.If(self._bit()):
                    self._block(m, domain, targets, depth - 1)
                for _ in range(chance.randrange(3)):
                    with m.Elif(self._bit()):
                        self._block(m, domain, targets, depth - 1)
                if chance.random() < 0.5:
                    with m.Else():
                        self._block(m, domain, targets, depth - 1)
            elif kind == 1:
                test = self._small(chance.choice((2, 3, 5, 70)))
                with m.Switch(test):
                    for _ in range(chance.choice((2, 4, 20))):
                        with m.Case(*self._patterns(len(test))):
                            self._assign(m, domain, targets)
                    if chance.random() < 0.5:
                        with m.Default():
                            self._assign(m, domain, targets)
            else:
                self._assign(m, domain, targets)

    def _all(self, m: Module, domain: str, targets: Sequence[Signal]) -> None:
        """Assigns each of the targets, and some of them twice."""
        for target in targets:
            m.d[domain] += target.eq(target + self._take() if domain != "comb" else self._value(2))
        self._block(m, domain, targets, 3)

    def _statements(self) -> Module:
        """Adds combinational signals, of which some bits are assigned under conditions."""
        m = Module()
        targets = [self._signal(f"assigned{number}") for number in range(5)]
        self._all(m, "comb", targets)
        self._pool += targets
        return m

    def _next(self) -> Module:
        """Adds registers, in several clock domains if the design has them."""
        m = Module()
        half = len(self._registers) // 2
        self._all(m, "sync", self._registers[:half])
        self._all(m, self._other, self._registers[half:])
        return m

    # Memories

    def _memory(self) -> Module:
        """Adds a memory of odd depth, with ports of all kinds."""
        m, chance = Module(), self._chance
        width = chance.choice((1, 7, 12, 33, 64, 65, 130))
        parts = [part for part in range(1, width + 1) if width % part == 0]
        shape = Shape(width)
        depth = chance.choice((1, 3, 5, 8, 13))
        init = [random_value(chance, shape) for _ in range(chance.randrange(depth + 1))]
        m.submodules.memory = table = Memory(shape=shape, depth=depth, init=init)
        writers = [
            table.write_port(domain=domain, granularity=chance.choice((None, *parts)))
            for domain in chance.choice(
                (("sync",), ("sync", "sync"), (self._third,), ("sync", self._third))
            )
        ]
        for number, port in enumerate(writers):
            # The order of two ports that write the same bit at the same time is undefined: the
            # lowest bit of the address distinguishes them.
            address = self._take()
            if len(writers) == 2 and len(port.addr):
                address = Cat(Const(number, 1), address)
            elif number:
                continue
            m.d.comb += [
                port.addr.eq(address),
                port.data.eq(self._value(1)),
                port.en.eq(self._value(1)),
            ]
        for number in range(4):
            domain = chance.choice(("comb", "sync", self._third))
            alike = [port for port in writers if port.domain == domain]
            port = table.read_port(
                domain=domain, transparent_for=[one for one in alike if chance.random() < 0.6]
            )
            m.d.comb += port.addr.eq(self._take())
            if domain != "comb":
                m.d.comb += port.en.eq(self._bit())
            shown = self._signal(f"read{number}", shape)
            m.d.comb += shown.eq(port.data)
            self._pool.append(shown)
        return m
