"""Compiled PTX text on the reference machine and on the thread oracle."""

import struct
from collections.abc import Mapping

from sim.kernels.manifest import BufferSpec, Run
from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.model.thread import run as run_threads
from sim.model.warp import Machine
from sim.toolchain.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.allocate import REGISTERS
from sim.toolchain.cubin import load
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx


def compiled(text: str, registers: int = REGISTERS) -> Module:
    """The program that PTX text becomes."""
    return load(assemble(compile_module(parse_ptx(text, "test.ptx"), registers), "test"))


def arguments(run: Run, values: Mapping[str, int]) -> list[Argument]:
    """What a kernel of the manifest is launched with, some numbers replaced."""
    return [Buffer(spec.name, spec.content.tobytes()) if isinstance(spec, BufferSpec)
            else Scalar(values.get(spec.name, spec.values["O3"]), spec.dtype.itemsize) for spec in run.arguments]


def words_left(module: Module, threads: int, words: int, *values: int, content: bytes = b"",
               oracle: bool = True) -> list[int]:
    """The words in the first buffer after a launch with it and some numbers. With ``oracle`` threads that run alone
    must leave the same.
    """
    def launch() -> Launch:
        arguments: list[Argument] = [Buffer("out", content + bytes(4 * words - len(content))),
                                     *(Scalar(value, 4) for value in values)]
        return prepare(module, arguments, block=(threads, 1, 1))

    def left(finished: Launch) -> list[int]:
        return list(struct.unpack(f"<{words}I", finished.memory.read(*finished.buffers["out"])))

    machine = Machine(launch(), warps=4)
    result = machine.run(400_000)
    assert result.status == "ok", (result.reason, result.error_status)
    found = left(machine.launch)
    if oracle:
        alone = launch()
        run_threads(alone)
        assert left(alone) == found
    return found
