"""Flattens a design to a netlist, and reports combinational loops, on which pysim would hang."""

from typing import Any

from sim.engine.errors import EngineError
from sim.engine.internals import (
    Design,
    Instance,
    IOBufferInstance,
    MemoryInstance,
    Netlist,
    PortDirection,
    SignalSet,
    emit_netlist,
)

__all__ = [
    "check_loops",
    "check_supported",
    "driven_signals",
    "to_netlist",
    "undriven_signals",
    "with_ports",
]

ROOT = "(design)"
"""The name of the top module, which is not shown."""


def driven_signals(design: Any, domain: str | None = None) -> Any:
    """Returns the signals that the design drives, or those that it drives from one domain."""
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
    """Returns the signals that the design uses and does not drive: its inputs, clocks and resets."""
    driven = driven_signals(design)
    return SignalSet(signal for signal in design.signal_lca if signal not in driven)


def with_ports(design: Any) -> Any:
    """Returns the design with its inputs as ports, and the data of memory read ports, which are
    kept even if unused.
    """
    data = SignalSet()
    for fragment in design.fragments:
        for port in getattr(fragment, "_read_ports", ()):
            data.update(port._data._lhs_signals())
    ports = [(None, signal, PortDirection.Input) for signal in undriven_signals(design)]
    ports += [(None, signal, PortDirection.Output) for signal in data]
    return Design(design.fragment, ports, hierarchy=(ROOT,))


def to_netlist(design: Any) -> Any:
    """Returns the netlist of a design :func:`with_ports`; CombinationalCycle if it has a
    combinational loop.
    """
    netlist = Netlist()
    emit_netlist(netlist, design, all_undef_to_ff=False)
    netlist.check_comb_cycles()
    netlist.resolve_all_nets()
    return netlist


def check_loops(design: Any) -> None:
    """Raises CombinationalCycle, with the loop's signals and source locations, if the design has a
    combinational loop.
    """
    to_netlist(with_ports(design))


def check_supported(design: Any, domains: set[Any], driven: Any) -> None:
    """Raises EngineError for constructs that the compiled engine does not simulate."""
    for fragment in design.fragments:
        if isinstance(fragment, (Instance, IOBufferInstance)):
            what = fragment.type if isinstance(fragment, Instance) else "an I/O buffer"
            raise EngineError(f"no engine simulates {what}, which has no description in Amaranth")
    for domain in domains:
        if domain.clk in driven:
            raise EngineError(
                f"engine compiled: the design makes the clock of domain {domain.name} itself; "
                "use the engine pysim"
            )
