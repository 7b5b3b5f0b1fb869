"""Makes the kernels of video instructions.

    python -m testbench.programs.video.build [--check]

For each instruction ``NAME.ptx``, and ``NAME.O0.cubin`` and ``NAME.O3.cubin`` by ptxas. Needs ``pip
install -e '.[cuda]'``. With ``--check`` no file is written: files that would change are named (exit
code 1).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from sim.support.command import OutputError, Parser
from sim.toolchain.cuda import CompilerError, cubin_of_ptx
from testbench.kernels.manifest import LEVELS
from testbench.programs.cuda.build import update
from testbench.programs.video.reference import KERNELS, SEVERAL

__all__ = ["FOLDER", "THREADS", "kernels", "main"]

FOLDER = Path(__file__).parent
THREADS = 256
_COUNT = 128
_PARTS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
_DISTANCES = tuple(
    f"vabsdiff4.u32.{a}32.{b}32{then} r, a, b, c;"
    for a in "us"
    for b in "us"
    for then in ("", ".add")
)
"""PTX instructions that are one instruction of the machine, VABSDIFF4."""
_BEGINNING = """.version 7.8
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .b32 a, b, c, r, t, block, size;
    .reg .b64 from, to, at;
    mov.u32 t, %tid.x;
    mov.u32 block, %ctaid.x;
    mov.u32 size, %ntid.x;
    mad.lo.u32 t, block, size, t;
    ld.param.u64 from, [in];
    ld.param.u64 to, [out];
    cvta.to.global.u64 from, from;
    cvta.to.global.u64 to, to;
    mul.wide.u32 at, t, 12;
    add.u64 from, from, at;
    mul.wide.u32 at, t, 4;
    add.u64 to, to, at;
    ld.global.u32 a, [from];
    ld.global.u32 b, [from+4];
    ld.global.u32 c, [from+8];
{body}    ret;
}}
"""


def _several(source: Random, count: int) -> str:
    """Returns a random instruction on two halves or four bytes; a quarter of them select all parts
    in their order.
    """
    opcode, letter = source.choice(SEVERAL), "bh"[count == 2]
    kinds = "".join(f".{source.choice('us')}32" for _ in range(3 if opcode != "vset" else 2))
    mask = "".join(str(place) for place in reversed(range(count)) if source.getrandbits(1)) or "0"
    into, of_a, of_b = (
        f".{letter}{text}" if source.random() < 0.5 else ""
        for text in (
            mask,
            *("".join(str(source.randrange(2 * count)) for _ in range(count)) for _ in "ab"),
        )
    )
    if source.random() < 0.25:
        into = of_a = of_b = ""
    compare = f".{source.choice(('eq', 'ne', 'lt', 'le', 'gt', 'ge'))}" if opcode == "vset" else ""
    then = source.choice(("", ".add") if compare else ("", ".sat", ".add"))
    return f"{opcode}{count}{kinds}{compare}{then} r{into}, a{of_a}, b{of_b}, c;"


def _instruction(source: Random, opcode: str) -> str:
    """Returns an instruction with random modifiers."""
    if opcode in ("halves", "bytes"):
        return _several(source, 2 if opcode == "halves" else 4)
    kinds = [f".{source.choice('us')}32" for _ in range(3)]
    a, b, third = (source.choice(_PARTS) for _ in range(3))
    a, b = (
        f"a{a}",
        f"b{b}" if source.random() < 0.85 else str(source.choice((source.getrandbits(15), 3, 40))),
    )
    saturate = source.choice(("", ".sat"))
    if opcode == "vmad":
        plus_one = source.random() < 0.2
        minus = (
            ("", "", "")
            if plus_one
            else source.choice((("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-")))
        )
        signs = [
            "" if operand[0].isdigit() else sign
            for sign, operand in zip(minus, (a, b, "c"), strict=True)
        ]
        scale = source.choice(("", ".shr7", ".shr15"))
        modifiers = f"{''.join(kinds)}{'.po' * plus_one}{saturate}{scale}"
        return f"vmad{modifiers} r, {signs[0]}{a}, {signs[1]}{b}, {signs[2]}c;"
    # the assembler replaces a vset with a constant operand by another instruction
    if opcode == "vset":
        b = f"b{source.choice(_PARTS)}"
        modifiers = f"{kinds[1]}{kinds[2]}.{source.choice(('eq', 'ne', 'lt', 'le', 'gt', 'ge'))}"
    elif opcode in ("vshl", "vshr"):
        modifiers = f"{kinds[0]}{kinds[1]}.u32{saturate}{source.choice(('.clamp', '.wrap'))}"
    else:
        modifiers = "".join(kinds) + saturate
    match source.randrange(3):
        case 0:
            return f"{opcode}{modifiers}.{source.choice(('add', 'min', 'max'))} r, {a}, {b}, c;"
        case 1 if third:
            return f"{opcode}{modifiers} r{third}, {a}, {b}, c;"
        case _:
            return f"{opcode}{modifiers} r, {a}, {b};"


def _module(opcode: str) -> str:
    source = Random(opcode)
    first = list(_DISTANCES) if opcode == "bytes" else []
    found = [*first, *(_instruction(source, opcode) for _ in range(_COUNT - len(first)))]
    body = "".join(
        f"    {text}\n    st.global.u32 [to+{4 * THREADS * at}], r;\n"
        for at, text in enumerate(found)
    )
    return _BEGINNING.format(body=body)


def kernels() -> Iterator[tuple[Path, bytes]]:
    """Yields all files and their contents."""
    for opcode in KERNELS:
        text = _module(opcode)
        yield FOLDER / f"{opcode}.ptx", text.encode()
        for level in LEVELS:
            yield FOLDER / f"{opcode}.{level}.cubin", cubin_of_ptx(text, f"-{level}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = Parser(
        "testbench.programs.video.build", "Makes the kernels of video instructions.", "--check"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; name the files that would change"
    )
    options = parser.parse_args(arguments)
    try:
        return update(kernels(), options.check)
    except (CompilerError, OutputError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
