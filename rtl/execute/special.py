"""Special registers."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.special_registers import (
    OF_THREADS,
    SHARED_BANKS,
    VIRTUAL_SM_AT,
    VIRTUAL_WARP_AT,
    SpecialRegister,
    packed_coordinates,
)
from rtl.layouts import Event, GridConfiguration, thread_index, warp_launch
from rtl.one_hot import chosen_of
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES, SmParams
from rtl.words import Words

from .reads import SpecialRead, UniformRead

__all__ = ["SpecialValues"]

_CLOCK_BITS = 64
_ALL_THREADS = (1 << WARP_THREADS) - 1

_CONSTANTS = {
    SpecialRegister.LANEID: lambda thread: thread,
    SpecialRegister.EQMASK: lambda thread: 1 << thread,
    SpecialRegister.LTMASK: lambda thread: (1 << thread) - 1,
    SpecialRegister.LEMASK: lambda thread: (2 << thread) - 1,
    SpecialRegister.GTMASK: lambda thread: _ALL_THREADS & -(2 << thread),
    SpecialRegister.GEMASK: lambda thread: _ALL_THREADS & -(1 << thread),
}
"""Special registers that depend on the thread's number alone."""


class SpecialValues(Component):
    """The special registers, which S2R and CS2R read. A register is the same in all threads of a
    warp (``uniform``), or differs from thread to thread (``read``); each port has 0 for registers
    of the other kind, so that the reader combines both by OR.

    The clocks and the global timer count cycles since reset.

    Members
    -------
    warp_status, all_status : In(32), In(32)
        The error status of the warp of ``uniform``, and of all warps, from the trap unit.
    uniform : In(UniformRead)
        Registers that are the same in all threads.
    read : In(SpecialRead)
        Registers that differ from thread to thread.
    grid : In(GridConfiguration)
    launch : In(Event of warp_launch)
        ``index`` is stored: the position of the warp's CTA in the grid.
    thread : In(Event of thread_index)
        The position of a thread in its block, which is stored.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "warp_status": In(32),
            "all_status": In(32),
            "uniform": In(UniformRead(params)),
            "read": In(SpecialRead(params)),
            "grid": In(GridConfiguration),
            "launch": In(Event(warp_launch(params))),
            "thread": In(Event(thread_index(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.Switch(self.uniform.number):
            for number, value in self._of_warp(m).items():
                with m.Case(number):
                    m.d.comb += self.uniform.value.eq(value)
        self._of_threads(m)
        return m

    def _of_warp(self, m: Module) -> dict[SpecialRegister, Any]:
        """The registers that are the same in all threads."""
        launch = self.launch.payload
        grid = self.grid
        index = warp_launch(self._params)["index"].shape
        m.submodules.indices = indices = Words(index, self._params.warps)
        indices.write(m, self.launch.valid, launch.warp, launch.index)
        warp = self.uniform.warp
        cta = indices.read(m, warp)
        clock = Signal(_CLOCK_BITS)
        m.d.sync += clock.eq(clock + 1)
        low = clock[:32]
        high = clock[32:]
        slots = self._params.warps
        return {
            SpecialRegister.NTID: packed_coordinates(
                grid.block.x, grid.block.y, grid.block.z)[:32],
            SpecialRegister.CTAID_X: cta.x,
            SpecialRegister.CTAID_Y: cta.y,
            SpecialRegister.CTAID_Z: cta.z,
            SpecialRegister.VIRTID: warp << VIRTUAL_WARP_AT,
            SpecialRegister.VIRTCFG: slots << VIRTUAL_WARP_AT | 1 << VIRTUAL_SM_AT,
            SpecialRegister.CLOCK: low,
            SpecialRegister.CLOCKLO: low,
            SpecialRegister.CLOCKHI: high,
            SpecialRegister.GLOBALTIMERLO: low,
            SpecialRegister.GLOBALTIMERHI: high,
            SpecialRegister.SWINLO: SHARED_WINDOW,
            SpecialRegister.SWINSZ: WINDOW_BYTES,
            SpecialRegister.LWINLO: LOCAL_WINDOW,
            SpecialRegister.LWINSZ: WINDOW_BYTES,
            SpecialRegister.SMEMSZ: grid.shared,
            SpecialRegister.SMEMBANKS: SHARED_BANKS,
            SpecialRegister.LMEMLOSZ: grid.local,
            SpecialRegister.REGALLOC: grid.registers,
            SpecialRegister.GLOBALERRORSTATUS: self.all_status,
            SpecialRegister.WARPERRORSTATUS: self.warp_status,
            SpecialRegister.WARPERRORSTATUSCLEAR: self.warp_status,
        }

    def _of_threads(self, m: Module) -> None:
        """The registers that differ from thread to thread."""
        places = self._thread_places(m)
        beat = Signal(range(self._params.beats))
        m.d.sync += beat.eq(self.read.place.beat)
        for lane, value in enumerate(self.read.values):
            place = places[lane]
            registers = {
                SpecialRegister.TID_X: place.x,
                SpecialRegister.TID_Y: place.y,
                SpecialRegister.TID_Z: place.z,
                SpecialRegister.TID: packed_coordinates(place.x, place.y, place.z)[:32],
            }
            for register, of_thread in _CONSTANTS.items():
                constants = [
                    Const(of_thread(number * self._params.lanes + lane), 32)
                    for number in range(self._params.beats)]
                registers[register] = Array(constants)[beat]
            m.d.comb += value.eq(
                chosen_of(self.read.register, [registers[register] for register in OF_THREADS]))

    def _thread_places(self, m: Module) -> Any:
        """The positions of the beat's threads in the block, a cycle later."""
        params = self._params
        lanes = params.lanes
        thread = self.thread.payload
        # A CTA has no more threads than the machine.
        width = ceil_log2(params.warps * WARP_THREADS)
        place = data.StructLayout({"x": width, "y": width, "z": width})
        m.submodules.threads = threads = memory.Memory(
            shape=data.ArrayLayout(place, lanes), depth=params.warps * params.beats, init=[])
        stored = threads.read_port()
        m.d.comb += stored.addr.eq(self.read.place)

        write = threads.write_port(granularity=1)
        lane_bits = (lanes - 1).bit_length()
        lane = thread.thread[:lane_bits]
        beat = thread.thread[lane_bits:]
        written = Cat(thread.x[:width], thread.y[:width], thread.z[:width])
        m.d.comb += write.addr.eq(Cat(beat, thread.warp))
        m.d.comb += write.data.eq(written.replicate(lanes))
        with m.If(self.thread.valid):
            m.d.comb += write.en.eq(Value.cast(1) << lane)
        return stored.data
