"""Random programs for the whole machine, as assembly text, and the reduction of a failing one.

A program is a tree of statements that every thread can execute to its end: arithmetic on a few
registers, divergent branches, loops with a count, calls, and accesses to memory of the thread.
Atomic operations also access one common word, and barriers separate exchanges of shared memory. At
the end threads store all their registers.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from rtl.execute.decode import LANE_FORMS
from rtl.isa.errors import WarpError
from rtl.isa.kinds import MemorySize
from rtl.isa.legality import encoding_error, is_refused
from rtl.isa.syntax import Constant, Form, Pipe
from rtl.isa.table import FORMS
from sim.launch import Launch
from sim.toolchain.assembly.spelling import spell
from testbench.pipeline.random_programs import REGISTERS, random_word
from testbench.sm.errors import launch_text
from testbench.sm.random_flow import Flow, handler_end, handler_head
from testbench.sm.random_statements import (
    ADDRESS,
    CONDITION,
    COUNTER,
    INDEX,
    LEVELS,
    OTHER,
    SELF,
    SHARED,
    TURN,
    Statement,
)
from testbench.trap.programs import with_handler
from testbench.words import form_of

_OWN_WORDS = 16
"""Words of a thread in each memory space. In the buffer its results follow them."""
_PIECE_SHIFT = 4
"""The buffer consists of arrays with one piece of 16 bytes for each thread."""
_PIECES = 8
_THREADS = 256
"""The maximum number of threads."""
_BANK_WORDS = 16
_DEEPEST = 3
_LEVELS_MASK = 0x17
"""The mask of a random number that is the depth of a recursion. Each level has two tokens, so that
the deepest one fills the stack's cache three times.
"""
_CONVERSIONS = tuple(
    form for form in FORMS if form.pipe in (Pipe.CONVERSION, Pipe.DOUBLE) and not is_refused(form)
)
_SIZES = {
    MemorySize.U8: "U8",
    MemorySize.S8: "S8",
    MemorySize.U16: "U16",
    MemorySize.S16: "S16",
    MemorySize.B32: "",
    MemorySize.B64: "64",
    MemorySize.B128: "128",
}
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "": 4, "64": 8, "128": 16}
_TOGETHER = ("VOTE", "S2R", "CS2R", "LEPC")
"""Instructions of the lanes that depend on several threads or on the state of the warp."""
_ATOMICS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH")
_HEAD = f"""    S2R R{SELF}, SR_TID.X
    S2R R{INDEX}, SR_CTAID.X
    XMAD R{SELF}, R{INDEX}, c[0x0][0x8], R{SELF}
    S2R R{SHARED}, SR_TID.X
    LOP32I.XOR R{OTHER}, R{SHARED}, 0x21
    SHL R{SHARED}, R{SHARED}, 0x6
    SHL R{OTHER}, R{OTHER}, 0x6
    ISCADD R{ADDRESS}.CC, R{SELF}, c[0x0][out], {_PIECE_SHIFT:#x}
    IADD.X R{ADDRESS + 1}, RZ, c[0x0][out+4]
    IADD32I R{ADDRESS}.CC, R{ADDRESS}, 0x80
    IADD.X R{ADDRESS + 1}, RZ, R{ADDRESS + 1}
    XMAD R0, R{SELF}, 0x4e35, R{SELF}
    MOV R1, R{SELF}
    LOP32I.XOR R2, R0, 0x5a5a5a5a
"""
_WORDS = (_PIECES * _THREADS + 16 << _PIECE_SHIFT) // 4
"""Size of the buffer in words; the first 128 bytes and the last ones are unused."""
_TABLED = re.compile(r"<(.*?)>")
"""Labels whose addresses are in the table after the constants. They are replaced by the offset of
the first one.
"""
_TURN_HEAD = f"""turn:
    XMAD R0, R{TURN}, 0x4e35, R0
    LOP.XOR R3, R3, R{TURN}
"""
"""Each iteration changes some registers, which would otherwise soon be all zeros."""
_TURN_END = f"""    IADD32I R{TURN}, R{TURN}, -0x1
    ISETP.NE.U32.AND P{CONDITION}, PT, R{TURN}, RZ, PT
    @P{CONDITION} BRA turn
"""


def _own(at: int) -> str:
    """The address of a byte of the thread's own words, or of its results after these."""
    piece, byte = divmod(at, 1 << _PIECE_SHIFT)
    return f"R{ADDRESS}+{(piece * _THREADS << _PIECE_SHIFT) + byte:#x}"


@dataclass(frozen=True)
class Program:
    """The statements of a kernel, which all threads execute ``turns`` times, of its functions, and
    of its trap handler, if there is one.
    """

    body: tuple[Statement, ...]
    functions: tuple[tuple[Statement, ...], ...]
    constants: tuple[int, ...]
    block: int
    grid: int
    turns: int = 1
    handler: tuple[Statement, ...] = ()

    @property
    def text(self) -> str:
        """The text for the assembler."""
        numbers = iter(range(1 << 30))
        table = ", ".join(f"{word:#x}" for word in self.constants)
        shared = 64 * (-(-self.block // 64) * 64)
        head = (
            f".kernel k\n.param out 8\n.registers 32\n.barriers 16\n.shared {shared}\n"
            f".const 2 table\n.word {table}"
        )
        lines = [f"{_HEAD}    MOV32I R{TURN}, {self.turns:#x}", *[_TURN_HEAD] * (self.turns > 1)]
        lines += [f"    {line}" for statement in self.body for line in statement.lines(numbers)]
        lines += [_TURN_END] * (self.turns > 1)
        left = [
            f"    STG.E [{_own(4 * (_OWN_WORDS + number))}], R{number % REGISTERS}"
            for number in range(REGISTERS + 1)
        ]
        lines += [*left[:-1], "    P2R R0, PR, RZ, 0x7f", left[-1], "    EXIT"]
        for number, function in enumerate(self.functions):
            lines.append(f".function f{number}")
            lines += [f"    {line}" for statement in function for line in statement.lines(numbers)]
            lines.append("    RET")
        targets: list[str] = []

        def tabled(found: re.Match[str]) -> str:
            targets.extend(found[1].split(","))
            return f"{4 * (_BANK_WORDS + len(targets) - 1 - found[1].count(',')):#x}"

        text = _TABLED.sub(tabled, "\n".join(lines))
        return f"{', '.join([head, *targets])}\n{text}\n"

    @property
    def handler_lines(self) -> list[str]:
        """The instructions of the trap handler."""
        numbers = iter(range(1 << 30))
        return [line for statement in self.handler for line in statement.lines(numbers)]

    def launch(self) -> Launch:
        """The launch of the program."""
        launch = launch_text(
            self.text,
            words=_WORDS,
            block=self.block,
            grid=self.grid,
            local=4 * _OWN_WORDS,
            crs=2048,
        )
        return with_handler(launch, *self.handler_lines) if self.handler else launch


class Writer:
    """Generates random statements.

    Parameters:
        alone: Only statements in which threads do not communicate.
        floats, doubles: Also statements that need floating point, or double precision.
        flow: Also unstructured control flow.
        traps: Also traps and errors.
    """

    def __init__(
        self,
        source: Random,
        functions: int,
        *,
        alone: bool,
        floats: bool,
        doubles: bool,
        flow: bool = False,
        traps: bool = False,
    ) -> None:
        self.source, self.functions, self.alone, self.traps = source, functions, alone, traps
        self.flow = Flow(self) if flow else None
        self.parameters = floats, floats and doubles
        self._lanes = tuple(form for form in LANE_FORMS if not (alone and form.name in _TOGETHER))

    def block(
        self, count: int, depth: int, calls: int, *, together: bool = False
    ) -> tuple[Statement, ...]:
        """``count`` statements with ``depth`` more levels of nesting.

        They may call functions from number ``calls`` on. ``together``: all threads of the CTA
        execute them.
        """
        return tuple(self.statement(depth, calls, together) for _ in range(count))

    def function(self, calls: int) -> tuple[Statement, ...]:
        """The statements of a function, from which threads may return early."""

        def body() -> tuple[Statement, ...]:
            leave = Statement((f"@P{self.source.randrange(6)} RET",))
            return (
                *self._within(("RET",), lambda: self.block(3, 1, calls)),
                leave,
                *self.block(2, 0, calls),
            )

        if self.flow is None:
            return body()
        self.flow.in_function = True
        made = body()
        self.flow.in_function = False
        return made

    def statement(self, depth: int, calls: int, together: bool) -> Statement:
        """One random statement; see :meth:`block`."""
        kinds: list[tuple[float, Callable[[], Statement]]] = [
            (8, self.arithmetic),
            (1.5, self.conversion),
            (3, self.access),
            (1, self.atomic),
            (1, self.table),
            (0.4, self.order),
        ]
        if not self.alone:
            kinds.append((1, self.shuffle))
        if depth:
            inside: Callable[[], tuple[Statement, ...]] = lambda: self.block(  # noqa: E731
                self.source.randrange(1, 5), depth - 1, calls
            )
            kinds += [
                (2, lambda: self.branch(inside)),
                (1.5, lambda: self.loop(depth, inside)),
                (0.7, lambda: self.switch(inside)),
            ]
        if calls < self.functions:
            kinds.append((1, lambda: self.call(calls)))
        if depth:
            kinds.append((0.7, self.recursion))
        if together and not self.alone:
            kinds.append((2, self.exchange))
        if self.flow is not None:
            kinds += self.flow.kinds(
                depth,
                lambda: self.block(self.source.randrange(1, 4), depth - 1, calls),
                traps=self.traps,
            )
        chances, makers = zip(*kinds, strict=True)
        return self.source.choices(makers, chances)[0]()

    def register(self, words: int = 1) -> int:
        """The first of ``words`` registers that statements may change."""
        return self.source.randrange(0, REGISTERS - words + 1, words)

    def guard(self) -> str:
        """The guard of an instruction, mostly none."""
        return self.source.choice(
            ["", "", "", f"@P{self.source.randrange(6)} ", f"@!P{self.source.randrange(6)} "]
        )

    def _word(self, forms: Sequence[Form]) -> Statement:
        while True:
            word = random_word(self.source, self.source.choice(forms))
            if encoding_error(word, REGISTERS, *self.parameters) is not WarpError.NONE:
                continue
            form = form_of(word)
            values = form.values(word)
            constants = [
                operand for operand in form.operands.values() if isinstance(operand, Constant)
            ]
            if all(0 <= values[operand.offset] < 4 * (_BANK_WORDS - 1) for operand in constants):
                return Statement((spell(word, 0),))

    def arithmetic(self) -> Statement:
        """An instruction of the lanes."""
        return self._word(self._lanes)

    def conversion(self) -> Statement:
        """An instruction of the conversion unit or of double precision."""
        return self._word(_CONVERSIONS)

    def access(self) -> Statement:
        """A load or a store to the thread's own words."""
        size = self.source.choice(list(_SIZES.values()))
        octets = _BYTES[size]
        at = self.source.randrange(0, 4 * _OWN_WORDS, octets)
        space, place = self.source.choice(
            [
                ("G.E", _own(at)),
                ("S", f"R{SHARED}+{at:#x}"),
                ("L", f"{at:#x}"),
                *[(".E", _own(at))] * (self.flow is not None),
            ]
        )
        value = f"R{self.register(max(octets // 4, 1))}"
        dotted = f".{size}" if size else ""
        if self.source.random() < 0.5:
            named = (
                ".U.32"
                if space == "S" and not size
                else f".U{dotted}"
                if space == "S" and octets > 4
                else dotted
            )
            return Statement((f"{self.guard()}LD{space}{named} {value}, [{place}]",))
        return Statement((f"{self.guard()}ST{space}{dotted.replace('S', 'U')} [{place}], {value}",))

    def local(self) -> Statement:
        """A load or a store to local memory that uses no register set by the program."""
        place, register = self.source.randrange(0, 4 * _OWN_WORDS, 4), self.register()
        return Statement(
            (
                self.source.choice(
                    (f"LDL R{register}, [{place:#x}]", f"STL [{place:#x}], R{register}")
                ),
            )
        )

    def handler(self) -> tuple[Statement, ...]:
        """A trap handler. It restores the program's state at its end, except for the results of
        random arithmetic.
        """
        assert self.flow is not None
        self.flow.in_handler = True
        count = self.source.randrange(6)
        kinds = (
            self.arithmetic,
            self.conversion,
            self.local,
            self.order,
            lambda: self.branch(inside),
            *(maker for _, maker in self.flow.kinds(1, lambda: inside(), traps=False)),
        )

        def inside() -> tuple[Statement, ...]:
            return tuple(
                self.source.choice((self.arithmetic, self.conversion, self.local))()
                for _ in range(2)
            )

        body = tuple(self.source.choice(kinds)() for _ in range(count))
        self.flow.in_handler = False
        return (Statement(handler_head()), *body, Statement(handler_end(self.source)))

    def atomic(self) -> Statement:
        """An atomic operation on a word of the thread, or on the common word."""
        name, value = self.source.choice(_ATOMICS), f"R{self.register()}"
        at = self.source.randrange(0, 4 * _OWN_WORDS, 4)
        place = f"{at:#x}"
        kind = self.source.choice((0, 1, 3) if self.alone else (0, 1, 2, 3))
        if kind == 0:
            return Statement(
                (f"{self.guard()}ATOMS.{name} R{self.register()}, [R{SHARED}+{place}], {value}",)
            )
        if kind == 1 and name != "EXCH":
            return Statement((f"{self.guard()}RED.E.{name} [{_own(at)}], {value}",))
        if kind == 2:
            return Statement(
                (
                    f"MOV R{INDEX}, RZ",
                    f"{self.guard()}ATOMS.{name} R{self.register()}, [R{INDEX}+{place}], {value}",
                )
            )
        return Statement(
            (f"{self.guard()}ATOM.E.{name} R{self.register()}, [{_own(at)}], {value}",)
        )

    def table(self) -> Statement:
        """A load of a constant with a register as its index."""
        return Statement(
            (
                f"LOP32I.AND R{INDEX}, R{self.register()}, {4 * (_BANK_WORDS // 2 - 1):#x}",
                f"{self.guard()}LDC R{self.register()}, c[0x2][R{INDEX}+{4 * self.source.randrange(8):#x}]",
            )
        )

    def shuffle(self) -> Statement:
        """A shuffle: reads values of other threads."""
        mode = self.source.choice(["IDX", "UP", "DOWN", "BFLY"])
        step = self.source.choice([f"R{self.register()}", f"{self.source.randrange(32):#x}"])
        clamp = self.source.choice(["0x1f", "0x1c03", "0x0", f"R{self.register()}"])
        return Statement(
            (
                f"{self.guard()}SHFL.{mode} P{self.source.randrange(6)}, R{self.register()}, "
                f"R{self.register()}, {step}, {clamp}",
            )
        )

    def order(self) -> Statement:
        """An instruction that orders memory accesses or instructions."""
        return Statement((self.source.choice(["MEMBAR.CTA", "MEMBAR.GL", "DEPBAR {3,0}", "NOP"]),))

    def branch(self, inside: Callable[[], tuple[Statement, ...]]) -> Statement:
        """A divergent branch with two paths, which may reconverge."""
        predicate = f"@{self.source.choice(['', '!'])}P{self.source.randrange(6)}"
        if self.source.random() < 0.4:
            return Statement(("SSY end%", f"{predicate} SYNC"), inside(), ("SYNC", "end%:"))
        return Statement(
            ("SSY end%", f"{predicate} BRA else%"),
            inside(),
            ("SYNC", "else%:"),
            inside(),
            ("SYNC", "end%:"),
        )

    def loop(self, depth: int, inside: Callable[[], tuple[Statement, ...]]) -> Statement:
        """A loop of up to three iterations, a random number for each thread; some threads break or
        continue early.
        """
        counter = f"R{COUNTER + depth}"
        leaves = f"@P{self.source.randrange(6)} {self.source.choice(['BRK', 'CONT'])}"
        return Statement(
            (
                f"LOP32I.AND {counter}, R{self.register()}, 0x3",
                "PBK out%",
                "top%:",
                f"ISETP.EQ.U32.AND P{CONDITION}, PT, {counter}, RZ, PT",
                f"@P{CONDITION} BRK",
                f"IADD32I {counter}, {counter}, -0x1",
                "PCNT next%",
            ),
            self._within(("BRK", "CONT"), inside),
            (leaves,),
            self._within(("BRK", "CONT"), inside),
            ("CONT", "next%:", "BRA top%", "out%:"),
        )

    def _within(
        self, ways: Sequence[str], inside: Callable[[], tuple[Statement, ...]]
    ) -> tuple[Statement, ...]:
        """Generates statements in which threads may also leave by the instructions ``ways``."""
        return inside() if self.flow is None else self.flow.within(ways, inside)

    def switch(self, inside: Callable[[], tuple[Statement, ...]]) -> Statement:
        """An indexed branch to one of two places."""
        predicate = f"P{self.source.randrange(6)}"
        return Statement(
            (
                "SSY end%",
                f"MOV32I R{INDEX}, one%",
                f"@{predicate} MOV32I R{INDEX}, two%",
                f"BRX R{INDEX} -.next -> one%, two%",
                "one%:",
            ),
            inside(),
            ("SYNC", "two%:"),
            inside(),
            ("SYNC", "end%:"),
        )

    def call(self, calls: int) -> Statement:
        """A call of a function."""
        return Statement((f"CAL f{self.source.randrange(calls, self.functions)}",))

    def recursion(self) -> Statement:
        """A function that calls itself a random number of times for each thread; a branch skips its
        code.
        """
        return Statement(
            (
                f"LOP32I.AND R{LEVELS}, R{self.register()}, {_LEVELS_MASK:#x}",
                "SSY over%",
                "CAL self%",
                "SYNC",
                "self%:",
                f"ISETP.EQ.U32.AND P{CONDITION}, PT, R{LEVELS}, RZ, PT",
                "SSY up%",
                f"@P{CONDITION} SYNC",
                f"IADD32I R{LEVELS}, R{LEVELS}, -0x1",
                self.arithmetic().before[0],
                "CAL self%",
                "SYNC",
                "up%:",
                "RET",
                "over%:",
            )
        )

    def exchange(self) -> Statement:
        """Threads of a CTA read each other's shared memory between two barriers."""
        at = f"{self.source.randrange(0, 4 * _OWN_WORDS, 4):#x}"
        reduction = f"BAR.RED.POPC 0x0, P{self.source.randrange(6)}"
        return Statement(
            (
                f"STS [R{SHARED}+{at}], R{self.register()}",
                "BAR.SYNC 0x0",
                f"LDS.U.32 R{self.register()}, [R{OTHER}+{at}]",
                self.source.choice(
                    ["BAR.SYNC 0x0", f"{reduction}\n    B2R.RESULT R{self.register()}"]
                ),
            )
        )


def random_program(
    source: Random,
    size: int = 12,
    block: int = 64,
    grid: int = 2,
    *,
    alone: bool = False,
    floats: bool = True,
    doubles: bool = True,
    flow: bool = False,
    traps: bool = False,
) -> Program:
    """A random program with about ``size`` statements at the top level.

    Args:
        alone: Threads do not communicate.
        floats, doubles: Also statements that need floating point, or double precision.
        flow: Also unstructured control flow.
        traps: Also a trap handler, traps and errors.
    """
    functions = source.randrange(3)
    writer = Writer(
        source, functions, alone=alone, floats=floats, doubles=doubles, flow=flow, traps=traps
    )
    bodies = [writer.function(number + 1) for number in range(functions)]
    threads = source.choice([block, block, source.randrange(1, block + 1)])
    constants = tuple(source.getrandbits(32) for _ in range(_BANK_WORDS))
    return Program(
        writer.block(size, _DEEPEST - 1, 0, together=True),
        tuple(bodies),
        constants,
        threads,
        source.randrange(1, grid + 1),
        handler=writer.handler() if traps else (),
    )


def _smaller(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The statements with some left out: halves first, then single statements, then parts of
    them.
    """
    size = len(statements)
    while size:
        for at in range(0, len(statements), size):
            yield statements[:at] + statements[at + size :]
        size //= 2
    for at, one in enumerate(statements):
        rest = statements[:at], statements[at + 1 :]
        for first in _smaller(one.first):
            yield (*rest[0], replace(one, first=first), *rest[1])
        for second in _smaller(one.second):
            yield (*rest[0], replace(one, second=second), *rest[1])


def _candidates(program: Program) -> Iterator[Program]:
    if program.turns > 1:
        yield replace(program, turns=1)
        yield replace(program, turns=program.turns // 2)
    if program.grid > 1:
        yield replace(program, grid=1)
    if program.block > 1:
        yield replace(program, block=-(-program.block // 2))
    for body in _smaller(program.body):
        yield replace(program, body=body)
    for handler in _smaller(program.handler[1:-1]):
        yield replace(program, handler=(program.handler[0], *handler, program.handler[-1]))
    for number, function in enumerate(program.functions):
        for body in _smaller(function):
            yield replace(
                program,
                functions=(*program.functions[:number], body, *program.functions[number + 1 :]),
            )


def shrink(
    program: Program, fails: Callable[[Program], bool], tries: int = 200, seconds: float = 120
) -> Program:
    """Reduces a failing program: leaves out statements as long as the rest fails, with at most
    ``tries`` attempts and for at most ``seconds``.
    """
    end = time.monotonic() + seconds
    going = True
    while going:
        going = False
        for candidate in _candidates(program):
            if not tries or time.monotonic() > end:
                return program
            tries -= 1
            if fails(candidate):
                program, going = candidate, True
                break
    return program
