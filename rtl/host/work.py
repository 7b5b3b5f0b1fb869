"""The work distributor's registers."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.registers import REFERENCE_COUNTERS, WORK_REGISTERS
from rtl.layouts import REFERENCE_BITS, TIMEOUT_BITS, LaunchRejection, LaunchSettings, RegisterAccess, place_of
from rtl.params import ADDRESS_BITS

__all__ = ["WorkRegisters"]

_IN_INSTRUCTION = exact_log2(INSTRUCTION_BYTES)
"""Bits of a pc that say where in an instruction it is."""


class WorkRegisters(Component):
    """Settings, start and status of grids, the trap handler, and the reference counters.

    Members
    -------
    access : RegisterAccess
    settings, start, busy, done, rejection, reference_number, reference_count, reference_set, reference_value
        The other side of what the Distributor has.
    installed, handler, timeout : Out
        See TrapCommand.
    """

    def __init__(self) -> None:
        super().__init__({
            "access": Out(RegisterAccess()), "settings": Out(LaunchSettings),
            "start": Out(stream.Signature(ADDRESS_BITS)), "busy": In(1), "done": In(1),
            "rejection": In(LaunchRejection), "reference_number": Out(range(REFERENCE_COUNTERS)),
            "reference_count": In(REFERENCE_BITS), "reference_set": Out(1), "reference_value": Out(REFERENCE_BITS),
            "installed": Out(1), "handler": Out(32), "timeout": Out(TIMEOUT_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, descriptor = self.access, Signal(ADDRESS_BITS)
        done, rejection = Signal(), Signal(LaunchRejection)
        for name, address in (("PROGRAM_REGION", self.settings.program), ("LOCAL_MEMORY", self.settings.local),
                              ("QMD_ADDRESS", descriptor)):
            for part, bits in ((f"{name}_A", address[32:]), (f"{name}_B", address[:32])):
                with m.If(access.place == place_of(WORK_REGISTERS[part])):
                    m.d.comb += access.value.eq(bits)
                    with m.If(access.write):
                        m.d.sync += bits.eq(access.data)

        for name, content, low in (("TRAP_HANDLER", self.handler, _IN_INSTRUCTION), ("TRAP_CONTROL", self.installed, 0),
                                   ("SM_TIMEOUT_INTERVAL", self.timeout, 0)):
            with m.If(access.place == place_of(WORK_REGISTERS[name])):
                m.d.comb += access.value.eq(content)
                with m.If(access.write):
                    m.d.sync += content[low:].eq(access.data[low:])

        # Start and end.
        with m.If(self.start.ready):
            m.d.sync += self.start.valid.eq(0)
        with m.If(access.write & (access.place == place_of(WORK_REGISTERS["LAUNCH"])) & ~self.start.valid):
            m.d.sync += [self.start.valid.eq(1), self.start.payload.eq(descriptor), done.eq(0)]
        with m.If(self.done):
            m.d.sync += [done.eq(1), rejection.eq(self.rejection)]
        places = WORK_REGISTERS["STATUS"].fields
        status = {"BUSY": self.busy, "DONE": done, "PENDING": self.start.valid, "REJECTION": rejection.as_value()}
        with m.If(access.place == place_of(WORK_REGISTERS["STATUS"])):
            m.d.comb += [access.value[places[name][1]:places[name][0] + 1].eq(value) for name, value in status.items()]

        # Reference counters: the upper half of the block.
        first = place_of(WORK_REGISTERS["REFERENCE_COUNT"])
        number = access.place - first
        m.d.comb += [self.reference_number.eq(number), self.reference_value.eq(access.data)]
        with m.If(access.place >= first):
            m.d.comb += [access.value.eq(self.reference_count), self.reference_set.eq(access.write)]
        assert not first % REFERENCE_COUNTERS
        return m
