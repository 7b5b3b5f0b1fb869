"""The work distributor's registers."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.registers import REFERENCE_COUNTERS, WORK_REGISTERS
from rtl.layouts import REFERENCE_BITS, TIMEOUT_BITS, GridControl, LaunchRejection, RegisterAccess, place_of
from rtl.params import ADDRESS_BITS, SmParams

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
    late : Out(16)
        What belongs to the value of the cycle before: of a reference counter in a machine of one lane. Else 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._late = params.serial
        super().__init__({
            "access": Out(RegisterAccess()), "grids": Out(GridControl()), "installed": Out(1), "handler": Out(32),
            "timeout": Out(TIMEOUT_BITS), "late": Out(REFERENCE_BITS)})

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
        asked, count = Signal(), grids.references.count
        m.d.sync += asked.eq(grids.references.read)
        with m.If(access.place >= first):
            m.d.comb += [grids.references.read.eq(access.read), grids.references.set.eq(access.write)]
            if not self._late:
                m.d.comb += access.value.eq(count)
        if self._late:
            m.d.comb += self.late.eq(Mux(asked, count, 0))
        assert not first % REFERENCE_COUNTERS
        return m
