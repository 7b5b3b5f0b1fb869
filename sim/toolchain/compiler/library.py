"""The runtime library: functions that replace PTX instructions which the machine does not have.

They are PTX texts and are compiled like a program, as in compiler-rt. A function is named after its
instruction: ``__div_rn_ftz_f32`` is div.rn.ftz.f32. Visible functions are called, all others are
inlined.

Some texts are templates, which are instantiated for each rounding with and without .ftz. ``$round``
is the rounding, ``$ftz`` the modifier or nothing, ``$mode`` both as they appear in function names,
and ``$outwards`` the comparison of a number's sign with 0 that selects rounding away from 0. Lines
between ``#if NAME`` and ``#endif`` are kept if the name is true, lines after ``#else`` otherwise.
The names are ``nearest``, ``directed``, ``flush``, ``outwards`` (a directed rounding that depends
on the sign), and ``upwards`` (every rounding except towards 0).
"""

import re
from collections.abc import Mapping
from functools import cache
from string import Template

from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import Linkage, PtxFunction, PtxInstruction
from sim.toolchain.runtime import library_text

__all__ = ["filled_in", "function_name", "functions_with", "is_called"]

_APPROXIMATIONS = frozenset({"approx", "full"})
_OUTWARDS = {"rn": "", "rz": "", "rm": "lt", "rp": "ge"}
"""For each rounding the comparison with 0 that holds for the signs whose magnitudes it rounds
up.
"""
_BEGIN = re.compile(r"^(?=(?:\.visible )?\.func )", re.MULTILINE)
_NAME = re.compile(r"\b__\w+")
_PRECISIONS = {"f32": "single", "f64": "double"}


def function_name(i: PtxInstruction) -> str:
    """Returns the name of the library function for an instruction."""
    parts = (i.opcode, i.approximation or i.rounding, "ftz" * i.flush, i.type.value)
    return "__" + "_".join(filter(None, parts))


def is_called(function: PtxFunction) -> bool:
    """Whether a function is called instead of inlined."""
    return function.linkage is Linkage.VISIBLE


@cache
def functions_with(name: str) -> Mapping[str, PtxFunction]:
    """Returns a function and all functions that it calls, by name."""
    _, _, _, *modifiers, kind = name.split("_")
    if kind not in _PRECISIONS:
        file, text = "integer_division.ptx", library_text("integer_division.ptx")
    elif _APPROXIMATIONS.intersection(modifiers):
        file = f"{_PRECISIONS[kind]}_approximations.ptx"
        text = library_text(file)
    else:
        file = f"{_PRECISIONS[kind]}_division.ptx.in"
        text = filled_in(library_text(file), modifiers[0], "ftz" in modifiers)
    return parse_ptx(_part_with(text, name), f"the runtime library's {file}").functions


def _part_with(text: str, name: str) -> str:
    """Returns the text without the functions that a function does not need, as parsing takes most
    of the time.
    """
    header, *functions = _BEGIN.split(text)
    bodies = {_NAME.findall(body)[0]: body for body in functions}
    needed, waiting = set(), [name]
    while waiting:
        found = waiting.pop()
        if found not in needed:
            needed.add(found)
            waiting += _NAME.findall(bodies[found])
    return header + "".join(body for each, body in bodies.items() if each in needed)


def filled_in(text: str, rounding: str, flush: bool) -> str:
    """Returns the instance of a template for a rounding."""
    outwards = _OUTWARDS[rounding]
    holds = {
        "nearest": rounding == "rn",
        "directed": rounding != "rn",
        "flush": flush,
        "outwards": bool(outwards),
        "upwards": rounding != "rz",
    }
    lines = []
    keep = True
    for line in text.splitlines():
        match line.split():
            case ["#if", name]:
                keep = holds[name]
            case ["#else"]:
                keep = not keep
            case ["#endif"]:
                keep = True
            case _ if keep:
                lines.append(line)
    return Template("\n".join(lines)).substitute(
        round=rounding,
        ftz=".ftz" * flush,
        mode=f"{rounding}{'_ftz' * flush}",
        outwards=outwards,
    )
