"""What instructions carry that no choice depends on, until they issue."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES, NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import InstructionKind, completion, fetched_group, issued
from rtl.params import SmParams

from .records import BUFFERED_GROUPS, Slot
from .warp import SILENT_KINDS, among

__all__ = ["InstructionStore", "address_of"]

_GROUP_AT = ceil_log2(GROUP_BYTES)
_WORD_AT = ceil_log2(INSTRUCTION_BYTES)


def address_of(pc: Any) -> Any:
    """An instruction's own address, for a pc that may be its group's."""
    return Cat(pc[:_WORD_AT], pc[_WORD_AT] | ~pc[_WORD_AT + 1], pc[_WORD_AT + 1:])


_STORED = data.StructLayout({
    "word": WORD_BITS, "error": WarpError, "constant": 32, "constant_missing": 1,
    "write_barrier": 3, "read_barrier": 3})


class InstructionStore(Component):
    """Words, constants and addresses of the instructions in the buffers; hands out the one that is issued.

    Members
    -------
    group, entry : In(valid and fetched_group), In
        A group comes, and goes to this entry of its warp.
    selected, warp, slot, kind, injected : In(1), In, In(Slot), In(InstructionKind), In(1)
        This instruction was selected a cycle ago, or something of this kind in its place, which has no word.
    raises : Out(1)
        It raises the scoreboards that it names.
    write_barrier, read_barrier : Out(3)
        Those, in this cycle.
    instruction : Out(valid and issued)
        It, in the next cycle.
    completion : Out(completion)
        Beside ``instruction``: it is complete already.
    returned, same : In(valid and flow_result's warp and pc), Out(1)
        Whether this is where the warp is anyway: behind the instruction that it issued last.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "group": In(data.StructLayout({"valid": 1, "payload": fetched_group(params)})),
            "entry": In(range(BUFFERED_GROUPS)), "selected": In(1), "warp": In(params.warp_bits), "slot": In(Slot),
            "kind": In(InstructionKind), "injected": In(1),
            "raises": Out(1), "write_barrier": Out(3), "read_barrier": Out(3),
            "instruction": Out(data.StructLayout({"valid": 1, "payload": issued(params)})),
            "completion": Out(completion(params)),
            "returned": In(data.StructLayout({"warp": params.warp_bits, "pc": 32})), "same": Out(1)})
        self.behind = memory.Memory(shape=32 - _WORD_AT, depth=params.warps, init=[])
        """Of each warp, the address behind the instruction that it issued last, in units of an instruction."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        group, payload = self.group.payload, self.instruction.payload
        stored: list[Any] = []
        for number in range(GROUP_INSTRUCTIONS):
            m.submodules[f"instructions_{number}"] = column = self._column(_STORED)
            port, source = column.write_port(), group.instructions[number]
            self._keep(m, port)
            m.d.comb += [
                port.data.word.eq(source.word), port.data.error.eq(source.error),
                port.data.constant.eq(source.constant), port.data.constant_missing.eq(source.constant_missing),
                port.data.write_barrier.eq(source.control.write_barrier),
                port.data.read_barrier.eq(source.control.read_barrier)]
            stored.append(self._read(m, column))
        m.submodules.pcs = pcs = self._column(32 - _GROUP_AT)
        port = pcs.write_port()
        self._keep(m, port)
        m.d.comb += port.data.eq(group.pc[_GROUP_AT:])

        # The selected instruction.
        place, number = self._read(m, pcs), self.slot.number
        found: Any = Signal(_STORED)
        m.d.comb += found.eq(Array(entry.as_value() for entry in stored)[number])
        m.d.comb += [
            self.raises.eq(self.selected & ~among(self.kind, SILENT_KINDS)),
            self.write_barrier.eq(found.write_barrier), self.read_barrier.eq(found.read_barrier)]
        m.d.sync += self.instruction.valid.eq(self.selected)
        with m.If(self.instruction.valid):
            m.d.sync += payload.serial.eq(payload.serial + 1)
        with m.If(self.selected):
            m.d.sync += [
                payload.warp.eq(self.warp),
                payload.pc.eq(Cat(Const(0, _WORD_AT), (number + 1)[:_GROUP_AT - _WORD_AT], place)),
                payload.word.eq(Mux(self.injected, 0, found.word)), payload.kind.eq(self.kind),
                payload.error.eq(found.error),
                payload.constant.eq(found.constant), payload.constant_missing.eq(found.constant_missing),
                payload.write_barrier.eq(found.write_barrier), payload.read_barrier.eq(found.read_barrier)]
        silent = (InstructionKind.NOTHING, InstructionKind.DEPENDENCY)
        m.d.comb += [
            self.completion.valid.eq(self.instruction.valid & among(payload.kind, silent)),
            self.completion.warp.eq(payload.warp), self.completion.serial.eq(payload.serial),
            self.completion.write_barrier.eq(NO_BARRIER), self.completion.read_barrier.eq(NO_BARRIER)]

        # What comes behind it.
        m.submodules.behind = behind = self.behind
        note, noted = behind.write_port(), behind.read_port(domain="comb")
        last = number == GROUP_INSTRUCTIONS - 1
        m.d.comb += [
            note.en.eq(self.selected), note.addr.eq(self.warp),
            note.data.eq(Cat(Mux(last, 1, number + 2)[:_GROUP_AT - _WORD_AT], (place + last)[:len(place)])),
            noted.addr.eq(self.returned.warp), self.same.eq(Cat(Const(0, _WORD_AT), noted.data)
                                                            == address_of(self.returned.pc))]
        return m

    def _column(self, shape: Any) -> Any:
        """A memory with a place for each entry of each warp's buffer."""
        return memory.Memory(shape=shape, depth=self._params.warps * BUFFERED_GROUPS, init=[])

    def _keep(self, m: Module, port: Any) -> None:
        m.d.comb += [port.en.eq(self.group.valid), port.addr.eq(Cat(self.entry, self.group.payload.warp))]

    def _read(self, m: Module, column: Any) -> Any:
        port = column.read_port(domain="comb")
        m.d.comb += port.addr.eq(Cat(self.slot.entry, self.warp))
        return port.data
