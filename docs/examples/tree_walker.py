"""The call/return stack in a design that is no GPU: a packet of 32 keys walks down a search tree together.

At each node of the tree a key goes left or right. As long as all of them agree, the packet goes on as one. Where they
part, those that go right wait in a token on the stack, with the node that they have to visit, and the others go left.
At a leaf the keys that have arrived are told, and the stack says who goes on, and where. A deep tree pushes more than
the 16 tokens that the stack keeps on chip: it spills them to the memory of this design by itself, and reads them back.

This is all that such a design needs of this project: ``CallReturnStack``, and the layouts of its ports.

    python docs/examples/tree_walker.py
"""

import random
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect
from amaranth.sim import Simulator

from rtl.component import Component
from rtl.crs import CallReturnStack
from rtl.isa.tokens import TokenKind
from rtl.layouts import MemoryPort, StackOperation, ThreadCode, ThreadCodes
from rtl.params import SmParams

KEYS = 32
KEY_BITS = 8
NODE_BITS = 8
PLACE = 3
"""A token's place is that of an instruction to the stack, which are 8 bytes apart: it refuses others."""
STACK_GRANULES = 4
"""Of 512 bytes, 32 tokens each, 16 of which the stack keeps for trap handlers: room for 112 tokens in memory."""


class Node(data.Struct):
    """A node of the tree: keys below ``threshold`` go left. A leaf has no children."""

    leaf: unsigned(1)
    threshold: unsigned(KEY_BITS)
    left: unsigned(NODE_BITS)
    right: unsigned(NODE_BITS)


class LineMemory(Component):
    """A memory for the stack: lines of 64 bytes, one request at a time, answered in the next cycle.

    Members
    -------
    port : In(MemoryPort)
    """

    def __init__(self, lines: int, tag_bits: int) -> None:
        self._lines, self._tag_bits = lines, tag_bits
        super().__init__({"port": In(MemoryPort(tag_bits))})

    def elaborate(self, platform: object) -> Module:
        """One block of memory, and the answer that it owes."""
        m = Module()
        port: Any = self.port
        request, response = port.request, port.response
        m.submodules.memory = memory = Memory(shape=unsigned(512), depth=self._lines, init=[])
        write, read = memory.write_port(granularity=8), memory.read_port()
        owed = Signal()
        m.d.comb += [
            request.ready.eq(~owed | response.ready), response.valid.eq(owed), response.payload.data.eq(read.data),
            write.addr.eq(request.payload.address), read.addr.eq(request.payload.address),
            read.en.eq(request.valid & request.ready), write.data.eq(request.payload.data),
            write.en.eq(Mux(request.valid & request.ready & request.payload.write, request.payload.mask, 0))]
        with m.If(request.ready):
            m.d.sync += [owed.eq(request.valid), response.payload.tag.eq(request.payload.tag),
                         response.payload.write.eq(request.payload.write)]
        return m


class TreeWalker(Component):
    """Walks down a tree with 32 keys.

    Members
    -------
    start : In(stream of 32 keys)
    arrived : Out(stream of node and keys)
        A leaf, and a bit for each key that has come to it.
    spills : Out(1)
        A line of the stack goes to memory in this cycle.
    """

    def __init__(self, tree: Sequence[dict[str, int]]) -> None:
        self._tree = tree
        params = SmParams(warps=2, lanes=4)
        self.stack: Any = CallReturnStack(params)
        self.memory = LineMemory(1 << STACK_GRANULES + 3, params.warp_bits)
        super().__init__({
            "start": In(stream.Signature(data.ArrayLayout(KEY_BITS, KEYS))), "spills": Out(1),
            "arrived": Out(stream.Signature(data.StructLayout({"node": NODE_BITS, "keys": KEYS})))})

    def elaborate(self, platform: object) -> Module:
        """One state for each thing that is asked of the stack."""
        m = Module()
        m.submodules.stack, m.submodules.memory = stack, memory = self.stack, self.memory
        connect(m, stack.port, memory.port)
        start, arrived = self.start, self.arrived
        request, result = stack.request, stack.result.payload
        asked, region = request.payload, stack.configuration
        node, keys, active = Signal(NODE_BITS), Signal.like(start.payload), Signal(KEYS)
        codes = Signal(ThreadCodes)     # why a key does not walk: NONE, it waits in a token; EXIT, it has arrived
        here: Any = Signal(Node)
        lefts, rights, waits = Signal(KEYS), Signal(KEYS), Signal()
        m.d.comb += [
            here.eq(Array(Node.const(fields) for fields in self._tree)[node]),
            lefts.eq(Cat(key < here.threshold for key in keys) & active), rights.eq(active & ~lefts),
            self.spills.eq(stack.events.spill), arrived.payload.node.eq(node), arrived.payload.keys.eq(active),
            region.size.eq(STACK_GRANULES), asked.enable.eq(1), asked.codes.eq(codes)]

        def ask(operation: StackOperation) -> None:
            m.d.comb += [request.valid.eq(~waits), asked.operation.eq(operation)]
            with m.If(request.valid & request.ready):
                m.d.sync += waits.eq(1)
            with m.If(stack.result.valid):
                m.d.sync += waits.eq(0)

        with m.FSM():
            with m.State("idle"):
                m.d.comb += start.ready.eq(1)
                with m.If(start.valid):
                    m.d.sync += [keys.eq(start.payload), codes.eq(0), node.eq(0), active.eq(~0)]
                    m.next = "launch"
            with m.State("launch"):
                ask(StackOperation.LAUNCH)
                with m.If(stack.result.valid):
                    m.next = "visit"
            with m.State("visit"):
                with m.If(here.leaf):
                    m.d.comb += arrived.valid.eq(1)
                    with m.If(arrived.ready):
                        for number in range(KEYS):
                            with m.If(active[number]):
                                m.d.sync += codes[number].eq(ThreadCode.EXIT)
                        m.next = "unwind"
                with m.Elif(lefts.any() & rights.any()):
                    m.next = "part"
                with m.Else():
                    m.d.sync += node.eq(Mux(lefts.any(), here.left, here.right))
            with m.State("part"):
                ask(StackOperation.PUSH)
                m.d.comb += [asked.kind.eq(TokenKind.DIVERGE), asked.operand.eq(here.right << PLACE),
                             asked.mask.eq(rights)]
                with m.If(stack.result.valid):
                    m.d.sync += [node.eq(here.left), active.eq(lefts)]
                    m.next = "visit"
            with m.State("unwind"):
                ask(StackOperation.UNWIND)
                with m.If(stack.result.valid):
                    m.d.sync += [node.eq(result.pc >> PLACE), active.eq(result.mask), codes.eq(result.codes)]
                    m.next = "idle"
                    with m.If(result.resume):
                        m.next = "visit"
        return m


def comb_tree(depth: int) -> list[dict[str, int]]:
    """A tree with a leaf on the right of each inner node: as deep as it can be."""
    nodes: list[dict[str, int]] = []
    for level in range(depth):
        nodes += [{"threshold": (depth - level) * (1 << KEY_BITS) // (depth + 1), "left": 2 * level + 2,
                   "right": 2 * level + 1}, {"leaf": 1}]
    return [*nodes, {"leaf": 1}]


def leaf_of(tree: Sequence[dict[str, int]], key: int) -> int:
    """Where a key comes to, walking alone."""
    node = 0
    while not tree[node].get("leaf"):
        node = tree[node]["left" if key < tree[node]["threshold"] else "right"]
    return node


def simulate(tree: Sequence[dict[str, int]], keys: Sequence[int]) -> tuple[dict[int, int], int, int]:
    """Walks: each key's leaf; the cycles that it took, and the lines that were spilled."""
    dut = TreeWalker(tree)
    found: dict[int, int] = {}
    counted = {"cycles": 0, "spills": 0}

    async def drive(ctx: Any) -> None:
        ctx.set(dut.arrived.ready, 1)
        ctx.set(dut.start.payload, keys)
        ctx.set(dut.start.valid, 1)
        async for _, _, ready, valid, payload, spill in ctx.tick().sample(
                dut.start.ready, dut.arrived.valid, dut.arrived.payload, dut.spills):
            if ready:
                ctx.set(dut.start.valid, 0)
            counted["cycles"] += 1
            counted["spills"] += spill
            if valid:
                assert not any(number in found and payload.keys >> number & 1 for number in range(KEYS))
                found.update({number: payload.node for number in range(KEYS) if payload.keys >> number & 1})
            if len(found) == KEYS:
                return

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run_until(1e-4)
    return found, counted["cycles"], counted["spills"]


def main() -> None:
    """Walks down a deep tree, and compares with keys that walk alone."""
    tree, source = comb_tree(30), random.Random(1)
    keys = [source.randrange(1 << KEY_BITS) for _ in range(KEYS)]
    found, cycles, spills = simulate(tree, keys)
    assert found == {number: leaf_of(tree, key) for number, key in enumerate(keys)}, found
    print(f"{KEYS} keys at {len(set(found.values()))} leaves in {cycles} cycles, {spills} lines spilled")


if __name__ == "__main__":
    main()
