"""The warp model with a host, for tests of its traps."""

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.registers import SM_REGISTERS, GlobalError
from sim.launch import Launch
from sim.model.warp.host import ModelHost
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from testbench.words import address


def on(
    launch: Launch, *, report_mask: int = REPORT_MASK_RESET, warps: int = 4
) -> tuple[WarpModel, ModelHost]:
    """Returns a warp model that runs a launch, and its host."""
    machine = WarpModel(launch, warps=warps, report_mask=report_mask)
    return machine, ModelHost(machine)


def records(machine: WarpModel, count: int = 1000) -> list[Retirement]:
    """Returns the records of retired instructions until no warp can continue."""
    found = []
    while len(found) < count and (record := machine.step()) is not None:
        found.append(record)
    return found


def handler_pc(machine: WarpModel) -> int:
    """Returns the start address of the trap handler."""
    assert machine.launch.trap_handler is not None
    return machine.launch.trap_handler


def in_handler(machine: WarpModel, number: int) -> int:
    """Returns the address of the handler's instruction with this number."""
    return handler_pc(machine) + address(number)


def status0(host: ModelHost) -> tuple[int, int]:
    """Returns the fields SM_IN_TRAP_MODE and LOCKED_DOWN."""
    word = host.read("DBGR_STATUS0")
    return word & 1, SM_REGISTERS["DBGR_STATUS0"].get("LOCKED_DOWN", word)


def events(host: ModelHost) -> set[str]:
    word = host.read("HWW_GLOBAL_ESR")
    return {error.name for error in GlobalError if word >> error.value & 1}
