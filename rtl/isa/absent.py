"""Instructions of sm_50 that have no form here: names that NVIDIA's disassembler prints, and why
this machine does not execute them.

A word is one of these only if the table has no form for it. Opcodes were found by running NVIDIA's
disassembler (12.8) on every combination of a word's upper 13 bits. Instructions that have a form
and are still refused are listed in :mod:`~rtl.isa.legality`.
"""

from dataclasses import dataclass

from .table import find

__all__ = ["ABSENT", "Absent", "absent"]


@dataclass(frozen=True)
class Absent:
    """An instruction: the upper 16 bits of its words in ``mask`` are ``match``. ``why`` completes
    the sentence "is refused: ..."."""

    name: str
    match: int
    mask: int
    why: str

    def covers(self, word: int) -> bool:
        """Whether a word that has no form is this instruction."""
        return word >> 48 & self.mask == self.match


_GRAPHICS = "it is a graphics instruction"
_TEXTURES = "there are no textures"
_SURFACES = "there are no surfaces"
_NO_MEANING = "no public document says what it does"
_EXTRACTED = (
    "it is an integer product and sum whose details are not public; compiled ones are XMAD and IMAD"
)

ABSENT: tuple[Absent, ...] = (
    *(
        Absent(name, match, mask, _TEXTURES)
        for name, match, mask in (
            ("TEX", 0xC038, 0xFC38),
            ("TEX", 0xDEB8, 0xFFF8),
            ("TLD4", 0xC838, 0xFC38),
            ("TLD4", 0xDEF8, 0xFFF8),
            ("TLD", 0xDC38, 0xFE38),
            ("TEXS", 0xD800, 0xFE00),
            ("TLDS", 0xDA00, 0xFE00),
            ("TLD4S", 0xDF00, 0xFFC0),
            ("TXD", 0xDE38, 0xFFB8),
            ("TXA", 0xDF40, 0xFFF8),
            ("TXQ", 0xDF48, 0xFFF8),
            ("TXQ", 0xDF50, 0xFFF8),
            ("TMML", 0xDF58, 0xFFF8),
            ("TMML", 0xDF60, 0xFFF8),
            ("CCTLT", 0xEBF0, 0xFFF8),
        )
    ),
    *(
        Absent(name, match, mask, _SURFACES)
        for name, match, mask in (
            ("SUATOM", 0xEA00, 0xFF00),
            ("SULD", 0xEB00, 0xFFE0),
            ("SUST", 0xEB20, 0xFFE0),
            ("SURED", 0xEB40, 0xFFE0),
        )
    ),
    *(
        Absent(name, match, mask, _GRAPHICS)
        for name, match, mask in (
            ("IPA", 0xE000, 0xFF00),
            ("AL2P", 0xEFA0, 0xFFF8),
            ("ALD", 0xEFD8, 0xFFF8),
            ("AST", 0xEFF0, 0xFFF8),
            ("ISBERD", 0xEFD0, 0xFFF8),
            ("PIXLD", 0xEFE8, 0xFFF8),
            ("OUT", 0xEBE0, 0xFFF8),
            ("OUT", 0xFBE0, 0xFFF8),
            ("OUT", 0xF6E0, 0xFEF8),
        )
    ),
    *(
        Absent("IMADSP", match, mask, _EXTRACTED)
        for match, mask in ((0x5A80, 0xFF80), (0x4A80, 0xFF80), (0x5280, 0xFF80), (0x3480, 0xFE80))
    ),
    Absent("STP", 0xEEA0, 0xFFF8, _NO_MEANING),
)
"""All of them, as rows of one name together."""


def absent(word: int) -> Absent | None:
    """The name of a word's instruction, if the table has no form for it; None if it has one, or the
    word is no instruction."""
    if find(word) is not None:
        return None
    return next((row for row in ABSENT if row.covers(word)), None)
