"""Where each warp's local and shared memory begin, and where everything ends."""

from amaranth.hdl import Assert, Module, Mux
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
from rtl.params import SmParams
from rtl.pick import pick
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
    local_base
        Where the warp's block of local memory began when the instruction was dispatched.
    bank
        The constant bank that the instruction names.
    report_constants : 1
        An access beyond the end of that bank is an error.
    """
    configuration = GridConfiguration.as_shape()
    return data.StructLayout({
        "shared": configuration["shared"].shape,
        "local": configuration["local"].shape,
        "local_base": BLOCK_ADDRESS_BITS,
        "bank": configuration["banks"].shape.elem_shape,
        "report_constants": 1,
    })


def local_move(params: SmParams) -> data.StructLayout:
    """A warp's block of local memory is at ``base`` from now on, in units of the CRS granule."""
    return data.StructLayout({"warp": params.warp_bits, "base": BLOCK_ADDRESS_BITS})


class AddressLimits(Component):
    """Keeps where each warp's shared and local memory begin, as its launch says.

    Two that come at once: a move of local memory is written in place of a launch's base.

    Members
    -------
    grid, report_mask : In(GridConfiguration), In(32)
    launch : In(Event of warp_launch)
    move : In(Event of local_move)
    warp, local_base : In, Out
        Where that warp's block of local memory is now.
    of_warp, shared_base : In, Out
        Where that warp's CTA has its shared memory.
    of_base, of_bank : In
        Where local memory of an instruction's warp was when it was dispatched, and the constant
        bank that it names.
    limits : Out(address_limits)
        For that instruction.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._shared_bases = Words(params.shared_bits, params.warps)
        self._local_bases = Words(BLOCK_ADDRESS_BITS, params.warps)
        super().__init__({
            "grid": In(GridConfiguration),
            "report_mask": In(REPORT_BITS),
            "launch": In(Event(warp_launch(params))),
            "move": In(Event(local_move(params))),
            "warp": In(params.warp_bits),
            "local_base": Out(BLOCK_ADDRESS_BITS),
            "of_warp": In(params.warp_bits),
            "shared_base": Out(params.shared_bits),
            "of_base": In(BLOCK_ADDRESS_BITS),
            "of_bank": In(_BANK_BITS),
            "limits": Out(address_limits(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.shared_base = self._shared_bases
        m.submodules.local_base = self._local_bases
        self._record(m)
        m.d.comb += self.shared_base.eq(self._shared_bases.read(m, self.of_warp))
        m.d.comb += self.local_base.eq(self._local_bases.read(m, self.warp))
        self._assemble(m)
        return m

    def _record(self, m: Module) -> None:
        """What a launch, or a move, says of a warp."""
        launch = self.launch.payload
        move = self.move
        moved_warp = Mux(move.valid, move.payload.warp, launch.warp)
        new_base = Mux(move.valid, move.payload.base, launch.local_base)
        self._shared_bases.write(m, self.launch.valid, launch.warp, launch.shared_base)
        self._local_bases.write(m, move.valid | self.launch.valid, moved_warp, new_base)

        row_bits = ceil_log2(4 * self._params.lanes)
        m.d.sync += Assert(
            ~self.launch.valid | ~launch.shared_base[:row_bits].any(),
            "shared memory does not begin with a row")

    def _assemble(self, m: Module) -> None:
        """The limits of an instruction."""
        limits = self.limits
        m.d.comb += limits.shared.eq(self.grid.shared)
        m.d.comb += limits.local.eq(self.grid.local)
        m.d.comb += limits.local_base.eq(self.of_base)
        m.d.comb += limits.report_constants.eq(
            self.report_mask[WarpError.INVALID_CONST_ADDR_LDC.value])
        with m.If(self.of_bank < CONSTANT_BANKS):
            m.d.comb += limits.bank.eq(pick(self.grid.banks, self.of_bank))
