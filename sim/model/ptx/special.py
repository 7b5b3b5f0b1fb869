"""The values of special registers."""

from rtl.launch.plan import SHARED_GRANULE
from rtl.params import PRESETS, WARP_THREADS
from sim.support.alignment import round_up
from sim.toolchain.ptx.module import PtxSpecialRegister

from .state import PtxThread

__all__ = ["special_value"]

_COMPONENTS = "xyz"


def special_value(register: PtxSpecialRegister, thread: PtxThread) -> int:
    """Returns the value that a thread reads from a special register.

    Ours: one SM of full size; clocks count the thread's instructions; counters and the driver's
    registers read 0.
    """
    launch, lane = thread.cta.launch, thread.lane
    match register.name:
        case "tid" | "ntid" | "ctaid" | "nctaid" as name:
            of = {
                "tid": thread.position,
                "ntid": launch.block,
                "ctaid": thread.cta.position,
                "nctaid": launch.grid,
            }
            return of[name][_COMPONENTS.index(register.component)]
        case "laneid":
            return lane
        case "warpid":
            return thread.number // WARP_THREADS
        case "nwarpid":
            return PRESETS["full"].warps
        case "nsmid" | "gridid":
            return 1
        case "lanemask_eq":
            return 1 << lane
        case "lanemask_lt":
            return (1 << lane) - 1
        case "lanemask_le":
            return (2 << lane) - 1
        case "lanemask_gt":
            return -(2 << lane) & 0xFFFF_FFFF
        case "lanemask_ge":
            return -(1 << lane) & 0xFFFF_FFFF
        case "clock" | "clock64" | "globaltimer" | "globaltimer_lo":
            return thread.executed
        case "total_smem_size":
            return round_up(launch.shared, SHARED_GRANULE)
        case "dynamic_smem_size":
            return launch.dynamic
        case _:
            return 0
