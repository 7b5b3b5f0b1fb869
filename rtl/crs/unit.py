"""The call/return stack, joined."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect

from rtl.component import Component, members_of
from rtl.layouts import StackEvents
from rtl.params import SmParams

from .engine import SpillFillEngine
from .lines import LineTransfer
from .pipeline import StackPipeline
from .states import StackStates
from .tokens import TokenStore

__all__ = ["CallReturnStack"]

_OF_PIPELINE = ("request", "configuration", "killed", "holes", "entry", "pushed", "result_valid", "result", "committed")
_OF_LINES = ("write_fault", "port")


class CallReturnStack(Component):
    """The call/return stacks of all warps: 16 tokens of each on chip, the rest in memory.

    A warp has one operation at a time, except that anything may follow a push, a SET_MODE or a GET, two cycles later.
    Warps take turns in any order, one request a cycle.

    Members
    -------
    request : In(stream of stack_request)
    configuration : In(StackConfiguration)
        Goes with a LAUNCH request; ``base`` of it with a SET_BASE request.
    killed : Out(1)
        The kill bit of the warp that requests.
    holes, entry : Out(2), Out(WarpError)
        Of the warp whose request was taken a cycle ago: how many tokens fill its topmost line; after a SET_MODE to the
        trap handler why it cannot enter.
    pushed : Out(Event(warp, kind))
        The request that was taken a cycle ago has pushed its token.
    result_valid, result : Out(1), Out(stack_result)
        Three cycles after the request, or later.
    committed : Out(Event(warp, last))
        The number of the topmost token that an unwind or SET_POINTER has left, one cycle behind the result; all ones
        when the stack is empty.
    write_fault : Out(Event(warp))
        Memory could not take a line of the warp's.
    events : Out(StackEvents)
    port : Out(MemoryPort)
        Tagged by warp.
    """

    def __init__(self, params: SmParams) -> None:
        self.states = states = StackStates(params)
        self.pipeline = StackPipeline(params, states)
        self.tokens = TokenStore(params)
        self.engine = SpillFillEngine(params, states)
        self.lines = LineTransfer(params)
        super().__init__({**members_of(self.pipeline, *_OF_PIPELINE), **members_of(self.lines, *_OF_LINES),
                          "events": Out(StackEvents)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pipeline = pipeline = self.pipeline
        m.submodules.tokens = tokens = self.tokens
        m.submodules.engine = engine = self.engine
        m.submodules.lines = lines = self.lines
        self.states.add(m)
        self.join(m, pipeline, *_OF_PIPELINE)
        self.join(m, lines, *_OF_LINES)
        connect(m, pipeline.tokens, tokens.pipeline)
        connect(m, pipeline.engine, engine.pipeline)
        connect(m, engine.lines, lines.engine)
        connect(m, lines.tokens, tokens.lines)
        m.d.comb += [self.events.eq(pipeline.events), self.events.spill.eq(lines.spill),
                     self.events.fill.eq(lines.fill)]
        return m
