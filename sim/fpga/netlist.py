"""Names the anonymous cells of an ECP5 netlist in the JSON format of Yosys.

Yosys can name them itself (``autoname``), but takes longer for it than for the whole synthesis of a
board before.
"""

from collections import deque
from typing import Any

__all__ = ["names_of"]


def names_of(module: dict[str, Any]) -> dict[str, str]:
    """Returns the name of each cell: its own, else that of the signal that it drives, with
    ``[bit]`` if that has several.

    A cell whose signals have no name gets that of the nearest cell that reads it; without a reader,
    its number.
    """
    signals: dict[Any, str] = {}
    for name, net in module["netnames"].items():
        if not net["hide_name"]:
            for place, bit in enumerate(net["bits"]):
                signals.setdefault(bit, f"{name}[{place}]" if len(net["bits"]) > 1 else name)
    makers: dict[Any, str] = {}
    reads: dict[str, list[Any]] = {}
    names: dict[str, str] = {}
    cells: dict[str, dict[str, Any]] = module["cells"]
    for cell, content in cells.items():
        made: list[Any] = []
        reads[cell] = []
        for port, bits in content["connections"].items():
            (made if content["port_directions"][port] == "output" else reads[cell]).extend(bits)
        makers |= dict.fromkeys(made, cell)
        named = [signals[bit] for bit in made if bit in signals]
        if not content["hide_name"]:
            names[cell] = cell
        elif named:
            names[cell] = named[0]
    waiting = deque(names)
    while waiting:
        reader = waiting.popleft()
        for bit in reads[reader]:
            maker = makers.get(bit)
            if maker is not None and maker not in names:
                names[maker] = names[reader]
                waiting.append(maker)
    return {cell: names.get(cell, cell) for cell in cells}
