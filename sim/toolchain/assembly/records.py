"""The ``.nv.info`` records of assembled code: those that NVIDIA's assembler writes, in its order.

Records that follow from the code or its directives are generated here; ``.info`` directives add
others, or replace generated ones.
"""

from collections.abc import Iterable, Mapping, Sequence

from rtl.isa.special_registers import SpecialRegister
from rtl.isa.table import find
from sim.toolchain.cubin.nvinfo import (
    LARGEST_ATTRIBUTE,
    Attribute,
    BranchTargets,
    KernelParameter,
    Record,
    RecordFormat,
)
from sim.toolchain.cubin.object_file import PARAMETER_BASE, TOOLKIT

from . import source
from .program import AssemblyProgram, CodeSection, SectionFunction, line_address
from .source import Number, SourceError, at_most

__all__ = ["CODE_MARKS", "FORMATS", "code_records", "file_records"]

CODE_MARKS = {
    ".coop_group": Attribute.COOP_GROUP_INSTR_OFFSETS,
    ".warp_wide": Attribute.INT_WARP_WIDE_INSTR_OFFSETS,
}
"""Marks whose instructions are listed in a record."""

FORMATS = {"half": RecordFormat.HALF, "byte": RecordFormat.BYTE}
"""The formats of records, by their names in ``.info``."""

_ANY_REGISTERS = 0xFF
_CTA_REGISTERS = (SpecialRegister.CTAID_X, SpecialRegister.CTAID_Y, SpecialRegister.CTAID_Z)
_ORDER = (
    Attribute.CUDA_API_VERSION,
    Attribute.SW2393858_WAR,
    Attribute.SW1850030_WAR,
    Attribute.PARAM_CBANK,
    Attribute.CBANK_PARAM_SIZE,
    Attribute.KPARAM_INFO,
    Attribute.EXPLICIT_CACHING,
    Attribute.MAXREG_COUNT,
    Attribute.COOP_GROUP_INSTR_OFFSETS,
    Attribute.INT_WARP_WIDE_INSTR_OFFSETS,
    Attribute.S2RCTAID_INSTR_OFFSETS,
    Attribute.EXIT_INSTR_OFFSETS,
    Attribute.CTAIDZ_USED,
    Attribute.INDIRECT_BRANCH_TARGETS,
    Attribute.CRS_STACK_SIZE,
)


def file_records(program: AssemblyProgram, symbols: Mapping[str, int]) -> list[Record]:
    """Returns the records about all functions of a file: registers and stack sizes. ``symbols``
    maps names to indices.
    """
    found: list[Record] = []
    for code in reversed(program.codes):
        index = symbols[str(code.name)]
        found.append(Record.sized(Attribute.REGCOUNT, (index, code.amounts[".registers"])))
        inner = sorted(code.parts[1:], key=lambda part: -symbols[str(part.name)])
        for part in (*inner, code.parts[0]):
            found += _stack_records(part, symbols[str(part.name)])
    return _with_given(found, program.infos, symbols, ())


def _stack_records(part: SectionFunction, index: int) -> list[Record]:
    """Returns the records of a function's stack: its own frame, and the total with its callees.
    Each is the default of the other.
    """
    local = part.local if part.local is not None else part.frame or 0
    frame = part.frame if part.frame is not None else part.local or 0
    return [
        Record.sized(attribute, (index, size))
        for attribute, size in (
            (Attribute.MAX_STACK_SIZE, 0),
            (Attribute.MIN_STACK_SIZE, local),
            (Attribute.FRAME_SIZE, frame),
        )
    ]


def code_records(
    code: CodeSection,
    words: Sequence[int],
    targets: Sequence[BranchTargets],
    symbols: Mapping[str, int],
    bank0: int | None,
) -> list[Record]:
    """Returns the records about one code section with these instruction words. ``bank0`` is the
    symbol index of its bank 0.
    """
    found = [
        Record.sized(Attribute.CUDA_API_VERSION, (TOOLKIT,)),
        Record(Attribute.SW2393858_WAR, RecordFormat.NONE),
        Record(Attribute.SW1850030_WAR, RecordFormat.NONE),
    ]
    if code.kernel:
        found += _parameter_records(code, bank0)
        found.append(Record(Attribute.MAXREG_COUNT, RecordFormat.HALF, _ANY_REGISTERS))
    for mark, attribute in CODE_MARKS.items():
        marked = [
            line_address(index) for index, line in enumerate(code.lines) if mark in line.marks
        ]
        if marked:
            found.append(Record.sized(attribute, marked))
    found += _instruction_records(words)
    if targets:
        found.append(BranchTargets.record(targets))
    if code.amounts.get(".crs"):
        found.append(Record.sized(Attribute.CRS_STACK_SIZE, (code.amounts[".crs"],)))
    return _with_given(found, code.infos, symbols, _ORDER)


def _parameter_records(code: CodeSection, bank0: int | None) -> list[Record]:
    if not code.parameters or bank0 is None:
        return []
    size = code.parameter_bytes
    infos = [
        KernelParameter(ordinal, parameter.position, parameter.size).record()
        for ordinal, parameter in enumerate(code.parameters)
    ]
    return [
        Record.sized(Attribute.PARAM_CBANK, (bank0, PARAMETER_BASE | size << 16)),
        Record(Attribute.CBANK_PARAM_SIZE, RecordFormat.HALF, size),
        *reversed(infos),
    ]


def _instruction_records(words: Sequence[int]) -> list[Record]:
    """Returns the records about single instructions that follow from their words."""
    exits, ctas, uses_z = [], [], False
    for index, word in enumerate(words):
        form = find(word)
        if form is not None and form.name == "EXIT":
            exits.append(line_address(index))
        elif (
            form is not None
            and form.name == "S2R"
            and form.values(word)["special"] in _CTA_REGISTERS
        ):
            ctas.append(line_address(index))
            uses_z |= form.values(word)["special"] == SpecialRegister.CTAID_Z
    found = [Record.sized(Attribute.S2RCTAID_INSTR_OFFSETS, ctas)] if ctas else []
    found += [Record.sized(Attribute.EXIT_INSTR_OFFSETS, exits)] if exits else []
    return found + ([Record(Attribute.CTAIDZ_USED, RecordFormat.NONE)] if uses_z else [])


def _with_given(
    found: list[Record],
    infos: Iterable[source.SassInfo],
    symbols: Mapping[str, int],
    order: Sequence[Attribute],
) -> list[Record]:
    """Returns the records together with those of ``.info`` directives, which replace generated ones
    with the same attribute.
    """
    given = [_given(info, symbols) for info in infos]
    replaced = {record.attribute for record in given}
    records = [record for record in found if record.attribute not in replaced] + given
    ranks = {attribute: rank for rank, attribute in enumerate(order)}
    return sorted(records, key=lambda record: ranks.get(record.attribute, len(ranks)))  # type: ignore[call-overload]


def _given(info: source.SassInfo, symbols: Mapping[str, int]) -> Record:
    """Returns the record of an ``.info`` directive."""
    if isinstance(info.attribute, Number):
        attribute = at_most(info.attribute, LARGEST_ATTRIBUTE)
    elif info.attribute in Attribute.__members__:
        attribute = Attribute[info.attribute].value
    else:
        raise SourceError(info.attribute, f"unknown attribute {info.attribute}")
    bits = {"half": 16, "byte": 8}.get(str(info.format), 32)
    values = [_info_value(value, symbols, bits) for value in info.values or ()]
    if info.format is None and values:
        return Record.sized(attribute, values)
    if len(values) != (info.format is not None):
        raise SourceError(
            info.attribute, f"{info.attribute}: expected one value behind {info.format}"
        )
    return Record(attribute, FORMATS.get(info.format, RecordFormat.NONE), *values)  # type: ignore[arg-type]


def _info_value(value: source.SassSum, symbols: Mapping[str, int], bits: int) -> int:
    """Returns a number, or the index of the symbol with a name."""
    total = 0
    for sign, token in value.terms:
        if not isinstance(token, Number) and token not in symbols:
            raise SourceError(token, f"{token} is no symbol of the file")
        total += sign * (token if isinstance(token, Number) else symbols[token])
    if not 0 <= total < 1 << bits:
        raise SourceError(value.token, f"{total:#x} does not fit {bits} bits")
    return total
