"""The parts of assembly text around the code: variables, kernels, sizes."""

from collections.abc import Mapping

import networkx as nx

from sim.toolchain.operands import is_reserved
from sim.toolchain.program import BANK_BYTES
from sim.toolchain.ptx.module import AddressOf, PtxModule, Variable, parameter_offsets

from .builder import CompileError
from .layout import FUNCTION_TABLE, HANDLE_BYTES, TABLE_BANK, Layout
from .text import Finished, function_lines

__all__ = ["kernel_lines", "module_lines"]

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
        lines.append(f".global {variable.name}{sized} align {variable.alignment}")
        lines += _data(variable, layout)
    for variable in layout.constants:
        lines.append(f".const 3 {variable.name} align {variable.alignment} at {layout.places[variable]}")
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
        if isinstance(value, AddressOf) and value.symbol in constants and not value.generic:
            text = f"{(constants[value.symbol] + value.offset) % (1 << 8 * size):#x}"
        elif isinstance(value, AddressOf) and value.symbol in layout.handles:
            text = f"{(layout.handles[value.symbol] + value.offset) % (1 << 8 * size):#x}"
        elif isinstance(value, AddressOf):
            text = f"{value.symbol}{value.offset:+#x}" if value.offset else value.symbol
            if value.symbol in constants:
                text = f"generic({text})"
        else:
            text = f"{value:#x}"
        lines.append(f"    {_DATA[size]} {text}")
    missing = variable.size - size * len(variable.initial)
    return lines + ([f"    .zero {missing}"] if missing else [])


def kernel_lines(module: PtxModule, layout: Layout, name: str, finished: Mapping[str, Finished],
                 graph: nx.DiGraph) -> list[str]:
    """A kernel with all functions that it may call."""
    prefix = f"${name}$"
    reached = _reached(name, finished, graph)
    own = finished[name]
    bodies = [(other, function_lines(finished[other], prefix)) for other in reached]
    lines = [f".kernel {name}"]
    function = module.functions[name]
    offsets, _ = parameter_offsets(function.parameters)
    for parameter, offset in zip(function.parameters, offsets, strict=True):
        assert isinstance(parameter, Variable)
        shown = f"{parameter.name}_" if is_reserved(parameter.name) else parameter.name
        lines.append(f".param {shown} {parameter.size} at {offset}")
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
    tables = []
    if any(finished[other].function.indirect for other in reached):
        tables += _function_table(layout, prefix)
    size = HANDLE_BYTES * len(tables)
    for other in reached:
        for block in finished[other].function.blocks:
            if block.table is not None:
                tables.append(f".const {TABLE_BANK} {prefix}{block.table.name} align 4")
                tables += [f"    .word {label}" for label in block.table.labels]
                size += _WORD_BYTES * len(block.table.labels)
    if size > BANK_BYTES:
        raise CompileError(function.line, function.column, f"{name} and the functions it calls have {size} bytes of "
                                                           f"branch targets and functions: {BANK_BYTES} at most")
    lines += tables
    for other, body in bodies:
        if other != name:
            lines.append(f".function {prefix}{other}")
        lines += body
    return [*lines, ".end"]


def _function_table(layout: Layout, prefix: str) -> list[str]:
    """The places of a kernel's functions in its code, by their handles. There is no code at the first."""
    lines = [f".const {TABLE_BANK} {prefix}{FUNCTION_TABLE} align {HANDLE_BYTES}", f"    .dword {_NO_CODE}"]
    return lines + [f"    .dword {prefix}{name}" for name in layout.handles]


def _reached(name: str, finished: Mapping[str, Finished], graph: nx.DiGraph) -> list[str]:
    """The functions that a kernel may call, the kernel first."""
    found = {name, *nx.descendants(graph, name)}
    if any(finished[other].function.indirect for other in found):
        for other in finished:
            if not finished[other].function.entry and finished[other].function.standard:
                found |= {other, *nx.descendants(graph, other)}
    return [name, *(other for other in finished if other in found and other != name)]


def _depths(name: str, finished: Mapping[str, Finished], graph: nx.DiGraph, reached: list[str]) -> tuple[int, int]:
    """Bytes of stack of the deepest calls, and tokens. Functions that call themselves, or one another, are all in it
    once, and the largest of them as often as a warp has lanes.
    """
    calls = nx.DiGraph()
    calls.add_nodes_from(reached)
    indirect = [other for other in reached if finished[other].function.standard]
    for caller in reached:
        called = indirect if finished[caller].function.indirect else []
        calls.add_edges_from((caller, other) for other in (*graph.successors(caller), *called))
    depths: dict[str, tuple[int, int]] = {}
    for group in nx.strongly_connected_components(calls):       # callees first
        below = [depths[other] for caller in group for other in calls.successors(caller) if other not in group]
        again = _LANES - 1 if any(calls.has_edge(caller, other) for caller in group for other in group) else 0
        own = [(finished[caller].frame, _tokens(finished[caller], bool(calls.out_degree(caller)))) for caller in group]
        found = tuple(sum(column) + again * max(column) + max((item[at] for item in below), default=0)
                      for at, column in enumerate(zip(*own, strict=True)))
        depths |= dict.fromkeys(group, (found[0], found[1]))
    return depths[name]


def _tokens(one: Finished, calls: bool) -> int:
    """Tokens that one function has on the stack."""
    return one.plan.depth + (_LANES if one.plan.loops else min(len(one.plan.parting), _LANES)) + calls
