"""The parts of assembly text around the code: variables, kernels, sizes."""

from collections.abc import Mapping

import networkx as nx

from sim.toolchain.operands import is_reserved
from sim.toolchain.ptx.module import AddressOf, PtxModule, Variable, parameter_offsets

from .ir import Function
from .layout import Layout
from .text import Finished, function_lines

__all__ = ["kernel_lines", "module_lines"]

_DATA = {1: ".byte", 2: ".half", 4: ".word", 8: ".dword"}
_TOKEN_BYTES = 16
_LANES = 32


def module_lines(module: PtxModule, layout: Layout, functions: Mapping[str, Function]) -> list[str]:
    """Global variables and constants."""
    lines = []
    prefix = next((f"${name}$" for name, function in functions.items() if function.entry), "")
    for variable in layout.globals:
        sized = "" if variable.initial else f" {max(variable.size, 1)}"
        lines.append(f".global {variable.name}{sized} align {variable.alignment}")
        lines += _data(variable, functions, prefix)
    for variable in layout.constants:
        lines.append(f".const 3 {variable.name} align {variable.alignment} at {layout.places[variable]}")
        lines += _data(variable, functions, prefix) or [f"    .zero {variable.size}"]
    return lines


def _data(variable: Variable, functions: Mapping[str, Function], prefix: str) -> list[str]:
    """The first values of a variable, zeros behind them."""
    if not variable.initial:
        return []
    size = variable.type.size
    lines = []
    for value in variable.initial:
        if isinstance(value, AddressOf):
            name = prefix + value.symbol if value.symbol in functions else value.symbol
            text = f"{name}+{value.offset:#x}" if value.offset else name
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
    if layout.shared_bytes:
        lines.append(f".shared {layout.shared_bytes} align {max(v.alignment for v in layout.shared)}")
    barriers = max(finished[other].function.barriers for other in reached)
    if barriers:
        lines.append(f".barriers {barriers}")
    stack, tokens = _depths(name, finished, graph, reached)
    lines += [f".frame {own.frame}", f".local {stack}"]
    if tokens:
        lines.append(f".crs {tokens * _TOKEN_BYTES}")
    for other in reached:
        for block in finished[other].function.blocks:
            if block.table is not None:
                lines.append(f".const 2 {prefix}{block.table.name} align 4")
                lines += [f"    .word {label}" for label in block.table.labels]
    for other, body in bodies:
        if other != name:
            lines.append(f".function {prefix}{other}")
        lines += body
    return [*lines, ".end"]


def _reached(name: str, finished: Mapping[str, Finished], graph: nx.DiGraph) -> list[str]:
    """The functions that a kernel may call, the kernel first."""
    found = {name, *nx.descendants(graph, name)}
    if any(finished[other].function.indirect for other in found):
        for other in finished:
            if not finished[other].function.entry and finished[other].function.standard:
                found |= {other, *nx.descendants(graph, other)}
    return [name, *(other for other in finished if other in found and other != name)]


def _depths(name: str, finished: Mapping[str, Finished], graph: nx.DiGraph, reached: list[str]) -> tuple[int, int]:
    """Bytes of stack of the deepest calls, and tokens. A function that calls itself counts as often as a warp has
    lanes.
    """
    indirect = [other for other in reached if finished[other].function.standard]
    stacks: dict[str, tuple[int, int]] = {}

    def depth(current: str, above: frozenset[str]) -> tuple[int, int]:
        if current in stacks:
            return stacks[current]
        one = finished[current]
        called = set(graph.successors(current))
        if one.function.indirect:
            called |= set(indirect)
        times = _LANES if any(other in above or other == current for other in called) else 1
        below = [depth(other, above | {current}) for other in called if other not in above and other != current]
        parting = one.plan.parting
        tokens = one.plan.depth + (_LANES if one.plan.loops else min(len(parting), _LANES)) + bool(called)
        stacks[current] = (one.frame * times + max((stack for stack, _ in below), default=0),
                           tokens * times + max((more for _, more in below), default=0))
        return stacks[current]

    return depth(name, frozenset())


