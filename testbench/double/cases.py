"""Instructions of double precision to execute, and their results in the warp model."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from rtl.isa.double import DOUBLE
from rtl.isa.effects import effects
from rtl.isa.syntax import RZ, Constant, Form, Register
from rtl.params import WARP_THREADS
from sim.model.thread.run import Before, step_together
from testbench.double.numbers import doubles
from testbench.handmade import ALL, alone
from testbench.instructions.cases import random_word

__all__ = ["BANK_BYTES", "DoubleCase", "case_of", "random_case", "word_of_form"]

BANK, BANK_BYTES = 3, 264
_REGISTERS = 32
_PREDICATES = 7
_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1


@dataclass(frozen=True)
class DoubleCase:
    """An instruction with its operands and expected results. Lists have an element per thread.

    Attributes:
        threads: The threads that execute it.
        predicate: Its predicate operand.
        held: All predicates before it.
        bank: The constant bank.
        before: Registers before it.
        after, predicates, conditions: Registers, predicates and CC that it writes.
    """

    word: int
    form: Form
    threads: int
    predicate: int
    held: tuple[int, ...]
    bank: bytes
    before: Mapping[int, list[int]]
    after: Mapping[int, list[int]]
    predicates: Mapping[int, int]
    conditions: list[int] | None
    write_barrier: int
    read_barrier: int

    def constant(self, address: int) -> tuple[int, bool]:
        """A word of the bank, and whether its address is beyond the end."""
        content = self.bank[address : address + 4]
        return int.from_bytes(content, "little"), len(content) < 4

    @property
    def offset(self) -> int | None:
        """Offset of the constant operand; None without one."""
        return (
            self.form.values(self.word)["offset"] & 0xFFFF if "offset" in self.form.fields else None
        )


def word_of_form(source: random.Random, form: Form, **chosen: int) -> int:
    """A random legal word of a form; the ``chosen`` fields are given."""

    def register() -> int:
        return RZ if source.random() < 0.06 else 2 * source.randrange(_REGISTERS // 2)

    return random_word(
        source,
        form,
        (),
        _REGISTERS,
        {
            "guard": 7,
            "guard_not": 0,
            "bank": BANK,
            "offset": lambda: 4 * source.randrange(BANK_BYTES // 4 + 2),
            "Rd": register,
            "Ra": register,
            "Rb": register,
            "Rc": register,
        }
        | chosen,
    )


def case_of(source: random.Random, form: Form, word: int, threads: int = ALL) -> DoubleCase:
    """A case with random operands and the results of the warp model, which are compared with the
    thread model.
    """
    values, touched = form.values(word), effects(form, form.values(word))
    bank = b"".join(
        (number & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
        for number in doubles(source, BANK_BYTES // 8)[0]
    )
    before = {
        number: [source.getrandbits(_WORD_BITS) for _ in range(WARP_THREADS)]
        for number in touched.writes
    }
    operands = doubles(source, WARP_THREADS)
    for numbers, role in zip(operands, "abc", strict=True):
        operand = form.operands.get(role)
        if isinstance(operand, Register) and (first := values[operand.field]) != RZ:
            for half in (0, 1):
                before[first + half] = [number >> _WORD_BITS * half & _WORD for number in numbers]
        if isinstance(operand, Constant) and source.random() < 0.5:
            at = values[operand.offset] & 0xFFFF
            bank = (bank[:at] + numbers[0].to_bytes(8, "little") + bank[at + 8 :])[:BANK_BYTES]
    predicates = [source.getrandbits(WARP_THREADS) for _ in range(_PREDICATES)]
    _, record = alone(
        word,
        before,
        active=threads,
        predicates=dict(enumerate(predicates)),
        report_mask=0,
        constants={BANK: bank},
    )
    read = [*predicates, ALL][values.get("Pc", _PREDICATES)] ^ (
        ALL if values.get("Pc_not", 0) else 0
    )
    case = DoubleCase(
        word,
        form,
        threads,
        read,
        tuple(predicates),
        bank,
        before,
        {number: list(row) for number, (_, row) in record.registers.items()},
        {number: held for number, (_, held) in record.predicates.items()},
        None if record.condition is None else list(record.condition[1]),
        source.choice([7, source.randrange(6)]),
        source.choice([7, source.randrange(6)]),
    )
    _compare(case)
    return case


def _compare(case: DoubleCase) -> None:
    """Checks that the warp model and the thread model agree."""
    threads = [thread for thread in range(WARP_THREADS) if case.threads >> thread & 1]
    before = [
        Before(
            {number: row[thread] for number, row in case.before.items()},
            [held >> thread & 1 for held in case.held],
        )
        for thread in threads
    ]
    for thread, done in zip(
        threads, step_together(case.word, before, banks={BANK: case.bank}), strict=True
    ):
        what = case.form.name, hex(case.word), thread
        assert {number: row[thread] for number, row in case.after.items()} == {
            number: done.registers[number] for number in case.after
        }, what
        held = list(before[threads.index(thread)].predicates)
        for number, mask in case.predicates.items():
            held[number] = mask >> thread & 1
        assert held == list(done.predicates), what
        assert case.conditions is None or case.conditions[thread] == done.condition, what


def random_case(source: random.Random, form: Form | None = None) -> DoubleCase:
    """A case with a random word of a form, or of any form, executed by all, some or few threads."""
    form = form or source.choice(DOUBLE)
    few = 1 << source.randrange(WARP_THREADS) | 1 << source.randrange(WARP_THREADS)
    threads = source.choice([ALL, source.getrandbits(WARP_THREADS) | few, few])
    return case_of(source, form, word_of_form(source, form), threads)
