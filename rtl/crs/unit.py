"""The call/return stack: its pipeline of access, change, judge and commit."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Out, connect, flipped

from rtl.component import Component
from rtl.layouts import DEPTH_BITS, Event, MemoryPort, StackEvents, StackPort
from rtl.params import SmParams
from rtl.structs import struct_value

from .access import AccessStage
from .change import ChangeStage
from .commit import CommitStage
from .engine import SpillFillEngine
from .judge import JudgeStage
from .records import StackStates
from .tokens import TokenStore

__all__ = ["CallReturnStack"]


class CallReturnStack(Component):
    """The call/return stacks of all warps: the topmost tokens of each on chip, the rest in memory.

    A warp has one operation at a time, except that anything may follow a push, a SET_MODE or a GET,
    two cycles later. The flow unit is the only one that requests, one operation a cycle, of warps in
    any order; so two requests never meet. What is done for a warp
    in one pass of the pipeline is a *step*: an operation is one, an unwind one for each token. ::

        request --> ACCESS --> CHANGE --> JUDGE ---> result
                      ^ ^         |         |   \\
           replay ----+ +---------|---------+    +--> COMMIT
              |      next token   |                      |
              |      of an unwind |   flags              | flags
              +-------------- SPILL AND FILL ENGINE <----+ <--> memory

    =======  ======================================================================
    stage    what is known at its end
    =======  ======================================================================
    access   whose step it is; the state of the warp; the line of the topmost token
             is being read
    change   whether a push has room: its token and state are written. The kind of
             an unwind's token, compared with each thread's code
    judge    whether the token's mask ends the unwind: the result. If it does not,
             the token below is in the access stage meanwhile
    commit   nothing more: the state of all but pushes is written
    =======  ======================================================================

    Hit: an unwind that ends at the topmost token has its result three cycles after the request, two
    more for each further token on chip. Miss: an unwind that has passed all tokens on chip parks,
    and replays when the engine is done. A replay starts again at the committed topmost token.

    - If lines on chip are dirty, the engine writes them to memory (EVICT): should the unwind fail
      further down, the stack is what it was, and these tokens are needed again. The unwind replays,
      and walks the same tokens again, none of which is dirty now. It does not wait for memory's
      confirmation: a later read of the same warp is answered behind the write. If memory does not
      take a line, ``write_fault`` says so, and what is read there is what memory has.
    - If none is dirty, the unwind drops the lines that it has passed: its pointer is committed, but
      provisional. The engine reads the line below (UNWIND), and the unwind replays from there. At
      the end of each line below which none is on chip it parks again.

    Error: an operation that fails changes nothing, except that a RESTORE leaves the mode of the
    trap handler in its first step, and that a SET_POINTER without a region empties the stack. An
    unwind whose pointer was committed on the way restores the stack that it began with
    (``origins``).

    Trap: a warp enters the trap handler between two operations. The result of a SET_MODE has in
    ``entry`` whether its frame has room, and in ``holes`` how many more tokens the topmost line has
    room for; the flow unit pushes so many holes, then the frame. RESTORE is an unwind that ends at
    the frame. Spills and fills of the warp continue meanwhile: no push, and no trap, cancels them.
    If all lines on chip are dirty and full, the frame's next push waits as any push does.

    Priority: AccessArbiter describes it for a request, a replay and an unwind in one cycle;
    TokenStore for tokens on chip; SpillFillEngine for the next visit, replays and jobs. A push and
    a commit of different warps are written in the same cycle; of one warp there are never both.

    There is one stream of requests: one that waits stalls those of all warps. It waits until its
    warp is not busy, which may be long after the warp's last result, if the topmost line has to be
    read behind that (LOAD); or, with all lines dirty and full, until one has left the cache. Engine
    and memory do that without any request, so it cannot deadlock.

    Members
    -------
    request, configuration, killed, pushed, holes, entry, result
        See StackPort. The configuration accompanies a LAUNCH request; its ``base`` a SET_BASE
        request. ``killed`` is the kill bit of the warp that requests. ``holes`` and ``entry`` are
        valid in the cycle after a SET_MODE that enters the trap handler was taken. The result is
        there three cycles after the request, or later.
    committed : Out(Event(warp, last))
        The number of the topmost token that an unwind or SET_POINTER has left, one cycle behind the
        result; all ones when the stack is empty.
    write_fault : Out(Event(warp))
        Memory could not take a line of the warp's: the line is lost, and counts as clean.
    events : Out(StackEvents)
    port : Out(MemoryPort)
        Tagged by warp.
    """

    def __init__(self, params: SmParams) -> None:
        self.params = params
        self.states = StackStates(params)
        self.tokens = TokenStore(params)
        self.access = AccessStage(params, self.states)
        self.change = ChangeStage(params, self.states)
        self.judge = JudgeStage(params, self.states)
        self.commit = CommitStage(params, self.states)
        self.engine = SpillFillEngine(params, self.states)
        committed = data.StructLayout({"warp": params.warp_bits, "last": DEPTH_BITS})
        super().__init__({
            **StackPort(params).flip().members,
            "committed": Out(Event(committed)),
            "write_fault": Out(Event(params.warp_bits)),
            "events": Out(StackEvents),
            "port": Out(MemoryPort(params.warp_bits)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tokens = self.tokens
        m.submodules.access = self.access
        m.submodules.change = self.change
        m.submodules.judge = self.judge
        m.submodules.commit = self.commit
        m.submodules.engine = self.engine
        self.states.add(m)
        self._connect_stages(m)
        self._connect_unwind(m)
        self._connect_engine(m)
        self._connect_tokens(m)
        self._connect_ports(m)
        self._promise(m)
        return m

    def _connect_stages(self, m: Module) -> None:
        """The registers between the stages."""
        access = self.access
        change = self.change
        m.d.sync += change.arriving.eq(access.result)
        m.d.sync += self.judge.stage.eq(change.result)
        m.d.sync += self.commit.stage.eq(self.judge.outcome)
        m.d.comb += access.in_change.eq(change.stage)

    def _connect_unwind(self, m: Module) -> None:
        """An unwind's next token has the access stage while the present one is judged. If that ends
        the unwind after all, the step with the next token is cancelled."""
        access = self.access
        judge = self.judge
        connect(m, judge.unwind, access.unwind, self.change.unwind)
        m.d.comb += judge.unwind_remains.eq(access.unwind_is_granted | access.unwind_replays)

    def _connect_engine(self, m: Module) -> None:
        """Connects the engine: the flags of the steps, their counters and the replays."""
        engine = self.engine
        m.d.comb += engine.change.eq(self.change.flags)
        m.d.comb += self.access.cache_is_full.eq(engine.cache_is_full)
        connect(m, self.commit.engine, engine.commit)
        connect(m, engine.replay, self.access.replay)

    def _connect_tokens(self, m: Module) -> None:
        """The access stage reads tokens, the change stage gets and writes them; the engine moves
        lines."""
        pipeline = self.tokens.pipeline
        connect(m, self.access.read, pipeline.read)
        connect(m, self.change.write, pipeline.write)
        m.d.comb += self.change.line.eq(pipeline.line)
        connect(m, self.engine.tokens, self.tokens.lines)

    def _connect_ports(self, m: Module) -> None:
        """The ports of the stack."""
        change = self.change
        judge = self.judge
        connect(m, flipped(self.request), self.access.request)
        m.d.comb += change.configuration.eq(self.configuration)
        m.d.comb += self.killed.eq(self.access.killed)
        connect(m, change.pushed, flipped(self.pushed))
        m.d.comb += self.holes.eq(change.holes)
        m.d.comb += self.entry.eq(change.entry)
        connect(m, judge.result, flipped(self.result))
        connect(m, self.commit.committed, flipped(self.committed))
        connect(m, self.engine.write_fault, flipped(self.write_fault))
        connect(m, self.engine.port, flipped(self.port))
        m.d.comb += self.events.eq(struct_value(
            StackEvents,
            push=change.pushed.valid,
            hit=judge.stage.valid & judge.ends,
            miss=judge.continues & ~judge.stage.has_next,
            spill=self.engine.events.spill,
            fill=self.engine.events.fill,
            full=self.access.full,
            taken=self.access.taken))

    def _promise(self, m: Module) -> None:
        """What the stages promise each other."""
        step = self.change.stage.step
        is_push = self.change.stage.valid & step.operation.is_push
        flags = self.commit.engine.flags
        commits = Signal()
        m.d.comb += commits.eq(flags.writes & (step.warp == flags.warp))
        m.d.sync += Assert(~(is_push & commits), "a push of a warp that is over as well")
