"""Where each warp's local and shared memory begin, and where everything ends."""

from typing import Any

from amaranth.hdl import Assert, Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import BLOCK_ADDRESS_BITS, CONSTANT_BANKS, GridConfiguration, warp_launch
from rtl.params import SmParams
from rtl.pick import pick
from rtl.words import Words

__all__ = ["REPORT_BITS", "AddressLimits", "address_limits", "local_move"]

REPORT_BITS = 32
"""Width of the report mask."""
_BANK_BITS = 5
"""Width of the number of a constant bank in an instruction."""


def address_limits(params: SmParams) -> data.StructLayout:
    """What addresses of an instruction's warp are held against: sizes in bytes of a CTA's shared memory and of a
    thread's local memory, where those of this warp began when it was dispatched, and the constant bank that the
    instruction names. An access beyond its end is an error if ``report_constants``."""
    configuration = GridConfiguration.as_shape()
    return data.StructLayout({
        "shared": configuration["shared"].shape, "local": configuration["local"].shape,
        "local_base": BLOCK_ADDRESS_BITS,
        "bank": configuration["banks"].shape.elem_shape, "report_constants": 1})


def local_move(params: SmParams) -> data.StructLayout:
    """A warp's block of local memory is at ``base`` from now on, in units of the CRS granule."""
    return data.StructLayout({"valid": 1, "warp": params.warp_bits, "base": BLOCK_ADDRESS_BITS})


class AddressLimits(Component):
    """Notes what a launch says of each warp.

    Members
    -------
    grid, report_mask : In(GridConfiguration), In(32)
    launch : In(valid and warp_launch)
    move : In(local_move)
    warp, local_base : In, Out
        Where that warp's block of local memory is now.
    of_warp, shared_base : In, Out
        Where that warp's CTA has its shared memory.
    of_base, of_bank : In
        Where local memory of an instruction's warp was when it came, and the constant bank that it names.
    limits : Out(address_limits)
        For that instruction.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "grid": In(GridConfiguration), "report_mask": In(REPORT_BITS),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "move": In(local_move(params)), "warp": In(params.warp_bits), "local_base": Out(BLOCK_ADDRESS_BITS),
            "of_warp": In(params.warp_bits), "shared_base": Out(params.shared_bits), "of_base": In(BLOCK_ADDRESS_BITS),
            "of_bank": In(_BANK_BITS),
            "limits": Out(address_limits(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        limits = self.limits
        shared_write, shared = self._kept(m, "shared_base", self._params.shared_bits)
        local_write, local = self._kept(m, "local_base", BLOCK_ADDRESS_BITS)
        for write, name in ((shared_write, "shared_base"), (local_write, "local_base")):
            launch = self.launch.payload
            m.d.comb += [write.en.eq(self.launch.valid), write.addr.eq(launch.warp), write.data.eq(launch[name])]
        m.d.sync += Assert(
            ~self.launch.valid | ~self.launch.payload.shared_base[:ceil_log2(4 * self._params.lanes)].any(),
            "shared memory does not begin with a row")
        with m.If(self.move.valid):
            m.d.comb += [
                local_write.en.eq(1), local_write.addr.eq(self.move.warp), local_write.data.eq(self.move.base)]
        m.d.comb += [
            shared.addr.eq(self.of_warp), local.addr.eq(self.warp), self.local_base.eq(local.data),
            self.shared_base.eq(shared.data), limits.local_base.eq(self.of_base),
            limits.shared.eq(self.grid.shared), limits.local.eq(self.grid.local),
            limits.report_constants.eq(self.report_mask[WarpError.INVALID_CONST_ADDR_LDC.value])]
        with m.If(self.of_bank < CONSTANT_BANKS):
            m.d.comb += limits.bank.eq(pick(self.grid.banks, self.of_bank))
        return m

    def _kept(self, m: Module, name: str, shape: int) -> tuple[Any, Any]:
        """A number for each warp: the ports that write and read it."""
        m.submodules[name] = kept = Words(shape, self._params.warps)
        return kept.write_port(), kept.read_port(domain="comb")
