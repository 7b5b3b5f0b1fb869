"""Runs compiled PTX text on the warp model and on the thread model."""

from collections.abc import Mapping

from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.regalloc.color import REGISTERS
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ended import on_threads, on_warps
from testbench.kernels.manifest import BufferSpec, Run
from testbench.words import contents


def compiled(text: str, registers: int = REGISTERS) -> Module:
    """Returns the program compiled from PTX text."""
    return load(assemble(compile_module(parse_ptx(text, "test.ptx"), registers), "test"))


def arguments(run: Run, values: Mapping[str, int]) -> list[Argument]:
    """Returns the arguments of a kernel of the manifest, with some numbers replaced."""
    return [
        Buffer(spec.name, spec.content.tobytes())
        if isinstance(spec, BufferSpec)
        else Scalar(values.get(spec.name, spec.values["O3"]), spec.dtype.itemsize)
        for spec in run.arguments
    ]


def words_left(
    module: Module, threads: int, words: int, *values: int, content: bytes = b"", alone: bool = True
) -> list[int]:
    """Returns the words of the first buffer after a launch with it and some numbers.

    If ``alone`` is true, the thread model must leave the same words.
    """

    def launch() -> Launch:
        arguments: list[Argument] = [
            Buffer("out", content + bytes(4 * words - len(content))),
            *(Scalar(value, 4) for value in values),
        ]
        return prepare(module, arguments, block=(threads, 1, 1))

    found = contents(on_warps(launch(), 400_000), "out")
    assert not alone or contents(on_threads(launch()), "out") == found
    return found
