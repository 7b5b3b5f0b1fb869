"""Disassembly of machine code in the format of NVIDIA's disassembler, a line for each instruction;
instructions without a form have their name and the reason.
"""

from collections.abc import Iterator

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.object_file import ObjectFile, SectionRole
from sim.toolchain.module import ProgramError

from .code_listing import instructions
from .refusals import absent_text

__all__ = ["disassembly", "raw_disassembly"]

_TEXT_COLUMN = 64


def disassembly(file: ObjectFile) -> str:
    """Returns the disassembly of an object file's code sections."""
    return (
        "\n\n".join(
            "\n".join(
                [f"// {section.name}", *_lines(section.content, f"{file.name}: {section.name}")]
            )
            for section in file.by_role[SectionRole.CODE]
        )
        + "\n"
    )


def raw_disassembly(content: bytes, name: str) -> str:
    """Returns the disassembly of bare code: groups of 32 bytes, the first at address 0."""
    return "\n".join(_lines(content, name)) + "\n"


def _lines(content: bytes, name: str) -> Iterator[str]:
    if not content or len(content) % GROUP_BYTES:
        raise ProgramError(f"{name}: {len(content)} bytes are no groups of {GROUP_BYTES}")
    for address, word, code in instructions(content):
        if address % GROUP_BYTES == INSTRUCTION_BYTES:
            control = int.from_bytes(content[address - INSTRUCTION_BYTES : address], "little")
            yield f"{'':{_TEXT_COLUMN}}/* {control:#018x} */"
        text = f"/*{address:04x}*/ {spell(word, address, code.reuse)};"
        reason = absent_text(word)
        yield f"{text:{_TEXT_COLUMN - 1}} /* {word:#018x} */" + (
            "" if reason is None else f" // {reason}"
        )
