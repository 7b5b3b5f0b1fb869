"""The graph of a design, evaluated in Python, against pysim."""

from random import Random

import pytest
from amaranth.hdl import Fragment

from sim.engine.emit import Emitter
from sim.engine.errors import FineLoopError
from sim.engine.graph import WORD, StateWord
from sim.engine.internals import FlipFlop, MemoryInstance, SyncReadPort, SyncWritePort
from sim.engine.netlist import driven_signals, to_netlist, with_ports
from sim.engine.pysim import PysimEngine
from sim.engine.restore import RestoredSimulator
from testbench.engine.designs import Ripple, Zoo
from testbench.engine.random_designs import RandomDesign, random_value
from testbench.engine.test_graph import evaluator

STEPS = 6


class Translated:
    """The graph of a design, and the locations of its signals and memories."""

    def __init__(self, dut):
        self.design = Fragment.get(dut, None).prepare()
        ported = with_ports(self.design)
        self.netlist = to_netlist(ported)
        fine: set[int] = set()
        while True:
            try:
                self.emitter = Emitter(self.netlist, fine)
                self.program = self.emitter.program()
                break
            except FineLoopError as loop:
                assert not loop.cells <= fine
                fine |= loop.cells
        self.graph, self.lowering = self.emitter.graph, self.emitter.lowering
        self.effects = self.emitter._effects
        self._node_at = {place: node for node, place in self.program.place_of.items()}
        self.places = [
            (signal, self.program.place(nets))
            for signal, nets in self.netlist.signals.items()
            if len(signal)
        ]
        locations = self.program.memories()
        cells = list(self.lowering.memories)
        self.memories = {
            cells[locations[info.name[1:]].number]: fragment._data
            for fragment, info in ported.fragments.items()
            if isinstance(fragment, MemoryInstance)
        }

    def states(self, values):
        """Returns the stored words for given values of signals; combinational signals are not
        stored.
        """
        found = [0] * len(self.lowering.states)
        combinational = driven_signals(self.design, "comb")
        for (signal, place), seen in zip(self.places, values, strict=True):
            if signal in combinational:
                continue
            for piece, shift, width, at in place.pieces:
                what = self.graph.nodes[self._node_at[piece]]
                if isinstance(what, StateWord):
                    mask = (1 << width) - 1
                    found[what.place] &= ~(mask << shift)
                    found[what.place] |= (seen >> at & mask) << shift
        return found

    def signals(self, value):
        """Returns the values of signals for given values of nodes."""
        return [
            place.constant
            | sum(
                (value(self._node_at[piece]) >> shift & (1 << width) - 1) << at
                for piece, shift, width, at in place.pieces
            )
            for _, place in self.places
        ]

    def after_an_edge(self, value, states, rows):
        """Returns stored words and rows after the clock's edge, from the effects of the design."""
        found, later = list(states), {cell: list(table) for cell, table in rows.items()}
        for one in self.effects.nexts:
            found[one.place] = value(one.node)
        for port in self.effects.ports:
            cell, nodes = port.cell, [value(node) for node in port.nodes]
            if isinstance(cell, SyncWritePort):
                self._write(later[cell.memory], nodes)
                continue
            address, enable, *others = nodes
            assert isinstance(cell, SyncReadPort)
            table, data = rows[cell.memory], 0
            if address < len(table):
                data = table[address]
            words = len(self.lowering.memories[cell.memory].widths)
            for at in range(len(cell.transparent_for)):
                other = others[at * (1 + 2 * words) : (at + 1) * (1 + 2 * words)]
                if other[0] == address:
                    whole = [0] * address + [data]
                    self._write(whole, other)
                    data = whole[address]
            if enable:
                for place, (owner, part) in enumerate(self.lowering.states):
                    if owner == port.number:
                        found[place] = data >> part.start & (1 << part.width) - 1
        return found, later

    def _write(self, table, nodes):
        """Writes the words of a row under their masks."""
        address, *words = nodes
        if address < len(table):
            for index, (data, mask) in enumerate(zip(words[::2], words[1::2], strict=True)):
                low = WORD * index
                table[address] = table[address] & ~(mask << low) | (data & mask) << low


def compared(made, drive, one_clock=True):
    """Compares values in each cycle, and words and rows after each edge if the design has one
    clock.

    Returns how many signals had more than one value.
    """
    names = [signal.name for signal, _ in made.places]
    seen = []

    async def testbench(ctx):
        expected = None
        for step in range(STEPS):
            drive(ctx)
            now = [ctx.get(signal) & (1 << len(signal)) - 1 for signal, _ in made.places]
            rows = {
                cell: [ctx.get(data[row]) for row in range(data.depth)]
                for cell, data in made.memories.items()
            }
            states = made.states(now)
            value = evaluator(made.graph, states, rows)
            for node in range(len(made.graph.nodes)):
                value(node)  # operands first: no deep recursion
            assert dict(zip(names, made.signals(value), strict=True)) == dict(
                zip(names, now, strict=True)
            ), step
            seen.append(now)
            if one_clock:
                if expected is not None:
                    kept = [
                        place for place in range(len(states)) if not made.lowering.is_input(place)
                    ]
                    assert [states[place] for place in kept] == [
                        expected[0][place] for place in kept
                    ]
                    assert rows == expected[1]
                expected = made.after_an_edge(value, states, rows)
            await ctx.tick()

    simulator = RestoredSimulator(made.design, PysimEngine(made.design))
    for domain in made.design.fragment.domains:
        simulator.add_clock(1e-6, domain=domain)
    simulator.add_testbench(testbench)
    simulator.run()
    return sum(len(set(column)) > 1 for column in zip(*seen, strict=True))


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_the_graph_of_a_random_design_computes_its_signals_registers_and_rows(seed):
    dut = RandomDesign(100 + seed, one_clock=True)
    random = Random(seed)

    def drive(ctx):
        for signal in random.sample(dut.inputs, 4):
            ctx.set(signal, random_value(random, signal.shape()))

    assert compared(Translated(dut), drive) > 10


@pytest.mark.parametrize("seed", [2, 4])
def test_the_graph_of_a_random_design_of_three_clocks_computes_its_signals(seed):
    dut = RandomDesign(200 + seed)
    random = Random(seed)

    def drive(ctx):
        for signal in random.sample(dut.inputs, 4):
            ctx.set(signal, random_value(random, signal.shape()))
        ctx.set(dut.other_reset, random.random() < 0.2)

    made = Translated(dut)
    assert compared(made, drive, one_clock=False) > 10
    assert made.program.settles
    resets = {one.place: one for one in made.effects.resets}
    kept = [
        (place, made.netlist.cells[number], part)
        for place, (number, part) in enumerate(made.lowering.states)
        if isinstance(made.netlist.cells[number], FlipFlop)
    ]
    reset = [(place, cell, part) for place, cell, part in kept if not cell.arst.is_const]
    assert reset and {place for place, *_ in reset} == set(resets)
    for place, cell, part in reset:
        assert resets[place].init == cell.init >> part.start & (1 << part.width) - 1
        assert resets[place].node == made.lowering.bit(cell.arst)


def test_bits_that_depend_on_lower_ones_of_their_word_are_taken_apart():
    dut = Ripple()
    random = Random(1)
    assert compared(Translated(dut), lambda ctx: ctx.set(dut.a, random.randrange(2))) > 3


def test_every_construct_of_designs():
    dut = Zoo()
    random = Random(1)

    def drive(ctx):
        ctx.set(dut.limit, 255)
        for signal in (dut.step, dut.wide, dut.row):
            ctx.set(signal, random.getrandbits(len(signal)))

    assert compared(Translated(dut), drive) > 10
