"""Statements of random programs with unstructured control flow.

Tokens of every kind, threads that leave early from anywhere, irregular branches, stack
instructions, traps and errors.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from testbench.sm.random_statements import CONDITION, COUNTER, INDEX, SELF, TURN, Statement

__all__ = ["Flow", "Plain", "handler_end", "handler_head"]

Inside = Callable[[], tuple[Statement, ...]]
_STEP_COUNTER, _HANDLER_STEP_COUNTER = COUNTER + 4, 29
"""Registers that count the steps of an irregular region: in the program, in the handler."""
_STEPS = 9
_PREDICATES, _FLAGS, _STATUS = 27, 28, 30
"""Registers in which the handler saves predicates and CC, and reads the error status of its warp.
"""
_REGIONS = {"PRET": "RET", "PEXIT": "EXIT", "PLONGJMP": "LONGJMP"}
"""For each push of a token, the instruction that unwinds to it."""
_ERRORS = (
    "LDG.E R{register}, [R16+0x1]",
    "LDS.U.64 R0, [R14+0x4]",
    "STL [0x7ffffc], R{register}",
    ".raw 0x0",
    "SHL R254, R0, 0x1",
    "BPT.TRAP 0x0",
    "LDC R{register}, c[0x5][0x0]",
    "RAM",
    "BPT.PAUSE",
    "JMP 0x4",
    "BAR.SYNC 0x0, 0x21",
    "LDG.E.64 R0, [R16+0x4]",
    "RTT",
)
"""Instructions that raise an error."""
_CACHES = (
    "CCTL.IVALL",
    "CCTLL.IVALL",
    "CCTL.E.{operation} [R16]",
    "CCTLL.{operation} [0x0]",
    "CCTL.E.QRY1[R16]",
)
_OPERATIONS = ("PF1", "PF1.5", "PF2", "WB", "IV", "RS", "RSLB")


class Plain(Protocol):
    """The generator of statements without control flow.

    Attributes:
        source: Source of random numbers.
        alone: Threads do not communicate.
    """

    source: Random
    alone: bool

    def register(self) -> int:
        """A register that statements may change."""
        ...

    def guard(self) -> str:
        """The guard of an instruction, mostly none."""
        ...

    def arithmetic(self) -> Statement:
        """An instruction of the lanes."""
        ...

    def conversion(self) -> Statement:
        """An instruction of the conversion unit or of double precision."""
        ...

    def access(self) -> Statement:
        """A load or a store."""
        ...

    def local(self) -> Statement:
        """A load or a store to local memory that uses no register set by the program."""
        ...


class Flow:
    """The generator of statements with control flow.

    Attributes:
        ways: Instructions by which threads may leave the current statement early.
        in_handler, in_function: The statements belong to a trap handler, or to a function, whose
            labels can't be in the table of addresses.
    """

    def __init__(self, writer: Plain) -> None:
        self._writer, self._source = writer, writer.source
        self.ways: list[str] = []
        self.in_handler = self.in_function = False

    def kinds(
        self, depth: int, inside: Inside, *, traps: bool
    ) -> list[tuple[float, Callable[[], Statement]]]:
        """Relative frequencies and generators of statements, with ``depth`` more levels of nesting;
        with ``traps`` those of traps and errors too.
        """
        found: list[tuple[float, Callable[[], Statement]]] = [(0.7, self.caches)]
        if self.ways:
            found.append((1.5, self.leave))
        if depth:
            found += [(1.2, lambda: self.region(inside)), (0.8, self.irregular)]
        if self.in_handler:
            return found
        found += [(0.4, self.jump), (0.3, self.end), (0.3, self.interrupt)]
        if not self._writer.alone:
            found += [
                (0.5, self.everybody),
                (0.4, self.pointer),
                (0.3, self.barrier_state),
                (0.2, self.local_base),
            ]
        if traps:
            found += [(0.6, self.trap), (0.15, self.error)]
        return found

    def _predicate(self) -> str:
        return f"@{self._source.choice(['', '!'])}P{self._source.randrange(6)}"

    def _plain(self, count: int) -> tuple[Statement, ...]:
        """Instructions without control flow."""
        writer = self._writer
        makers = (
            writer.arithmetic,
            writer.conversion,
            writer.local if self.in_handler else writer.access,
        )
        return tuple(self._source.choice(makers)() for _ in range(count))

    def within(self, ways: Sequence[str], inside: Inside) -> tuple[Statement, ...]:
        """Generates statements in which threads may also leave by the instructions ``ways``."""
        self.ways += ways
        made = inside()
        del self.ways[len(self.ways) - len(ways) :]
        return made

    def leave(self) -> Statement:
        """Some threads leave the statement, also out of loops and branches in which others
        remain.
        """
        return Statement((f"{self._predicate()} {self._source.choice(self.ways)}",))

    def region(self, inside: Inside) -> Statement:
        """A region with a token at its end, which threads reach one after the other."""
        push = self._source.choice(list(_REGIONS))
        leave = _REGIONS[push]
        return Statement(
            (f"{push} out%",),
            self.within((leave,), inside),
            (f"{self._predicate()} {leave}",),
            self.within((leave,), inside),
            (leave, "out%:"),
        )

    def irregular(self) -> Statement:
        """A region of places with branches between any two of them, for a limited number of steps:
        irreducible control flow.
        """
        counter = f"R{_HANDLER_STEP_COUNTER if self.in_handler else _STEP_COUNTER}"
        places = self._source.randrange(2, 5)
        lines: list[str] = []
        for place in range(places):
            body = [
                line
                for statement in self._plain(self._source.randrange(3))
                for line in statement.before
            ]
            there = self._source.randrange(places)
            branches = [f"{self._predicate()} BRA t{there}_%"]
            if self._source.random() < 0.4 and not self.in_handler:
                branches = self._indexed(f"t{there}_%", f"t{self._source.randrange(places)}_%")
            lines += [
                f"t{place}_%:",
                *body,
                f"IADD32I {counter}, {counter}, -0x1",
                f"ISETP.LT.AND P{CONDITION}, PT, {counter}, RZ, PT",
                f"@P{CONDITION} SYNC",
                *branches,
            ]
        return Statement(
            (
                f"MOV32I {counter}, {self._source.randrange(1, _STEPS):#x}",
                "SSY end%",
                *lines,
                "BRA t0_%",
                "end%:",
            )
        )

    def _indexed(self, *places: str) -> list[str]:
        """A branch of some threads to one of two places, through a register or a table."""
        jump, values = self._source.choice(
            (
                (f"BRX R{INDEX} -.next", places),
                (f"JMX R{INDEX}", places),
                (f"JMX c[0x2][R{INDEX}+<{','.join(places)}>]", ("0x0", "0x4")),
            )[: 2 if self.in_function else 3]
        )
        return [
            f"MOV32I R{INDEX}, {values[0]}",
            f"{self._predicate()} MOV32I R{INDEX}, {values[1]}",
            f"{self._predicate()} {jump} -> {', '.join(places)}",
        ]

    def jump(self) -> Statement:
        """Jumps and calls to absolute addresses, immediate or from a table."""
        if self._source.random() < 0.5:
            jump = self._source.choice(
                ("JMP over%", "JMP c[0x2][<over%>]")[: 1 if self.in_function else 2]
            )
            return Statement(
                ("SSY end%", f"{self._predicate()} {jump}", "SYNC", "over%:"),
                self._plain(1),
                ("SYNC", "end%:"),
            )
        call = self._source.choice(
            ("JCAL sub%", "JCAL.NOINC sub%", "CAL.NOINC sub%", "JCAL c[0x2][<sub%>]")[
                : 3 if self.in_function else 4
            ]
        )
        return Statement(
            ("SSY over%", call, "SYNC", "sub%:", f"{self._predicate()} RET"),
            self._plain(1),
            ("RET", "over%:"),
        )

    def end(self) -> Statement:
        """Threads that end in the last iteration of the program."""
        return Statement(
            (
                f"ISETP.EQ.U32.AND P{CONDITION}, PT, R{TURN}, 0x1, P{self._source.randrange(6)}",
                f"@P{CONDITION} {self._source.choice(['EXIT', 'EXIT.KEEPREFCOUNT', 'KIL'])}",
            )
        )

    def interrupt(self) -> Statement:
        """Interrupts of the host without a trap, and masked traps."""
        if self._source.random() < 0.5:
            return Statement((self._source.choice(("BPT.INT", "BPT.DRAIN")),))
        return Statement(("IDE.DI",), self._plain(2), ("IDE.EN",))

    def everybody(self) -> Statement:
        """Statements with all live threads active (SAM, RAM)."""
        return Statement(("SAM",), self._plain(self._source.randrange(1, 3)), ("RAM",))

    def pointer(self) -> Statement:
        """Reads the stack pointer and sets it to the same value, which rounds it up to a full
        line.
        """
        if self._source.random() < 0.3:
            return Statement((f"GETCRSPTR R{self._writer.register()}", "CCTLL.CRS.WBALL"))
        return Statement(("CCTLL.CRS.WBALL", f"GETCRSPTR R{INDEX}", f"SETCRSPTR R{INDEX}"))

    def local_base(self) -> Statement:
        """Reads the base of local memory and sets it to the same value."""
        return Statement((f"GETLMEMBASE R{INDEX}", f"SETLMEMBASE R{INDEX}"))

    def barrier_state(self) -> Statement:
        """Reads and sets the state of an unused barrier, or the warp's barrier state."""
        kind, number = self._source.choice((("", 7), ("", 15), (".RESULT", 0), (".WARP", 0)))
        read = f"B2R{kind} R{INDEX}" + ("" if kind else f", {number:#x}")
        return Statement((read, f"R2B{kind} {number:#x}, R{INDEX}"))

    def caches(self) -> Statement:
        """Requests to caches, and their results."""
        line = self._source.choice(_CACHES).format(operation=self._source.choice(_OPERATIONS))
        return Statement(
            (
                f"{self._writer.guard()}{line}"
                if "R16" not in line or not self.in_handler
                else "NOP",
            )
        )

    def trap(self) -> Statement:
        """A trap of the program itself."""
        trap = f"BPT.TRAP {self._source.randrange(1, 8):#x}"
        if self._source.random() < 0.5:
            return Statement((trap,))
        return Statement(("SSY over%", f"{self._predicate()} SYNC", trap, "SYNC", "over%:"))

    def error(self) -> Statement:
        """An error of some warps in the last iteration; the handler ends these warps."""
        bad = self._source.choice(_ERRORS).format(register=self._writer.register())
        return Statement(
            (
                f"LOP32I.AND R{INDEX}, R{SELF}, 0x60",
                f"ISETP.EQ.U32.AND P{CONDITION}, PT, R{TURN}, 0x1, PT",
                f"ISETP.EQ.U32.AND P{CONDITION}, PT, R{INDEX}, {32 * self._source.randrange(4):#x}, P{CONDITION}",
                "SSY over%",
                f"@!P{CONDITION} SYNC",
                bad,
                "SYNC",
                "over%:",
            )
        )


def handler_head() -> tuple[str, ...]:
    """The beginning of a handler: saves predicates and CC."""
    return (f"P2R R{_PREDICATES}, PR, RZ, 0x7f", f"P2R R{_FLAGS}, CC, RZ, 0xf")


def handler_end(source: Random) -> tuple[str, ...]:
    """The end of a handler: ends warps with an error, sometimes pauses, restores the state and
    returns.
    """
    over = source.choice(
        (
            ("RTT.TERMINATE",),
            ("RTT.FALLTHROUGH", f"MOV R{_STATUS}, RZ", f"SETCRSPTR R{_STATUS}", "EXIT"),
        )
    )
    pause = source.choice(((), (), ("BPT.PAUSE",), ("BPT.DRAIN", "BPT.PAUSE_QUIET")))
    return (
        f"S2R R{_STATUS}, SR_WARPERRORSTATUS",
        f"LOP32I.AND R{_STATUS}, R{_STATUS}, 0x1",
        f"ISETP.EQ.U32.AND P{CONDITION}, PT, R{_STATUS}, RZ, PT",
        f"@P{CONDITION} BRA back",
        *over,
        "back:",
        *pause,
        f"R2P CC, R{_FLAGS}, 0xf",
        f"R2P PR, R{_PREDICATES}, 0x7f",
        "RTT",
    )
