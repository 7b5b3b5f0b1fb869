"""From a PTX module to assembly text."""

import networkx as nx

from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.module import Linkage, PtxModule

from .abi import STANDARD_CLOBBERS
from .allocate import REGISTERS, allocate
from .builder import CompileError
from .carry import keep_carries
from .cleanup import clean, skip_empty
from .convergence import plan
from .dataflow import reaching_webs
from .double_division import DOUBLE_DIVISIONS
from .expand import expand
from .hoist import hoist
from .ir import Function
from .layout import Layout
from .legalise import legalise
from .long_division import DIVIDE, division_function
from .loops import add_preheaders
from .optimise import optimise
from .predicate import predicate
from .program_text import kernel_lines, module_lines
from .select_flow import select_function
from .single_division import DIVISIONS
from .text import CodeLine, Finished
from .turn_loops import rotate, write_out
from .unroll import unroll

__all__ = ["Assembly", "compile_module"]

_OURS = {DIVIDE: division_function, **DIVISIONS, **DOUBLE_DIVISIONS}
"""Functions that instructions are translated to calls of."""


class Assembly(str):
    """Assembly text that knows the PTX of its lines."""

    __slots__ = ("_lines",)
    _lines: list[str]

    @classmethod
    def of(cls, lines: list[str]) -> "Assembly":
        """The text of some lines."""
        made = cls("\n".join(lines) + "\n")
        made._lines = lines
        return made

    def origin(self, line: int) -> tuple[int, int]:
        """Line and column in the PTX of a line of the text, all from 1 on: of the next line that has them, or of one
        before.
        """
        places = [(one.line, one.column) for one in (*self._lines[line - 1:], *self._lines[line - 2::-1])
                  if isinstance(one, CodeLine) and one.line]
        return places[0] if places else (1, 1)


def compile_module(module: PtxModule, registers: int = REGISTERS, *, library: bool = False) -> Assembly:
    """Assembly text of a module, which uses at most so many registers. Others may call the visible functions of a
    ``library``. ProgramError says what it cannot translate, and where that stands.
    """
    try:
        return _text(module, registers, library)
    except CompileError as error:
        raise ProgramError(f"{module.name}:{error.line}:{error.column}: {error}") from error


def _text(module: PtxModule, registers: int, library: bool) -> Assembly:
    layout = Layout.of(module)
    functions, copies = _selected(module, layout)
    for callee in sorted({callee for function in functions.values() for callee in function.calls if callee in _OURS}):
        functions[callee] = _OURS[callee]()
    graph = nx.DiGraph()
    graph.add_nodes_from(functions)
    for function in functions.values():
        for callee in function.calls:
            if callee not in functions:
                place = module.functions[function.name]
                raise CompileError(place.line, place.column, f"{function.name} calls {callee}, which has no body here")
            graph.add_edge(function.name, callee)
    _find_standard(layout, functions, graph)
    for name, function in functions.items() if library else ():
        function.standard = not function.entry and module.functions[name].linkage is Linkage.VISIBLE
    finished: dict[str, Finished] = {}
    finished_copies: dict[str, dict[str, Finished]] = {}
    for group in nx.strongly_connected_components(graph):
        for name in sorted(group):
            finished[name] = _compile(functions[name], finished, registers)
            for kernels, copy in copies.get(name, []):
                copy.standard, copy.circle = functions[name].standard, functions[name].circle
                made = _compile(copy, finished, registers)
                # Callers need to know one thing of all copies.
                functions[name].clobbers |= copy.clobbers
                finished[name].needs_stack |= made.needs_stack
                for kernel in kernels:
                    finished_copies.setdefault(kernel, {})[name] = made
    lines = module_lines(layout)
    for name, function in functions.items():
        if function.entry:
            lines += kernel_lines(module, layout, name, {**finished, **finished_copies.get(name, {})}, graph)
    return Assembly.of(lines)


def _selected(module: PtxModule, layout: Layout) -> tuple[dict[str, Function],
                                                          dict[str, list[tuple[list[str], Function]]]]:
    """The functions as operations, and more copies of those whose shared variables have other places in some kernels,
    with these kernels.
    """
    functions: dict[str, Function] = {}
    copies: dict[str, list[tuple[list[str], Function]]] = {}
    for name, function in module.functions.items():
        if function.body is None:
            continue
        (_, first), *others = layout.versions(name)
        functions[name] = select_function(function, first)
        if others:
            copies[name] = [(kernels, select_function(function, other)) for kernels, other in others]
    return functions, copies


def _find_standard(layout: Layout, functions: dict[str, Function], graph: nx.DiGraph) -> None:
    """Marks the functions that may be called by address or call themselves, by way of others or not."""
    if any(function.indirect for function in functions.values()):
        for name in layout.handles:
            functions[name].standard = True
    for group in nx.strongly_connected_components(graph):
        if len(group) > 1 or any(graph.has_edge(name, name) for name in group):
            for name in group:
                functions[name].standard = True
                functions[name].circle = frozenset(group)
    for function in functions.values():
        function.standard = function.standard and not function.entry


def _compile(function: Function, finished: dict[str, Finished], registers: int) -> Finished:
    """One function through all passes."""
    for op in function.ops():
        if op.name == "CAL" and op.text in finished and not finished[op.text].function.standard:
            op.clobbers = finished[op.text].function.clobbers
    clean(function)
    keep_carries(function)
    rotate(function)
    clean(function)
    write_out(function)
    clean(function)
    unroll(function)
    clean(function)
    reaching_webs(function)
    optimise(function)
    clean(function)
    expand(function)
    optimise(function)
    legalise(function)
    clean(function)
    predicate(function)
    clean(function)
    add_preheaders(function)
    hoist(function)
    made = plan(function)
    result = Finished.of(function, allocate(function, registers), made)
    skip_empty(function, made)
    called = frozenset().union(*(op.clobbers for op in function.ops()))
    function.clobbers = STANDARD_CLOBBERS if function.standard else result.clobbers | called
    result.needs_stack = bool(result.frame) or any(
        name not in finished or finished[name].needs_stack for name in function.calls) or function.indirect
    return result
