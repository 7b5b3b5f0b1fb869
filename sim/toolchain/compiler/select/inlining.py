"""Inline expansion of functions of the runtime library (:mod:`sim.toolchain.compiler.library`)."""

from collections.abc import Callable, Mapping

from sim.toolchain.compiler.ir import PT, Source, Value
from sim.toolchain.compiler.library import is_called
from sim.toolchain.ptx.module import (
    FunctionRef,
    PtxFunction,
    PtxLabel,
    PtxRegister,
    PtxVariable,
)

from .builder import Builder, select

__all__ = ["Words", "copy_words", "has_branches", "inlined", "is_inlined"]

Words = list[Source]


def _check_quotient(b: Builder, arguments: list[Words], results: list[list[Value]]) -> None:
    """FCHK: whether a quotient in single precision needs the slow path."""
    b.op("FCHK", list(results[0]), *(word for words in arguments for word in words))


_INTRINSICS: Mapping[str, Callable[[Builder, list[Words], list[list[Value]]], None]] = {
    "__fchk_f32": _check_quotient,
}
"""Functions of the library that are machine instructions without a PTX equivalent."""


def is_inlined(b: Builder, name: str) -> bool:
    """Whether a call of this function is inlined."""
    return name in b.library and not is_called(b.library[name])


def has_branches(function: PtxFunction, library: Mapping[str, PtxFunction]) -> bool:
    """Whether a function's body, with the functions inlined in it, has several blocks."""
    for item in function.body or ():
        if isinstance(item, PtxLabel):
            return True
        target = item.call.target if item.call is not None else None
        if isinstance(target, FunctionRef):
            inner = library[target.name]
            if not is_called(inner) and has_branches(inner, library):
                return True
    return False


def inlined(b: Builder, function: PtxFunction, arguments: list[Words]) -> list[Words]:
    """Selects a function's body at this place.

    Its only ``ret`` must be the last instruction, and it must not write its parameters. The
    operations get the source location of the instruction that they replace.

    Returns:
        The words of each result.
    """
    outer = b.words, b.labels
    b.words, b.labels = {}, {}
    for parameter, words in zip(function.parameters, arguments, strict=True):
        registers = _registers(b, parameter)
        copy_words(b, registers, words)
        for register, word in zip(registers, words, strict=False):
            if isinstance(word.operand, int):
                b.numbers[register] = word
    results = [_registers(b, result) for result in function.results]
    if function.name in _INTRINSICS:
        _INTRINSICS[function.name](b, arguments, results)
    else:
        assert function.body is not None
        for item in function.body[:-1]:
            select(b, item)
    b.words, b.labels = outer
    return [[Source(word) for word in words] for words in results]


def _registers(b: Builder, parameter: PtxRegister | PtxVariable) -> list[Value]:
    assert isinstance(parameter, PtxRegister)
    return b.registers(parameter)


def copy_words(b: Builder, registers: list[Value], words: Words) -> None:
    """Copies as many words as there are registers, or a predicate."""
    if registers[0].predicate:
        b.op("PSETP", [registers[0], None], words[0], PT, PT)
    else:
        b.move(list(registers), words[: len(registers)])
