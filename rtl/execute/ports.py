"""The ports of the execute unit, which has more than one form."""

from typing import Any

from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.layouts import (
    Event,
    GridConfiguration,
    LaneData,
    LaneWriteData,
    WarpStatusPort,
    completion,
    dispatched,
    error_event,
    flow_result,
    issued,
    lane_write,
    offered_operation,
    operands_read,
    register_gather,
    register_write,
    scoreboard_event,
    thread_index,
    warp_launch,
)
from rtl.params import SmParams

__all__ = ["unit_ports"]


def unit_ports(params: SmParams) -> dict[str, Any]:
    """The members that ExecuteUnit describes."""
    return {
        "instruction": In(Event(issued(params))),
        "gather": In(Event(offered_operation(register_gather(params)))),
        "write": In(Event(offered_operation(register_write(params)))),
        "grid": In(GridConfiguration),
        "launch": In(Event(warp_launch(params))),
        "clear_rows": In(stream.Signature(params.row_bits)),
        "thread": In(Event(thread_index(params))),
        "flow_result": In(Event(flow_result(params))),
        "report_mask": In(32),
        "memory": In(LaneData(params)),
        "conversion": In(LaneData(params)),
        "barrier": In(LaneWriteData(params)),
        "dispatch": Out(Event(dispatched(params))),
        "collecting": Out(1),
        "completion": Out(Event(completion(params))),
        "passed": Out(Event(scoreboard_event(params))),
        "gathered": Out(Event(operands_read(params))),
        "error": Out(Event(error_event(params))),
        "written": Out(Event(lane_write(params))),
        "status": Out(WarpStatusPort(params)),
        "write_flow": Out(stream.Signature(register_write(params))),
    }
