"""Translates an elaborated design to a compiled model and its layout."""

from pathlib import Path
from typing import Any

from sim.engine.build import shared_object
from sim.engine.emit import emit
from sim.engine.internals import MemoryInstance, SignalSet
from sim.engine.layout import DesignSignal, SignalDriver, StateLayout
from sim.engine.netlist import (
    check_supported,
    driven_signals,
    to_netlist,
    undriven_signals,
    with_ports,
)
from sim.support.activity import activity

__all__ = ["compiled"]


def compiled(design: Any, folder: Path) -> StateLayout:
    """Compiles an elaborated design, into a folder; EngineError if that fails."""
    domains = {domain for fragment in design.fragments for domain in fragment.domains.values()}
    driven, combinational = driven_signals(design), driven_signals(design, "comb")
    check_supported(design, domains, driven)
    with activity("translating the design"):
        ported = with_ports(design)
        netlist = to_netlist(ported)
        program = emit(netlist)
    with activity("compiling the model"):
        library = shared_object(program.units, folder)
    clocks = SignalSet(domain.clk for domain in domains)
    resets = SignalSet(domain.rst for domain in domains if domain.async_reset)
    layout = StateLayout(
        library,
        program.settles,
        program.messages,
        dict(design.fragment.domains),
        inputs=list(undriven_signals(design)),
    )

    def role(signal: Any) -> SignalDriver:
        if signal in driven:
            return SignalDriver.COMBINATIONAL if signal in combinational else SignalDriver.REGISTER
        if signal in clocks:
            return SignalDriver.CLOCK
        return SignalDriver.RESET if signal in resets else SignalDriver.INPUT

    for signal, nets in netlist.signals.items():
        layout.signals[signal] = DesignSignal(
            role(signal), program.place(nets) if len(signal) else None
        )
    for signal in SignalSet([*driven, *layout.inputs]):
        if signal not in layout.signals:
            layout.signals[signal] = DesignSignal(role(signal), None)
    places = program.memories()
    layout.memories = [
        (fragment._data, places[info.name[1:]])
        for fragment, info in ported.fragments.items()
        if isinstance(fragment, MemoryInstance)
    ]
    return layout
