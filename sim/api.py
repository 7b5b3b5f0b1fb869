"""The machine from Python, for tests and notebooks::

    import numpy as np
    from sim import Machine

    scale = Machine().load('''
    extern "C" __global__ void scale(float factor, float *values) { values[threadIdx.x] *= factor; }
    ''')
    values = np.arange(32, dtype=np.float32)
    run = scale(2.5, values, block=32)
    print(run.status, run.cycles, values)

A program is a file, or a text: CUDA C++, PTX or SASS. Arrays are a kernel's buffers, and hold its
results after a launch; arrays of ``Machine.array`` stay in the machine's memory between launches.
``start`` runs a kernel step by step. A program or launch that cannot be run raises ProgramError,
one line with the reason.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import numpy as np

from rtl.isa.control_code import instruction_address
from rtl.isa.syntax import PT
from rtl.params import PRESETS, SmParams
from sim.engine import choose
from sim.launch import Argument, Buffer, Launch, Scalar, Structure, lacking, place
from sim.launch.arguments import TYPE_BYTES
from sim.launch.instructions import check_instructions
from sim.launch.memory import Memory
from sim.launch.parameters import ADDRESS_BYTES, parameter_block, place_buffers
from sim.launch.programs import read_program
from sim.launch.runtime import empty_output
from sim.launch_options import MODEL
from sim.machine.warp_state import WarpState, state_of
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from sim.model.warp.state import Warp
from sim.report.output import output_of
from sim.runner import (
    HardwareRunner,
    MachineError,
    ModelRunner,
    Outcome,
    Runner,
    outcome_of_model,
    run_model,
)
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.module import EntryParameter, EntryPoint, Module, ProgramError
from sim.toolchain.runtime.supply import supplied
from sim.waves.picture import Row, draw

__all__ = [
    "DeviceArray",
    "DifferenceError",
    "Kernel",
    "Machine",
    "Picture",
    "Run",
    "Session",
    "WarpView",
]

_LIMIT = 10_000_000
_KINDS = {"__global__": ".cu", ".version": ".ptx", ".kernel": ".sass"}
"""The file suffix for a program text, by a word that such a text contains."""
_FLOATS = {4: "<f", 8: "<d"}
_KINDS_OF_NUMBERS = {"u": "u", "i": "s", "f": "f"}
"""Letters of this project's types by numpy's letters."""
_BUFFER = "argument "
"""Prefix of buffer names, before the number of the argument."""
_ARRAY_KINDS = "biufcV"
"""Kinds of numpy's types that an array in the machine's memory can have: numbers, and structures of
these.
"""
_Dimensions = int | Sequence[int]


class DifferenceError(Exception):
    """The first mismatch between the hardware and the warp model. One of them has an error."""

    def __init__(self, difference: str) -> None:
        super().__init__(difference)


@dataclass(frozen=True)
class Picture:
    """A picture that notebooks show. ``svg`` is its text."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes the picture to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """The end of a kernel.

    Attributes:
        status: ``ok``, ``error`` or ``timeout``.
        cycles: Clock cycles; 0 on the warp model, which has no timing.
        counters: The hardware's counters by name; none on the warp model.
        printed: The text that the kernel has printed.
        report: The report as text.
        vcd: Path of the waveform, None without one.
        error: The error of the machine that stopped the kernel, None without one.
    """

    status: str
    cycles: int
    instructions: int
    counters: Mapping[str, int]
    printed: str
    report: str
    vcd: Path | None = None
    error: MachineError | None = None

    def __str__(self) -> str:
        return self.report

    def picture(self, *rows: str, first: int = 0, cycles: int = 16, title: str = "") -> Picture:
        """Draws cycles of the waveform. A row has the syntax of ``python -m sim.waves.picture``:
        ``issue.word@issue.valid:hex=word``.
        """
        if self.vcd is None:
            raise ProgramError("no waveform was written: call the kernel with vcd='FILE.vcd'")
        return Picture(draw(self.vcd, [Row.parse(row) for row in rows], first, cycles, title))


class Machine:
    """A streaming multiprocessor.

    Parameters:
        preset: The name of a preset, one of PRESETS, or parameters.
        engine: The simulation engine: ``auto``, ``compiled``, ``pysim``, or ``model`` for the warp
            model.
        check: Whether every instruction is compared with the warp model; the first mismatch raises
            DifferenceError.
    """

    def __init__(
        self, preset: str | SmParams = "default", *, engine: str = "auto", check: bool = False
    ) -> None:
        if isinstance(preset, str) and preset not in PRESETS:
            raise ValueError(f"no preset {preset}: there are {', '.join(PRESETS)}")
        self.params = PRESETS[preset] if isinstance(preset, str) else preset
        self.name = preset if isinstance(preset, str) else "of its own"
        self.check = check
        self._memory = Memory()
        self._collected: list[Callable[[], object]] = []
        """Functions that free the memory of garbage-collected objects. They are called later, since
        a collection may happen at any time.
        """
        self._engine = None if engine == MODEL else choose(engine)[0]

    def load(self, program: str | Path, kernel: str | None = None) -> "Kernel":
        """Returns a kernel of a program: of a file (.cubin, .ptx, .sass, .cu) or a text.

        ``kernel`` is its name, not needed if there is only one.
        """
        module = supplied(_module(program))
        entry = module.kernel(kernel)
        check_instructions(module, entry, self.name, self.params)
        return Kernel(self, module, entry)

    @property
    def memory(self) -> Memory:
        """The machine's memory; memory of garbage-collected objects is freed first."""
        while self._collected:
            self._collected.pop()()
        return self._memory

    def keep(self, owner: object, free: Callable[[], object]) -> "finalize[..., object]":
        """Has ``free`` called some time after ``owner`` was garbage-collected."""
        watch = finalize(owner, self._collected.append, free)
        watch.atexit = False
        return watch

    def array(self, values: Any) -> "DeviceArray":
        """Returns an array in the machine's memory with these values: a numpy array, or any value
        that numpy converts to one.
        """
        return DeviceArray(self, values)

    def runner(self, vcd: Path | None = None) -> Runner:
        """Returns the runner of launches; made once, except for a waveform."""
        if vcd is None:
            return self._kept
        if self._engine is None:
            raise ProgramError("a waveform needs hardware, which the engine model does not have")
        return HardwareRunner(self.params, self._engine, check=self.check, vcd=vcd)

    @cached_property
    def _kept(self) -> Runner:
        if self._engine is None:
            return ModelRunner(self.params)
        return HardwareRunner(self.params, self._engine, check=self.check)

    @property
    def has_time(self) -> bool:
        """Whether the machine is hardware: the warp model has no cycles."""
        return self._engine is not None


class DeviceArray:
    """An array in a machine's memory, which is freed when it is garbage-collected.
    ``numpy.asarray`` makes a copy.

    Attributes:
        machine: The machine.
        shape: Shape, as of a numpy array.
        dtype: Type of the elements, as of a numpy array.
        nbytes: Size in bytes.
        address: Address of its first byte.
    """

    def __init__(self, machine: Machine, values: Any) -> None:
        content = np.ascontiguousarray(values).reshape(np.shape(values))
        if content.dtype.hasobject or content.dtype.kind not in _ARRAY_KINDS:
            raise ProgramError(f"an array of {content.dtype} has no place in a machine's memory")
        self.machine, self.shape, self.dtype, self.nbytes = (
            machine,
            content.shape,
            content.dtype,
            content.nbytes,
        )
        memory = machine.memory
        self.address = memory.allocate(memory.free_name("array"), self.nbytes)
        self._kept = machine.keep(self, partial(memory.free, self.address))
        memory.write(self.address, content.tobytes())

    @property
    def freed(self) -> bool:
        """Whether :meth:`free` was called."""
        return not self._kept.alive

    def free(self) -> None:
        """Frees the array's memory now, and not when it is garbage-collected."""
        if self._kept.detach() is not None:
            self.machine.memory.free(self.address)

    def _check(self) -> None:
        if self.freed:
            raise ProgramError("the array was freed")

    def get(self) -> np.ndarray[Any, Any]:
        """Returns a copy as a numpy array."""
        self._check()
        content = self.machine.memory.read(self.address, self.nbytes) if self.nbytes else b""
        return np.frombuffer(content, self.dtype).reshape(self.shape).copy()

    def set(self, values: Any) -> None:
        """Overwrites the array with values of the same shape, which are converted as in numpy's
        assignment.
        """
        self._check()
        content = np.empty(self.shape, self.dtype)
        try:
            content[...] = values
        except (TypeError, ValueError) as error:
            raise ProgramError(
                f"an array of shape {self.shape} and type {self.dtype} can't have these values: "
                f"{error}"
            ) from None
        self.machine.memory.write(self.address, content.tobytes())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("numpy has no array of a machine's memory without a copy")
        return self.get().astype(self.dtype if dtype is None else dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        where = "freed" if self.freed else f"at {self.address:#x}"
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, {where})"


class Kernel:
    """A kernel of a program, which is called with its parameters.

    A parameter is an array of :meth:`Machine.array`, whose address is passed; a numpy array, whose
    content is a buffer for the launch; or a number, which has its numpy type, or for Python's
    numbers the size of the parameter. The program stays in the machine's memory, and its global
    variables keep the values that launches store, until the kernel is garbage-collected.

    Attributes:
        name: Its name.
        sizes: Size of each parameter in bytes.
    """

    def __init__(self, machine: Machine, module: Module, entry: EntryPoint) -> None:
        self._machine, self._entry = machine, entry
        self._placed = place(module, machine.memory)
        machine.keep(self, self._placed.release)
        self.name = entry.name
        self._parameters = sorted(entry.parameters, key=lambda one: one.ordinal)
        self.sizes = tuple(one.size for one in self._parameters)

    def __call__(
        self,
        *arguments: Any,
        grid: _Dimensions = 1,
        block: _Dimensions = 32,
        shared: int = 0,
        vcd: str | Path | None = None,
        limit: int = _LIMIT,
        progress: Callable[[int], object] = lambda cycles: None,
    ) -> Run:
        """Runs the kernel to its end. Arrays then hold its results, except those that are
        read-only.

        Parameters:
            grid: CTAs: a number, or up to three.
            block: Threads of a CTA: a number, or up to three.
            shared: Bytes of dynamic shared memory.
            vcd: Path of a waveform, with a save file for GTKWave beside it.
            limit: Cycles, on the warp model instructions, after which the run is aborted.
            progress: Called with the number of cycles since its last call.
        """
        path = None if vcd is None else Path(vcd)
        runner, memory = self._machine.runner(path), self._machine.memory
        with self._launched(arguments, grid, block, shared) as launch:
            outcome = runner.run(launch, limit, progress)
            output = output_of(memory, launch.output)
            if launch.output is not None:
                empty_output(memory, launch.output)
            if outcome.difference is not None:
                raise DifferenceError(outcome.difference)
            _take_back(arguments, launch, memory)
        return _run_of(outcome, output.text, path, timed=self._machine.has_time)

    def start(
        self, *arguments: Any, grid: _Dimensions = 1, block: _Dimensions = 32, shared: int = 0
    ) -> "Session":
        """Starts the kernel on the warp model, the golden model of the hardware, to be run step by
        step.

        It works on a copy of the machine's memory; arrays hold the results when it has ended.
        """
        with self._launched(arguments, grid, block, shared) as launch:
            own = replace(launch, memory=launch.memory.copy())
        return Session(own, arguments, self._machine.params)

    @contextmanager
    def _launched(
        self, arguments: Sequence[Any], grid: _Dimensions, block: _Dimensions, shared: int
    ) -> Iterator[Launch]:
        """A context with the launch, while its numpy arrays are in the machine's memory."""
        if len(arguments) != len(self.sizes):
            raise ProgramError(
                f"kernel {self.name} takes {len(self.sizes)} arguments, not {len(arguments)}"
            )
        specs = [
            _argument(value, parameter, self._machine)
            for value, parameter in zip(arguments, self._parameters, strict=True)
        ]
        memory, program = self._machine.memory, self._placed.module.name
        before = set(memory.regions)
        try:
            found = place_buffers(specs, memory, program)
            buffers = {
                one: (memory.regions[one][0], len(buffer.content)) for one, buffer in found.items()
            }
            types = {one: buffer.type for one, buffer in found.items() if buffer.type is not None}
            for number, value in enumerate(arguments):
                if isinstance(value, DeviceArray):
                    buffers[_buffer_name(number)] = value.address, value.nbytes
                    if (kind := _type_name(value.dtype)) is not None:
                        types[_buffer_name(number)] = kind
            parameters = parameter_block(
                specs,
                self._parameters,
                {one: base for one, (base, _) in buffers.items()},
                f"{program}: kernel {self.name}",
                first=0,
            )
            ordered = {
                one: buffers[one]
                for one in map(_buffer_name, range(len(arguments)))
                if one in buffers
            }
            launch = self._placed.launch(
                self._entry,
                parameters,
                grid=_three(grid),
                block=_three(block),
                dynamic_shared=shared,
                buffers=ordered,
                types=types,
            )
            if (why := lacking(launch, self._machine.params)) is not None:
                raise ProgramError(f"{why[0]}, the machine ({self._machine.name}) has {why[1]}")
            yield launch.on(self._machine.params)
        finally:
            for one in [
                one for one in memory.regions if one not in before and one.startswith(_BUFFER)
            ]:
                memory.free(memory.regions[one][0])


@dataclass(frozen=True)
class WarpView:
    """A warp between two steps."""

    _warp: Warp
    _launch: Launch

    @property
    def pc(self) -> int:
        """Address of the next instruction."""
        return instruction_address(self._warp.pc)

    @property
    def next(self) -> str:
        """Text of the next instruction."""
        word = self._launch.memory.read_number(self._launch.program_base + self.pc, 8)
        return spell(word, self.pc)

    @property
    def state(self) -> WarpState:
        """Masks of threads, and the tokens of the stack."""
        return state_of(self._warp)

    @property
    def masks(self) -> dict[str, int]:
        """Masks by name: ``active``, and the disabled masks."""
        masks = self._warp.masks
        return {name: getattr(masks, name) for name in masks.__slots__}

    @property
    def registers(self) -> np.ndarray[Any, Any]:
        """The registers: uint32, 256 registers by 32 threads."""
        return np.array(self._warp.rows, np.uint32)

    @property
    def predicates(self) -> np.ndarray[Any, Any]:
        """The predicates P0 to P6: bool, 7 by 32 threads."""
        return np.array(
            [[mask >> thread & 1 for thread in range(32)] for mask in self._warp.predicates[:PT]],
            bool,
        )

    def __str__(self) -> str:
        return "\n".join([f"next          {self.pc:#06x}  {self.next}", *self.state.lines()])


class Session:
    """A kernel on the warp model, run step by step."""

    def __init__(self, launch: Launch, arguments: Sequence[Any], params: SmParams) -> None:
        self._launch, self._arguments = launch, arguments
        self._model = WarpModel(launch, warps=params.warps, stack_tokens=params.stack_tokens)

    @property
    def warps(self) -> dict[int, WarpView]:
        """The warps that have not ended, by slot."""
        return {warp.slot: WarpView(warp, self._launch) for warp in self._model.live}

    def step(self, warp: int | None = None) -> Retirement | None:
        """Executes an instruction of a warp, or of the next one; returns its effects, None if no
        warp can continue.
        """
        if warp is None:
            return self._model.step()
        if warp not in self.warps:
            raise ProgramError(
                f"there is no warp {warp}: there are {', '.join(map(str, self.warps)) or 'none'}"
            )
        return self._model.retire(warp)

    def run(self, limit: int = _LIMIT) -> Run:
        """Executes the rest of the kernel; arrays then hold the results."""
        outcome = outcome_of_model(self._model, run_model(self._model, limit))
        _take_back(self._arguments, self._launch, self._model.memory)
        return _run_of(
            outcome, output_of(self._model.memory, self._launch.output).text, None, timed=False
        )


def _run_of(outcome: Outcome, printed: str, vcd: Path | None, *, timed: bool) -> Run:
    """Converts an outcome to the API's form."""
    return Run(
        outcome.status,
        outcome.cycles if timed else 0,
        outcome.instructions,
        outcome.counters,
        printed,
        outcome.report,
        vcd,
        outcome.error,
    )


def _module(program: str | Path) -> Module:
    """Returns the program of a file, or of a text, which is recognised by its line breaks."""
    if isinstance(program, Path) or "\n" not in program:
        return read_program(str(program))
    suffix = next((suffix for mark, suffix in _KINDS.items() if mark in program), None)
    if suffix is None:
        raise ProgramError(
            "the text is no program: CUDA C++ has __global__ in it, PTX .version, SASS .kernel"
        )
    with TemporaryDirectory() as folder:
        path = Path(folder, f"program{suffix}")
        path.write_text(program, encoding="utf-8")
        try:
            return read_program(str(path))
        except ProgramError as error:
            raise ProgramError(str(error).replace(f"{folder}/", "")) from None


def _three(sizes: _Dimensions) -> tuple[int, int, int]:
    parts = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not 1 <= len(parts) <= 3:
        raise ProgramError(f"{sizes!r} is not one, two or three numbers")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def _buffer_name(number: int) -> str:
    return f"{_BUFFER}{number}"


def _argument(value: Any, parameter: EntryParameter, machine: Machine) -> Argument:
    """Converts a value to the argument for a parameter."""
    number, size = parameter.ordinal, parameter.size

    def wrong(why: str) -> ProgramError:
        return ProgramError(f"{_buffer_name(number)}: {why}")

    if isinstance(value, DeviceArray):
        if value.machine is not machine:
            raise wrong("the array is in the memory of another machine")
        if value.freed:
            raise wrong("the array was freed")
        if size != ADDRESS_BYTES:
            raise wrong(f"an array's address has 8 bytes, the parameter {size}")
        return Scalar(value.address, size, "u64")
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise wrong(f"an array of {value.dtype} has no bytes")
        if size != 8:
            raise wrong(f"an array's address has 8 bytes, the parameter {size}")
        return Buffer(_buffer_name(number), value.tobytes() or b"\0", _type_name(value.dtype))
    if isinstance(value, bytes | np.void):
        content = value if isinstance(value, bytes) else value.tobytes()
        if len(content) != size:
            raise wrong(f"{len(content)} bytes are given, the parameter has {size}")
        return Structure(content)
    if isinstance(value, np.generic):
        content = value.tobytes()
        if len(content) != size:
            raise wrong(f"{value.dtype} has {len(content)} bytes, the parameter {size}")
        return Scalar(int.from_bytes(content, "little"), size, _type_name(value.dtype))
    if isinstance(value, int) and parameter.type in ("f32", "f64"):
        value = float(value)
    if isinstance(value, float):
        if size not in _FLOATS:
            raise wrong(f"no floating-point number has {size} bytes")
        try:
            return Scalar(
                int.from_bytes(struct.pack(_FLOATS[size], value), "little"), size, f"f{8 * size}"
            )
        except OverflowError:
            raise wrong(f"{value} is too large for {size} bytes") from None
    if isinstance(value, int):
        if not -1 << 8 * size - 1 <= value < 1 << 8 * size:
            raise wrong(f"{value} does not fit into {size} bytes")
        return Scalar(int(value), size, f"s{8 * size}")
    raise wrong(f"{type(value).__name__} is neither an array nor a number")


def _type_name(dtype: np.dtype[Any]) -> str | None:
    """Returns the name of a number type, None if there is no such type."""
    name = f"{_KINDS_OF_NUMBERS.get(dtype.kind, '')}{8 * dtype.itemsize}"
    return name if name in TYPE_BYTES else None


def _take_back(arguments: Sequence[Any], launch: Launch, memory: Memory) -> None:
    """Copies the content of buffers to their arrays."""
    for number, value in enumerate(arguments):
        if isinstance(value, np.ndarray) and value.flags.writeable and value.size:
            base, size = launch.buffers[_buffer_name(number)]
            value[...] = np.frombuffer(memory.read(base, size), value.dtype).reshape(value.shape)
        elif (
            isinstance(value, DeviceArray)
            and value.nbytes
            and not value.freed
            and value.machine.memory is not memory
        ):
            value.machine.memory.write(value.address, memory.read(value.address, value.nbytes))
