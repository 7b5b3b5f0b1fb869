"""Registers of the board, on the machine's register bus."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, Access, HostRegister
from rtl.isa.tokens import CACHED_TOKENS
from rtl.layouts import HostBus, Policy, place_of
from rtl.params import ADDRESS_BITS, SmParams

__all__ = [
    "BOARD_BLOCK",
    "BOARD_REGISTERS",
    "IDENTITY",
    "PARTS",
    "SIZES",
    "BoardRegisters",
    "Framebuffer",
    "MachineState",
]

BOARD_BLOCK = 0x700000
"""Address of the board's block of registers (ours)."""
IDENTITY = int.from_bytes(b"WARP", "big")
"""Value of IDENTITY."""
SIZES = ("warps", "lanes", "registers", "shared_bytes", "instruction_groups", "constant_words")
"""Parameters of SmParams whose binary logarithms are the fields of SIZE, five bits each."""
PARTS = ("floats", "doubles", "counters")
"""Parameters of SmParams that are the fields of PARTS, a bit each."""
_SIZE_BITS = 5
_SCALE_BITS = 2

BOARD_REGISTERS: Mapping[str, HostRegister] = MappingProxyType({
    "IDENTITY": HostRegister(0x00, Access.READ, f"{IDENTITY:#x}", reset=IDENTITY),
    "SIZE": HostRegister(
        0x04, Access.READ,
        "the machine's parameters that are numbers: their logarithms to the base of 2",
        {name.upper(): (_SIZE_BITS * place + _SIZE_BITS - 1, _SIZE_BITS * place)
         for place, name in enumerate(SIZES)}),
    "CLOCK": HostRegister(0x08, Access.READ, "clock rate in Hz"),
    "MEMORY": HostRegister(0x0C, Access.READ, "bytes of memory"),
    "CONTROL": HostRegister(
        0x10, Access.BOTH,
        "a 1 written to RESET resets the machine, once memory has answered all requests; it"
        " reads 1 until that is over; POLICY: which warp issues first",
        {"RESET": (0, 0), "POLICY": (4, 4)}),
    "STATE": HostRegister(
        0x14, Access.READ,
        "BUSY: a grid runs; LOCKED_DOWN, INTERRUPT: as the machine has them",
        {"BUSY": (0, 0), "LOCKED_DOWN": (1, 1), "INTERRUPT": (2, 2)}),
    "CYCLES": HostRegister(
        0x18, Access.READ,
        "cycles since the board was configured, bits 31:0; keeps the others"),
    "CYCLES_1": HostRegister(0x1C, Access.READ, "bits 63:32 when CYCLES was read"),
    "FRAMEBUFFER_ADDRESS": HostRegister(
        0x20, Access.BOTH,
        "the picture's first byte, counted from the beginning of memory; a multiple of 4"),
    "FRAMEBUFFER_CONTROL": HostRegister(
        0x24, Access.BOTH,
        "ENABLE: the picture is shown; SCALE: a pixel of memory is 2**SCALE pixels wide and high;"
        " to read: UNDERRUN: memory was too slow for a pixel, VIDEO: the board has video",
        {"ENABLE": (0, 0), "SCALE": (5, 4), "UNDERRUN": (8, 8), "VIDEO": (9, 9)}),
    "PARTS": HostRegister(
        0x28, Access.READ,
        "the machine's other parameters: whether it has floating point, double precision, all"
        " counters; the logarithm of the tokens of a stack that are on chip, 0 for 16",
        {**{name.upper(): (place, place) for place, name in enumerate(PARTS)},
         "STACK_TOKENS": (10, 8)}),
})
"""Registers of the board's block."""
_PLACES = {name: place_of(register) for name, register in BOARD_REGISTERS.items()}
_WORD_AT = 2
_BLOCK_AT = (BLOCK_BYTES - 1).bit_length()

MachineState = data.StructLayout({"busy": 1, "locked_down": 1, "interrupt": 1})
"""The fields of STATE. ``busy``: a grid runs."""


class Framebuffer(wiring.Signature):
    """Settings and status of video, directions are those of the registers.

    Members
    -------
    enable : Out(1)
    scale : Out(2)
        A pixel of memory is 2**scale pixels wide and high.
    base : Out(40)
        Address of the first pixel in bytes, counted from the beginning of memory; a multiple of 4.
    underrun, present : In(1), In(1)
        Memory was too slow for a pixel; the board has video.
    """

    def __init__(self) -> None:
        super().__init__({
            "enable": Out(1),
            "scale": Out(_SCALE_BITS),
            "base": Out(ADDRESS_BITS),
            "underrun": In(1),
            "present": In(1),
        })


class BoardRegisters(Component):
    """The board's block of registers. A write takes effect in the next cycle, except ``reset``.

    Parameters
    ----------
    params : SmParams
    clock, memory : int
        Clock rate in Hz; bytes of memory: the values of CLOCK and MEMORY.

    Members
    -------
    bus : In(HostBus)
        ``value`` is 0 in the cycle after an address outside the block.
    state : In(MachineState)
    reset, resetting : Out(1), In(1)
        ``reset`` is 1 in the cycle in which a host writes 1 to RESET. ``resetting``: the reset has
        not ended; read as RESET.
    policy : Out(Policy)
    framebuffer : Out(Framebuffer)
    """

    def __init__(self, params: SmParams, clock: int, memory: int) -> None:
        self._constants = {
            "IDENTITY": IDENTITY,
            "SIZE": _size_of(params),
            "PARTS": _parts_of(params),
            "CLOCK": clock,
            "MEMORY": memory,
        }
        super().__init__({
            "bus": In(HostBus()),
            "state": In(MachineState),
            "reset": Out(1),
            "resetting": In(1),
            "policy": Out(Policy),
            "framebuffer": Out(Framebuffer()),
        })
        self._cycles = Signal(64)
        self._cycles_high = Signal(32)
        """The upper half of the cycle count, from the last cycle in which CYCLES was read."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_inside = self.bus.address[_BLOCK_AT:] == BOARD_BLOCK >> _BLOCK_AT
        place = self.bus.address[_WORD_AT:_BLOCK_AT]
        self._read(m, is_inside, place)
        self._write(m, is_inside, place)
        self._count_cycles(m, self.bus.read & is_inside & (place == _PLACES["CYCLES"]))
        return m

    def _contents(self) -> dict[str, Any]:
        """The value that each register reads."""
        shown = self.framebuffer
        constants = {name: Const(value, 32) for name, value in self._constants.items()}
        return {
            **constants,
            "CONTROL": Cat(self.resetting, Const(0, 3), self.policy),
            "STATE": self.state,
            "CYCLES": self._cycles,
            "CYCLES_1": self._cycles_high,
            "FRAMEBUFFER_ADDRESS": shown.base,
            "FRAMEBUFFER_CONTROL": Cat(
                shown.enable, Const(0, 3), shown.scale, Const(0, 2), shown.underrun, shown.present),
        }

    def _read(self, m: Module, is_inside: Value, place: Value) -> None:
        """Reads: the register's word is on the bus a cycle later."""
        m.d.sync += self.bus.value.eq(0)
        with m.If(is_inside), m.Switch(place):
            for name, content in self._contents().items():
                with m.Case(_PLACES[name]):
                    m.d.sync += self.bus.value.eq(content)

    def _write(self, m: Module, is_inside: Value, place: Value) -> None:
        """Writes. The fields UNDERRUN and VIDEO, and all other registers, cannot be written."""
        written = self.bus.data
        shown = self.framebuffer
        _, policy_at = BOARD_REGISTERS["CONTROL"].fields["POLICY"]
        _, scale_at = BOARD_REGISTERS["FRAMEBUFFER_CONTROL"].fields["SCALE"]
        with m.If(self.bus.write & is_inside), m.Switch(place):
            with m.Case(_PLACES["CONTROL"]):
                m.d.comb += self.reset.eq(written[0])
                m.d.sync += self.policy.eq(written[policy_at])
            with m.Case(_PLACES["FRAMEBUFFER_ADDRESS"]):
                m.d.sync += shown.base.eq(written & ~0x3)
            with m.Case(_PLACES["FRAMEBUFFER_CONTROL"]):
                m.d.sync += shown.enable.eq(written[0])
                m.d.sync += shown.scale.eq(written[scale_at:scale_at + _SCALE_BITS])

    def _count_cycles(self, m: Module, is_read: Value) -> None:
        """CYCLES. A read of the lower half latches the upper one, so that both are from the same
        cycle."""
        m.d.sync += self._cycles.eq(self._cycles + 1)
        with m.If(is_read):
            m.d.sync += self._cycles_high.eq(self._cycles[32:])


def _size_of(params: SmParams) -> int:
    """The value of SIZE."""
    logarithms = (ceil_log2(getattr(params, name)) for name in SIZES)
    return sum(value << _SIZE_BITS * place for place, value in enumerate(logarithms))


def _parts_of(params: SmParams) -> int:
    """The value of PARTS."""
    parts = sum(getattr(params, name) << place for place, name in enumerate(PARTS))
    if params.stack_tokens != CACHED_TOKENS:
        _, tokens_at = BOARD_REGISTERS["PARTS"].fields["STACK_TOKENS"]
        parts |= ceil_log2(params.stack_tokens) << tokens_at
    return parts
