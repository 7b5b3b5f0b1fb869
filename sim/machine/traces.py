"""What a waveform of the whole machine shows."""

from typing import Any

from sim.waves.traces import Trace, Traces

__all__ = ["machine_traces"]


def machine_traces(harness: Any) -> Traces:
    """A tree of signals: issue, lanes, flow, memory, why each warp waits."""
    core, distributor = harness.sm.core, harness.sm.distributor
    trap, issued, written, flow = core.trap_state, core.retired.issued, core.retired.written, core.retired.flow
    return {
        "launch": {"busy": distributor.control.busy, "running": Trace(distributor.running, "bin"), "warp": core.launch},
        "issue": {"valid": issued.valid, "warp": Trace(issued.payload.warp, "dec"), "pc": issued.payload.pc,
                  "kind": issued.payload.kind, "word": issued.payload.word,
                  "serial": Trace(issued.payload.serial, "dec")},
        "write": {"valid": written.valid, "warp": Trace(written.warp, "dec"), "beat": Trace(written.beat, "dec"),
                  "lanes": Trace(written.lanes, "bin"), "register": Trace(written.register, "dec"),
                  "values": written.values},
        "flow": {"valid": flow.valid, "warp": Trace(flow.payload.warp, "dec"), "pc": flow.payload.pc,
                 "active": flow.payload.active, "terminated": flow.payload.terminated, "error": flow.payload.error},
        "memory": {"request": core.unit_memory.request.valid, "address": core.unit_memory.request.payload.address,
                   "write": core.unit_memory.request.payload.write},
        "stack": {"request": core.stack_memory.request.valid, "address": core.stack_memory.request.payload.address,
                  "write": core.stack_memory.request.payload.write},
        "fetch": {"request": core.fetch_memory.request.valid, "address": core.fetch_memory.request.payload.address},
        "waits": [core.reasons[number] for number in range(len(core.reasons))],
        "barrier": Trace(core.waiting, "bin"),
        "trap": {"trapping": trap.trapping, "locked_down": trap.locked_down,
                 "inside": Trace(core.front_end.trap.inside, "bin"),
                 "paused": Trace(trap.paused, "bin"), "events": core.front_end.trap.events},
        "interrupt": harness.sm.interrupt,
    }
