"""Words of a form in all its modes, edge values of operands, and the thread model's results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from random import Random

from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import PT, RZ, Form, Immediate, Predicate, Register
from rtl.isa.table import find
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW
from sim.model.thread.run import Before, Step, step_together

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
EDGES = (
    0,
    1,
    2,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x18000,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_0001,
    0xFFFF_0000,
    0xFFFF_FFFE,
    WORD,
)
BANK = 3
"""The constant bank that instructions read."""
BANK_WORDS = 16
"""Size of the bank in words; all words are equal."""
_TRIES = 8
"""Number of words of a combination of modes that are tried before it counts as refused."""
_COUNTS = (0, 1, 8, 15, 16, 31, 32, 33, 47, 63, 64, 65, 128, 255)
_MODE_BITS = 8
"""Largest width of a mode field; wider fields are numbers."""


def number(source: Random) -> int:
    """Returns a 32-bit operand: an edge value, a count, a position and length of a field, an
    address near a window, or any.
    """
    match source.randrange(6):
        case 0 | 1:
            return source.choice(EDGES)
        case 2:
            return source.choice(_COUNTS) | source.choice(_COUNTS) << 8
        case 3:
            window = source.choice((SHARED_WINDOW, LOCAL_WINDOW, SHARED_WINDOW + LOCAL_WINDOW))
            return source.choice((window - 1, window, window + source.getrandbits(24)))
        case 4:
            return 1 << source.randrange(32)
        case _:
            return source.getrandbits(32)


def random_word(
    source: Random,
    form: Form,
    registers: Sequence[int],
    limit: int,
    chosen: Mapping[str, int | Callable[[], int]],
) -> int:
    """Returns a word of the form that is legal if a thread has ``limit`` registers.

    ``chosen`` has the values of some fields, if the form has them; ``registers`` are those that
    operands use.
    """
    while (word := _try(source, form, registers, limit, chosen)) is None:
        pass
    return word


def _try(
    source: Random,
    form: Form,
    registers: Sequence[int],
    limit: int,
    chosen: Mapping[str, int | Callable[[], int]],
) -> int | None:
    named = {operand.field for operand in form.operands.values() if isinstance(operand, Register)}
    word = form.match
    for name, field in form.fields.items():
        if name in chosen and field.mask & ~form.mask:
            value = chosen[name]
            value = value() if callable(value) else value
        elif field.mask & form.mask:
            continue
        elif name in named or name in ("Ra", "Rb", "Rc", "Rd"):
            value = source.choice(registers)
        else:
            value = source.choice(
                (field.bounds[0], field.bounds[-1], *source.choices(field.bounds, k=4))
            )
        word = field.put(word, value)
    return word if find(word) is form and encoding_error(word, limit) is WarpError.NONE else None


def modes(source: Random, form: Form, most: int) -> Iterator[dict[str, int]]:
    """Yields each combination of a form's mode fields, or ``most`` random ones if there are more;
    CC is then written at random.
    """
    taken = {
        operand.field
        for operand in form.operands.values()
        if isinstance(operand, Register | Predicate)
    }
    fields = {
        name: field
        for name, field in form.fields.items()
        if not field.mask & form.mask
        and field.mask.bit_count() <= _MODE_BITS
        and name not in taken
        and name not in ("guard", "guard_not", "bank", "imm6")
    }
    if prod(len(field.bounds) for field in fields.values()) > most:
        fields.pop("cc", None)
    if prod(len(field.bounds) for field in fields.values()) > most:
        for _ in range(most):
            yield {name: source.choice(field.bounds) for name, field in fields.items()}
    else:
        for values in product(*(field.bounds for field in fields.values())):
            yield dict(zip(fields, values, strict=True))


def signed(value: int, bits: int = 32) -> int:
    """Returns the low bits of a number as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


@dataclass
class Case:
    """A word, and threads before and after it.

    Registers have a value for each thread, predicates a number whose bit n is Pn, conditions the
    flags; ``constant`` is the value of a constant operand. ``threads`` are those that execute it.
    """

    form: Form
    word: int
    registers: dict[int, list[int]]
    predicates: list[int]
    conditions: list[int]
    constant: int
    threads: list[int]
    after: list[Step]

    @property
    def destination(self) -> int:
        """The register that it writes, RZ if none."""
        return self.form.values(self.word).get("Rd", RZ)

    @property
    def written_predicates(self) -> frozenset[int]:
        """Numbers of the predicates that it writes in any thread."""
        values = self.form.values(self.word)
        written = effects(self.form, values).predicate_writes
        if self.form.name != "R2P":
            return written
        masks = range(len(self.predicates))
        return frozenset(
            number
            for number in written
            if any(self._mask(thread) >> number & 1 for thread in masks)
        )

    def _mask(self, thread: int) -> int:
        """Returns operand b of a thread."""
        values = self.form.values(self.word)
        match self.form.operands["b"]:
            case Register(field):
                return self.registers[values[field]][thread]
            case Immediate(field):
                return values[field]
            case _:
                return self.constant


def case_of(source: Random, form: Form, word: int, threads: int, registers: Sequence[int]) -> Case:
    """Returns random threads before a word, and the thread model's results."""
    values = form.values(word)
    held = {name: [number(source) for _ in range(threads)] for name in registers}
    if (
        source.random() < 0.25
        and {"Ra", "Rb"} <= values.keys()
        and values["Rb"] in held
        and values["Ra"] in held
    ):
        held[values["Rb"]] = list(held[values["Ra"]])
    if (
        form.name == "LEA.HI"
        and len({values["Ra"], values["Rc"], values.get("Rb")} & held.keys()) == 3
    ):
        _near_windows(source, values, held)
    held[RZ] = [0] * threads
    predicates = [source.getrandbits(PT) for _ in range(threads)]
    conditions, constant = [source.getrandbits(4) for _ in range(threads)], number(source)
    before = [
        Before(
            {name: row[thread] for name, row in held.items() if name != RZ},
            [predicates[thread] >> place & 1 for place in range(PT)],
            conditions[thread],
        )
        for thread in range(threads)
    ]
    lanes = values.get("lanes", 15)
    return Case(
        form,
        word,
        held,
        predicates,
        conditions,
        constant,
        [thread for thread in range(threads) if lanes >> thread % 4 & 1],
        step_together(word, before, banks={BANK: constant.to_bytes(4, "little") * BANK_WORDS}),
    )


def _near_windows(source: Random, values: Mapping[str, int], held: dict[int, list[int]]) -> None:
    """Sets operands so that the shifted pair is near a window's address, with a b that mostly makes
    its high word 0.
    """
    shift, negated, extended = values["shift"], values["negate_a"], values["extended"]
    for thread in range(len(held[values["Ra"]])):
        wanted = source.choice(
            (number(source), source.randrange(4) << 24, (source.randrange(4) << 24) + 0xFF_FFFF)
        )
        wanted |= source.choice((0, number(source))) << 32
        pair = (wanted if not negated else ~wanted if extended else -wanted) >> shift & LONG
        wide = pair << shift
        high = (wide if not negated else ~wide if extended else -wide) >> 32
        held[values["Ra"]][thread], held[values["Rc"]][thread] = pair & WORD, pair >> 32
        held[values["Rb"]][thread] = source.choice((0, -high & WORD, -high & WORD))


def words_of(
    source: Random, form: Form, registers: Sequence[int], limit: int, most: int
) -> Iterator[int]:
    """Yields a word of each combination of modes that the machine does not refuse; see
    :func:`modes`.
    """
    for mode in modes(source, form, most):
        chosen = {
            "guard": PT,
            "guard_not": 0,
            "bank": BANK,
            "offset": lambda: 4 * source.randrange(BANK_WORDS),
        } | mode
        tries = (_try(source, form, registers, limit, chosen) for _ in range(_TRIES))
        yield from islice((word for word in tries if word is not None), 1)
