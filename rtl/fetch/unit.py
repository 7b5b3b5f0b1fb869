"""The fetch unit, joined."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from rtl.arbiter import RoundRobin
from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.words import Words

from .instructions import InstructionCache
from .loader import LineLoader
from .ports import unit_ports
from .records import Place
from .resolve import ConstantResolver

__all__ = ["FetchUnit"]

_GROUP_AT = (GROUP_BYTES - 1).bit_length()
_WORD_AT = (INSTRUCTION_BYTES - 1).bit_length()


class FetchUnit(Component):
    """Brings the instructions of all warps from memory, group by group.

    Program and constants are cached; both are taken for constant until ``invalidate``.

    Members
    -------
    grid : In(GridConfiguration)
        ``program`` is the address of a line.
    redirect : In(Event of redirect)
        The warp goes on there. Groups that come in this cycle or later are from there.
    room : In(1 bit a warp)
        The warp has begun, and there is a place for one more group of it beyond those that were claimed.
    claimed : Out(Event of a warp)
        A group of the warp will come, unless the warp is redirected.
    group : Out(Event of fetched_group)
    indexed, value : In(stream of indexed_request), Out(stream of indexed_response)
        Another reader of the constant cache, with a word at a time.
    invalidate : In(1)
        Both caches become empty: what is looked up after that comes from memory. Groups that were claimed before it
        come as they were.
    busy : Out(1)
        They are about to, and no group is claimed.
    memory : Out(MemoryPort(TAG_BITS))
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(unit_ports(params))

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.chooser = chooser = RoundRobin(params.warps)
        m.submodules.pcs = pcs = Words(Place, params.warps)
        m.submodules.instructions = instructions = InstructionCache(params)
        m.submodules.resolver = resolver = ConstantResolver(params)
        m.submodules.loader = loader = LineLoader()
        self._connect(m, instructions, resolver, loader)

        # Choose a warp, unless one has just been redirected.
        pc_in, pc_out = pcs.write_port(), pcs.read_port(domain="comb")
        looking, looked = Signal(), Signal(data.StructLayout({"warp": params.warp_bits, "place": Place}))
        waiting, retrying = Signal(params.warps), Signal(params.warps)
        moves, begins, target = Signal(), Signal(), Signal.like(looked)
        able, redirected = self.room & ~waiting, self.redirect.payload
        m.d.comb += [
            chooser.requests.eq(able & ~one_hot(looked.warp, params.warps, looking)), pc_out.addr.eq(chooser.chosen),
            begins.eq(self.redirect.valid | chooser.valid & able.bit_select(chooser.chosen, 1) & ~self.busy
                      & ~(looking & (looked.warp == chooser.chosen)))]
        with m.If(self.redirect.valid):
            m.d.comb += [target.warp.eq(redirected.warp), target.place.eq(_place(redirected.pc))]
        with m.Else():
            m.d.comb += [target.warp.eq(chooser.chosen), target.place.eq(pc_out.data)]
        with m.If(moves):
            m.d.sync += [looking.eq(begins), looked.eq(target)]
        m.d.comb += [instructions.enable.eq(moves), instructions.group.eq(target.place.group)]

        # Hit: the group goes on, the warp's next one is the one behind it. Miss: it waits for the line. Who does not
        # move does not ask whether it was a hit: that is known late.
        stale = looking & self.redirect.valid & (redirected.warp == looked.warp)
        counts = looking & ~stale
        hit = instructions.hit & ~self.busy
        out, claimed = resolver.fetched, self.claimed
        m.d.comb += [
            moves.eq(~counts | out.ready), out.valid.eq(counts & hit), out.payload.warp.eq(looked.warp),
            out.payload.place.eq(looked.place), out.payload.group.eq(instructions.stored),
            claimed.valid.eq(out.valid & out.ready), claimed.payload.eq(looked.warp), pc_in.en.eq(1)]
        with m.If(~moves & self.redirect.valid):
            m.d.comb += [pc_in.addr.eq(redirected.warp), pc_in.data.eq(_place(redirected.pc))]
        with m.Else():
            m.d.comb += [pc_in.en.eq(counts), pc_in.addr.eq(looked.warp), pc_in.data.eq(looked.place)]
            with m.If(hit & moves):
                m.d.comb += [pc_in.data.group.eq(looked.place.group + 1), pc_in.data.first.eq(0)]

        # What was no hit leaves, too, unless it would need the port of a redirect.
        ready_again = instructions.filled | self.busy
        leaves, gone, gone_warp = moves | ~self.redirect.valid, Signal(), Signal.like(looked.warp)
        m.d.sync += [gone.eq(counts & ~hit & leaves & ~ready_again), gone_warp.eq(looked.warp)]
        with m.If(~moves & leaves & ~hit):
            m.d.sync += looking.eq(0)

        # A warp that waited looks again before the next line is asked for, which might take the place of its own.
        missed = gone & ~ready_again & ~(self.redirect.valid & (redirected.warp == gone_warp))
        m.d.comb += instructions.wanted.eq(missed & ~retrying.any())
        waits = missed & (instructions.wanted & loader.free[0] | loader.under_way[0])
        begun = one_hot(target.warp, params.warps, begins & moves)
        m.d.sync += [
            waiting.eq(Mux(ready_again, 0, waiting & ~begun | one_hot(gone_warp, params.warps, waits))),
            retrying.eq(Mux(instructions.filled, waiting, retrying) & ~begun & self.room)]
        return m

    def _connect(self, m: Module, instructions: InstructionCache, resolver: ConstantResolver,
                 loader: LineLoader) -> None:
        """What does not depend on warps; and how the caches are emptied, a line a cycle."""
        connect(m, flipped(self.memory), loader.memory)
        connect(m, flipped(self.indexed), resolver.indexed)
        connect(m, flipped(self.value), resolver.value)
        connect(m, flipped(self.redirect), resolver.redirect)
        connect(m, flipped(self.group), resolver.group)
        line = Signal(range(max(instructions.lines, resolver.lines)))
        clearing = self.busy & ~loader.under_way.any()
        with m.If(self.invalidate):
            m.d.sync += [self.busy.eq(1), line.eq(0)]
        with m.Elif(clearing):
            m.d.sync += line.eq(line + 1)
            with m.If(line == (1 << len(line)) - 1):
                m.d.sync += self.busy.eq(0)
        m.d.comb += [
            instructions.program.eq(self.grid.program[-len(instructions.program):]),
            instructions.registers.eq(self.grid.registers), instructions.part.eq(loader.part),
            instructions.free.eq(loader.free[0]), resolver.free.eq(loader.free[1] & ~self.busy),
            resolver.banks.eq(self.grid.banks), resolver.part.eq(loader.part),
            loader.miss[0].eq(instructions.miss),
            loader.miss[1].line.eq(resolver.miss.line), loader.miss[1].valid.eq(resolver.miss.valid & ~self.busy),
            loader.settled.eq(Cat(instructions.filled, resolver.filled)),
            instructions.clearing.eq(clearing), instructions.cleared.eq(line),
            resolver.clearing.eq(clearing), resolver.cleared.eq(line)]


def _place(pc: Signal) -> Any:
    """The group of a pc, and the instruction in it: a group's own pc means the first one."""
    word = pc[_WORD_AT:_GROUP_AT]
    return data.View(Place, Cat(pc[_GROUP_AT:], Mux(word == 0, 0, word - 1)[:len(word)]))
