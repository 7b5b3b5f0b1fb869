"""The warp model's interface for a host: the registers of the SM, and the operations of a debugger."""

from collections.abc import Callable, Mapping
from functools import partial

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.registers import (
    ALWAYS_INTERRUPT,
    CONTROL_RESET,
    GLOBAL_ERROR_MASK_RESET,
    GlobalError,
    host_register,
    trap_bit,
)

from .model import WarpModel
from .state import Warp

__all__ = ["ALL_SLOTS", "ModelHost"]

ALL_SLOTS = (1 << 64) - 1
"""A mask of all possible warp slots."""
_WORD = (1 << 32) - 1
_WORD_BITS = 32


class ModelHost:
    """Reads and writes registers of a warp model that does not follow another machine.

    A write takes effect at once: running warps enter the trap, and released ones leave it.
    """

    def __init__(self, machine: WarpModel) -> None:
        self.machine = machine
        self._control = CONTROL_RESET
        self._global_mask = GLOBAL_ERROR_MASK_RESET
        self._writers: Mapping[str, Callable[[int], None]] = {
            "DBGR_CONTROL0": self._write_control,
            "HWW_WARP_ESR_REPORT_MASK": self._write_report_mask,
            "HWW_GLOBAL_ESR_REPORT_MASK": self._write_global_mask,
            "HWW_WARP_ESR": self._clear_warp_error,
            "HWW_GLOBAL_ESR": self._clear_global_errors,
            "BPT_PAUSE_MASK": partial(self._wake, 0),
            "BPT_PAUSE_MASK_1": partial(self._wake, 1),
            "TRAP_HANDLER": self._place_handler,
            "TRAP_CONTROL": self._validate_handler,
            "SM_TIMEOUT_INTERVAL": self._set_timeout,
            "CACHE_CONTROL": lambda word: None,
        }  # there are no caches
        self._handler = machine.traps.handler or 0

    def read(self, register: str) -> int:
        """Reads a register of SM_REGISTERS, or one of the work distributor's trap registers;
        KeyError for any other.
        """
        machine, traps, status = self.machine, self.machine.traps, self.machine.error_status
        match register:
            case "DBGR_STATUS0":
                return host_register(register).put(
                    SM_IN_TRAP_MODE=traps.trapping, LOCKED_DOWN=traps.locked_down
                )
            case "DBGR_CONTROL0":
                return self._control
            case "WARP_VALID_MASK" | "WARP_VALID_MASK_1":
                return self._slots(register, lambda warp: True)
            case "BPT_PAUSE_MASK" | "BPT_PAUSE_MASK_1":
                return self._slots(register, lambda warp: warp.trap.paused)
            case "BPT_TRAP_MASK" | "BPT_TRAP_MASK_1":
                return self._slots(register, lambda warp: bool(warp.trap.reasons))
            case "HWW_WARP_ESR_REPORT_MASK":
                return machine.report_mask
            case "HWW_GLOBAL_ESR_REPORT_MASK":
                return self._global_mask
            case "HWW_WARP_ESR":
                if status is None:
                    return 0
                return host_register(register).put(ERROR=status.error.value, WARP_ID=status.warp)
            case "HWW_WARP_ESR_PC":
                return machine.log.address
            case "HWW_GLOBAL_ESR":
                raised = sum(1 << GlobalError[name].value for name in machine.raised)
                return raised | sum(1 << trap_bit(reason) for reason in machine.trap_reasons)
            case "CACHE_CONTROL":
                return 0
            case "TRAP_HANDLER":
                return self._handler
            case "TRAP_CONTROL":
                return host_register(register).put(HANDLER_VALID=traps.handler is not None)
            case _:
                raise KeyError(register)

    @property
    def interrupted(self) -> bool:
        """Whether the machine interrupts the host."""
        status = self.machine.error_status
        return bool(
            (status is not None and status.error.value)
            or self.read("HWW_GLOBAL_ESR") & (self._global_mask | ALWAYS_INTERRUPT)
        )

    def _slots(self, register: str, of: Callable[[Warp], bool]) -> int:
        """Returns a register with one bit for each warp slot."""
        slots = sum(1 << warp.slot for warp in self.machine.live if of(warp))
        return slots >> (_WORD_BITS if register.endswith("_1") else 0) & _WORD

    def write(self, register: str, word: int) -> None:
        """Writes a register; KeyError if it cannot be written."""
        self._writers[register](word)
        self.machine.settle()

    def writes(self, register: str) -> bool:
        """Whether a register can be written."""
        return register in self._writers

    def _write_control(self, word: int) -> None:
        traps, field = self.machine.traps, host_register("DBGR_CONTROL0").get
        self._control = word & ~host_register("DBGR_CONTROL0").put(RUN_TRIGGER=1)
        traps.stop, traps.single_step = (
            bool(field("STOP_TRIGGER", word)),
            bool(field("SINGLE_STEP_MODE", word)),
        )
        if field("RUN_TRIGGER", word):
            traps.wake(ALL_SLOTS)

    def _wake(self, half: int, word: int) -> None:
        self.machine.traps.wake((~word & _WORD) << _WORD_BITS * half)

    def _write_report_mask(self, word: int) -> None:
        self.machine.report_mask = word

    def _write_global_mask(self, word: int) -> None:
        self._global_mask = word

    def _clear_warp_error(self, word: int) -> None:
        self.machine.log.first = None

    def _clear_global_errors(self, word: int) -> None:
        machine = self.machine
        machine.raised -= {error.name for error in GlobalError if word >> error.value & 1}
        machine.trap_reasons -= {
            reason for reason in set(machine.trap_reasons) if word >> trap_bit(reason) & 1
        }

    def _place_handler(self, word: int) -> None:
        self._handler = word = word & -INSTRUCTION_BYTES
        if self.machine.traps.handler is not None:
            self.machine.traps.handler = word

    def _validate_handler(self, word: int) -> None:
        self.machine.traps.handler = (
            self._handler if host_register("TRAP_CONTROL").get("HANDLER_VALID", word) else None
        )

    def _set_timeout(self, word: int) -> None:
        self.machine.timeout = bool(host_register("SM_TIMEOUT_INTERVAL").get("COUNTER_BIT", word))

    # Operations of a debugger.

    def _set_control(self, **values: int) -> None:
        kept = self._control & ~host_register("DBGR_CONTROL0").put(**dict.fromkeys(values, 1))
        self.write("DBGR_CONTROL0", kept | host_register("DBGR_CONTROL0").put(**values))

    def stop(self) -> None:
        """Traps all warps, and holds them in the trap until :meth:`resume`."""
        self._set_control(STOP_TRIGGER=1)

    def resume(self) -> None:
        """Clears the stop trigger and wakes all paused warps."""
        self._set_control(STOP_TRIGGER=0)
        self.run_trigger()

    def run_trigger(self) -> None:
        """Wakes all paused warps."""
        self._set_control(RUN_TRIGGER=1)

    def wake(self, slots: int) -> None:
        """Wakes the paused warps of a mask of slots."""
        for half, register in enumerate(("BPT_PAUSE_MASK", "BPT_PAUSE_MASK_1")):
            self.write(register, ~slots >> _WORD_BITS * half & _WORD)

    def single_step(self, on: bool) -> None:
        """Sets whether warps that leave the trap execute one instruction and trap again."""
        self._set_control(SINGLE_STEP_MODE=int(on))

    def install(self, handler: int | None) -> None:
        """Sets the pc of the trap handler; None for no handler."""
        self.write("TRAP_HANDLER", handler or 0)
        self.write(
            "TRAP_CONTROL", host_register("TRAP_CONTROL").put(HANDLER_VALID=handler is not None)
        )

    def clear_errors(self) -> None:
        """Clears the error status."""
        self.write("HWW_GLOBAL_ESR", self.read("HWW_GLOBAL_ESR"))
        self.write("HWW_WARP_ESR", 0)
