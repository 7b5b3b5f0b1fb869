"""Instructions of sm_50 that this machine refuses: the reason for a word, and the list of all."""

from collections.abc import Iterator

from rtl.isa.absent import ABSENT, absent
from rtl.isa.legality import REFUSALS, Refusal, refusal_of
from rtl.isa.syntax import Form
from rtl.isa.table import BY_NAME, find
from sim.toolchain.assembly.spelling import ILLEGAL, spell

__all__ = ["absent_text", "refused_reasons", "refused_rows", "refused_table", "refused_text"]


def absent_text(word: int) -> str | None:
    """Returns the name of an instruction without a form, with the reason, or None for other
    words.
    """
    row = absent(word)
    return None if row is None else f"{row.name}: {row.why}"


def refused_text(word: int, address: int) -> str:
    """Returns the text of a refused word, with its instruction or name and the reason if there are
    any.
    """
    form, text = find(word), spell(word, address)
    if form is None:
        return " ".join(filter(None, (f"{word:016x}", absent_text(word))))
    refusal = refusal_of(form, form.values(word))
    return (
        f"{word:016x}"
        + ("" if text == ILLEGAL else f" {text}")
        + ("" if refusal is None else f": {refusal.why}")
    )


def refused_rows() -> list[tuple[str, str, str]]:
    """Returns all instructions that NVIDIA's disassembler prints and the hardware lacks.

    A row has opcode, name, and reason, with the refused values of a field if only some words of the
    opcode are refused. Forms of the instruction table with the same opcode share a row.
    """
    rows = {
        *((f"{row.match:04x}/{row.mask:04x}", row.name, row.why) for row in ABSENT),
        *(row for refusal in REFUSALS for row in _rows(refusal)),
    }
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def refused_reasons() -> list[tuple[str, int, str]]:
    """The reasons: each with the number of its rows and the names of its instructions, the one with most rows first."""
    found: dict[str, list[str]] = {}
    for _, name, why in refused_rows():
        found.setdefault(why.partition(" (")[0], []).append(name)
    return sorted(
        ((why, len(names), ", ".join(dict.fromkeys(names))) for why, names in found.items()),
        key=lambda row: (-row[1], row[0]),
    )


def refused_table() -> str:
    """Returns the rows of :func:`refused_rows` as text, one a line."""
    rows = refused_rows()
    width = max(len(name) for _, name, _ in rows)
    return "\n".join(f"{opcode}  {name:{width}}  {why}" for opcode, name, why in rows) + "\n"


def _rows(refusal: Refusal) -> Iterator[tuple[str, str, str]]:
    """Yields the rows of instructions that have a form, one for each opcode."""
    for name in refusal.names:
        for form in BY_NAME[name]:
            if refusal.variant in (None, form.variant) and (
                refusal.field is None or refusal.field in form.fields
            ):
                yield (
                    f"{form.match >> 48:04x}/{form.mask >> 48:04x}",
                    name,
                    refusal.why + _which(refusal, form),
                )


def _which(refusal: Refusal, form: Form) -> str:
    """Returns which words of a form are refused: the texts of a modifier, or the values of a field;
    nothing if all are.
    """
    if refusal.field is None:
        return ""
    texts = {modifier.field: modifier.texts for modifier in form.modifiers}
    spelled = texts.get(refusal.field, {})
    codes = " ".join(
        dict.fromkeys(spelled.get(code) or str(code) for code in sorted(refusal.codes))
    )
    beside = (
        f" with {texts[refusal.beside[0]][refusal.beside[1]]}" if refusal.beside is not None else ""
    )
    return f" ({refusal.field} {codes}{beside})"
