"""Short PTX programs for tests, and the memory that they leave."""

from collections.abc import Sequence

from sim.launch import Buffer, prepare
from sim.model.ptx.launch import PtxLaunch, place
from sim.model.ptx.run import run
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import PtxInstruction, PtxModule
from testbench.ended import on_warps
from testbench.words import contents

HEADER = ".version 7.8\n.target sm_50\n.address_size 64\n"
"""Header of a module."""
KERNEL = """.visible .entry k(.param .u64 o)
{ .reg .pred p, q; .reg .b16 h<8>; .reg .b32 t, r<16>; .reg .b64 d<16>;
  ld.param.u64 d0, [o]; mov.u32 t, %tid.x; mul.wide.u32 d1, t, 4; add.u64 d1, d0, d1;
"""
"""Start of an entry: d0 is the buffer's address, d1 that of the thread's own word, t the thread's
number.
"""
END = " st.global.u32 [d1], r0; ret; }\n"
"""End of an entry: every thread stores r0 as its own word."""


def module_of(text: str, header: str = HEADER) -> PtxModule:
    """Returns the module of a text, which has no header."""
    return parse_ptx(header + text, "t.ptx")


def complaint(text: str, header: str = HEADER) -> str:
    """Returns the message that refuses a text without header: ``line:column: message``, lines
    counted in the text.
    """
    try:
        module_of(text, header)
    except ProgramError as error:
        file, line, column, what = str(error).split(":", 3)
        assert file == "t.ptx"
        return f"{int(line) - header.count(chr(10))}:{column}:{what}"
    raise AssertionError("nothing was refused")


def placed(text: str, words: Sequence[int] = (0,) * 64, block: int = 32) -> PtxLaunch:
    """Returns a launch of a module whose entry takes a buffer of 32-bit words."""
    content = b"".join((word & 0xFFFF_FFFF).to_bytes(4, "little") for word in words)
    return place(module_of(text), [Buffer("o", content)], block=(block, 1, 1))


def words_left(text: str, words: Sequence[int] = (0,) * 64, block: int = 32) -> list[int]:
    """Returns the buffer after a run of the module."""
    launch = placed(text, words, block)
    run(launch, max_instructions=1_000_000)
    return contents(launch, "o")


def kernel(body: str, before: str = "", block: int = 32, words: int = 64) -> list[int]:
    """Returns the word that each thread stores after a body."""
    return words_left(before + KERNEL + body + END, (0,) * words, block)[:block]


def refused(body: str, before: str = "") -> str:
    """Returns the message that refuses a body, without its column; lines are counted from 1 in the
    body.
    """
    line, _, what = complaint(f"{before}\n{KERNEL}\n{body}\n ret; }}").split(":", 2)
    first = f"{before}\n{KERNEL}\n".count("\n") + 1
    return f"{int(line) - first + 1}:{what}"


def left_everywhere(text: str, threads: int) -> list[int]:
    """Returns the words that threads store, after the check that the interpreter and the warp model
    agree.
    """
    buffer = Buffer("o", bytes(4 * threads))
    interpreted = place(parse_ptx(text, "t.ptx"), [buffer], block=(threads, 1, 1))
    run(interpreted, max_instructions=1_000_000)
    program = load(assemble(compile_module(parse_ptx(text, "t.ptx")), "t"))
    found = contents(on_warps(prepare(program, [buffer], block=(threads, 1, 1))), "o")
    assert contents(interpreted, "o") == found
    return found


def instructions(text: str, function: str = "k", header: str = HEADER) -> list[PtxInstruction]:
    """Returns the instructions of a function."""
    return [
        item
        for item in module_of(text, header).functions[function].body or ()
        if isinstance(item, PtxInstruction)
    ]
