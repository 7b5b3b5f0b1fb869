"""Random PTX of every instruction form of the front end, with every kind of operand.

``python -m testbench.compiler.every_form --programs 1000`` compiles programs, one at a time. With
``--nvidia`` each instruction that NVIDIA's assembler accepts must be accepted. Exit code 1 if the
compiler fails.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from sim.toolchain.cuda import CompilerError, MissingCompilerError, cubin_of_ptx
from sim.toolchain.from_ptx import CompilerFaultError, compiled_object
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.forms import Dialect, InstructionForm, forms, opcodes
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.modifiers import ModifierField
from sim.toolchain.ptx.module import Type
from sim.toolchain.ptx.operand_kinds import (
    AddressOperand,
    AddressRegister,
    BarrierNumber,
    ControlOperands,
    LoadResult,
    MoveResult,
    MoveSource,
    NumberBelow,
    OperandKind,
    OperandType,
    PointerSource,
    ResultAndPredicate,
    ResultOperand,
    SourceOperand,
    SourceRegister,
    StoreSource,
    ThreadCount,
    type_of,
)
from sim.toolchain.ptx.special import VECTOR_REGISTERS
from testbench.ptx.text import HEADER

_DIALECT = Dialect((7, 8), 50)
"""The dialect of the header."""
_WIDTHS = (0, 1, 2, 3, 5, 6, 8, 11, 12, 13, 16, 19, 20, 22, 23, 24, 31, 32, 63)
WHOLE = sorted(
    {sign * (1 << bits) + near for bits in _WIDTHS for near in (-1, 0, 1) for sign in (1, -1)}
    | {
        0,
        33,
        100,
        255 << 8,
        0x1F1F,
        0x3210,
        0x8765_4321,
        0xFFFF_FFFF_FFFF_FFFF,
        0x0001_0000_0001_0000,
    }
)
"""Integers at the limits of instruction fields."""
_SINGLE = (
    "0f00000000",
    "0f80000000",
    "0f3f800000",
    "0fbf800000",
    "0f7f800000",
    "0fff800000",
    "0f7fc00000",
    "0f00000001",
    "0f3f801234",
    "0f7f7fffff",
    "1.0",
    "0.1",
    "-3.5",
    "0f3f000fff",
    "0f3f001000",
    "0f7f801000",
)
_DOUBLE = (
    "0d0000000000000000",
    "0d8000000000000000",
    "0d3ff0000000000000",
    "0d7ff0000000000000",
    "0d7ff8000000000000",
    "0d3ff0000000000001",
    "0d0000000000000001",
    "1.0",
    "-0.1",
    "0d3ff1000000000000",
    "0d3ff0100000000000",
)
_OFFSETS = (
    0,
    4,
    8,
    16,
    -4,
    -16,
    2044,
    2048,
    0x7FFFF0,
    0x800000,
    -0x800000,
    -0x800010,
    0x7FFFC,
    0x80000,
    -0x80000,
    0x1FFFFC,
    0x200000,
    0xFFF0,
    0x10000,
    0x7FFFFFF0,
    -0x7FFFFFF0,
    0xFFFFFFF0,
    1,
    3,
)
_FILES = {"b16": "h", "b32": "r", "b64": "d", "f16": "g", "f32": "f", "f64": "e", "pred": "p"}
"""Prefix of the registers of each kind."""
_PER_FILE = 6
_KNOWN = 3
"""Number of registers of each kind that have constants and that no instruction changes."""
_VARIABLES = {
    "global": ("gv", "gs"),
    "shared": ("sv", "ss"),
    "local": ("lv",),
    "const": ("cv",),
    "param": ("out", "pa"),
}
_MODULE = """.global .align 16 .b8 gv[4096]; .global .u32 gs; .const .align 16 .b8 cv[1024];
.shared .align 16 .b8 sv[1024]; .shared .u32 ss;
.func (.reg .b32 r) plain(.reg .b32 a) { add.u32 r, a, 1; ret; }
"""
_SELECTORS = ("", "", "", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")


def _register_kind(kind: str) -> str:
    if kind in _FILES:
        return kind
    return f"b{max(int(kind[1:]), 16)}" if kind[1:].isdigit() else kind


@dataclass
class Writer:
    """Writes instructions. ``numbers`` is how often, of ten times, an operand that may be a number
    is one.
    """

    source: Random
    numbers: int = 4
    types: list[Type] = field(default_factory=list)

    def instruction(self, opcode: str, form: InstructionForm) -> str | None:
        """Returns an instruction of a form, or None for a form that has its own operands."""
        if form.operands and isinstance(form.operands[0], ControlOperands):
            return None
        self.types, vector, space, to = [], 1, "", False
        mnemonic = opcode
        for place in form.modifiers:
            if place.optional and self.source.random() < 0.6:
                continue
            word = self.source.choice(place.words)
            mnemonic += f".{word}"
            match place.field:
                case ModifierField.TYPES:
                    self.types.append(place.values[word])
                case ModifierField.VECTOR:
                    vector = place.values[word]
                case ModifierField.SPACE:
                    space = word
                case ModifierField.TO:
                    to = True
        operands = [self._operand(kind, opcode, vector, space, to) for kind in form.operands]
        guard = self.source.choice(
            [
                "",
                "",
                "",
                "",
                f"@p{self.source.randrange(_PER_FILE)} ",
                f"@!p{self.source.randrange(_PER_FILE)} ",
            ]
        )
        given = [operand for operand in operands if operand is not None]
        return f"{guard}{mnemonic} {', '.join(given)}".rstrip() + ";"

    def _operand(
        self, kind: OperandKind, opcode: str, vector: int, space: str, to: bool
    ) -> str | None:
        """Returns an operand of a kind; None for one that is omitted."""
        if kind.optional and self.source.random() < 0.5:
            return None
        match kind:
            case AddressOperand():
                return f"[{self.address(space, opcode)}]"
            case LoadResult() | StoreSource():
                result = isinstance(kind, LoadResult)
                elements = [
                    self.value(self.types[0].value, number=True, result=result)
                    for _ in range(vector)
                ]
                return f"{{{', '.join(elements)}}}" if vector > 1 else elements[0]
            case MoveResult():
                self.moved = self.move(self.types[0].value, vector)
                return self.moved[0]
            case MoveSource():
                return self.moved[1]
            case BarrierNumber():
                return self.source.choice([str(self.source.randrange(16)), self.register("b32")])
            case ThreadCount():
                return self.source.choice(
                    [str(32 * self.source.randrange(1, 33)), self.register("b32")]
                )
            case NumberBelow():
                return str(self.source.randrange(kind.limit))
            case ResultOperand():
                return self._result(kind)
            case ResultAndPredicate():
                text = self.register(_register_kind(self._type(kind.type)), result=True)
                if self.source.random() < 0.5:
                    text += f"|{self.register('pred', result=True)}"
                return text
            case SourceOperand():
                return self._source(kind)
            case SourceRegister():
                return self.value(self._type(kind.type), number=False)
            case AddressRegister():
                return self.value(self.source.choice(["u32", "u64"]), number=False)
            case PointerSource():
                is_variable = not to and space not in ("param", "") and self.source.random() < 0.5
                if is_variable:
                    return self.source.choice(_VARIABLES[space])
                return self.value(self._type(kind.type), number=True)
            case _:
                raise AssertionError(f"{kind} is not written")

    def _result(self, kind: ResultOperand) -> str:
        """Returns a register for a result."""
        selector = self.source.choice(_SELECTORS) if kind.subword else ""
        if kind.sink and self.source.random() < 0.3:
            return "_"
        register = self.value(self._type(kind.type), number=False, result=True)
        return register + selector if register[0] in "rhd" else register

    def _source(self, kind: SourceOperand) -> str:
        """Returns a register or a number, with a selector or a sign where they are permitted."""
        type_ = self._type(kind.type)
        selector = self.source.choice(_SELECTORS) if kind.subword else ""
        signed = (kind.minus or kind.complement) and self.source.random() < 0.3
        negated = signed and kind.complement == (type_ == "pred")
        needs_register = selector or (negated and type_ != "pred")
        text = self.value(type_, number=not needs_register)
        if selector and text[0] in "rhd":
            text += selector
        if negated and text[0] in "rp":
            text = ("!" if kind.complement else "-") + text
        return text

    def _type(self, kind: OperandType) -> str:
        """Returns the type of an operand."""
        return type_of(kind, self.types).value

    def register(self, kind: str, result: bool = False) -> str:
        """Returns a register of a kind."""
        return f"{_FILES[kind]}{self.source.randrange(_KNOWN if result else 0, _PER_FILE)}"

    def value(self, kind: str, number: bool, result: bool = False) -> str:
        """Returns a register or number of a type."""
        if result or not number or self.source.randrange(10) >= self.numbers:
            return self.register(_register_kind(kind), result)
        match kind:
            case "f16":
                return self.register(kind)
            case "f32":
                return self.source.choice(_SINGLE)
            case "f64":
                return self.source.choice(_DOUBLE)
            case "pred":
                return self.source.choice(["0", "1"])
        return str(self.source.choice(WHOLE))

    def move(self, kind: str, vector: int) -> tuple[str, str]:
        """Returns both operands of mov."""
        to = self.register(_register_kind(kind), result=True)
        width = int(kind[1:]) if kind[0] == "b" else 0
        choice = self.source.random()
        if vector > 1:
            to, found = (
                self._elements(_register_kind(kind), vector, result) for result in (True, False)
            )
            return to, found
        for count, limit in ((2, 0.3), (4, 0.4)):
            if width // count in (16, 32) and choice < limit:
                unpacks = self.source.random() < 0.5
                parts = self._elements(f"b{width // count}", count, unpacks)
                return (parts, self.register(_register_kind(kind))) if unpacks else (to, parts)
        if kind in ("u32", "b32", "s32") and choice < 0.5:
            name = self.source.choice(
                [
                    *(f"{name}.{axis}" for name in VECTOR_REGISTERS for axis in "xyz"),
                    "%laneid",
                    "%warpid",
                    "%clock",
                    "%lanemask_lt",
                    "%dynamic_smem_size",
                    "%envreg3",
                    "%smid",
                ]
            )
            return to, name
        if kind in ("u64", "b64", "s64") and choice < 0.6:
            return to, self.source.choice(
                ["%clock64", "%globaltimer", "plain", "gv", "sv", "lv", "cv", "gs+8", "out"]
            )
        return to, self.value(kind, number=True)

    def _elements(self, kind: str, count: int, result: bool) -> str:
        """Returns a vector of registers."""
        return "{" + ", ".join(self.register(kind, result) for _ in range(count)) + "}"

    def address(self, space: str, opcode: str) -> str:
        """Returns an address without its brackets."""
        offset = self.source.choice(_OFFSETS)
        names = _VARIABLES.get(space or self.source.choice(["global", "shared", "local"]), ())
        store = opcode in ("st", "atom", "red")
        kind = self.source.random()
        if names and kind < 0.4 and not (space == "param" and store):
            return self.source.choice(names) + (
                f"{offset % 1024:+}" if self.source.random() < 0.6 else ""
            )
        if kind < 0.5 and space != "param":
            return str(
                self.source.choice([64, 1024, 0x10000, 0x7FFF_FFF0, 0xFFFF_FFF0, -16, 1 << 24])
            )
        base = self.register(
            "b32" if space in ("shared", "local", "const") and self.source.random() < 0.5 else "b64"
        )
        return f"{base}{offset:+}" if self.source.random() < 0.7 else base


def all_forms() -> list[tuple[str, InstructionForm]]:
    """Returns every form with the opcode under which it is written."""
    return [(opcode, form) for opcode in opcodes() for form in forms(opcode, _DIALECT)]


def constants(source: Random) -> Iterator[str]:
    """Yields instructions that set registers of each kind to constants, which the compiler
    propagates.
    """
    for kind, letter in _FILES.items():
        for at in range(_KNOWN):
            match kind:
                case "pred":
                    yield f"setp.ne.u32 {letter}{at}, {source.randrange(2)}, 0;"
                case "f16":
                    yield f"mov.b16 {letter}{at}, {source.choice(WHOLE)};"
                case "f32" | "f64":
                    yield f"mov.{kind} {letter}{at}, {source.choice(_SINGLE if kind == 'f32' else _DOUBLE)};"
                case _:
                    yield f"mov.{kind} {letter}{at}, {source.choice(WHOLE)};"


def program(source: Random, instructions: list[str]) -> list[str]:
    """Returns the lines of a program with these instructions, which stores the registers at the
    end.
    """
    lines = [
        *HEADER.splitlines(),
        *_MODULE.splitlines(),
        ".visible .entry k(.param .u64 out, .param .u32 pa)",
        "{",
        ".local .align 16 .b8 lv[512];",
    ]
    lines += [f".reg .{kind} {letter}<{_PER_FILE}>;" for kind, letter in _FILES.items()]
    lines += [
        "ld.param.u64 d3, [out]; ld.global.b32 r3, [d3]; ld.global.b32 r4, [d3+4]; ld.global.b64 d4, [d3+8];",
        "ld.global.f32 f3, [d3+16]; ld.global.f64 e3, [d3+24]; ld.global.b16 h3, [d3+32]; mov.b16 g3, h3;",
        "mov.b64 d5, d3; mov.b32 r5, %tid.x; setp.lt.u32 p3, r5, 7;",
        *constants(source),
    ]
    for instruction in instructions:
        lines.append(instruction)
        if source.random() < 0.5:
            kind = source.choice([kind for kind in _FILES if kind != "pred"])
            store = "b16" if kind == "f16" else kind
            lines.append(
                f"st.volatile.global.{store} [d3+64], {_FILES[kind]}{source.randrange(_PER_FILE)};"
            )
    for kind, letter in _FILES.items():
        for at in range(_PER_FILE):
            if kind == "pred":
                lines.append(f"selp.b32 r0, 1, 0, p{at}; st.volatile.global.b32 [d3+64], r0;")
            else:
                store = "b16" if kind == "f16" else kind
                lines.append(f"st.volatile.global.{store} [d3+64], {letter}{at};")
    return [*lines, "ret;", "}"]


_OTHERS = frozenset(
    (
        "activemask",
        "addc",
        "atom",
        "bar",
        "barrier",
        "brkpt",
        "cvta",
        "exit",
        "isspacep",
        "ld",
        "ldu",
        "madc",
        "membar",
        "mov",
        "pmevent",
        "prefetch",
        "prefetchu",
        "red",
        "ret",
        "st",
        "subc",
        "trap",
    )
)
"""Instructions with effects outside of registers, and those that read a carry that may be
undefined.
"""
_STORED = ("b16", "b32", "b64", "f32", "f64")
THREAD_BYTES = 8 * _PER_FILE * len(_STORED) + 16
"""Number of bytes that each thread of a computing program stores."""


def computing_forms() -> list[tuple[str, InstructionForm]]:
    """Returns the forms whose results are fully defined: no memory, approximations, undefined
    carries or missing lanes.
    """
    return [
        (opcode, form)
        for opcode, form in all_forms()
        if opcode not in _OTHERS
        and not any(place.field is ModifierField.APPROXIMATION for place in form.modifiers)
    ]


def computing_program(seed: int, count: int) -> str:
    """Returns a program of instructions with defined results, in which each thread stores all its
    registers.

    Its parameter is a buffer of THREAD_BYTES for each thread, which begins with 8 bytes of input.
    """
    source = Random(seed)
    writer = Writer(source)
    known = computing_forms()
    Random(seed * count // len(known)).shuffle(known)
    lines = [f".reg .{kind} {letter}<{_PER_FILE}>;" for kind, letter in _FILES.items()]
    lines += [
        ".reg .b64 x; .reg .b32 t; mov.u32 t, %tid.x; ld.param.u64 x, [out];",
        f"mul.wide.u32 d3, t, {THREAD_BYTES}; add.u64 x, x, d3; ld.global.b64 d3, [x]; mov.b64 {{r3, r4}}, d3;",
        "mov.b32 {h3, h4}, r3; mov.b64 d5, 5; mov.b32 r5, t; mov.b16 h5, 9;",
        "mov.b32 f3, r3; mov.b32 f4, r4; mov.b32 f5, t; mov.b64 e3, d3; mov.f64 e4, 1.5; mov.f64 e5, 0.3;",
        "mov.b64 d4, d3; mov.b16 g3, h3; mov.b16 g4, h4; mov.b16 g5, h5;",
        "setp.lt.u32 p3, r3, r4; setp.lt.u32 p4, t, 9; setp.gt.s32 p5, r3, r4;",
        *constants(source),
    ]
    for at in range(count):
        instruction = writer.instruction(*known[(seed * count + at) % len(known)])
        if instruction is not None:
            # Threads are converged where they read values of one another.
            apart = instruction.startswith("@") and any(
                name in instruction for name in ("shfl", "vote")
            )
            lines.append(instruction.split(" ", 1)[1] if apart else instruction)
    place = 8
    for kind in _STORED:
        for at in range(_PER_FILE):
            lines.append(f"st.global.{kind} [x+{place}], {_FILES[kind]}{at};")
            place += 8
    lines += [
        f"selp.b32 r0, {1 << at}, 0, p{at}; or.b32 t, t, r0;" for at in range(_KNOWN, _PER_FILE)
    ]
    return "\n".join(
        [
            HEADER,
            ".visible .entry k(.param .u64 out) {",
            *lines,
            f"st.global.b32 [x+{place}], t;",
            "ret;",
            "}\n",
        ]
    )


class WrongRefusalError(Exception):
    """A refusal that names no line of the text, or a failure of the compiler."""


def refused_line(lines: list[str]) -> tuple[int, str] | None:
    """Returns the line that is refused, counted from 1, and the message; None for a program that is
    compiled.

    Raises WrongRefusalError if the compiler fails.
    """
    name = "random.ptx"
    try:
        compiled_object(parse_ptx("\n".join(lines) + "\n", name), name)
    except CompilerFaultError as error:
        raise WrongRefusalError(str(error)) from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise WrongRefusalError(f"{type(error).__name__}: {error}") from error
    except ProgramError as error:
        file, line, column, message = [*str(error).split(":", 3), "", "", ""][:4]
        if file != name or not line.isdigit() or not column.isdigit() or not message:
            raise WrongRefusalError(str(error)) from error
        return int(line), message.strip()
    return None


def check(lines: list[str]) -> list[tuple[str, str]]:
    """Compiles a program without the lines that are refused; returns these with their messages."""
    found = []
    lines = list(lines)
    while (refused := refused_line(lines)) is not None:
        line, why = refused
        found.append((lines[line - 1], why))
        lines[line - 1] = ""
    return found


def shrunk(lines: list[str]) -> list[str]:
    """Returns the lines of a failing program that are necessary for the compiler's failure."""
    first = lines.index("{") + 1
    at, size = first, len(lines) // 2
    while size:
        fewer = [*lines[:at], *lines[at + size :]]
        try:
            check(fewer)
        except WrongRefusalError:
            lines = fewer
        else:
            at += size
        if at + size >= len(lines) - 1:
            at, size = first, size // 2
    return lines[first:-1]


def random_program(seed: int, count: int) -> list[str]:
    """Returns a program of ``count`` instructions of random forms."""
    source = Random(seed)
    writer = Writer(source)
    known = all_forms()
    Random(seed * count // len(known)).shuffle(known)
    chosen = [known[(seed * count + at) % len(known)] for at in range(count)]
    wanted = [writer.instruction(*form) for form in chosen]
    return program(source, [instruction for instruction in wanted if instruction is not None])


def taken_by_nvidia(instruction: str) -> bool:
    """Returns whether NVIDIA's assembler accepts an instruction."""
    try:
        cubin_of_ptx("\n".join(program(Random(1), [instruction])) + "\n")
    except MissingCompilerError:
        raise
    except CompilerError:
        return False
    return True


def main() -> int:
    """Runs the command and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--count", type=int, default=60, help="instructions of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--nvidia", action="store_true", help="compare refusals with NVIDIA's assembler"
    )
    options = parser.parse_args()
    failed = 0
    refusals: dict[str, str] = {}
    for seed in range(options.seed, options.seed + options.programs):
        try:
            refusals.update(check(random_program(seed, options.count)))
        except WrongRefusalError as error:
            failed += 1
            print(
                f"seed {seed}: {error}",
                *shrunk(random_program(seed, options.count)),
                sep="\n    ",
                flush=True,
            )
    print(f"{len(refusals)} instructions refused")
    for instruction, why in refusals.items() if options.nvidia else ():
        if taken_by_nvidia(instruction):
            failed += 1
            print(f"NVIDIA's assembler takes {instruction} which is refused: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
