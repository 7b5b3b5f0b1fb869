"""Decodes a program's words to operations.

The semantics modules register, by instruction name, a maker that takes a :class:`ThreadInstruction`
and returns its operation. The maker computes everything that depends on the word alone, once; the
operation computes the rest.
"""

from collections.abc import Callable, Mapping

from rtl.isa.condition import TRUTH, ConditionCode
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import PT, RZ, Constant, Form, Immediate, Predicate, Register, Target, Values
from rtl.isa.table import find
from sim.toolchain.assembly.spelling import spell

from .integers import WORD, flags_of_result, signed
from .state import DISCARD, DISCARD_PREDICATE, FIRST_VALUE, FaultError, Operation, Thread

__all__ = ["Result", "ThreadInstruction", "ThreadProgram", "result_of", "semantics"]

_Maker = Callable[["ThreadInstruction"], Operation]
Result = Callable[[Thread], int]
"""Computes the word that an instruction writes to its destination."""
_SEMANTICS: dict[str, _Maker] = {}


def semantics(*names: str) -> Callable[[_Maker], _Maker]:
    """Registers the decorated maker of operations for these instructions."""

    def register(make: _Maker) -> _Maker:
        _SEMANTICS.update(dict.fromkeys(names, make))
        return make

    return register


def result_of(*names: str) -> Callable[[Callable[["ThreadInstruction"], Result]], _Maker]:
    """Registers the decorated maker of result functions for these instructions.

    The operation writes the result to the destination and, with .CC, sets zero and sign.
    """

    def register(make: Callable[["ThreadInstruction"], Result]) -> _Maker:
        return semantics(*names)(lambda i: _writing(i, make(i)))

    return register


def _writing(i: "ThreadInstruction", compute: Result) -> Operation:
    d, set_cc = i.destination(), i["cc"]

    def operation(thread: Thread) -> None:
        result = thread.values[d] = compute(thread)
        if set_cc:
            thread.condition = flags_of_result(result)

    return operation


def _encoding_fault(word: int, registers: int, floats: bool, doubles: bool) -> FaultError | None:
    """Returns the error of an illegal word, None for a legal one."""
    error = encoding_error(word, registers, floats, doubles)
    match error:
        case WarpError.NONE:
            return None
        case WarpError.OOR_REG:
            return FaultError(error, f"a thread has {registers} registers")
        case WarpError.MISALIGNED_REG:
            return FaultError(
                error, "a group of registers does not begin at a multiple of its size"
            )
        case _:
            return FaultError(error, f"{word:#018x} is not an instruction of this machine")


def _failing(fault: FaultError) -> Operation:
    def operation(_: Thread) -> None:
        raise fault

    return operation


class ThreadInstruction:
    """One instruction word at its place in a program.

    Indexing returns the value of a field, 0 where the form has no such field.
    """

    def __init__(self, program: "ThreadProgram", form: Form, values: Values, index: int) -> None:
        self.program = program
        self.form = form
        self.name = form.name
        self.values = values
        self.index = index
        self.pc = index * INSTRUCTION_BYTES
        self.next = index + 1

    def __getitem__(self, field: str) -> int:
        return self.values.get(field, 0)

    def source(self, role: str) -> int:
        """Returns the position of a source operand in a thread's values. The caller applies
        negation and other modifiers.
        """
        match self.form.operands[role]:
            case Register(field=field):
                return self.values[field]
            case Constant(index=None, bank=bank, offset=offset):
                return self.program.position(
                    self.program.constant(self.values[bank], self.values[offset], 4)
                )
            case Immediate(field=field):
                return self.program.position(self.values[field])
            case operand:
                raise TypeError(f"{self.name}: operand {role} is no value but {operand}")

    def sources(self, role: str, count: int) -> list[int]:
        """Returns the positions of an operand of ``count`` registers, or of a constant of that
        width.
        """
        operand = self.form.operands[role]
        if isinstance(operand, Register):
            return self._registers(operand, count, RZ)
        if isinstance(operand, Constant):
            value = self.program.constant(
                self.values[operand.bank], self.values[operand.offset], 4 * count
            )
        else:
            assert isinstance(operand, Immediate)
            value = self.values[operand.field]
        return [self.program.position(value >> 32 * number) for number in range(count)]

    def destination(self, role: str = "d") -> int:
        """Returns the position of the result."""
        return self.destinations(1, role)[0]

    def destinations(self, count: int, role: str = "d") -> list[int]:
        """Returns the positions of a result of ``count`` registers."""
        operand = self.form.operands[role]
        assert isinstance(operand, Register)
        return self._registers(operand, count, DISCARD)

    def _registers(self, operand: Register, count: int, zero: int) -> list[int]:
        number = self.values[operand.field]
        if number == RZ:
            return [zero] * count
        number += operand.offset(self.values) if callable(operand.offset) else operand.offset
        return list(range(number, number + count))

    def predicate(self, role: str) -> tuple[int, int]:
        """Returns the position of a predicate source, and 1 if it is negated, else 0."""
        operand = self.form.operands[role]
        assert isinstance(operand, Predicate)
        return self.values[operand.field], self.values[operand.negate] if operand.negate else 0

    def predicate_destination(self, role: str) -> int:
        """Returns the position of a predicate result."""
        operand = self.form.operands[role]
        assert isinstance(operand, Predicate)
        number = self.values[operand.field]
        return DISCARD_PREDICATE if number == PT else number

    def target(self) -> int:
        """Returns the word index of the target of a branch or push, from an immediate or a
        constant.

        For JMP and JCAL a constant holds a pc, for the others an offset from the next instruction
        (ours).
        """
        match self.form.operands["target"]:
            case Target(field=field, relative=relative):
                offset = self.values[field]
            case Constant(bank=bank, offset=offset_field):
                relative = self.name not in ("JMP", "JCAL")
                offset = self.program.constant(self.values[bank], self.values[offset_field], 4)
            case operand:
                raise TypeError(f"{self.name}: {operand} is no target")
        return self.program.index_of(offset + (self.pc + INSTRUCTION_BYTES if relative else 0))

    def condition_test(self) -> int:
        """The CC values for which the test holds, one bit each."""
        return TRUTH[self.values["test"]] if "test" in self.values else TRUTH[ConditionCode.T.value]


class ThreadProgram:
    """Code and constant banks, decoded for threads of ``registers`` registers.

    Args:
        code: The program, from the program base on.
        banks: The constant banks by number.
        registers: Registers of a thread; a word that names a higher one is illegal.
        floats: Whether floating-point instructions are legal.
        doubles: Whether double-precision instructions are legal.

    Attributes:
        operations: The operation of each 64-bit word; for a control word, that of the next
            instruction.
        nexts: The index that follows each word, for an operation that returns None.
        words: The words.
        names: Instruction names by word.
        constants: The values that follow a thread's registers.
    """

    def __init__(
        self,
        code: bytes,
        banks: Mapping[int, bytes],
        registers: int,
        floats: bool = True,
        doubles: bool = True,
    ) -> None:
        self.banks = banks
        self.floats = floats
        self.doubles = doubles
        self.constants: list[int] = []
        self._positions: dict[int, int] = {}
        size = len(code) // INSTRUCTION_BYTES
        self.words = [
            int.from_bytes(code[at : at + INSTRUCTION_BYTES], "little")
            for at in range(0, size * INSTRUCTION_BYTES, INSTRUCTION_BYTES)
        ]
        self.names = ["" for _ in self.words]
        self.nexts = [
            index + (1 if index * INSTRUCTION_BYTES % GROUP_BYTES else 2)
            for index in range(size + 1)
        ]
        beyond = FaultError(WarpError.PC_OVERFLOW, "the program ends before this pc")
        self.operations: list[Operation] = [_failing(beyond)] * (size + 1)
        for index in reversed(range(size)):
            if index * INSTRUCTION_BYTES % GROUP_BYTES:
                self._decode(index, registers)
            elif index + 1 < size:
                self.operations[index], self.names[index] = (
                    self.operations[index + 1],
                    self.names[index + 1],
                )

    def text(self, index: int) -> str:
        """Returns the disassembly of the instruction at an index; empty beyond the program's end."""
        address = instruction_address(index * INSTRUCTION_BYTES)
        at = address // INSTRUCTION_BYTES
        return spell(self.words[at], address) if at < len(self.words) else ""

    def position(self, value: int) -> int:
        """Returns the position of a number in a thread's values, which is allocated on first use."""
        value &= WORD
        if value == 0:
            return RZ
        if value not in self._positions:
            self._positions[value] = FIRST_VALUE + len(self.constants)
            self.constants.append(value)
        return self._positions[value]

    def constant(self, bank: int, offset: int, size: int) -> int:
        """Reads ``size`` bytes of a constant bank at a 16-bit offset (ours).

        Beyond the bank's end it reads 0: drivers leave INVALID_CONST_ADDR unreported.
        """
        return self.indexed_constant(bank, offset & 0xFFFF, size)

    def indexed_constant(self, bank: int, address: int, size: int) -> int:
        """Like :meth:`constant`, at a 32-bit address, the sum of a register and an offset (ours)."""
        address &= WORD
        return int.from_bytes(self.banks.get(bank, b"")[address : address + size], "little")

    def index_of(self, pc: int) -> int:
        """Returns the word index of a pc; FaultError if the pc is misaligned or outside the
        program.
        """
        pc &= WORD
        if pc % INSTRUCTION_BYTES:
            raise FaultError(
                WarpError.MISALIGNED_PC, f"target {pc:#x} is not a multiple of {INSTRUCTION_BYTES}"
            )
        if pc // INSTRUCTION_BYTES >= len(self.words):
            raise FaultError(
                WarpError.PC_OVERFLOW, f"target {signed(pc):#x} is outside the program"
            )
        return pc // INSTRUCTION_BYTES

    def _decode(self, index: int, registers: int) -> None:
        word = self.words[index]
        form, fault = find(word), _encoding_fault(word, registers, self.floats, self.doubles)
        if form is None or fault is not None:
            assert fault is not None
            self.operations[index], self.names[index] = _failing(fault), "illegal"
            return
        self.names[index], values = form.name, form.values(word)
        try:
            operation = _SEMANTICS[form.name](ThreadInstruction(self, form, values, index))
        except FaultError as fault:
            operation = _failing(fault)
        self.operations[index] = _guarded(operation, values)


def _guarded(operation: Operation, values: Values) -> Operation:
    """Returns an operation that is executed only where the instruction's guard holds."""
    guard, negated = values.get("guard", PT), values.get("guard_not", 0)
    if guard == PT:
        return (lambda _: None) if negated else operation

    def guarded(thread: Thread) -> int | None:
        return operation(thread) if thread.predicates[guard] != negated else None

    return guarded
