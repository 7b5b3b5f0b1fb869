"""Builds the code of one kernel or function: encodes its lines, adds control codes, packs
groups.
"""

from dataclasses import dataclass

from rtl.isa.control_code import GROUP_INSTRUCTIONS, INSTRUCTION_BYTES, ControlCode, pack
from rtl.isa.kinds import BarrierMode
from rtl.isa.syntax import WORD_BITS, Pipe
from rtl.isa.table import find
from sim.toolchain.cubin.nvinfo import BRANCH, CALL, LARGEST_WORD, BranchTargets
from sim.toolchain.cubin.object_file import CODE_GRANULE

from . import statements
from .control_text import read_control
from .encoding import encode
from .latency import operation
from .operands import Reference
from .program import CodeSection, Emitted, Line, label_place, line_address
from .schedule import ScheduleSlot, schedule
from .scope import CodeScope, FileScope
from .source import Number, SassInstruction, SourceError, at_most

__all__ = ["BuiltCode", "build_code"]

_BARRIERS = 16
_ENDLESS = "[S15]"
"""The control code of the final branch to itself."""
_PADDING = "[Y:S0]"
"""The control code of the NOPs after it."""


@dataclass(frozen=True)
class BuiltCode:
    """The code of a kernel or function: instruction words, the section's content, and unresolved
    references.
    """

    code: CodeSection
    words: tuple[int, ...]
    content: bytes
    references: tuple[tuple[int, Reference], ...]
    """Places in the content, and the reference that completes each."""
    targets: tuple[BranchTargets, ...]


def build_code(code: CodeSection, file_scope: FileScope) -> BuiltCode:
    """Encodes one code section.

    Adds the closing branch and NOPs, and the numbers of registers and barriers that no directive
    gives.

    Raises:
        SourceError: The text has an error.
    """
    _close(code)
    scope = CodeScope(code, file_scope)
    slots: list[ScheduleSlot] = []
    references = []
    targets = []
    joins = set(code.labels.values())
    for index, line in enumerate(code.lines):
        address = line_address(index)
        word, reuse = _word(line, address, scope, references)
        control = read_control(line.node.control, reuse) if line.node.control is not None else None
        slots.append(ScheduleSlot(word, line.node.token, reuse, control, index in joins))
        if isinstance(line.node, SassInstruction) and line.node.targets is not None:
            targets.append(_targets(line.node, address, scope))
    words = tuple(slot.word for slot in slots)
    code.amounts.setdefault(".registers", _registers(words))
    code.amounts.setdefault(".barriers", _barriers(words))
    return BuiltCode(
        code, words, _packed(words, schedule(slots)), tuple(references), tuple(targets)
    )


def _close(code: CodeSection) -> None:
    """Appends a branch to itself and NOPs up to a whole granule, unless the code already ends
    so.
    """
    last = len(code.lines) - 1
    while last >= 0 and _is_mnemonic(code.lines[last], "NOP"):
        last -= 1
    closed = (
        last >= 0
        and _is_mnemonic(code.lines[last], "BRA")
        and not _conditional(code.lines[last])
        and all(index <= last for index in code.labels.values())
    )
    if not closed:
        place = statements.number(label_place(len(code.lines)))
        code.lines.append(Line(statements.instruction("BRA", [place], control=_ENDLESS)))
    while label_place(len(code.lines)) % CODE_GRANULE:
        code.lines.append(Line(statements.instruction("NOP", control=_PADDING)))


def _conditional(line: Line) -> bool:
    """Whether a guard or CC test can disable an instruction with one operand in some threads."""
    node = line.node
    return isinstance(node, SassInstruction) and (
        node.guard is not None or len(node.operands or ()) > 1
    )


def _is_mnemonic(line: Line, mnemonic: str) -> bool:
    return isinstance(line.node, SassInstruction) and line.node.mnemonic == mnemonic


def _word(
    line: Line, address: int, scope: CodeScope, references: list[tuple[int, Reference]]
) -> tuple[int, int]:
    """Returns the word and reuse bits of a line; adds its unresolved references to
    ``references``.
    """
    if isinstance(line.node, Emitted):
        return line.node.word, 0
    if not isinstance(line.node, SassInstruction):
        word = line.node.word
        if word >> WORD_BITS:
            raise SourceError(word, f"{word} does not fit {WORD_BITS} bits")
        return int(word), 0
    encoded = line.encoded
    if encoded is None:
        encoded = encode(line.node, address, scope)
        if encoded.settled:
            line.encoded = encoded
    if encoded.reference is not None:
        references.append((address, encoded.reference))
    return encoded.word, encoded.reuse


def _targets(node: SassInstruction, address: int, scope: CodeScope) -> BranchTargets:
    assert node.targets is not None
    return BranchTargets(
        address,
        BRANCH if node.targets.call is None else CALL,
        tuple(
            at_most(place, LARGEST_WORD) if isinstance(place, Number) else scope.target(place)
            for place in node.targets.places or ()
        ),
    )


def _registers(words: tuple[int, ...]) -> int:
    """Returns the number of registers that the code uses, counted from R0."""
    timings = [timing for word in words if (timing := operation(word)) is not None]
    return max((timing.highest_register + 1 for timing in timings), default=0)


def _barriers(words: tuple[int, ...]) -> int:
    """Returns the number of CTA barriers that the code uses, counted from 0; all of them if a
    register gives the number.
    """
    used = [0]
    for word in words:
        form = find(word)
        if form is None or form.pipe is not Pipe.BARRIER:
            continue
        values = form.values(word)
        if form.name == "BAR" and values["mode"] != BarrierMode.SYNCALL.value:
            used.append(values["barrier"] + 1 if form.variant.startswith("i") else _BARRIERS)
    return max(used)


def _packed(words: tuple[int, ...], codes: list[ControlCode]) -> bytes:
    """Returns the content: groups of a control word and its instructions."""
    content = b""
    for first in range(0, len(words), GROUP_INSTRUCTIONS):
        group = (
            pack(codes[first : first + GROUP_INSTRUCTIONS]),
            *words[first : first + GROUP_INSTRUCTIONS],
        )
        content += b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in group)
    return content
