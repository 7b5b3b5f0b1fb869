"""The retirement interface: what every check of the whole machine listens to.

Instructions of a warp issue in order and complete out of order. Whoever listens puts the events of one together
by its serial number: it was issued, it wrote registers, predicates or CC (several beats), it is complete, or it raised
an error. What a flow instruction came to is told by the flow unit's results, which are in order for each warp.
"""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from rtl.layouts import ERROR_SOURCES, completion, error_event, flow_result, issued, lane_write, warp_launch
from rtl.params import SmParams

__all__ = ["COMPLETION_SOURCES", "RetirementPort"]

COMPLETION_SOURCES = ("issue", "lanes", "memory", "conversion", "barrier", "trap")
"""Who tells that an instruction is complete; flow instructions are complete with their result."""


class RetirementPort(wiring.Signature):
    """All events of a cycle.

    Members
    -------
    launched : Out(valid and warp_launch)
        A warp is started.
    issued : Out(valid and issued)
    written : Out(lane_write)
    flow : Out(valid and flow_result)
    withdrawn : Out(valid and warp)
        A warp that waited at a barrier has had its arrival taken back, and is on its way into a trap.
    completed : Out(array of completion), by COMPLETION_SOURCES
    errors : Out(array of error_event), by ERROR_SOURCES
    """

    def __init__(self, params: SmParams) -> None:
        def event(payload: data.StructLayout) -> data.StructLayout:
            return data.StructLayout({"valid": 1, "payload": payload})
        super().__init__({
            "launched": Out(event(warp_launch(params))), "issued": Out(event(issued(params))),
            "written": Out(lane_write(params)), "flow": Out(event(flow_result(params))),
            "withdrawn": Out(data.StructLayout({"valid": 1, "warp": params.warp_bits})),
            "completed": Out(data.ArrayLayout(completion(params), len(COMPLETION_SOURCES))),
            "errors": Out(data.ArrayLayout(error_event(params), len(ERROR_SOURCES)))})
