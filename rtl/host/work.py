"""The work distributor's registers."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.registers import REFERENCE_COUNTERS, WORK_REGISTERS
from rtl.layouts import TIMEOUT_BITS, GridControl, LaunchRejection, RegisterAccess, place_of
from rtl.params import ADDRESS_BITS

__all__ = ["WorkRegisters"]

_IN_INSTRUCTION = exact_log2(INSTRUCTION_BYTES)
"""Bits of a pc that say where in an instruction it is."""


class WorkRegisters(Component):
    """Settings, start and status of grids, the trap handler, and the reference counters.

    Members
    -------
    access : RegisterAccess
    grids : Out(GridControl)
    installed, handler, timeout : Out
        See TrapCommand.
    """

    def __init__(self) -> None:
        super().__init__({
            "access": Out(RegisterAccess()), "grids": Out(GridControl()), "installed": Out(1), "handler": Out(32),
            "timeout": Out(TIMEOUT_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, grids, start = self.access, self.grids, self.grids.start
        descriptor = Signal(ADDRESS_BITS)
        done, rejection, ended, reason = Signal(), Signal(LaunchRejection), Signal(), Signal(LaunchRejection)
        for name, address in (("PROGRAM_REGION", grids.settings.program), ("LOCAL_MEMORY", grids.settings.local),
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

        # Start and end, which is told a cycle later: until then the grid counts as one that runs.
        m.d.sync += [ended.eq(grids.done), reason.eq(grids.rejection)]
        with m.If(start.ready):
            m.d.sync += start.valid.eq(0)
        with m.If(access.write & (access.place == place_of(WORK_REGISTERS["LAUNCH"])) & ~start.valid):
            m.d.sync += [start.valid.eq(1), start.payload.eq(descriptor), done.eq(0)]
        with m.If(ended):
            m.d.sync += [done.eq(1), rejection.eq(reason)]
        places = WORK_REGISTERS["STATUS"].fields
        status = {"BUSY": grids.busy | ended, "DONE": done, "PENDING": start.valid, "REJECTION": rejection.as_value()}
        with m.If(access.place == place_of(WORK_REGISTERS["STATUS"])):
            m.d.comb += [access.value[places[name][1]:places[name][0] + 1].eq(value) for name, value in status.items()]

        # Reference counters: the upper half of the block.
        first = place_of(WORK_REGISTERS["REFERENCE_COUNT"])
        number = access.place - first
        m.d.comb += [grids.references.number.eq(number), grids.references.value.eq(access.data)]
        with m.If(access.place >= first):
            m.d.comb += [grids.references.read.eq(access.read), grids.references.set.eq(access.write)]
        self.read_count(m, access.place >= first)
        assert not first % REFERENCE_COUNTERS
        return m

    def read_count(self, m: Module, is_selected: Value) -> None:
        """Answers with the reference counter whose place is selected."""
        with m.If(is_selected):
            m.d.comb += self.access.value.eq(self.grids.references.count)
