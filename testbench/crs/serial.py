"""The stack of a serial machine behind the ports of the pipelined one, so that one testbench drives
both.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import FRAME_WORD_CODES, StackOperation, StackPort, ThreadCode
from rtl.params import WARP_THREADS, SmParams
from rtl.serial.crs import SerialStack

__all__ = ["ParallelStack"]


class ParallelStack(Component):
    """A SerialStack with the ports of a CallReturnStack.

    It does what the flow unit does for a serial stack: counts threads, supplies their codes, and
    derives codes from a trap frame.

    Attributes:
        stack: The SerialStack.
    """

    def __init__(self, params: SmParams) -> None:
        self.stack: Any = SerialStack(params)
        of_stack = self.stack.signature.members
        super().__init__(
            {
                **StackPort(params).flip().members,
                "committed": of_stack["committed"],
                "write_fault": of_stack["write_fault"],
                "events": of_stack["events"],
                "port": of_stack["port"],
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.stack = stack = self.stack
        connect(m, stack.write_fault, flipped(self.write_fault))
        m.d.comb += self.events.eq(stack.events)
        connect(m, flipped(self.port), stack.port)
        port, asked, kept, idle = stack.stack, self.request.payload, self.result.payload, Signal()
        request: Any = port.request.payload
        m.d.comb += request.operation.eq(asked.operation)
        m.d.comb += request.enable.eq(asked.enable)
        m.d.comb += request.pair.eq(asked.pair)
        m.d.comb += request.kind.eq(asked.kind)
        m.d.comb += request.operand.eq(asked.operand)
        m.d.comb += request.mask.eq(asked.mask)
        m.d.comb += port.configuration.eq(self.configuration)
        m.d.comb += self.killed.eq(port.killed)
        m.d.comb += self.holes.eq(port.holes)
        connect(m, port.pushed, flipped(self.pushed))
        # A restored frame belongs to the warp whose request was taken.
        m.d.comb += [
            request.warp.eq(Mux(idle, asked.warp, kept.warp)),
            port.request.valid.eq(self.request.valid & idle),
            self.request.ready.eq(port.request.ready),
        ]

        # The thread counter.
        thread, step, looks, word = (
            Signal(range(WARP_THREADS)),
            Signal(),
            Signal(),
            Signal.like(port.word),
        )
        ends = step & (thread == WARP_THREADS - 1)
        m.d.sync += [thread.eq(thread + step), step.eq((step & ~ends) | port.looks | looks)]
        m.d.comb += [
            port.thread.eq(thread),
            port.step.eq(step),
            port.code.eq(Array(asked.codes)[thread]),
            port.word.eq(word),
        ]

        # The new depth is reported a cycle after the result.
        has_changed = Signal()
        with m.If(stack.committed.valid):
            m.d.sync += [self.committed.payload.eq(stack.committed.payload), has_changed.eq(1)]
        with m.If(self.result.valid):
            m.d.sync += has_changed.eq(0)
        m.d.sync += self.committed.valid.eq(self.result.valid & has_changed)

        # The result, with the codes after the operation.
        codes: Any = kept.codes.as_value()
        operation, code, active = Signal(StackOperation), Signal(ThreadCode), kept.mask[0]
        enters, frame = (
            asked.operation == StackOperation.SET_MODE,
            operation == StackOperation.RESTORE,
        )
        given = Array(each.value for each in FRAME_WORD_CODES)[word]
        dead = word >= len(FRAME_WORD_CODES) - 2
        with m.If(word == 0):
            m.d.comb += code.as_value().eq(
                Mux(frame | ((operation == StackOperation.UNWIND) & port.revived), 0, codes[:3])
            )
        with m.Else():
            m.d.comb += code.as_value().eq(Mux(port.bit, Mux(dead & active, 0, given), codes[:3]))
        with m.FSM(name="telling"):
            with m.State("TAKE"):
                m.d.comb += idle.eq(1)
                with m.If(port.request.valid & port.request.ready):
                    m.d.sync += kept.resume.eq(port.result.resume)
                    m.d.sync += kept.empty.eq(port.result.empty)
                    m.d.sync += kept.kind.eq(port.result.kind)
                    m.d.sync += kept.pc.eq(port.result.pc)
                    m.d.sync += kept.value.eq(port.result.value)
                    m.d.sync += [
                        kept.warp.eq(asked.warp),
                        kept.error.eq(Mux(enters, WarpError.NONE, port.result.error)),
                        self.entry.eq(port.result.error),
                        kept.codes.eq(asked.codes),
                        operation.eq(asked.operation),
                    ]
                    m.next = "TELL"
                    with m.If(port.result.resume):
                        m.next = "LOOK"
            with m.State("LOOK"):
                m.d.comb += looks.eq(1)
                m.next = "PASS"
            with m.State("PASS"):
                with m.If(step):
                    m.d.sync += [
                        kept.mask.eq(Cat(kept.mask[1:], Mux(word == 0, port.revived, active))),
                        codes.eq(Cat(codes[3:], code)),
                    ]
                with m.If(ends):
                    m.next = "TELL"
                    with m.If(frame & ~word.all()):
                        m.d.sync += word.eq(Mux(word == 0, 2, word + 1))
                        m.next = "READ"
            with m.State("READ"):
                m.next = "LOOK"
            with m.State("TELL"):
                m.d.comb += self.result.valid.eq(1)
                m.d.sync += word.eq(0)
                m.next = "TAKE"
        return m
