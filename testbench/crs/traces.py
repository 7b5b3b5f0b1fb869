"""Waveform traces of the stack: requests and results, memory, and each warp.

This is the only file of the testbench that accesses internals of the stack.
"""

from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data

from rtl.crs import CallReturnStack
from rtl.crs.records import stack_state
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, StackOperation
from rtl.params import WARP_THREADS, SmParams
from sim.waves import Mark, Trace, View, error_text
from testbench.crs.driver import WarpSignals
from testbench.crs.steps import PUSHES

_LINES = range(2 * CACHED_TOKENS // TOKENS_PER_LINE)
_Observed = data.StructLayout(
    {
        "operation": StackOperation,
        "taken": 1,
        "kind": TokenKind,
        "mask": WARP_THREADS,
        "resume": 1,
        "spill": 1,
        "fill": 1,
        "filled": 1,
        "cached": _LINES,
        "dirty": _LINES,
        "last": DEPTH_BITS,
        "busy": 1,
        "parked": 1,
        "coming": 1,
    }
)
"""Events of one warp in a cycle; see waveforms/README.md."""


class TracedStack(Elaboratable):
    """A stack with separate signals for each warp.

    Attributes:
        signals: The warps' signals; the driver sets them.
        traces: The groups of the waveform.
    """

    def __init__(self, params: SmParams, stack: CallReturnStack) -> None:
        self._stack: Any = stack
        self._addresses: list[tuple[Any, int]] = []
        self._words = [self._read(warp) for warp in range(params.warps)]
        self._observed = [Signal(_Observed, name=f"observed{warp}") for warp in range(params.warps)]
        self.signals = [
            WarpSignals(
                Signal(32, name=f"pc{warp}"),
                Signal(WARP_THREADS, name=f"active{warp}"),
                Signal(DEPTH_BITS, name=f"depth{warp}"),
            )
            for warp in range(params.warps)
        ]

    def _read(self, warp: int) -> dict[str, Any]:
        """Reads the words of a warp from the stack's memories, through read ports that only the
        testbench has.
        """
        states, words = self._stack.states, {}
        for name in ("states", "below", "cleaned", "filling", "busy", "parked", "writing_back"):
            kept = getattr(states, name)
            ports = [part.read_port(domain="comb") for part in getattr(kept, "parts", [kept])]
            self._addresses += ((port, warp) for port in ports)
            words[name] = reduce(xor, (Value.cast(port.data) for port in ports))
        return words

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.stack = stack = self._stack
        asked, reply = stack.request.payload, stack.result.payload
        to_memory, from_memory = stack.port.request, stack.port.response
        pushes = Signal()
        with m.Switch(asked.operation), m.Case(*PUSHES):
            m.d.comb += pushes.eq(1)
        m.d.comb += [port.addr.eq(warp) for port, warp in self._addresses]
        for warp, (seen, words) in enumerate(zip(self._observed, self._words, strict=True)):
            state: Any = Signal(stack_state(stack.params), name=f"state{warp}")
            m.d.comb += [
                state.eq(words["states"]),
                seen.cached.eq(state.entered - words["below"]),
                seen.dirty.eq(state.dirtied - words["cleaned"]),
                seen.last.eq(state.last),
                seen.busy.eq(words["busy"]),
                seen.parked.eq(words["parked"] | words["writing_back"]),
                seen.coming.eq(words["filling"] & ~stack.engine.stale[warp]),
            ]
            asks, resumes = Signal(name=f"asks{warp}"), Signal(name=f"resumes{warp}")
            moves = to_memory.valid & to_memory.ready & (to_memory.payload.tag == warp)
            pushed = asks & pushes
            m.d.comb += [
                asks.eq(stack.request.valid & (asked.warp == warp)),
                resumes.eq(stack.result.valid & (reply.warp == warp) & reply.resume),
                seen.operation.as_value().eq(Mux(asks, asked.operation.as_value(), 0)),
                seen.taken.eq(asks & stack.request.ready),
                seen.resume.eq(resumes),
                seen.kind.as_value().eq(
                    Mux(resumes, reply.kind.as_value(), Mux(pushed, asked.kind.as_value(), 0))
                ),
                seen.mask.eq(Mux(resumes, reply.mask, Mux(pushed, asked.mask, 0))),
                seen.spill.eq(moves & to_memory.payload.write),
                seen.fill.eq(moves & ~to_memory.payload.write),
                seen.filled.eq(
                    from_memory.valid
                    & from_memory.ready
                    & (from_memory.payload.tag == warp)
                    & ~from_memory.payload.write
                ),
            ]
        return m

    @property
    def traces(self) -> View:
        """The groups of the waveform."""
        stack = self._stack
        asked, reply, line = stack.request.payload, stack.result.payload, stack.port.request.payload
        groups: dict[str, Any] = {
            "request": {
                "valid": stack.request.valid,
                "ready": stack.request.ready,
                "warp": Trace(asked.warp, "dec"),
                "operation": asked.operation,
                "kind": asked.kind,
                "pc": asked.operand,
                "mask": asked.mask,
            },
            "result": {
                "valid": stack.result.valid,
                "warp": Trace(reply.warp, "dec"),
                "resume": reply.resume,
                "empty": reply.empty,
                "error": error_text(stack.result.valid, reply.error),
                "kind": reply.kind,
                "pc": reply.pc,
                "mask": reply.mask,
            },
            "memory": {
                "request": stack.port.request.valid,
                "taken": stack.port.request.ready,
                "write": line.write,
                "warp": Trace(line.tag, "dec"),
                "line": line.address,
                "answer": stack.port.response.valid,
            },
            "events": stack.events,
        }
        for warp, (signals, seen) in enumerate(zip(self.signals, self._observed, strict=True)):
            groups[f"warp{warp}"] = {
                "pc": signals.pc,
                "active": signals.active,
                "depth": Trace(signals.depth, "dec"),
                "operation": seen.operation,
                "taken": seen.taken,
                "resume": seen.resume,
                "kind": seen.kind,
                "mask": seen.mask,
                "lines": {
                    "cached": Trace(seen.cached, "dec"),
                    "dirty": Trace(seen.dirty, "dec"),
                    "last": Trace(seen.last, "dec"),
                    "busy": seen.busy,
                    "parked": seen.parked,
                    "coming": seen.coming,
                },
                "spill": seen.spill,
                "fill": seen.fill,
                "filled": seen.filled,
            }
        port = stack.port.request
        return View(
            groups,
            ("request", "result", "memory", "warp0"),
            [Mark("spill", [port.valid, port.ready, line.write])],
        )
