"""Special registers."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.special_registers import (
    COORDINATES_AT,
    OF_THREADS,
    SHARED_BANKS,
    VIRTUAL_SM_AT,
    VIRTUAL_WARP_AT,
    SpecialRegister,
)
from rtl.layouts import GridConfiguration, thread_index, warp_launch
from rtl.one_hot import chosen_of
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES, SmParams
from rtl.words import Words

from .slots import beat_place

__all__ = ["SpecialValues"]

_NUMBER_BITS = 8
_CLOCK_BITS = 64


def _packed(x: Any, y: Any, z: Any) -> Any:
    """Three coordinates in one register; they overlap where one is too large."""
    x_at, y_at, z_at = COORDINATES_AT
    return (x << x_at | y << y_at | z << z_at)[:32]


class SpecialValues(Component):
    """What S2R and CS2R read: one value for the warp, or one for each thread, and 0 for the other kind.

    The clocks, and the global timer, count cycles.

    Members
    -------
    warp_status, all_status : In(32), In(32)
        What the trap unit tells of ``warp``, and of all warps.
    number, warp, uniform : In(8), In, Out(32)
        What is the same in all threads; combinational.
    place : In(beat_place)
        The threads that ``values`` are for, a cycle later.
    own, values : In(1 bit for each of OF_THREADS), Out(32 bits for each lane)
        What differs: the register whose bit is 1.
    grid : In(GridConfiguration)
    launch : In(valid, payload: warp_launch)
        Tells where in the grid the warp's CTA is.
    thread : In(valid, payload: thread_index)
        Tells where in its block a thread is.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "warp_status": In(32), "all_status": In(32), "number": In(_NUMBER_BITS), "warp": In(params.warp_bits),
            "uniform": Out(32), "place": In(beat_place(params)),
            "own": In(len(OF_THREADS)), "values": Out(data.ArrayLayout(32, params.lanes)),
            "grid": In(GridConfiguration),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "thread": In(data.StructLayout({"valid": 1, "payload": thread_index(params)}))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._of_warp(m)
        self._of_threads(m)
        return m

    def _of_warp(self, m: Module) -> None:
        index = warp_launch(self._params)["index"].shape
        m.submodules.indices = indices = Words(index, self._params.warps)
        read, write = indices.read_port(domain="comb"), indices.write_port()
        clock, grid, launch = Signal(_CLOCK_BITS), self.grid, self.launch.payload
        cta: Any = read.data
        m.d.sync += clock.eq(clock + 1)
        m.d.comb += [
            read.addr.eq(self.warp), write.addr.eq(launch.warp), write.en.eq(self.launch.valid),
            write.data.eq(launch.index)]
        low, high = clock[:32], clock[32:]
        values = {
            SpecialRegister.NTID: _packed(grid.block.x, grid.block.y, grid.block.z),
            SpecialRegister.CTAID_X: cta.x, SpecialRegister.CTAID_Y: cta.y,
            SpecialRegister.CTAID_Z: cta.z, SpecialRegister.VIRTID: self.warp << VIRTUAL_WARP_AT,
            SpecialRegister.VIRTCFG: self._params.warps << VIRTUAL_WARP_AT | 1 << VIRTUAL_SM_AT,
            SpecialRegister.CLOCK: low, SpecialRegister.CLOCKLO: low, SpecialRegister.GLOBALTIMERLO: low,
            SpecialRegister.CLOCKHI: high, SpecialRegister.GLOBALTIMERHI: high,
            SpecialRegister.SWINLO: SHARED_WINDOW, SpecialRegister.LWINLO: LOCAL_WINDOW,
            SpecialRegister.SWINSZ: WINDOW_BYTES, SpecialRegister.LWINSZ: WINDOW_BYTES,
            SpecialRegister.SMEMSZ: grid.shared, SpecialRegister.SMEMBANKS: SHARED_BANKS,
            SpecialRegister.LMEMLOSZ: grid.local, SpecialRegister.REGALLOC: grid.registers,
            SpecialRegister.GLOBALERRORSTATUS: self.all_status, SpecialRegister.WARPERRORSTATUS: self.warp_status,
            SpecialRegister.WARPERRORSTATUSCLEAR: self.warp_status}
        with m.Switch(self.number):
            for number, value in values.items():
                with m.Case(number):
                    m.d.comb += self.uniform.eq(value)

    def _of_threads(self, m: Module) -> None:
        params = self._params
        lanes, beats = params.lanes, params.beats
        width = ceil_log2(params.warps * WARP_THREADS)      # a CTA has no more threads than the machine
        place = data.StructLayout(dict.fromkeys("xyz", width))
        m.submodules.threads = threads = memory.Memory(
            shape=data.ArrayLayout(place, lanes), depth=params.warps * beats, init=[])
        read, write = threads.read_port(), threads.write_port(granularity=1)
        thread, beat = self.thread.payload, Signal(range(beats))
        own_lane = Signal(lanes)
        lane_bits = (lanes - 1).bit_length()
        m.d.comb += [
            read.addr.eq(self.place), own_lane.eq(1 << thread.thread[:lane_bits]),
            write.addr.eq(Cat(thread.thread[lane_bits:], thread.warp)),
            write.en.eq(Mux(self.thread.valid, own_lane, 0)),
            write.data.eq(Cat(thread[axis][:width] for axis in "xyz").replicate(lanes))]
        m.d.sync += beat.eq(self.place.beat)

        everybody = (1 << WARP_THREADS) - 1
        constants = {
            SpecialRegister.LANEID: lambda own: own, SpecialRegister.EQMASK: lambda own: 1 << own,
            SpecialRegister.LTMASK: lambda own: (1 << own) - 1,
            SpecialRegister.LEMASK: lambda own: (2 << own) - 1,
            SpecialRegister.GTMASK: lambda own: everybody & -(2 << own),
            SpecialRegister.GEMASK: lambda own: everybody & -(1 << own)}

        def by_beat(lane: int, function: Any) -> Any:
            """A constant of each thread, of the beat's thread in a lane."""
            return Array(Const(function(number * lanes + lane), 32) for number in range(beats))[beat]

        places = {
            SpecialRegister.TID_X: lambda at: at.x, SpecialRegister.TID_Y: lambda at: at.y,
            SpecialRegister.TID_Z: lambda at: at.z, SpecialRegister.TID: lambda at: _packed(at.x, at.y, at.z)}
        for lane, value in enumerate(self.values):
            m.d.comb += value.eq(chosen_of(self.own, [
                places[number](read.data[lane]) if number in places else by_beat(lane, constants[number])
                for number in OF_THREADS]))
