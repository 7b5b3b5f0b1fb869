"""Emits the parts of an assembly program around the code: variables, kernels, sizes."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sim.toolchain.assembly import statements
from sim.toolchain.assembly.operands import escaped
from sim.toolchain.assembly.program import BANK_BYTES, Line
from sim.toolchain.assembly.source import SassData, SassEnd, Statement
from sim.toolchain.compiler.analysis.graphs import reachable, strongly_connected_components
from sim.toolchain.compiler.ir import Function
from sim.toolchain.compiler.layout import (
    CONSTANT_BANK,
    FUNCTION_TABLE,
    HANDLE_BYTES,
    TABLE_BANK,
    MemoryLayout,
)
from sim.toolchain.compiler.select.builder import CompileError
from sim.toolchain.ptx.module import (
    AddressOf,
    PtxFunction,
    PtxModule,
    PtxVariable,
    parameter_offsets,
)

from .functions import Finished

__all__ = ["CallGraph", "kernel_statements", "module_statements"]

CallGraph = dict[str, dict[str, None]]
"""The functions that each function calls by name, in order."""

_DATA = {1: ".byte", 2: ".half", 4: ".word", 8: ".dword"}
_NO_CODE = 1
_TOKEN_BYTES = 16
_LANES = 32
_WORD_BYTES = 4
_LARGEST_SHARED = 1 << 28
_LARGEST_STACK = 0xFFFF_FFF0
"""The largest stack size in bytes that a file can express. A launch with less stack is refused."""


def module_statements(layout: MemoryLayout) -> list[Statement | Line]:
    """Returns the statements for global variables and constants."""
    constants = {constant.name: layout.offsets[constant] for constant in layout.constants}
    found: list[Statement | Line] = []
    for variable in layout.globals:
        size = None if variable.initial else max(variable.size, 1)
        found.append(statements.variable(escaped(variable.name), size, variable.alignment))
        found += _data(variable, constants, layout)
    for variable in layout.constants:
        found.append(
            statements.bank(
                CONSTANT_BANK, escaped(variable.name), variable.alignment, layout.offsets[variable]
            )
        )
        found += _data(variable, constants, layout) or [statements.zeros(variable.size)]
    return found


def _data(
    variable: PtxVariable, constants: Mapping[str, int], layout: MemoryLayout
) -> list[SassData]:
    """Returns the initial data of a variable, zero-filled. ``constants`` maps the names of
    constants to their offsets.
    """
    if not variable.initial:
        return []
    size = variable.type.size
    found: list[SassData] = []
    for value in variable.initial:
        if not isinstance(value, AddressOf):
            found.append(statements.data(_DATA[size], statements.total(value)))
            continue
        known = layout.handles.get(
            value.symbol, None if value.generic else constants.get(value.symbol)
        )
        if known is not None:
            number = known + value.offset
            part = number if value.byte is None else number >> value.byte & 0xFF
            found.append(statements.data(_DATA[size], statements.total(part % (1 << 8 * size))))
            continue
        place = statements.total(escaped(value.symbol), value.offset)
        address = statements.generic(place) if value.symbol in constants else place
        if value.byte is None:
            found.append(statements.data(_DATA[size], address))
        else:
            found.append(statements.data(_DATA[1], statements.address_byte(value.byte, address)))
            found += [statements.zeros(size - 1)] if size > 1 else []
    missing = variable.size - size * len(variable.initial)
    return found + ([statements.zeros(missing)] if missing else [])


def kernel_statements(
    module: PtxModule,
    layout: MemoryLayout,
    name: str,
    finished: Mapping[str, Finished],
    graph: CallGraph,
) -> list[Statement | Line]:
    """Returns the statements for a kernel and all functions that it may call."""
    prefix = f"${name}$"
    function = module.functions[name]
    reached = _reached(name, finished, graph)
    # Before the tables: this assigns the labels in the tables.
    bodies = [(other, finished[other].code.statements(prefix)) for other in reached]
    found: list[Statement | Line] = [
        statements.kernel(escaped(name)),
        *_parameters(function),
        *_bounds(function),
        *_shared_variables(function, layout),
    ]
    barriers = max(finished[other].function.barriers for other in reached)
    if barriers:
        found.append(statements.amount(".barriers", barriers))
    depth = _depth(name, finished, graph, reached)
    found += [
        statements.amount(".frame", finished[name].frame),
        statements.amount(".local", min(depth.stack_bytes, _LARGEST_STACK)),
    ]
    if depth.tokens:
        found.append(statements.amount(".crs", depth.tokens * _TOKEN_BYTES))
    found += _tables(function, layout, [finished[other].function for other in reached], prefix)
    for other, body in bodies:
        if other != name:
            found.append(statements.function(f"{prefix}{other}"))
        found += body
    return [*found, SassEnd()]


def _parameters(function: PtxFunction) -> Iterator[Statement]:
    """Yields the statements for a kernel's parameters."""
    offsets, _ = parameter_offsets(function.parameters)
    for parameter, offset in zip(function.parameters, offsets, strict=True):
        assert isinstance(parameter, PtxVariable)
        yield statements.parameter(escaped(parameter.name), parameter.size, offset)


def _bounds(function: PtxFunction) -> Iterator[Statement]:
    """Yields the statements for a kernel's launch bounds."""
    if function.bounds.largest is not None:
        yield statements.info("MAX_THREADS", function.bounds.largest)
    if function.bounds.exact is not None:
        yield statements.info("REQNTID", function.bounds.exact)


def _shared_variables(function: PtxFunction, layout: MemoryLayout) -> Iterator[Statement]:
    """Yields the statements for a kernel's shared memory.

    Raises:
        CompileError: The shared memory is too large.
    """
    shared = layout.shared[function.name]
    if shared.size > _LARGEST_SHARED:
        raise CompileError(
            function.line,
            function.column,
            f"{function.name} has {shared.size} bytes of shared variables: {_LARGEST_SHARED} at most",
        )
    if shared.size:
        yield statements.shared(shared.size, shared.alignment)


def _tables(
    function: PtxFunction, layout: MemoryLayout, reached: list[Function], prefix: str
) -> list[Statement]:
    """Returns the statements for a kernel's constant bank of function handles and branch targets.

    Raises:
        CompileError: The bank is too large.
    """
    indirect = any(other.indirect for other in reached)
    tables = [block.table for other in reached for block in other.blocks if block.table is not None]
    handles = HANDLE_BYTES * (len(layout.handles) + 1) if indirect else 0
    size = handles + _WORD_BYTES * sum(len(table.labels) for table in tables)
    if size > BANK_BYTES:
        raise CompileError(
            function.line,
            function.column,
            f"{function.name} and the functions it calls have {size} bytes of "
            f"branch targets and functions: {BANK_BYTES} at most",
        )
    found = _function_table(layout, prefix) if indirect else []
    for table in tables:
        found.append(statements.bank(TABLE_BANK, f"{prefix}{table.name}", _WORD_BYTES))
        found += [
            statements.data(_DATA[_WORD_BYTES], statements.total(label)) for label in table.labels
        ]
    return found


def _function_table(layout: MemoryLayout, prefix: str) -> list[Statement]:
    """Returns the table of the code addresses of a kernel's functions, by handle. Handle 0 has no
    code.
    """
    words = [
        statements.total(_NO_CODE),
        *(statements.total(f"{prefix}{name}") for name in layout.handles),
    ]
    return [
        statements.bank(TABLE_BANK, f"{prefix}{FUNCTION_TABLE}", HANDLE_BYTES),
        *(statements.data(".dword", word) for word in words),
    ]


def _reached(name: str, finished: Mapping[str, Finished], graph: CallGraph) -> list[str]:
    """Returns the functions that a kernel may call, the kernel first."""
    found = reachable([name], graph)
    if any(finished[other].function.indirect for other in found):
        for other in finished:
            if not finished[other].function.entry and finished[other].function.standard:
                found |= reachable([other], graph)
    return [name, *(other for other in finished if other in found and other != name)]


class _CallDepth(NamedTuple):
    """The stack use of the deepest calls: bytes of a thread's stack, and tokens of a warp's
    call/return stack.
    """

    stack_bytes: int
    tokens: int


def _depth(
    name: str, finished: Mapping[str, Finished], graph: CallGraph, reached: list[str]
) -> _CallDepth:
    """Returns the stack use of a kernel. A group of mutually recursive functions counts once with
    all its members, and its largest member as often as a warp has lanes.
    """
    by_address = [other for other in reached if finished[other].function.standard]
    calls: CallGraph = {}
    for caller in reached:
        called = by_address if finished[caller].function.indirect else []
        calls[caller] = dict.fromkeys((*graph[caller], *called))
    depths: dict[str, _CallDepth] = {}
    for group in strongly_connected_components(calls):  # callees first
        below = [depths[other] for caller in group for other in calls[caller] if other not in group]
        recurses = any(other in calls[caller] for caller in group for other in group)
        again = _LANES - 1 if recurses else 0
        frames = [finished[caller].frame for caller in group]
        tokens = [_tokens(finished[caller], bool(calls[caller])) for caller in group]
        depth = _CallDepth(
            sum(frames)
            + again * max(frames)
            + max((other.stack_bytes for other in below), default=0),
            sum(tokens) + again * max(tokens) + max((other.tokens for other in below), default=0),
        )
        depths |= dict.fromkeys(group, depth)
    return depths[name]


def _tokens(one: Finished, calls: bool) -> int:
    """Returns the tokens that one function has on the stack."""
    return (
        one.plan.depth
        + (_LANES if one.plan.has_divergent_loop else min(len(one.plan.divergent), _LANES))
        + calls
    )
