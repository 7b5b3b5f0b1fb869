"""What is kept of each warp's stack, in memories read by the warp's number."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TRAP_RESERVE
from rtl.layouts import BLOCK_ADDRESS_BITS, CRS_GRANULE_BITS, StackConfiguration
from rtl.params import SmParams

from .records import LIMIT_BITS, StackState, Tags

__all__ = ["StackRegions", "StackStates"]

assert CRS_GRANULE // TOKEN_BYTES == 2 * TRAP_RESERVE, "a granule is two of the steps that limits are counted in"
_COPY = data.StructLayout({"state": StackState, "tag": 1})


class StackStates(Component):
    """The states of all stacks: two reads and two writes in a cycle.

    A push writes while another warp's unwind is over: so there are two copies, one for each writer, with a bit each
    that tells which of them was written last.

    Members
    -------
    warp, state, tags : In, Out(StackState), Out(Tags)
    other_warp, other : In, Out(StackState)
        Another's.
    push, push_warp, pushed, push_tags : In(1), In, In(StackState), In(Tags)
        Writes a state; the tags are those that were read with the old one.
    commit, commit_warp, committed, commit_tags : In(1), In, In(StackState), In(Tags)
        Writes that of another warp.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "state": Out(StackState), "tags": Out(Tags), "other_warp": In(bits),
            "other": Out(StackState),
            "push": In(1), "push_warp": In(bits), "pushed": In(StackState), "push_tags": In(Tags),
            "commit": In(1), "commit_warp": In(bits), "committed": In(StackState), "commit_tags": In(Tags)})
        self.by_push = memory.Memory(shape=_COPY, depth=params.warps, init=[])
        self.by_commit = memory.Memory(shape=_COPY, depth=params.warps, init=[])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.by_push = by_push = self.by_push
        m.submodules.by_commit = by_commit = self.by_commit
        for copy, enable, warp, state, tag in (
                (by_push, self.push, self.push_warp, self.pushed, self.push_tags.committed),
                (by_commit, self.commit, self.commit_warp, self.committed, ~self.commit_tags.pushed)):
            write = copy.write_port()
            m.d.comb += [write.en.eq(enable), write.addr.eq(warp), write.data.eq(Cat(state, tag))]
        for warp, state in ((self.warp, self.state), (self.other_warp, self.other)):
            pushed, committed = by_push.read_port(domain="comb"), by_commit.read_port(domain="comb")
            m.d.comb += [
                pushed.addr.eq(warp), committed.addr.eq(warp),
                state.eq(Mux(pushed.data.tag == committed.data.tag, pushed.data.state.as_value(),
                             committed.data.state.as_value()))]
            if warp is self.warp:
                m.d.comb += [self.tags.pushed.eq(pushed.data.tag), self.tags.committed.eq(committed.data.tag)]
        return m


class StackRegions(Component):
    """Where each stack lies in memory, and how far it may grow.

    User mode may not fill the last 16 entries of the region, the trap handler may. Without a region in memory the
    entries on chip are all there is, in any mode.

    Members
    -------
    warp, trap, limit, memory, checks_calls : In, In(1), Out(LIMIT_BITS), Out(1), Out(1)
        The highest number that a token of ``warp`` may have, in steps of 16 tokens, with ``trap`` that in the trap
        handler whatever the mode; whether it has a region; whether its calls are limited.
    write_warp, base : In, Out(BLOCK_ADDRESS_BITS)
        Where the local memory of ``write_warp`` begins.
    launch, move, configuration : In(1), In(1), In(StackConfiguration)
        A new stack for it; with ``move`` only the base is set. The region is known two cycles later.
    mode, enters : In(1), In(1)
        Its mode.
    other_warp, region, other_memory : In, Out(BLOCK_ADDRESS_BITS), Out(1)
        Where the region of ``other_warp`` begins, if it has one.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "trap": In(1), "limit": Out(LIMIT_BITS), "memory": Out(1), "checks_calls": Out(1),
            "write_warp": In(bits), "base": Out(BLOCK_ADDRESS_BITS), "launch": In(1), "move": In(1),
            "configuration": In(StackConfiguration), "mode": In(1), "enters": In(1),
            "other_warp": In(bits), "region": Out(BLOCK_ADDRESS_BITS), "other_memory": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = data.StructLayout({"granules": CRS_GRANULE_BITS, "memory": 1, "checks_calls": 1})
        asked = self.configuration
        words: Any = {}
        for name, shape in (("limits", layout), ("traps", 1), ("bases", BLOCK_ADDRESS_BITS), ("sizes",
                                                                                              BLOCK_ADDRESS_BITS),
                            ("regions", BLOCK_ADDRESS_BITS)):
            m.submodules[name] = words[name] = memory.Memory(shape=shape, depth=self._warps, init=[])

        def read(name: str, warp: Any) -> Any:
            port = words[name].read_port(domain="comb")
            m.d.comb += port.addr.eq(warp)
            return port.data

        def write(name: str, enable: Any, warp: Any, value: Any) -> None:
            port = words[name].write_port()
            m.d.comb += [port.en.eq(enable), port.addr.eq(warp), port.data.eq(value)]

        # The highest number is the size in granules, less 1, twice, and 1 more in the trap handler.
        known, sized = read("limits", self.warp), asked.size != 0
        m.d.comb += [
            self.limit.eq(Cat((read("traps", self.warp) | self.trap) & known.memory, known.granules)),
            self.memory.eq(known.memory), self.checks_calls.eq(known.checks_calls),
            self.other_memory.eq(read("limits", self.other_warp).memory)]
        less = Signal(CRS_GRANULE_BITS)
        m.d.comb += less.eq(Mux(sized, asked.size - 1, 0))
        write("limits", self.launch, self.write_warp, Cat(less, sized, asked.check_calls))
        write("traps", self.launch | self.mode, self.write_warp, self.enters & ~self.launch)

        # The region lies behind the threads' local memory.
        size, sums, moved = Signal(BLOCK_ADDRESS_BITS), Signal(), Signal.like(self.write_warp)
        base = Signal(BLOCK_ADDRESS_BITS)
        write("bases", self.launch | self.move, self.write_warp, asked.base)
        write("sizes", self.launch, self.write_warp, asked.local)
        m.d.comb += self.base.eq(read("bases", self.write_warp))
        m.d.sync += [sums.eq(self.launch | self.move), moved.eq(self.write_warp), base.eq(asked.base),
                     size.eq(Mux(self.launch, asked.local, read("sizes", self.write_warp)))]
        write("regions", sums, moved, (base + size)[:BLOCK_ADDRESS_BITS])
        m.d.comb += self.region.eq(read("regions", self.other_warp))
        return m
