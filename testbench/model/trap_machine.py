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
    """The machine that runs a launch, and its host."""
    machine = WarpModel(launch, warps=warps, report_mask=report_mask)
    return machine, ModelHost(machine)


def records(machine: WarpModel, count: int = 1000) -> list[Retirement]:
    """The retired instructions until no warp can continue."""
    found = []
    while len(found) < count and (record := machine.step()) is not None:
        found.append(record)
    return found


def handler_pc(machine: WarpModel) -> int:
    """Where the trap handler begins."""
    assert machine.launch.trap_handler is not None
    return machine.launch.trap_handler


def in_handler(machine: WarpModel, number: int) -> int:
    """The address of the handler's instruction of this number."""
    return handler_pc(machine) + address(number)


def status0(host: ModelHost) -> tuple[int, int]:
    """SM_IN_TRAP_MODE and LOCKED_DOWN."""
    word = host.read("DBGR_STATUS0")
    return word & 1, SM_REGISTERS["DBGR_STATUS0"].get("LOCKED_DOWN", word)


def events(host: ModelHost) -> set[str]:
    word = host.read("HWW_GLOBAL_ESR")
    return {error.name for error in GlobalError if word >> error.value & 1}
