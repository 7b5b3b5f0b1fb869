"""The compiler's passes in order: compiles a PTX module to an assembly program."""

from sim.toolchain.assembly.program import Line
from sim.toolchain.assembly.source import Statement
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.module import Linkage, PtxModule

from .abi import STANDARD_CLOBBERS
from .analysis.graphs import strongly_connected_components
from .analysis.loops import add_preheaders
from .emit.functions import Finished
from .emit.program import CallGraph, kernel_statements, module_statements
from .ir import Function
from .layout import MemoryLayout
from .library import functions_with
from .passes.carry import keep_carries
from .passes.expand import expand
from .passes.full_unroll import unroll_fully
from .passes.if_conversion import if_convert
from .passes.legalise import legalise
from .passes.licm import hoist_invariants
from .passes.optimise import optimise
from .passes.reconvergence import plan
from .passes.rotate import rotate
from .passes.simplify_cfg import simplify_cfg, skip_empty
from .passes.unroll import unroll
from .passes.webs import reaching_webs
from .regalloc.color import REGISTERS, allocate
from .select.builder import CompileError
from .select.functions import select_function

__all__ = ["compile_module", "compile_statements"]


def compile_module(module: PtxModule, registers: int = REGISTERS, *, library: bool = False) -> str:
    """Returns the assembly text for the program of :func:`compile_statements`."""
    return "\n".join(map(str, compile_statements(module, registers, library=library))) + "\n"


def compile_statements(
    module: PtxModule, registers: int = REGISTERS, *, library: bool = False
) -> list[Statement | Line]:
    """Compiles a module.

    Args:
        module: The module.
        registers: The most registers that the program may use.
        library: Whether code of other files may call the visible functions.

    Returns:
        The assembly program.

    Raises:
        ProgramError: A construct is not supported; it has the line and column.
    """
    try:
        return _program(module, registers, library)
    except CompileError as error:
        raise ProgramError(f"{module.name}:{error.line}:{error.column}: {error}") from error


def _program(module: PtxModule, registers: int, library: bool) -> list[Statement | Line]:
    layout = MemoryLayout.of(module)
    if module.refused and not any(function.entry for function in module.functions.values()):
        raise ProgramError(next(iter(module.refused.values())))
    functions, copies = _selected(module, layout)
    for name in sorted(
        {name for function in functions.values() for name in function.library_calls}
    ):
        beside = functions_with(name)
        functions[name] = select_function(beside[name], MemoryLayout(), beside)
    graph: CallGraph = {name: {} for name in functions}
    for function in functions.values():
        for callee in function.calls:
            if callee not in functions:
                place = module.functions[function.name]
                raise CompileError(
                    place.line,
                    place.column,
                    f"{function.name} calls {callee}, which has no body here",
                )
            graph[function.name][callee] = None
    _find_standard(layout, functions, graph)
    for name, function in functions.items() if library else ():
        if name in module.functions and module.functions[name].linkage is Linkage.VISIBLE:
            function.standard |= not function.entry
    finished: dict[str, Finished] = {}
    finished_copies: dict[str, dict[str, Finished]] = {}
    for group in strongly_connected_components(graph):
        for name in sorted(group):
            finished[name] = _compile(functions[name], finished, registers)
            for kernels, copy in copies.get(name, []):
                copy.standard = functions[name].standard
                copy.recursion = functions[name].recursion
                made = _compile(copy, finished, registers)
                # Callers need the union over all copies.
                functions[name].clobbers |= copy.clobbers
                finished[name].needs_stack |= made.needs_stack
                for kernel in kernels:
                    finished_copies.setdefault(kernel, {})[name] = made
    found = module_statements(layout)
    for name, function in functions.items():
        if function.entry:
            found += kernel_statements(
                module, layout, name, {**finished, **finished_copies.get(name, {})}, graph
            )
    return found


def _selected(
    module: PtxModule, layout: MemoryLayout
) -> tuple[dict[str, Function], dict[str, list[tuple[list[str], Function]]]]:
    """Selects the instructions of all functions.

    Returns:
        The functions as operations, and the further copies of those whose shared variables have
        other offsets in some kernels, with these kernels.
    """
    functions: dict[str, Function] = {}
    copies: dict[str, list[tuple[list[str], Function]]] = {}
    for name, function in module.functions.items():
        if function.body is None:
            continue
        (_, first), *others = layout.versions(name)
        functions[name] = select_function(function, first)
        if others:
            copies[name] = [
                (kernels, select_function(function, other)) for kernels, other in others
            ]
    return functions, copies


def _find_standard(layout: MemoryLayout, functions: dict[str, Function], graph: CallGraph) -> None:
    """Marks the functions that use the standard convention: those that are called by address or
    recursive.
    """
    if any(function.indirect for function in functions.values()):
        for name in layout.handles:
            functions[name].standard = True
    for group in strongly_connected_components(graph):
        if len(group) > 1 or group[0] in graph[group[0]]:
            for name in group:
                functions[name].standard = True
                functions[name].recursion = frozenset(group)


def _compile(function: Function, finished: dict[str, Finished], registers: int) -> Finished:
    """Runs all passes on one function."""
    for op in function.ops():
        if op.name == "CAL" and op.symbol in finished and not finished[op.symbol].function.standard:
            op.clobbers = finished[op.symbol].function.clobbers
    simplify_cfg(function)
    keep_carries(function)
    rotate(function)
    simplify_cfg(function)
    unroll_fully(function)
    simplify_cfg(function)
    unroll(function)
    simplify_cfg(function)
    reaching_webs(function)
    optimise(function)
    simplify_cfg(function)
    if expand(function):
        optimise(function)
    legalise(function)
    simplify_cfg(function)
    if_convert(function)
    simplify_cfg(function)
    add_preheaders(function)
    hoist_invariants(function)
    made = plan(function)
    result = Finished.of(function, allocate(function, registers), made)
    skip_empty(function, made)
    called = frozenset().union(*(op.clobbers for op in function.ops()))
    function.clobbers = STANDARD_CLOBBERS if function.standard else result.clobbers | called
    result.needs_stack = (
        bool(result.frame)
        or any(name not in finished or finished[name].needs_stack for name in function.calls)
        or function.indirect
    )
    return result
