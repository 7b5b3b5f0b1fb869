"""The machine from Python, for tests and notebooks::

    import numpy as np
    from sim import Machine

    scale = Machine().load('''
    extern "C" __global__ void scale(float factor, float *values) { values[threadIdx.x] *= factor; }
    ''')
    values = np.arange(32, dtype=np.float32)
    run = scale(2.5, values, block=32)
    print(run.status, run.cycles, values)

A program is a file, or a text: CUDA C++, PTX or SASS. Arrays are a kernel's buffers, and have afterwards what the
kernel has left there. ``start`` goes step by step. What can't be run is a ProgramError, one line that says why.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rtl.isa.control_code import instruction_address
from rtl.isa.syntax import PT
from rtl.params import PRESETS, SmParams
from sim.engine import choose
from sim.launch import Argument, Buffer, Launch, Scalar, Structure, lacking, prepare
from sim.launch.arguments import TYPE_BYTES
from sim.launch.instructions import check_instructions
from sim.launch.memory import Memory
from sim.launch.programs import read_program
from sim.machine.comparison import Difference
from sim.machine.hardware import Hardware
from sim.machine.warp_state import WarpState, state_of
from sim.model.retirement import Retirement
from sim.model.state import Warp
from sim.model.warp import Machine as WarpModel
from sim.report.hardware import describe_hardware
from sim.report.output import output_of
from sim.report.run import describe
from sim.toolchain.module import Kernel as Entry
from sim.toolchain.module import Module, Parameter, ProgramError
from sim.toolchain.runtime.supply import supplied
from sim.toolchain.spelling import spell
from sim.waves.picture import Row, draw

__all__ = ["DifferenceError", "Kernel", "Machine", "Picture", "Run", "Session", "WarpView"]

MODEL = "model"
"""The engine that is none: the warp model, without time."""
_LIMIT = 10_000_000
_KINDS = {"__global__": ".cu", ".version": ".ptx", ".kernel": ".sass"}
"""What a program's text has in it, and the suffix of such a file."""
_FLOATS = {4: "<f", 8: "<d"}
_KINDS_OF_NUMBERS = {"u": "u", "i": "s", "f": "f"}
"""Letters of types by those of numpy."""
_Dimensions = int | Sequence[int]


class DifferenceError(Exception):
    """The hardware has done something else than the warp model: the first difference. One of both is wrong."""

    def __init__(self, difference: Difference | str) -> None:
        super().__init__(str(difference))


@dataclass(frozen=True)
class Picture:
    """A picture that notebooks show: ``svg`` is its text."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes it to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """How a kernel ended.

    ``status`` is ``ok``, ``error`` or ``timeout``. ``cycles`` are 0 on the warp model, which has no time; ``counters``
    are those of the hardware by name, none on the model. ``printed`` is what the kernel has printed. ``report`` says
    all of it as text. ``vcd`` is where the waveform is, if there is one.
    """

    status: str
    cycles: int
    instructions: int
    counters: Mapping[str, int]
    printed: str
    report: str
    vcd: Path | None = None

    def __str__(self) -> str:
        return self.report

    def picture(self, *rows: str, first: int = 0, cycles: int = 16, title: str = "") -> Picture:
        """Cycles of the waveform; a row is what ``python -m sim.waves.picture`` takes:
        ``issue.word@issue.valid:hex=word``."""
        if self.vcd is None:
            raise ProgramError("no waveform was written: call the kernel with vcd='FILE.vcd'")
        return Picture(draw(self.vcd, [Row.parse(row) for row in rows], first, cycles, title))


class Machine:
    """A multiprocessor.

    Parameters:
        preset: Its name, one of PRESETS, or its knobs.
        engine: What simulates it: ``auto``, ``compiled``, ``pysim``, or ``model``, the warp model in its place.
        check: Whether every instruction is compared with the warp model; DifferenceError at the first that differs.
    """

    def __init__(self, preset: str | SmParams = "default", *, engine: str = "auto", check: bool = False) -> None:
        if isinstance(preset, str) and preset not in PRESETS:
            raise ValueError(f"no preset {preset}: there are {', '.join(PRESETS)}")
        self.params = PRESETS[preset] if isinstance(preset, str) else preset
        self.name = preset if isinstance(preset, str) else "of its own"
        self.check = check
        self._engine = None if engine == MODEL else choose(engine)[0]

    def load(self, program: str | Path, kernel: str | None = None) -> "Kernel":
        """A kernel of a program: of a file (.cubin, .ptx, .sass, .cu) or a text. ``kernel`` is its name, not needed
        when there is only one."""
        module = supplied(_module(program))
        entry = module.kernel(kernel)
        check_instructions(module, entry, self.name, self.params)
        return Kernel(self, module, entry)

    def hardware(self, vcd: Path | None = None) -> Hardware | None:
        """What simulates it; made once, but for a waveform. None: the warp model does."""
        if self._engine is None:
            return None
        return self._kept if vcd is None else Hardware(self.params, self._engine, check=self.check, vcd=vcd)

    @cached_property
    def _kept(self) -> Hardware:
        assert self._engine is not None
        return Hardware(self.params, self._engine, check=self.check)


class Kernel:
    """A kernel of a program, which is called with its parameters.

    A parameter is a numpy array, whose content is a buffer and whose address is passed; or a number: of numpy as it is,
    of Python in the parameter's size.

    Attributes:
        name: Its name.
        sizes: Bytes of each parameter.
    """

    def __init__(self, machine: Machine, module: Module, entry: Entry) -> None:
        self._machine, self._module, self._entry = machine, module, entry
        self.name = entry.name
        self._parameters = sorted(entry.parameters, key=lambda one: one.ordinal)
        self.sizes = tuple(one.size for one in self._parameters)

    def __call__(self, *arguments: Any, grid: _Dimensions = 1, block: _Dimensions = 32, shared: int = 0,
                 vcd: str | Path | None = None, limit: int = _LIMIT,
                 progress: Callable[[int], object] = lambda cycles: None) -> Run:
        """Runs the kernel to its end; then arrays have what it has left in them, but for those that can't be written.

        Parameters:
            grid, block: CTAs, and threads of a CTA: a number, or up to three.
            shared: Bytes of dynamic shared memory.
            vcd: Where a waveform goes, with a save file for GTKWave beside it.
            limit: Cycles, on the warp model instructions, after which the run is given up.
            progress: Is told of cycles as they pass.
        """
        launch = self._launch(arguments, grid, block, shared)
        path = None if vcd is None else Path(vcd)
        hardware = self._machine.hardware(path)
        if hardware is None:
            if path is not None:
                raise ProgramError("a waveform needs hardware, which the engine model does not have")
            return Session(launch, arguments, self._machine.params).run(limit)
        result = hardware.run(launch, limit, progress)
        if (lockstep := hardware.lockstep) is not None:
            different = lockstep.difference or (
                lockstep.compare_memory(hardware.memory) if result.status == "ok" else None)
            if different is not None:
                raise DifferenceError(different)
        _take_back(arguments, launch, hardware.memory)
        return Run(result.status, result.cycles, result.instructions, result.counters,
                   output_of(hardware.memory, launch.output).text, describe_hardware(launch, hardware, result, None),
                   path)

    def start(self, *arguments: Any, grid: _Dimensions = 1, block: _Dimensions = 32, shared: int = 0) -> "Session":
        """Starts the kernel on the warp model, to go step by step: what the hardware is compared with, instruction by
        instruction."""
        return Session(self._launch(arguments, grid, block, shared), arguments, self._machine.params)

    def _launch(self, arguments: Sequence[Any], grid: _Dimensions, block: _Dimensions, shared: int) -> Launch:
        if len(arguments) != len(self.sizes):
            raise ProgramError(f"kernel {self.name} takes {len(self.sizes)} arguments, not {len(arguments)}")
        given = [_argument(value, parameter)
                 for value, parameter in zip(arguments, self._parameters, strict=True)]
        launch = replace(prepare(self._module, given, entry=self.name, grid=_three(grid), block=_three(block),
                                 dynamic_shared=shared), floats=self._machine.params.floats,
                         doubles=self._machine.params.doubles)
        if (why := lacking(launch, self._machine.params)) is not None:
            raise ProgramError(f"{why[0]}, the machine ({self._machine.name}) has {why[1]}")
        return launch


@dataclass(frozen=True)
class WarpView:
    """A warp between two steps."""

    _warp: Warp
    _launch: Launch

    @property
    def pc(self) -> int:
        """The address of its next instruction."""
        return instruction_address(self._warp.pc)

    @property
    def next(self) -> str:
        """Its next instruction."""
        word = self._launch.memory.read_number(self._launch.program_base + self.pc, 8)
        return spell(word, self.pc)

    @property
    def state(self) -> WarpState:
        """Masks of threads, and the tokens of its stack."""
        return state_of(self._warp)

    @property
    def masks(self) -> dict[str, int]:
        """Masks by name: ``active``, and why other threads are not."""
        masks = self._warp.masks
        return {name: getattr(masks, name) for name in masks.__slots__}

    @property
    def registers(self) -> np.ndarray[Any, Any]:
        """A row a register, a column a thread: uint32, 256 by 32."""
        return np.array(self._warp.rows, np.uint32)

    @property
    def predicates(self) -> np.ndarray[Any, Any]:
        """P0 to P6: bool, 7 by 32."""
        return np.array([[mask >> thread & 1 for thread in range(32)] for mask in self._warp.predicates[:PT]], bool)

    def __str__(self) -> str:
        return "\n".join([f"next          {self.pc:#06x}  {self.next}", *self.state.lines()])


class Session:
    """A kernel on the warp model, step by step."""

    def __init__(self, launch: Launch, arguments: Sequence[Any], params: SmParams) -> None:
        self._launch, self._arguments = launch, arguments
        self._model = WarpModel(launch, warps=params.warps, stack_tokens=params.stack_tokens)

    @property
    def warps(self) -> dict[int, WarpView]:
        """Those that have not ended, by their slots."""
        return {warp.slot: WarpView(warp, self._launch) for warp in self._model.live}

    def step(self, warp: int | None = None) -> Retirement | None:
        """Executes an instruction of a warp, or of the one whose turn it is; returns what it did, None when nobody can
        go on."""
        if warp is None:
            return self._model.step()
        if warp not in self.warps:
            raise ProgramError(f"there is no warp {warp}: there are {', '.join(map(str, self.warps)) or 'none'}")
        return self._model.retire(warp)

    def run(self, limit: int = _LIMIT) -> Run:
        """Executes the rest; then arrays have what the kernel has left in them."""
        result = self._model.run(limit)
        _take_back(self._arguments, self._launch, self._model.memory)
        return Run(result.status, 0, result.instructions, {}, output_of(self._model.memory, self._launch.output).text,
                   describe(self._model, result))


def _module(program: str | Path) -> Module:
    """The program of a file, or of a text, which has more than a line."""
    if isinstance(program, Path) or "\n" not in program:
        return read_program(str(program))
    suffix = next((suffix for mark, suffix in _KINDS.items() if mark in program), None)
    if suffix is None:
        raise ProgramError("the text is no program: CUDA C++ has __global__ in it, PTX .version, SASS .kernel")
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
    return f"argument {number}"


def _argument(value: Any, parameter: Parameter) -> Argument:
    """What a parameter gets."""
    number, size = parameter.ordinal, parameter.size

    def wrong(why: str) -> ProgramError:
        return ProgramError(f"{_buffer_name(number)}: {why}")

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
            return Scalar(int.from_bytes(struct.pack(_FLOATS[size], value), "little"), size, f"f{8 * size}")
        except OverflowError:
            raise wrong(f"{value} is too large for {size} bytes") from None
    if isinstance(value, int):
        if not -1 << 8 * size - 1 <= value < 1 << 8 * size:
            raise wrong(f"{value} does not fit into {size} bytes")
        return Scalar(int(value), size, f"s{8 * size}")
    raise wrong(f"{type(value).__name__} is neither an array nor a number")


def _type_name(dtype: np.dtype[Any]) -> str | None:
    """The type of numbers, None where there is no such one."""
    name = f"{_KINDS_OF_NUMBERS.get(dtype.kind, '')}{8 * dtype.itemsize}"
    return name if name in TYPE_BYTES else None


def _take_back(arguments: Sequence[Any], launch: Launch, memory: Memory) -> None:
    """Gives arrays what is in their buffers."""
    for number, value in enumerate(arguments):
        if isinstance(value, np.ndarray) and value.flags.writeable and value.size:
            base, size = launch.buffers[_buffer_name(number)]
            value[...] = np.frombuffer(memory.read(base, size), value.dtype).reshape(value.shape)
