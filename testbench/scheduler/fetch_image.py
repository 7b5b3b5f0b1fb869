"""A program and its constants in memory, and the groups that fetch must deliver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rtl.fetch import kind_of
from rtl.isa.control_code import (
    CODE_BITS,
    GROUP_BYTES,
    GROUP_INSTRUCTIONS,
    INSTRUCTION_BYTES,
    ControlCode,
    instruction_address,
    pack,
)
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error, exists
from rtl.isa.syntax import Constant
from rtl.isa.table import FORMS, find
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import CONSTANT_BANKS, InstructionKind
from sim.launch import Launch
from sim.launch.memory import Memory, MemoryFaultError
from sim.model.warp.action import constant_address

PROGRAM = 0x12_3456_7800 & ~(LINE_BYTES - 1)
BANKS = 0x20_0000_0000
_WORD = 4


@dataclass(frozen=True)
class Expected:
    """An instruction as fetch delivers it. ``constant`` is None if it has no constant operand at a
    fixed address.
    """

    word: int
    control: int
    kind: InstructionKind
    error: WarpError
    constant: int | None
    missing: bool


class Image:
    """Memory with a program and constant banks, each in whole lines.

    Attributes:
        size: Size of the program in bytes.
        grid: The configuration of the grid with the addresses of program and banks.
        parameters: Whether the machine has floating point, and double precision.
    """

    def __init__(self, code: bytes, banks: Mapping[int, bytes], registers: int) -> None:
        self.memory, self.size, self._registers = Memory(), len(code), registers
        self._banks = {
            number: content + bytes(-len(content) % _WORD) for number, content in banks.items()
        }
        self._known: dict[int, list[Expected]] = {}
        self.parameters: tuple[bool, bool] = True, True
        self._put("program", PROGRAM, code)
        described: list[dict[str, int]] = [{"valid": 0, "address": 0, "size": 0}] * CONSTANT_BANKS
        for number, content in banks.items():
            base = BANKS + (number << 20) + _WORD * 7 * number  # not at the beginning of a line
            described[number] = {"valid": 1, "address": base, "size": len(content)}
            self._put(f"bank {number}", base, content)
        self.grid: dict[str, Any] = {"program": PROGRAM, "registers": registers, "banks": described}

    def _put(self, name: str, base: int, content: bytes) -> None:
        first = base & -LINE_BYTES
        self.memory.map(
            name, first, -(first - base - len(content)) + LINE_BYTES - 1 & -LINE_BYTES or LINE_BYTES
        )
        self.memory.write(base, content)

    def constant(self, bank: int, address: int) -> tuple[int, bool]:
        """A word of a bank, and whether its address is beyond the end."""
        content = self._banks.get(bank, b"")
        if address + _WORD > len(content):
            return 0, True
        return int.from_bytes(content[address : address + _WORD], "little"), False

    def group(self, pc: int) -> list[Expected]:
        """The expected instructions of the group at ``pc``."""
        if pc not in self._known:
            try:
                base = PROGRAM + pc
                self.memory.read(base & -LINE_BYTES, LINE_BYTES)
                codes, *words = (
                    self.memory.read_number(base + at, INSTRUCTION_BYTES)
                    for at in range(0, GROUP_BYTES, INSTRUCTION_BYTES)
                )
                self._known[pc] = [
                    self._expected(word, codes >> CODE_BITS * slot & (1 << CODE_BITS) - 1)
                    for slot, word in enumerate(words)
                ]
            except MemoryFaultError:
                fault = Expected(0, 0, InstructionKind.REFUSED, WarpError.MMU_FAULT, None, False)
                self._known[pc] = [fault] * GROUP_INSTRUCTIONS
        return self._known[pc]

    def _expected(self, word: int, control: int) -> Expected:
        error, form = encoding_error(word, self._registers, *self.parameters), find(word)
        constant, missing = None, False
        if form is not None and exists(form, *self.parameters):
            values = form.values(word)
            for operand in form.operands.values():
                if isinstance(operand, Constant) and operand.index is None:
                    constant, missing = self.constant(
                        values[operand.bank], constant_address(values, operand) & -_WORD
                    )
        kind = (
            kind_of(form)
            if form is not None and error is WarpError.NONE
            else InstructionKind.REFUSED
        )
        return Expected(word, control, kind, error, constant, missing)

    def pcs(self, random: Random, outside: float) -> int:
        """Endless random pcs; ``outside`` is the probability of one that need not be in the
        program.
        """
        pc = random.randrange(0, self.size, INSTRUCTION_BYTES)
        return random.getrandbits(32) & -INSTRUCTION_BYTES if random.random() < outside else pc

    @staticmethod
    def place(pc: int) -> tuple[int, int]:
        """The address of the group of a pc, and the index of its instruction in the group."""
        address = instruction_address(pc)
        return address & -GROUP_BYTES, address % GROUP_BYTES // INSTRUCTION_BYTES - 1


def launched_image(launch: Launch) -> Image:
    """The program and the banks of a launch."""
    code = launch.memory.read(launch.program_base, launch.program_size)
    return Image(code, launch.banks, launch.registers)


def random_word(random: Random) -> int:
    """A random instruction word: of any form, with any fields, sometimes with the largest register
    numbers, sometimes undefined.
    """
    if random.random() < 0.05:
        return random.getrandbits(64)
    form = random.choice(FORMS)
    word = form.match | random.getrandbits(64) & ~form.mask
    for name, field in form.fields.items():
        if name.startswith("R") and not field.mask & form.mask and random.random() < 0.5:
            word = field.put(word, random.choice((0, 4, 16, 30, 62, 252, 253, 254, 255)))
        if name in ("offset", "bank") and random.random() < 0.7:
            word = field.put(
                word,
                random.randrange(0, 0x100, field.scale)
                if name == "offset"
                else random.randrange(4),
            )
    return word


def random_image(random: Random, groups: int, registers: int) -> Image:
    """A program of random words, and a few small constant banks."""
    code = b"".join(
        random.getrandbits(63).to_bytes(8, "little")
        + b"".join(random_word(random).to_bytes(8, "little") for _ in range(GROUP_INSTRUCTIONS))
        for _ in range(groups)
    )
    banks = {number: random.randbytes(random.choice((16, 130, 400, 1001))) for number in (0, 1, 3)}
    return Image(code, banks, registers)


def image_of(
    words: Sequence[int], control: ControlCode, banks: Mapping[int, bytes] | None = None
) -> Image:
    """A program of whole groups, with one control code for all instructions."""
    groups = [
        words[at : at + GROUP_INSTRUCTIONS] for at in range(0, len(words), GROUP_INSTRUCTIONS)
    ]
    code = b"".join(
        word.to_bytes(INSTRUCTION_BYTES, "little")
        for group in groups
        for word in (pack([control] * GROUP_INSTRUCTIONS), *group)
    )
    return Image(code, {0: bytes(range(200))} if banks is None else banks, 64)
