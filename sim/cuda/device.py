"""The device of CUDA programs: memory, modules and launches of all connected programs.

Every call is complete when it returns. A failed launch leaves its context with a permanent error,
as in CUDA.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from rtl.isa.errors import WarpError
from rtl.params import WARP_THREADS
from sim.board.placing import share
from sim.cuda.errors import LAUNCH_FAILED, CudaError, result_of_warp_error
from sim.cuda.names import with_readable_kernels
from sim.cuda.recording import Recording
from sim.launch import SHARED_LIMIT, Launch, Placement, lacking, place
from sim.launch.attributes import MOST_THREADS, blocks_at_a_time, most_threads
from sim.launch.memory import OutOfMemoryError, SharedMemory
from sim.launch.runtime import HEAP_DEFAULT, OUTPUT_DEFAULT, empty_output
from sim.launch_options import preset_hint
from sim.report.output import Output, output_of
from sim.runner import LaunchInterrupted, Outcome, Runner
from sim.support.command import CommandError
from sim.support.interrupt import stop_threads
from sim.toolchain.module import EntryPoint, Module, ProgramError

__all__ = ["CLOCK_KHZ", "Context", "Device", "LaunchRecord", "LoadedKernel"]

CLOCK_KHZ = 1_000_000
"""The device's nominal clock in kHz: events convert cycles to time with it (ours)."""
_STACK_LIMIT, _PRINTF_LIMIT, _HEAP_LIMIT = 0, 1, 2
"""Limits of a context by CUDA's numbers: stack of a thread, kernel output, kernel heap."""
_INVALID_VALUE, _OUT_OF_MEMORY, _NOT_FOUND, _INVALID_HANDLE = 1, 2, 500, 400
_OUT_OF_RESOURCES, _TIMEOUT, _ASSERT, _UNSUPPORTED_LIMIT = 701, 702, 710, 215


@dataclass
class LaunchRecord:
    """One launch, as the table at the end shows it.

    Attributes:
        kernel: Name of the kernel in its module.
        seconds: The host's time in seconds.
        result: CUDA's result.
        message: The reason why the launch failed.
        assertions: The failed assertions.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    outcome: Outcome
    seconds: float
    result: int = 0
    message: str = ""
    assertions: tuple[str, ...] = ()


@dataclass
class LoadedKernel:
    """A kernel of a placed module."""

    placement: Placement
    kernel: EntryPoint


@dataclass
class Context:
    """The resources that a program's context owns. ``error`` is its permanent error, 0 without one."""

    limits: dict[int, int]
    allocations: dict[int, tuple[int, int]] = field(default_factory=dict)
    modules: dict[int, Placement] = field(default_factory=dict)
    kernels: dict[int, LoadedKernel] = field(default_factory=dict)
    error: int = 0


class Device:
    """One machine and its memory. One call uses it at a time.

    Parameters:
        runner: Runs the launches.
        memory_bytes: Size of device memory in bytes, where the machine's memory has no fixed size.
        limit: Cycles after which a launch is aborted.
        progress: Called with the number of each launch, and the cycles that have passed.
        recording: The recording of one of the launches, None without one.

    Attributes:
        memory: The device's memory, which programs map.
        cycles: Cycles of all launches so far.
        launches: All launches in order.
        lock: Held while a call uses the device.
    """

    def __init__(
        self,
        runner: Runner,
        memory_bytes: int,
        limit: int,
        progress: Callable[[int, int], object] = lambda _launch, _cycles: None,
        recording: Recording | None = None,
    ) -> None:
        self._runner = runner
        self._recording = recording
        self._stopped = False
        self._limit = limit
        self._progress = progress
        space = runner.space
        self.size = memory_bytes if space.size is None else space.size
        self.memory = SharedMemory(self.size, space.first, space.gap)
        self.cycles = 0
        self.launches: list[LaunchRecord] = []
        self.lock = threading.RLock()
        self._numbers = count(1)
        self.attributes = self._attributes()

    def _attributes(self) -> Mapping[int, int]:
        """The device's attributes by CUDA's numbers; missing ones are 0."""
        params = self._runner.params
        threads = min(MOST_THREADS, params.warps * WARP_THREADS)
        shared = min(params.shared_bytes, SHARED_LIMIT)
        registers = params.registers * WARP_THREADS
        return {
            1: threads,
            2: threads,
            3: threads,
            4: min(threads, 64),
            5: (1 << 31) - 1,
            6: 65535,
            7: 65535,
            8: shared,
            9: 65536,
            10: WARP_THREADS,
            11: (1 << 31) - 1,
            12: registers,
            13: CLOCK_KHZ,
            14: 512,
            15: 1,
            16: 1,
            17: 0,
            18: 0,
            19: 1,
            30: 512,
            31: 0,
            36: CLOCK_KHZ,
            37: 512,
            38: 0,
            39: params.warps * WARP_THREADS,
            40: 1,
            41: 1,
            51: 32,
            75: 5,
            76: 0,
            78: 1,
            81: params.shared_bytes,
            82: registers,
            83: 1,
            87: 32,
            91: 0,
            97: shared,
            99: 1,
            106: params.warps,
        }

    def make_context(self) -> Context:
        """Returns a new context without resources."""
        return Context(
            {
                _STACK_LIMIT: 1024,
                _PRINTF_LIMIT: share(OUTPUT_DEFAULT, self.size),
                _HEAP_LIMIT: share(HEAP_DEFAULT, self.size),
            }
        )

    # Memory.

    def allocate(self, context: Context, size: int, kind: int) -> int:
        """Allocates zeroed memory."""
        try:
            address = self.memory.allocate(self.memory.free_name("allocation"), size)
        except OutOfMemoryError as error:
            raise CudaError(
                _OUT_OF_MEMORY, f"cuMemAlloc: {size} bytes, {self.free_bytes()} are free"
            ) from error
        context.allocations[address] = (size, kind)
        return address

    def free(self, context: Context, address: int) -> None:
        """Frees memory that :meth:`allocate` returned."""
        if context.allocations.pop(address, None) is None:
            raise CudaError(
                _INVALID_VALUE, f"cuMemFree: no allocation of this context begins at {address:#x}"
            )
        self.memory.free(address)

    def free_bytes(self) -> int:
        """Returns the number of free bytes of memory."""
        return self.size - sum(size for _, size in self.memory.regions.values())

    # Modules.

    def load(self, context: Context, module: Module) -> int:
        """Places a module; returns its number."""
        number = next(self._numbers)
        try:
            placed = place(
                module,
                self.memory,
                output=context.limits[_PRINTF_LIMIT],
                heap=context.limits[_HEAP_LIMIT],
            )
        except OutOfMemoryError as error:
            raise CudaError(_OUT_OF_MEMORY) from error
        except ProgramError as error:
            raise CudaError(302, str(error)) from error  # CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
        context.modules[number] = placed
        return number

    def unload(self, context: Context, number: int) -> None:
        """Frees a module."""
        self.module(context, number).release()
        placed = context.modules.pop(number)
        for one in [one for one, kernel in context.kernels.items() if kernel.placement is placed]:
            del context.kernels[one]

    def module(self, context: Context, number: int) -> Placement:
        """Returns a module by its number."""
        if number not in context.modules:
            raise CudaError(_INVALID_HANDLE)
        return context.modules[number]

    def find_kernel(self, context: Context, number: int, name: str) -> tuple[int, LoadedKernel]:
        """Finds a kernel of a module by its name; returns its number and the kernel."""
        placed = self.module(context, number)
        if name not in placed.module.kernels:
            names = ", ".join(placed.module.kernels) or "no kernel"
            raise CudaError(
                _NOT_FOUND, f"cuModuleGetFunction: no kernel {name}, the module has {names}"
            )
        made = LoadedKernel(placed, placed.module.kernels[name])
        found = next(self._numbers)
        context.kernels[found] = made
        return found, made

    def kernel(self, context: Context, number: int) -> LoadedKernel:
        """Returns a kernel by its number."""
        if number not in context.kernels:
            raise CudaError(_INVALID_HANDLE)
        return context.kernels[number]

    def most_threads(self, kernel: EntryPoint) -> int:
        """Returns the most threads that a block of the kernel can have."""
        return most_threads(kernel, self._runner.params)

    def blocks(self, kernel: EntryPoint, threads: int, dynamic_shared: int) -> int:
        """Returns the number of blocks of this many threads that run at a time."""
        if not threads or threads > self.attributes[1]:
            return 0
        return blocks_at_a_time(kernel, self._runner.params, threads, dynamic_shared)

    # Launches.

    def launch(
        self,
        context: Context,
        loaded: LoadedKernel,
        parameters: bytes,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        check: Callable[[], object] = lambda: None,
    ) -> Output:
        """Runs a grid to its end; returns what it has printed.

        An error of the kernel becomes the context's. ``check`` is called repeatedly while the grid
        runs; an exception that it raises ends the launch.

        Raises:
            CudaError: The kernel cannot be launched.
        """
        kernel, placed = loaded.kernel, loaded.placement
        if (wrong := self._wrong_shape(grid, block)) is not None:
            raise CudaError(_INVALID_VALUE, f"kernel {kernel.name}: {wrong}")

        def make(local: int, crs: int | None) -> Launch:
            return placed.launch(
                kernel,
                parameters,
                grid=grid,
                block=block,
                dynamic_shared=dynamic_shared,
                local=local,
                crs=crs,
            )

        made = self._sized(make, context, kernel)
        if self._stopped:
            raise CudaError(LAUNCH_FAILED, f"kernel {kernel.name}: the device was stopped")
        number = len(self.launches) + 1
        outcome, seconds = self._run(made.on(self._runner.params), number, check)
        self.cycles += outcome.cycles
        output = output_of(self.memory, placed.output)
        if placed.output is not None:
            empty_output(self.memory, placed.output)
        context.error = self._result(outcome, output)
        message = (
            with_readable_kernels(self._why(kernel.name, outcome, output)) if context.error else ""
        )
        self.launches.append(
            LaunchRecord(
                kernel.name,
                grid,
                block,
                replace(outcome, report=""),
                seconds,
                context.error,
                message,
                tuple(output.failed),
            )
        )
        if message:
            print(f"warpstack: launch {number}: {message}", file=sys.stderr)
        return output

    def _sized(
        self, make: Callable[[int, int | None], Launch], context: Context, kernel: EntryPoint
    ) -> Launch:
        """Returns a launch for which the machine has room, with the stack sizes that its context
        requests; CudaError if there is none.
        """
        params = self._runner.params
        try:
            made = self._runner.sized(make, max(kernel.local, context.limits[_STACK_LIMIT]), kernel)
        except ProgramError as error:
            raise CudaError(_INVALID_VALUE, str(error)) from error
        except OutOfMemoryError as error:
            raise CudaError(_OUT_OF_MEMORY) from error
        if (why := lacking(made, params)) is not None:
            hint = preset_hint(lambda params: lacking(made, params) is None)
            raise CudaError(
                _OUT_OF_RESOURCES, f"kernel {kernel.name}: {why[0]}, the machine has {why[1]}{hint}"
            )
        return made

    def _run(self, made: Launch, number: int, check: Callable[[], object]) -> tuple[Outcome, float]:
        """Runs a launch, on the observed machine if it is to be recorded; returns its outcome, and
        its duration in seconds.
        """
        recording = (
            self._recording
            if self._recording is not None and self._recording.number == number
            else None
        )
        runner, begin = self._runner, time.monotonic()

        def progress(cycles: int) -> None:
            check()
            self._progress(number, cycles)

        try:
            if recording is not None:
                runner = recording.runner()
                # The construction of the machine is not part of the launch
                begin = time.monotonic()
            outcome = runner.run(made, self._limit, progress)
        except OutOfMemoryError as error:
            raise CudaError(_OUT_OF_MEMORY) from error
        except CommandError as error:
            if recording is not None:
                recording.failure = str(error)
            raise CudaError(LAUNCH_FAILED, str(error)) from error
        except LaunchInterrupted as request:
            outcome = request.outcome
        seconds = time.monotonic() - begin
        if recording is not None:
            recording.finish(made.kernel.name, outcome)
        return outcome, seconds

    def stop(self, signal: int) -> None:
        """Ends the running launch, which keeps its partial results; later launches fail."""
        if not self._stopped:
            self._stopped = True
            stop_threads(signal)

    def _wrong_shape(self, grid: tuple[int, int, int], block: tuple[int, int, int]) -> str | None:
        """Returns the reason why no launch on this machine can have this grid and block; None if
        one can.
        """
        limits, held = self.attributes, self._runner.params.warps
        threads = block[0] * block[1] * block[2]
        warps = -(-threads // WARP_THREADS)
        for what, sizes, first in (("block", block, 2), ("grid", grid, 5)):
            shape = ",".join(map(str, sizes))
            if min(sizes) < 1:
                return f"a {what} of {shape}: sizes are from 1 on"
            if what == "block" and threads > MOST_THREADS:
                return f"a block of {threads} threads, the most are {MOST_THREADS}"
            if what == "block" and threads > limits[1]:
                hint = preset_hint(lambda params: params.warps >= warps)
                return f"a block of {threads} threads needs {warps} warps, the machine has {held}{hint}"
            most = [limits[first + axis] for axis in range(3)]
            if any(size > limit for size, limit in zip(sizes, most, strict=True)):
                return f"a {what} of {shape}, the most are {','.join(map(str, most))}"
        return None

    @staticmethod
    def _result(outcome: Outcome, output: Output) -> int:
        """Returns the outcome of a launch as CUDA's result."""
        if output.failed:
            return _ASSERT
        if outcome.status == "ok":
            return 0
        if outcome.status == "interrupted":
            return LAUNCH_FAILED
        if outcome.status == "timeout":
            return _TIMEOUT
        if outcome.error is not None and outcome.error.error is not WarpError.NONE:
            return result_of_warp_error(outcome.error.error)
        return LAUNCH_FAILED

    @staticmethod
    def _why(kernel: str, outcome: Outcome, output: Output) -> str:
        """Returns the line with the reason why a launch failed."""
        if output.failed:
            return output.failed[0]
        if outcome.status == "interrupted":
            return f"kernel {kernel}: interrupted after {outcome.cycles:,} cycles"
        if outcome.difference is not None:
            return f"kernel {kernel}: {outcome.difference}"
        if outcome.error is not None:
            return str(outcome.error)
        return f"kernel {kernel}: {outcome.status}: {outcome.reason or 'no reason is known'}"

    # Contexts.

    def release(self, context: Context) -> None:
        """Frees the resources that a context owns."""
        for address in list(context.allocations):
            self.free(context, address)
        for number in list(context.modules):
            self.unload(context, number)

    def get_limit(self, context: Context, limit: int) -> int:
        """Returns a limit of a context."""
        if limit not in context.limits:
            raise CudaError(_UNSUPPORTED_LIMIT)
        return context.limits[limit]

    def set_limit(self, context: Context, limit: int, value: int) -> None:
        """Sets a limit of a context. The sizes of kernel output and heap apply to modules that are
        loaded later.
        """
        self.get_limit(context, limit)
        context.limits[limit] = value
