"""From a design to RTLIL, with the loops named that pysim would hang on, and made easy for CXXRTL."""

from itertools import pairwise
from typing import Any

from sim.engine.internals import (
    Assignment,
    AssignmentList,
    Design,
    EmptyModuleChecker,
    FlipFlop,
    MemoryInstance,
    ModuleEmitter,
    Net,
    Netlist,
    PortDirection,
    RtlilText,
    SignalDict,
    SignalSet,
    compute_ports,
    emit_netlist,
)

__all__ = ["check_loops", "driven_signals", "to_rtlil", "undriven_signals"]

ALWAYS = Net.from_const(1)
ROOT = "(design)"
"""The name of the top module: one that no signal has, since C++ would take the two for one."""


def driven_signals(design: Any, domain: str | None = None) -> Any:
    """The signals that the design itself drives, or those that it drives from one domain."""
    driven = SignalSet()
    for fragment in design.fragments:
        for name, statements in getattr(fragment, "statements", {}).items():
            if domain in (None, name):
                for statement in statements:
                    driven.update(statement._lhs_signals())
        if isinstance(fragment, MemoryInstance):
            for port in fragment._read_ports:
                if domain in (None, port._domain):
                    driven.update(port._data._lhs_signals())
    return driven


def undriven_signals(design: Any) -> Any:
    """The signals that the design uses and leaves to others: its inputs, clocks and resets."""
    driven = driven_signals(design)
    return SignalSet(signal for signal in design.signal_lca if signal not in driven)


def _with_ports(design: Any) -> Any:
    """The design with its inputs as ports, and the data of memory read ports, which stays even if nobody reads it."""
    data = SignalSet()
    for fragment in design.fragments:
        for port in getattr(fragment, "_read_ports", ()):
            data.update(port._data._lhs_signals())
    ports = [(None, signal, PortDirection.Input) for signal in undriven_signals(design)]
    ports += [(None, signal, PortDirection.Output) for signal in data]
    return Design(design.fragment, ports, hierarchy=(ROOT,))


def _netlist(design: Any) -> Any:
    """The design's nets, loops ruled out."""
    netlist = Netlist()
    emit_netlist(netlist, design, all_undef_to_ff=False)
    netlist.check_comb_cycles()
    netlist.resolve_all_nets()
    return netlist


def check_loops(design: Any) -> None:
    """Raises CombinationalCycle, with the loop's signals and their places, when the design has a combinational loop."""
    _netlist(_with_ports(design))


def _split(netlist: Any) -> None:
    """Takes signals apart that are assigned in pieces.

    CXXRTL orders its work by whole signals: a signal with one field computed from another is a loop to it, which takes
    several rounds of evaluation, each time. The pieces have no such loop.
    """
    stored = {net.cell for cell in netlist.cells if isinstance(cell, FlipFlop) for net in cell.data if net.is_cell}
    replaced: dict[Any, Any] = {}
    for index, cell in enumerate(list(netlist.cells)):
        if not isinstance(cell, AssignmentList) or index in stored:
            continue
        ends = {0, len(cell.default)}
        for assignment in cell.assignments:
            ends |= {assignment.start, assignment.start + len(assignment.value)}
        bounds = sorted(ends)
        if len(bounds) == 2:
            continue
        for start, stop in pairwise(bounds):
            nets = _piece(netlist, cell, start, stop)
            replaced |= {Net.from_cell(index, start + bit): net for bit, net in enumerate(nets)}
        netlist.modules[cell.module_idx].cells.remove(index)

    def resolve(net: Any) -> Any:
        while net in replaced:
            net = replaced[net]
        return net
    netlist.resolve_net = resolve
    netlist.resolve_all_nets()


def _piece(netlist: Any, cell: Any, start: int, stop: int) -> Any:
    """The nets of bits ``start`` to ``stop`` of a signal, which every assignment to it takes or leaves as a whole."""
    default, assignments = cell.default[start:stop], []
    for assignment in cell.assignments:
        if assignment.start <= start < assignment.start + len(assignment.value):
            value = assignment.value[start - assignment.start:stop - assignment.start]
            if assignment.cond == ALWAYS:
                default, assignments = value, []
            else:
                assignments.append(Assignment(cond=assignment.cond, start=0, value=value, src_loc=assignment.src_loc))
    if not assignments:
        return default
    return netlist.add_value_cell(stop - start, AssignmentList(
        cell.module_idx, default=default, assignments=assignments, src_loc=cell.src_loc))


class _KeepAll(EmptyModuleChecker):
    """Modules without cells stay: their signals can be looked at."""

    def is_empty(self, _module: int) -> bool:
        return False


class _Emitter(ModuleEmitter):
    """Leaves out the wires that show the fields of structures: they are parts of signals that are there."""

    def emit_signal_fields(self) -> None:
        pass


def to_rtlil(design: Any) -> tuple[str, Any]:
    """The design as RTLIL text, and where its signals are in it: a tuple of module names and the wire's name."""
    design = _with_ports(design)
    netlist = _netlist(design)
    _split(netlist)
    compute_ports(netlist, design.ports)
    text, names = RtlilText(emit_src=True), SignalDict()
    for index, module in enumerate(netlist.modules):
        builder = text.module(".".join(module.name), src_loc=module.src_loc)
        if index == 0:
            builder.attribute("top", 1)
        _Emitter(builder, netlist, module, names, empty_checker=_KeepAll(netlist)).emit()
    for name, signal, direction in design.ports:
        if direction is PortDirection.Input:      # can be written at the top level only
            names[signal] = (ROOT, name)
    return str(text), names
