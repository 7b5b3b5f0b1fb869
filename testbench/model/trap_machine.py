"""The warp model with a host, for tests of its traps."""

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.registers import SM_REGISTERS, GlobalError
from sim.launch import Launch
from sim.model.host import Host
from sim.model.retirement import Retirement
from sim.model.warp import Machine
from testbench.words import address


def on(launch: Launch, *, report_mask: int = REPORT_MASK_RESET, warps: int = 4) -> tuple[Machine, Host]:
    """The machine that runs a launch, and its host."""
    machine = Machine(launch, warps=warps, report_mask=report_mask)
    return machine, Host(machine)


def records(machine: Machine, count: int = 1000) -> list[Retirement]:
    """What retires until nobody can go on."""
    found = []
    while len(found) < count and (record := machine.step()) is not None:
        found.append(record)
    return found


def handler_pc(machine: Machine) -> int:
    """Where the trap handler begins."""
    assert machine.launch.trap_handler is not None
    return machine.launch.trap_handler


def in_handler(machine: Machine, number: int) -> int:
    """The address of the handler's instruction of this number."""
    return handler_pc(machine) + address(number)


def status0(host: Host) -> tuple[int, int]:
    """SM_IN_TRAP_MODE and LOCKED_DOWN."""
    word = host.read("DBGR_STATUS0")
    return word & 1, word >> SM_REGISTERS["DBGR_STATUS0"].fields["LOCKED_DOWN"][0] & 1


def events(host: Host) -> set[str]:
    word = host.read("HWW_GLOBAL_ESR")
    return {error.name for error in GlobalError if word >> error.value & 1}
