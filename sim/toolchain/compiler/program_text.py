"""What is around the code in an assembly program: variables, kernels, sizes. Directives are lines of text."""

from collections.abc import Mapping

from sim.toolchain.operands import escaped
from sim.toolchain.program import BANK_BYTES, Line
from sim.toolchain.ptx.module import AddressOf, PtxModule, Variable, parameter_offsets
from sim.toolchain.source import Label

from .builder import CompileError
from .graphs import reachable, strongly_connected_components
from .layout import FUNCTION_TABLE, HANDLE_BYTES, TABLE_BANK, Layout
from .text import Finished

__all__ = ["CallGraph", "kernel_lines", "module_lines"]

CallGraph = dict[str, dict[str, None]]
"""The functions that each function calls by name, in order."""

_DATA = {1: ".byte", 2: ".half", 4: ".word", 8: ".dword"}
_NO_CODE = 1
_TOKEN_BYTES = 16
_LANES = 32
_WORD_BYTES = 4
_LARGEST_SHARED = 1 << 28
_LARGEST_STACK = 0xFFFF_FFF0
"""Bytes that a file can tell; a launch of less is refused."""


def module_lines(layout: Layout) -> list[str]:
    """Global variables and constants."""
    lines = []
    for variable in layout.globals:
        sized = "" if variable.initial else f" {max(variable.size, 1)}"
        lines.append(f".global {escaped(variable.name)}{sized} align {variable.alignment}")
        lines += _data(variable, layout)
    for variable in layout.constants:
        lines.append(f".const 3 {escaped(variable.name)} align {variable.alignment} at {layout.places[variable]}")
        lines += _data(variable, layout) or [f"    .zero {variable.size}"]
    return lines


def _data(variable: Variable, layout: Layout) -> list[str]:
    """The first values of a variable, zeros behind them."""
    constants = {constant.name: layout.places[constant] for constant in layout.constants}
    if not variable.initial:
        return []
    size = variable.type.size
    lines = []
    for value in variable.initial:
        if not isinstance(value, AddressOf):
            lines.append(f"    {_DATA[size]} {value:#x}")
            continue
        known = {**constants, **layout.handles}.get(value.symbol)
        if known is not None and not (value.generic and value.symbol in constants):
            number = known + value.offset
            part = number if value.byte is None else number >> value.byte & 0xFF
            lines.append(f"    {_DATA[size]} {part % (1 << 8 * size):#x}")
            continue
        text = escaped(value.symbol) + (f"{value.offset:+#x}" if value.offset else "")
        if value.symbol in constants:
            text = f"generic({text})"
        if value.byte is None:
            lines.append(f"    {_DATA[size]} {text}")
        else:
            lines.append(f"    .byte 8@{value.byte}({text})")
            lines += [f"    .zero {size - 1}"] if size > 1 else []
    missing = variable.size - size * len(variable.initial)
    return lines + ([f"    .zero {missing}"] if missing else [])


def kernel_lines(module: PtxModule, layout: Layout, name: str, finished: Mapping[str, Finished],
                 graph: CallGraph) -> list[str | Label | Line]:
    """A kernel with all functions that it may call."""
    prefix = f"${name}$"
    reached = _reached(name, finished, graph)
    own = finished[name]
    bodies = [(other, finished[other].code.statements(prefix)) for other in reached]
    lines: list[str | Label | Line] = [f".kernel {escaped(name)}"]
    function = module.functions[name]
    offsets, _ = parameter_offsets(function.parameters)
    for parameter, offset in zip(function.parameters, offsets, strict=True):
        assert isinstance(parameter, Variable)
        lines.append(f".param {escaped(parameter.name)} {parameter.size} at {offset}")
    for attribute, sizes in (("MAX_THREADS", function.bounds.most), ("REQNTID", function.bounds.exact)):
        if sizes is not None:
            lines.append(f".info {attribute} {', '.join(map(str, sizes))}")
    shared = layout.shared[name]
    if shared.size > _LARGEST_SHARED:
        raise CompileError(function.line, function.column, f"{name} has {shared.size} bytes of shared variables: "
                                                           f"{_LARGEST_SHARED} at most")
    if shared.size:
        lines.append(f".shared {shared.size} align {shared.alignment}")
    barriers = max(finished[other].function.barriers for other in reached)
    if barriers:
        lines.append(f".barriers {barriers}")
    stack, tokens = _depths(name, finished, graph, reached)
    lines += [f".frame {own.frame}", f".local {min(stack, _LARGEST_STACK)}"]
    if tokens:
        lines.append(f".crs {tokens * _TOKEN_BYTES}")
    indirect = any(finished[other].function.indirect for other in reached)
    tables = [block.table for other in reached for block in finished[other].function.blocks if block.table is not None]
    size = (HANDLE_BYTES * (len(layout.handles) + 1) * indirect
            + _WORD_BYTES * sum(len(table.labels) for table in tables))
    if size > BANK_BYTES:
        raise CompileError(function.line, function.column, f"{name} and the functions it calls have {size} bytes of "
                                                           f"branch targets and functions: {BANK_BYTES} at most")
    if indirect:
        lines += _function_table(layout, prefix)
    for table in tables:
        lines.append(f".const {TABLE_BANK} {prefix}{table.name} align {_WORD_BYTES}")
        lines += [f"    .word {label}" for label in table.labels]
    for other, body in bodies:
        if other != name:
            lines.append(f".function {prefix}{other}")
        lines += body
    return [*lines, ".end"]


def _function_table(layout: Layout, prefix: str) -> list[str]:
    """The places of a kernel's functions in its code, by their handles. There is no code at the first."""
    lines = [f".const {TABLE_BANK} {prefix}{FUNCTION_TABLE} align {HANDLE_BYTES}", f"    .dword {_NO_CODE}"]
    return lines + [f"    .dword {prefix}{name}" for name in layout.handles]


def _reached(name: str, finished: Mapping[str, Finished], graph: CallGraph) -> list[str]:
    """The functions that a kernel may call, the kernel first."""
    found = reachable([name], graph)
    if any(finished[other].function.indirect for other in found):
        for other in finished:
            if not finished[other].function.entry and finished[other].function.standard:
                found |= reachable([other], graph)
    return [name, *(other for other in finished if other in found and other != name)]


def _depths(name: str, finished: Mapping[str, Finished], graph: CallGraph, reached: list[str]) -> tuple[int, int]:
    """Bytes of stack of the deepest calls, and tokens. Functions that call themselves, or one another, are all in it
    once, and the largest of them as often as a warp has lanes.
    """
    indirect = [other for other in reached if finished[other].function.standard]
    calls: CallGraph = {}
    for caller in reached:
        called = indirect if finished[caller].function.indirect else []
        calls[caller] = dict.fromkeys((*graph[caller], *called))
    depths: dict[str, tuple[int, int]] = {}
    for group in strongly_connected_components(calls):       # callees first
        below = [depths[other] for caller in group for other in calls[caller] if other not in group]
        again = _LANES - 1 if any(other in calls[caller] for caller in group for other in group) else 0
        own = [(finished[caller].frame, _tokens(finished[caller], bool(calls[caller]))) for caller in group]
        found = tuple(sum(column) + again * max(column) + max((item[at] for item in below), default=0)
                      for at, column in enumerate(zip(*own, strict=True)))
        depths |= dict.fromkeys(group, (found[0], found[1]))
    return depths[name]


def _tokens(one: Finished, calls: bool) -> int:
    """Tokens that one function has on the stack."""
    return one.plan.depth + (_LANES if one.plan.loops else min(len(one.plan.parting), _LANES)) + calls
