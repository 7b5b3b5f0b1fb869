"""Video instructions as defined by the pseudocode of the PTX manual: translates an instruction's
text to a function.

Where the manual leaves a case open: bits that a left shift drops count for saturation, and a second
operation takes the low 32 bits of the first result.
"""

import re
from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

__all__ = ["KERNELS", "OPCODES", "SEVERAL", "instructions", "meaning"]

OPCODES = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad")
SEVERAL = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
"""Opcodes that also exist for two halves and four bytes."""
KERNELS = (*OPCODES, "halves", "bytes")
"""One kernel for each opcode, one for instructions on halves, and one for those on bytes."""
_LOWEST = {"b0": 0, "b1": 8, "b2": 16, "b3": 24, "h0": 0, "h1": 16, "": 0}
_COMPARE = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
_TYPES = ("s32", "u32")
_Meaning = Callable[[int, int, int], int]


def instructions(text: str) -> list[str]:
    """Returns the video instructions of a module."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("v")]


def _bits(selector: str) -> int:
    return {"b": 8, "h": 16}.get(selector[:1], 32)


def _part_select_sign_extend(value: int, kind: str, selector: str) -> int:
    size = _bits(selector)
    part = value >> _LOWEST[selector] & ((1 << size) - 1)
    return part - (part >> size - 1 << size) if kind == "s32" else part


def _clamp(value: int, kind: str, size: int) -> int:
    least, most = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if kind == "s32" else (0, 2**size - 1)
    return least if value < least else most if value > most else value


def _merge(selector: str, value: int, c: int) -> int:
    mask = (1 << _bits(selector)) - 1 << _LOWEST[selector]
    return value << _LOWEST[selector] & mask | c & ~mask


def _operand(text: str) -> tuple[bool, str, str]:
    """Returns whether an operand is negated, its name or number, and its selector."""
    found = re.fullmatch(r"(-?)(\w+)(?:\.(\w+))?", text.strip())
    assert found is not None, text
    return bool(found[1]), found[2], found[3] or ""


def meaning(text: str) -> _Meaning:
    """Returns a function that computes an instruction's result from the values of registers ``a``,
    ``b`` and ``c``.
    """
    mnemonic, _, rest = text.rstrip(";").partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    types = [word for word in modifiers if word in _TYPES]
    (_, _, into), *sources = map(_operand, rest.split(","))
    *to, of_a, of_b = types
    if opcode[-1] in "24":
        return _several(
            opcode[:-1], int(opcode[-1]), modifiers, (to or ["u32"])[0], (of_a, of_b), rest
        )

    def values(a: int, b: int, c: int) -> tuple[int, int, int]:
        held = {"a": a, "b": b, "c": c}
        first, second, *third = (
            held[name] if name in held else int(name) for _, name, _ in sources
        )
        return (
            _part_select_sign_extend(first, of_a, sources[0][2]),
            _part_select_sign_extend(second, of_b, sources[1][2]),
            sum(third),
        )

    if opcode == "vmad":
        return _product_and_sum(modifiers, of_a, of_b, [minus for minus, _, _ in sources], values)
    kind, operation = (
        (to or ["u32"])[0],
        next((word for word in modifiers if word in ("add", "min", "max")), ""),
    )

    def run(a: int, b: int, c: int) -> int:
        ta, tb, third = values(a, b, c)
        value = _first(opcode, modifiers, ta, tb)
        if "sat" in modifiers:
            value = _clamp(value, kind, _bits(into))
        if into:
            return _merge(into, value, third)
        value, third = (
            _part_select_sign_extend(number & 0xFFFF_FFFF, kind, "") for number in (value, third)
        )
        value = {
            "add": value + third,
            "min": min(value, third),
            "max": max(value, third),
            "": value,
        }[operation]
        return value & 0xFFFF_FFFF

    return run


def _several(
    opcode: str, count: int, modifiers: list[str], kind: str, of: tuple[str, str], rest: str
) -> _Meaning:
    """Implements vector operations: extract, compute, saturate, and accumulate or merge."""
    size = 32 // count
    (_, _, into), *sources, (_, last, _) = map(_operand, rest.split(","))
    usual = "".join(str(place) for place in reversed(range(2 * count)))
    mask = [int(digit) for digit in into[1:]] or list(range(count))
    chosen = [
        (text[1:] or default)[::-1]
        for (_, _, text), default in zip(sources, (usual[count:], usual[:count]), strict=True)
    ]

    def run(a: int, b: int, c: int) -> int:
        held = {"a": a, "b": b, "c": c}
        words = [held[name] if name in held else int(name) for _, name, _ in sources]
        together = words[0] | words[1] << 32
        t = []
        for place in range(count):
            va, vb = ((together >> size * int(digits[place])) % 2**size for digits in chosen)
            va, vb = (
                value - 2**size if signed == "s32" and value >= 2 ** (size - 1) else value
                for value, signed in zip((va, vb), of, strict=True)
            )
            value = _first(opcode, modifiers, va, vb)
            t.append(_clamp(value, kind, size) if "sat" in modifiers else value)
        third = held[last]
        if "add" in modifiers:
            return third + sum(t[place] for place in mask) & 0xFFFF_FFFF
        parts = [t[place] if place in mask else third >> size * place for place in range(count)]
        return sum(part % 2**size << size * place for place, part in enumerate(parts))

    return run


def _first(opcode: str, modifiers: list[str], ta: int, tb: int) -> int:
    match opcode:
        case "vavrg":
            return (ta + tb + 1 if ta + tb >= 0 else ta + tb) >> 1
        case "vadd":
            return ta + tb
        case "vsub":
            return ta - tb
        case "vabsdiff":
            return ta - tb if ta > tb else tb - ta
        case "vmin":
            return ta if ta < tb else tb
        case "vmax":
            return ta if ta > tb else tb
        case "vset":
            return (
                1 if next(_COMPARE[word] for word in modifiers if word in _COMPARE)(ta, tb) else 0
            )
        case _:
            count = min(tb, 32) if "clamp" in modifiers else tb & 0x1F
            return ta << count if opcode == "vshl" else ta >> count


def _product_and_sum(
    modifiers: list[str],
    of_a: str,
    of_b: str,
    minus: list[bool],
    values: Callable[[int, int, int], tuple[int, int, int]],
) -> _Meaning:
    minus_product, minus_c = minus[0] != minus[1], minus[2]
    signed_final = of_a == "s32" or of_b == "s32" or minus_product or minus_c
    shift = 7 if "shr7" in modifiers else 15 if "shr15" in modifiers else 0

    def run(a: int, b: int, c: int) -> int:
        ta, tb, third = values(a, b, c)
        product, one_more = ta * tb, 0
        if "po" in modifiers:
            one_more = 1
        elif minus_product:
            product, one_more = ~product, 1
        elif minus_c:
            third, one_more = ~third & 0xFFFF_FFFF, 1
        if signed_final:
            third -= third >> 31 << 32
        result = product + third + one_more >> shift
        if "sat" in modifiers:
            result = _clamp(result, "s32" if signed_final else "u32", 32)
        return result & 0xFFFF_FFFF

    return run
