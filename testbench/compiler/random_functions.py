"""Random PTX programs with control flow, and their results: Python executes each, one thread at a
time.

A program computes with four numbers of 32 bits, which are initialized from the thread's index and
stored to a buffer at the end. It decrements a fuel counter, so that it terminates. Unstructured
programs are blocks that branch to any block; structured ones are nested statements.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from testbench.ptx.text import HEADER

THREADS = 40
"""Number of threads of a launch: a full warp and a part of one."""
_MASK = 0xFFFF_FFFF
_FUEL = 60
_HEAD = (
    HEADER
    + """.func (.param .b32 result) twist (.param .b32 value)
{ .reg .pred p; .reg .b32 a, i; ld.param.b32 a, [value]; and.b32 i, a, 3;
AGAIN: setp.eq.u32 p, i, 0; @p bra READY; mad.lo.u32 a, a, 5, i; sub.u32 i, i, 1;
 setp.gt.u32 p, a, 0x80000000; @p bra EARLY; bra AGAIN;
EARLY: xor.b32 a, a, 0x55; st.param.b32 [result], a; ret;
READY: st.param.b32 [result], a; ret; }
.visible .entry k(.param .u64 out, .param .u32 same)
{ .reg .pred p, q; .reg .b32 r<4>, t, f, s, n; .reg .b64 d, e;
 mov.u32 t, %tid.x; ld.param.u64 d, [out]; ld.param.u32 s, [same]; mov.u32 f, FUEL;
 mov.u32 r0, t; mul.lo.u32 r1, t, 0x9e3779b1; xor.b32 r2, t, 21; mov.u32 r3, 1;
"""
)
_TAIL = """DONE: mul.wide.u32 e, t, 16; add.u64 d, d, e; st.global.v4.u32 [d], {r0, r1, r2, r3}; ret; }
"""


def _twist(value: int) -> int:
    left = value & 3
    while left:
        value = value * 5 + left & _MASK
        left -= 1
        if value > 0x8000_0000:
            return value ^ 0x55
    return value


class _Out(Exception):  # noqa: N818
    """The fuel is used up, or the program ends itself."""


@dataclass
class State:
    """The state of a thread."""

    thread: int
    r: list[int]
    same: int
    fuel: int = _FUEL

    def burn(self) -> None:
        """Decrements the fuel."""
        if not self.fuel:
            raise _Out
        self.fuel -= 1


@dataclass
class Program:
    """PTX text, and the Python function of a thread."""

    text: str
    run: Callable[[State], None]

    def expected(self, same: int) -> list[int]:
        """Returns the four numbers of every thread."""
        found = []
        for thread in range(THREADS):
            state = State(thread, [thread, thread * 0x9E3779B1 & _MASK, thread ^ 21, 1], same)
            with suppress(_Out):
                self.run(state)
            found += state.r
        return found


_Action = Callable[[State], None]
_Test = Callable[[State], bool]


def _operation(source: random.Random) -> tuple[str, _Action]:
    """Returns random arithmetic, sometimes with a guard."""
    d, a, b = (source.randrange(4) for _ in range(3))
    constant = source.choice([1, 3, 7, 16, 0x1234, 0x9E3779B1])
    kind = source.randrange(6)

    def act(state: State) -> None:
        x, y = state.r[a], state.r[b]
        state.r[d] = (x + y, x ^ constant, x * constant, x + constant, x >> 3 | y << 2, _twist(x))[
            kind
        ] & _MASK

    text = (
        f"add.u32 r{d}, r{a}, r{b};",
        f"xor.b32 r{d}, r{a}, {constant};",
        f"mul.lo.u32 r{d}, r{a}, {constant};",
        f"add.u32 r{d}, r{a}, {constant};",
        f"{{ .reg .b32 x, y; shr.u32 x, r{a}, 3; shl.b32 y, r{b}, 2; or.b32 r{d}, x, y; }}",
        f"{{ .param .b32 x, y; st.param.b32 [x], r{a}; call (y), twist, (x); ld.param.b32 r{d}, [y]; }}",
    )[kind]
    if kind < 4 and not source.randrange(4):
        test, condition = _test(source, "q")
        return f"{test} @q {text}", lambda state: act(state) if condition(state) else None
    return text, act


def _test(source: random.Random, p: str = "p") -> tuple[str, _Test]:
    """Returns a random condition on a number, sometimes a uniform one."""
    a, bit = source.randrange(4), source.randrange(8)
    kind = source.randrange(4)
    if kind == 0:
        return (
            f"and.b32 n, s, {1 << bit % 3}; setp.ne.u32 {p}, n, 0;",
            lambda state: bool(state.same >> bit % 3 & 1),
        )
    if kind == 1:
        limit = source.randrange(THREADS)
        return f"setp.lt.u32 {p}, t, {limit};", lambda state: state.thread < limit
    if kind == 2:
        b = source.randrange(4)
        return (
            f"setp.lt.s32 {p}, r{a}, r{b};",
            lambda state: _signed(state.r[a]) < _signed(state.r[b]),
        )
    return (
        f"and.b32 n, r{a}, {1 << bit}; setp.eq.u32 {p}, n, 0;",
        lambda state: not state.r[a] >> bit & 1,
    )


def _signed(value: int) -> int:
    return value - (value >> 31 << 32)


def _program(body: str, run: _Action) -> Program:
    return Program(_HEAD.replace("FUEL", str(_FUEL)) + body + _TAIL, run)


_BURN = "setp.eq.u32 p, f, 0; @p bra DONE; sub.u32 f, f, 1;"


def unstructured(seed: int) -> Program:
    """Returns a program of blocks that branch to any other, by conditions and by index."""
    source = random.Random(seed)
    count = source.randrange(3, 9)
    lines: list[str] = []
    actions: list[Callable[[State], int | None]] = []
    for number in range(count):
        text, action = _block(source, number, count)
        lines.append(text)
        actions.append(action)

    def run(state: State) -> None:
        at: int | None = 0
        while at is not None:
            at = actions[at](state)

    return _program("\n".join(lines) + "\n", run)


def _block(
    source: random.Random, number: int, count: int
) -> tuple[str, Callable[[State], int | None]]:
    operations = [_operation(source) for _ in range(source.randrange(1, 4))]
    inner = " ".join(text for text, _ in operations)
    kind = source.randrange(8)
    targets = [source.randrange(count) for _ in range(4)]
    a = source.randrange(4)
    test, condition = _test(source)
    if kind == 0:
        table = ", ".join(f"B{target}" for target in targets)
        ending = f"S{number}: .branchtargets {table}; and.b32 n, r{a}, 3; brx.idx n, S{number};"
    elif kind == 1:
        ending = f"{test} @p bra DONE; bra B{targets[0]};"
    elif kind == 2:
        ending = f"bra B{targets[0]};"
    else:
        ending = f"{test} @p bra B{targets[0]}; bra B{targets[1]};"

    def action(state: State) -> int | None:
        state.burn()
        for _, act in operations:
            act(state)
        if kind == 0:
            return targets[state.r[a] & 3]
        if kind == 1:
            return None if condition(state) else targets[0]
        if kind == 2:
            return targets[0]
        return targets[0] if condition(state) else targets[1]

    return f"B{number}: {_BURN} {inner} {ending}", action


class _Break(Exception):  # noqa: N818
    pass


class _Continue(Exception):  # noqa: N818
    pass


@dataclass
class _Writer:
    """Generates structured statements in PTX and in Python."""

    source: random.Random
    lines: list[str] = field(default_factory=list)
    labels: int = 0

    def label(self) -> str:
        """Returns a new label."""
        self.labels += 1
        return f"L{self.labels}"

    def block(self, depth: int, loops: list[tuple[str, str]]) -> _Action:
        """Generates a sequence of statements."""
        actions = [self.statement(depth, loops) for _ in range(self.source.randrange(1, 4))]

        def run(state: State) -> None:
            for action in actions:
                action(state)

        return run

    def statement(self, depth: int, loops: list[tuple[str, str]]) -> _Action:
        """Generates one statement: arithmetic, a branch, a loop, or a jump out of one."""
        kind = self.source.randrange(10) if depth else 0
        if kind in (4, 5, 6):
            return self.choice(depth, loops)
        if kind in (7, 8):
            return self.loop(depth, loops)
        if kind == 9:
            return self.way_out(loops)
        text, action = _operation(self.source)
        self.lines.append(text)
        return action

    def choice(self, depth: int, loops: list[tuple[str, str]]) -> _Action:
        """Generates an if statement, with or without else."""
        test, condition = _test(self.source)
        other, behind = self.label(), self.label()
        self.lines.append(f"{test} @!p bra {other};")
        first = self.block(depth - 1, loops)
        second: _Action = lambda _: None  # noqa: E731
        if self.source.randrange(2):
            self.lines.append(f"bra {behind};")
            self.lines.append(f"{other}:")
            second = self.block(depth - 1, loops)
        else:
            self.lines.append(f"{other}:")
        self.lines.append(f"{behind}:")
        return lambda state: first(state) if condition(state) else second(state)

    def loop(self, depth: int, loops: list[tuple[str, str]]) -> _Action:
        """Generates a while or do-while loop."""
        head, following, behind = self.label(), self.label(), self.label()
        test, condition = _test(self.source)
        first = bool(self.source.randrange(2))
        self.lines.append(f"{head}: {_BURN}")
        if first:
            self.lines.append(f"{test} @!p bra {behind};")
        body = self.block(depth - 1, [*loops, (following, behind)])
        self.lines.append(f"{following}:")
        self.lines.append(f"bra {head};" if first else f"{test} @p bra {head};")
        self.lines.append(f"{behind}:")

        def run(state: State) -> None:
            while True:
                state.burn()
                if first and not condition(state):
                    return
                try:
                    body(state)
                except _Continue as way:
                    if way.args[0] != following:
                        raise
                except _Break as way:
                    if way.args[0] != behind:
                        raise
                    return
                if not first and not condition(state):
                    return

        return run

    def way_out(self, loops: list[tuple[str, str]]) -> _Action:
        """Generates a conditional break or continue of any enclosing loop, or the end of the
        program.
        """
        test, condition = _test(self.source)
        if not loops or not self.source.randrange(4):
            target, way = "DONE", _Out()
        else:
            following, behind = self.source.choice(loops)
            stops = bool(self.source.randrange(2))
            target, way = (behind, _Break(behind)) if stops else (following, _Continue(following))
        self.lines.append(f"{test} @p bra {target};")

        def run(state: State) -> None:
            if condition(state):
                raise way

        return run


def structured(seed: int) -> Program:
    """Returns a program of nested statements."""
    writer = _Writer(random.Random(seed))
    run = writer.block(4, [])
    return _program("\n".join(writer.lines) + "\n", run)
