"""The engine without requirements: Amaranth's own simulator, which runs the design as Python code."""

from typing import Any, ClassVar

from sim.engine.base import Engine
from sim.engine.netlist import check_loops

__all__ = ["PysimEngine"]


class PysimEngine(Engine):
    """Amaranth's simulator. A combinational loop, on which it would hang, raises CombinationalCycle
    before the start.
    """

    name: ClassVar[str] = "pysim"

    def __init__(self, design: Any) -> None:
        check_loops(design)
        super().__init__(design)
