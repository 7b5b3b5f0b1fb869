"""Decodes the error status registers of a machine, and formats them as a driver's log."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_BLOCK, SM_REGISTERS, GlobalError
from sim.model.warp.host import ModelHost
from sim.model.warp.model import WarpModel
from sim.report.exceptions import CudaException, cuda_exception, text_of
from sim.report.surroundings import before

__all__ = ["DecodedStatus", "decode", "registers_of", "traps_text"]

_LOGGED = (
    "HWW_WARP_ESR",
    "HWW_GLOBAL_ESR",
    "HWW_WARP_ESR_REPORT_MASK",
    "HWW_GLOBAL_ESR_REPORT_MASK",
)
"""Registers in the order of NVIDIA's log line."""
_PLACE_REGISTER = "HWW_WARP_ESR_PC"
_PREFIX = "Warpstack: Xid 13, Graphics"
"""13 is the number of these log lines in NVIDIA's driver: an exception of the graphics engine."""
_PLACE = "(GPC 0, TPC 0)"
"""The place of SM_BLOCK in NVIDIA's notation."""
_EXPECTED = frozenset({"BPT_INT", "BPT_PAUSE", "SINGLE_STEP_COMPLETE"})
"""Events that programs and debuggers request: a driver stops nothing because of them."""


@dataclass(frozen=True)
class DecodedStatus:
    """The content of the registers.

    Attributes:
        error: The first error; NONE for a BPT.TRAP.
        reasons: Reasons of all BPT.TRAPs so far.
        pc: Address of the instruction itself.
        events: The global bits by name.
        registers: The decoded registers by name.
        ended: Whether the grid has ended, so that every BPT.TRAP was handled.
    """

    error: WarpError
    warp: int
    pc: int
    reasons: tuple[int, ...]
    events: tuple[str, ...]
    registers: Mapping[str, int]
    ended: bool = False

    @property
    def stopped(self) -> bool:
        """Whether an instruction stopped the machine: by an error, or by a BPT.TRAP without a
        handler.
        """
        return self.error is not WarpError.NONE or (bool(self.reasons) and not self.ended)

    @property
    def handled(self) -> str:
        """The text about handled traps; empty without any."""
        return f"{traps_text(self.reasons)}: handled" if self.ended and self.reasons else ""

    @property
    def exception(self) -> CudaException | None:
        """CUDA's exception for the error; None without one."""
        return cuda_exception(self.error, self.events)

    def log_lines(self) -> list[str]:
        """Returns the lines of a driver's log; none if there were only events that a debugger
        requests.
        """
        happened = [text_of(GlobalError[name]) for name in self.events if name not in _EXPECTED]
        lines = [f"{_PREFIX} SM Global Exception on {_PLACE}: {text}" for text in happened]
        if self.error is not WarpError.NONE:
            lines.insert(0, f"{_PREFIX} SM Warp Exception on {_PLACE}: {text_of(self.error)}")
        if lines or self.stopped:
            values = (
                f"{SM_BLOCK + SM_REGISTERS[name].offset:#x}={self.registers[name]:#x}"
                for name in _LOGGED
            )
            lines.append(f"{_PREFIX} Exception: ESR {' '.join(values)}")
        return lines

    def cause(self) -> str:
        """The cause of the stop, in this project's terms."""
        if self.error is WarpError.NONE:
            return f"BPT.TRAP, reasons so far: {' '.join(map(str, self.reasons))}"
        return f"{self.error.name}, code {self.error.value:#04x}"

    def decoded(self) -> dict[str, object]:
        """Returns the status for JSON; empty if there was no event."""
        fields: dict[str, object] = {}
        if self.stopped:
            fields = {
                "error": self.error.name,
                "code": self.error.value,
                "warp": self.warp,
                "pc": self.pc,
            }
        if self.reasons:
            fields["trap_reasons"] = list(self.reasons)
        if self.events:
            fields["global"] = sorted(self.events)
        if not fields:
            return fields
        if (exception := self.exception) is not None:
            fields["cuda_exception"] = {
                "number": exception.value,
                "name": exception.symbol,
                "meaning": exception.meaning,
            }
        warp, mask = (
            self.registers[f"HWW_{which}_ESR_REPORT_MASK"] for which in ("WARP", "GLOBAL")
        )
        fields["report_masks"] = {"warp": warp, "global": mask}
        fields["registers"] = dict(self.registers)
        return fields


def traps_text(reasons: Collection[int]) -> str:
    """BPT.TRAPs by their reasons."""
    return f"BPT.TRAP, reason{'s' * (len(reasons) > 1)} {' '.join(map(str, sorted(reasons)))}"


def _field(registers: Mapping[str, int], register: str, name: str) -> int:
    return SM_REGISTERS[register].get(name, registers[register])


def decode(registers: Mapping[str, int], *, ended: bool = False) -> DecodedStatus:
    """Decodes the SM's registers, by name as in SM_REGISTERS, for a grid that has ``ended`` or not."""
    error = WarpError(_field(registers, "HWW_WARP_ESR", "ERROR"))
    traps = _field(registers, "HWW_GLOBAL_ESR", "TRAP_REASONS")
    reasons = tuple(reason + 1 for reason in range(traps.bit_length()) if traps >> reason & 1)
    events = tuple(one.name for one in GlobalError if registers["HWW_GLOBAL_ESR"] >> one.value & 1)
    pc = registers[_PLACE_REGISTER]
    kept = {name: registers[name] for name in (*_LOGGED, _PLACE_REGISTER)}
    return DecodedStatus(
        error,
        _field(registers, "HWW_WARP_ESR", "WARP_ID"),
        before(pc) if error is WarpError.NONE and reasons else pc,
        reasons,
        events,
        kept,
        ended,
    )


def registers_of(machine: WarpModel) -> dict[str, int]:
    """Returns the same registers of the warp model."""
    host = ModelHost(machine)
    return {name: host.read(name) for name in (*_LOGGED, _PLACE_REGISTER)}
