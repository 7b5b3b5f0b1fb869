"""Source lines of the instructions of a cubin, from its debug tables."""

from pathlib import PurePosixPath

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from rtl.isa.control_code import INSTRUCTION_BYTES
from sim.toolchain.module import Module

__all__ = ["source_lines"]

_TABLE = ".debug_line"
_PREFIX = ".text."


def source_lines(path: str, module: Module) -> dict[int, tuple[str, int]]:
    """Returns file name and line of the source for each pc that the tables of a cubin cover;
    nothing for other files.
    """
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            return _lines(elf, module) if elf.get_section_by_name(_TABLE) else {}
    except (ELFError, DWARFError, OSError):
        return {}


def _functions(elf: ELFFile) -> list[str]:
    """Returns the functions at which the table's sequences begin, in order, from its
    relocations.
    """
    relocations = elf.get_section_by_name(f".rel{_TABLE}")
    if not isinstance(relocations, RelocationSection):
        return []
    symbols = elf.get_section(relocations["sh_link"])
    assert isinstance(symbols, SymbolTableSection)
    found = sorted(relocations.iter_relocations(), key=lambda relocation: relocation["r_offset"])
    sections = (
        elf.get_section(symbols.get_symbol(one["r_info_sym"])["st_shndx"]).name for one in found
    )
    return [name.removeprefix(_PREFIX) for name in sections]


def _lines(elf: ELFFile, module: Module) -> dict[int, tuple[str, int]]:
    lines: dict[int, tuple[str, int]] = {}
    functions = iter(_functions(elf))
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        names = [
            PurePosixPath(entry.name.decode(errors="replace")).name
            for entry in program["file_entry"]
        ]
        base, before = module.code.symbols.get(next(functions, ""), 0), None
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if before is not None:
                for pc in range(base + before.address, base + state.address, INSTRUCTION_BYTES):
                    lines[pc] = names[before.file - 1], before.line
            before = state
            if state.end_sequence:
                base, before = module.code.symbols.get(next(functions, ""), 0), None
    return lines
