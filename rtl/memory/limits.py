"""Where each warp's local and shared memory begin, and where everything ends."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    CONSTANT_BANKS,
    Event,
    GridConfiguration,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.pick import pick
from rtl.structs import struct_value
from rtl.words import Words

__all__ = ["REPORT_BITS", "AddressLimits", "address_limits", "local_move"]

REPORT_BITS = 32
"""Width of the report mask."""
_BANK_BITS = 5
"""Width of the number of a constant bank in an instruction."""


def address_limits(params: SmParams) -> data.StructLayout:
    """What addresses of an instruction's warp are compared with.

    Fields
    ------
    shared, local : bytes
        Sizes of a CTA's shared memory and of a thread's local memory.
    bank : ConstantBank
        The constant bank that the instruction names.
    report_constants : 1
        An access beyond the end of that bank is an error.
    """
    configuration = GridConfiguration.as_shape()
    return data.StructLayout({
        "shared": configuration["shared"].shape,
        "local": configuration["local"].shape,
        "bank": configuration["banks"].shape.elem_shape,
        "report_constants": 1,
    })


def local_move(params: SmParams) -> data.StructLayout:
    """A warp's block of local memory is at ``base`` from now on, in units of the CRS granule."""
    return data.StructLayout({"warp": params.warp_bits, "base": BLOCK_ADDRESS_BITS})


class AddressLimits(Component):
    """Keeps where each warp's shared and local memory begin: where its launch or a
    move says.

    A launch and a move of another warp's local memory may arrive in the same cycle: their bases are
    in two memories, and a bit a warp selects the valid one.

    Members
    -------
    grid, report_mask : In(GridConfiguration), In(32)
    launch : In(Event of warp_launch)
    move : In(Event of local_move)
    dispatched_warp, local_base : In, Out
        The warp of the instruction that is dispatched, and where its block of local memory is now.
    allocated_warp, shared_base : In, Out
        The warp of the instruction that gets a slot, and where its CTA has its shared memory.
    bank, limits : In, Out(address_limits)
        The constant bank that an instruction names; what its addresses are compared with.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._shared_bases = Words(params.shared_bits, params.warps)
        self._launched_bases = Words(BLOCK_ADDRESS_BITS, params.warps)
        self._moved_bases = Words(BLOCK_ADDRESS_BITS, params.warps)
        self._has_moved = Signal(params.warps, name="has_moved")
        """The warp's local memory has moved since its launch."""
        super().__init__({
            "grid": In(GridConfiguration),
            "report_mask": In(REPORT_BITS),
            "launch": In(Event(warp_launch(params))),
            "move": In(Event(local_move(params))),
            "dispatched_warp": In(params.warp_bits),
            "local_base": Out(BLOCK_ADDRESS_BITS),
            "allocated_warp": In(params.warp_bits),
            "shared_base": Out(params.shared_bits),
            "bank": In(_BANK_BITS),
            "limits": Out(address_limits(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.shared_base = self._shared_bases
        m.submodules.local_base = self._launched_bases
        m.submodules.moved_base = self._moved_bases
        self._record(m)
        m.d.comb += self.shared_base.eq(self._shared_bases.read(m, self.allocated_warp))
        m.d.comb += self.local_base.eq(Mux(
            self._has_moved.bit_select(self.dispatched_warp, 1),
            self._moved_bases.read(m, self.dispatched_warp),
            self._launched_bases.read(m, self.dispatched_warp)))
        self._assemble(m)
        return m

    def _record(self, m: Module) -> None:
        """A launch, or a move, gives the bases of a warp."""
        launch = self.launch.payload
        move = self.move.payload
        warps = self._params.warps
        self._shared_bases.write(m, self.launch.valid, launch.warp, launch.shared_base)
        self._launched_bases.write(m, self.launch.valid, launch.warp, launch.local_base)
        self._moved_bases.write(m, self.move.valid, move.warp, move.base)
        launched = one_hot(launch.warp, warps, self.launch.valid)
        moved = one_hot(move.warp, warps, self.move.valid)
        m.d.sync += self._has_moved.eq((self._has_moved & ~launched) | moved)
        m.d.sync += Assert(~(launched & moved).any(), "local memory of a warp moves in its launch")

        row_bits = ceil_log2(4 * self._params.lanes)
        m.d.sync += Assert(
            ~self.launch.valid | ~launch.shared_base[:row_bits].any(),
            "shared memory does not begin with a row")

    def _assemble(self, m: Module) -> None:
        """The limits of an instruction."""
        bank = Signal.like(self.limits.bank)
        with m.If(self.bank < CONSTANT_BANKS):
            m.d.comb += bank.eq(pick(self.grid.banks, self.bank))
        m.d.comb += self.limits.eq(struct_value(
            address_limits(self._params),
            shared=self.grid.shared,
            local=self.grid.local,
            bank=bank,
            report_constants=self.report_mask[WarpError.INVALID_CONST_ADDR_LDC.value]))
