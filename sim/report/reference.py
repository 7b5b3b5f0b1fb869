"""Generated pages of the manual: tables of instructions, registers and error codes."""

from collections.abc import Iterable, Mapping, Sequence

from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS
from rtl.isa.absent import ABSENT
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import (
    COUNTER_BLOCK,
    COUNTERS,
    SM_BLOCK,
    SM_REGISTERS,
    WORK_BLOCK,
    WORK_REGISTERS,
    HostRegister,
)
from rtl.isa.special_registers import SPECIAL_REGISTER_TEXTS, SpecialRegister
from rtl.isa.syntax import Form
from rtl.isa.table import BY_NAME
from sim.report.exceptions import cuda_exception
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.listing.refusals import refused_table

__all__ = ["markdown_table", "reference_pages", "register_rows"]

_VARIANTS = {
    "": "",
    "r": "register",
    "c": "constant",
    "i": "immediate",
    "rc": "register, constant",
    "cr": "constant, register",
}


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def _spelled(form: Form) -> str:
    """Returns the assembler's text for the default word of a form, or its fixed bits."""
    return spell(form.default or form.match)


def _instructions() -> str:
    rows = [
        (
            f"`{name}`",
            form.pipe.name.lower(),
            _VARIANTS.get(form.variant, form.variant),
            f"`{form.match >> 48:04x}/{form.mask >> 48:04x}`",
            f"`{_spelled(form)}`",
        )
        for name, forms in sorted(BY_NAME.items())
        for form in forms
    ]
    return (
        "# Instructions\n\nEvery form of every instruction of the table that decoder, assembler and disassembler "
        "read ([rtl/isa](../rtl/isa/table.py)). *Opcode* are the upper 16 bits of the word, and which of them are "
        "fixed; *example* is a word of the form. Some combinations of modifiers are refused: the list is at the "
        "end.\n\n"
        + markdown_table(("name", "pipe", "operand b", "opcode", "example"), rows)
        + f"\n## What is refused\n\nOf sm_50; {len(ABSENT)} of these have no form. It is what "
        "`python -m sim.dis --refused` prints.\n\n```\n" + refused_table() + "```\n"
    )


def register_rows(base: int, registers: Mapping[str, HostRegister]) -> Iterable[Sequence[str]]:
    """Returns rows of address, name, access, reset value, fields and meaning."""
    for name, register in registers.items():
        first = base + register.offset
        address = (
            f"`{first:#x}`" if register.count == 1 else f"`{first:#x}` + 4n, n < {register.count}"
        )
        bits = ", ".join(
            f"{field} {high}:{low}" if high > low else f"{field} {low}"
            for field, (high, low) in register.fields.items()
        )
        yield (
            address,
            f"`{name}`",
            register.access.value,
            f"{register.reset:#x}",
            bits,
            register.meaning,
        )


def _registers() -> str:
    headings = ("address", "name", "access", "reset", "fields", "meaning")
    text = "# Registers\n\nThe registers that a host sees; how it uses them is on [the host's page](../docs/host.md).\n"
    for title, base, registers in (
        ("Error status and debugger", SM_BLOCK, SM_REGISTERS),
        ("Work distributor", WORK_BLOCK, WORK_REGISTERS),
        ("Board", BOARD_BLOCK, BOARD_REGISTERS),
    ):
        text += f"\n## {title}\n\n{markdown_table(headings, register_rows(base, registers))}"
    counters = (
        (f"`{COUNTER_BLOCK + 8 * number:#x}`", name, what)
        for number, (name, what) in enumerate(COUNTERS.items())
    )
    special = (
        (str(register.value), f"`{SPECIAL_REGISTER_TEXTS[register.value]}`")
        for register in SpecialRegister
    )
    return (
        text
        + f"\n## Counters\n\n{markdown_table(('address', 'name', 'counts'), counters)}"
        + "\n## Special registers\n\nThose that S2R reads as more than 0.\n\n"
        + markdown_table(("number", "name"), special)
    )


def _errors() -> str:
    rows = (
        (
            f"`{error.value:#04x}`",
            error.name,
            "yes" if REPORT_MASK_RESET >> error.value & 1 else "no",
            ""
            if (exception := cuda_exception(error)) is None
            else f"{exception.symbol}, {exception.meaning}",
        )
        for error in WarpError
        if error is not WarpError.NONE
    )
    return (
        "# Warp errors\n\nThe codes of the field ERROR of HWW_WARP_ESR. *Reported*: drivers have the machine "
        "tell of it. Who raises one is on [the host's page](../docs/host.md#warp-errors).\n\n"
        + markdown_table(("code", "name", "reported", "what CUDA calls it"), rows)
    )


def reference_pages() -> dict[str, str]:
    """Returns the Markdown of the pages by name."""
    return {
        "instructions.md": _instructions(),
        "registers.md": _registers(),
        "errors.md": _errors(),
    }
