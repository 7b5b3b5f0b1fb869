"""The ports of the issue unit, which both machines have in common."""

from amaranth.hdl import ShapeLike
from amaranth.lib.wiring import In, Member, Out

from rtl.layouts import (
    COMPLETING,
    Event,
    IssueEvents,
    Policy,
    WarpControl,
    completion,
    flow_result,
    issued,
    offered_operation,
    operands_read,
    redirect,
    register_gather,
    register_write,
    scoreboard_event,
    unit_rooms,
)
from rtl.params import SmParams

from .operations import operation_streams

__all__ = ["unit_ports"]


def unit_ports(params: SmParams, group: ShapeLike) -> dict[str, Member]:
    """The members of :class:`~rtl.issue.IssueUnit`; ``group`` is what fetch delivers at once."""
    warps = params.warps
    return {
        "group": In(Event(group)),
        "claimed": In(Event(params.warp_bits)),
        "room": Out(warps),
        "redirect": Out(Event(redirect(params))),
        "launched": In(Event(params.warp_bits)),
        "result": In(Event(flow_result(params))),
        "lanes": In(Event(scoreboard_event(params))),
        "gathered": In(Event(operands_read(params))),
        "units": In(Event(scoreboard_event(params))).array(len(COMPLETING)),
        "resume": In(warps),
        **operation_streams(params),
        "rooms": In(unit_rooms()),
        "collecting": In(1),
        "control": In(WarpControl(params)),
        "policy": In(Policy),
        "instruction": Out(Event(issued(params))),
        "completion": Out(Event(completion(params))),
        "gather": Out(Event(offered_operation(register_gather(params)))),
        "write": Out(Event(offered_operation(register_write(params)))),
        "drained": Out(warps),
        "events": Out(IssueEvents),
    }
