"""Arguments of kernels, and their encoding in the parameter block."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sim.launch.memory import Memory
from sim.toolchain.module import EntryParameter, ProgramError

__all__ = [
    "ADDRESS_BYTES",
    "Argument",
    "ArgumentCountError",
    "Buffer",
    "Scalar",
    "Structure",
    "argument_bytes",
    "parameter_block",
    "place_buffers",
]

ADDRESS_BYTES = 8
"""Size of a buffer's address in bytes."""


@dataclass(frozen=True)
class Scalar:
    """A parameter passed by value: ``size`` bytes of ``value``.

    Attributes:
        type: Type of the number (u32, f64), None or b32 for bits of any type.
    """

    value: int
    size: int
    type: str | None = None


@dataclass(frozen=True)
class Buffer:
    """A global buffer; the parameter is its 64-bit address. ``type`` is that of its elements, None
    if unknown.
    """

    name: str
    content: bytes
    type: str | None = None


@dataclass(frozen=True)
class Structure:
    """A structure or array passed by value: bytes, into which the addresses of ``buffers`` are
    inserted at their offsets.
    """

    content: bytes
    buffers: tuple[tuple[int, Buffer], ...] = ()


Argument = Scalar | Buffer | Structure


def place_buffers(arguments: Iterable[Argument], memory: Memory, program: str) -> dict[str, Buffer]:
    """Maps the buffers of the arguments in a memory, as regions with their names; returns them.

    Raises ProgramError if a name is taken.
    """
    found: dict[str, Buffer] = {}
    for argument in arguments:
        inner = [argument] if isinstance(argument, Buffer) else []
        if isinstance(argument, Structure):
            inner = [buffer for _, buffer in argument.buffers]
        for buffer in inner:
            if buffer.name in memory.regions:
                raise ProgramError(f"{program}: two buffers are called {buffer.name}")
            memory.write(memory.allocate(buffer.name, len(buffer.content)), buffer.content)
            found[buffer.name] = buffer
    return found


def argument_bytes(argument: Argument, addresses: Mapping[str, int]) -> bytes:
    """Encodes an argument for the parameter block. ``addresses`` are those of buffers."""
    match argument:
        case Scalar(value, size):
            return (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        case Buffer(name):
            return addresses[name].to_bytes(ADDRESS_BYTES, "little")
        case Structure(content, buffers):
            block = bytearray(content)
            for place, buffer in buffers:
                block[place : place + ADDRESS_BYTES] = addresses[buffer.name].to_bytes(
                    ADDRESS_BYTES, "little"
                )
            return bytes(block)


class ArgumentCountError(ProgramError):
    """More or fewer arguments than the kernel has parameters."""


def parameter_block(
    arguments: list[Argument],
    parameters: Iterable[EntryParameter],
    addresses: Mapping[str, int],
    kernel: str,
    *,
    first: int = 1,
) -> bytes:
    """Returns the parameter block of a kernel.

    Args:
        arguments: The arguments.
        parameters: The kernel's parameters.
        addresses: Addresses of buffers by name.
        kernel: Name of the kernel, with which messages begin.
        first: Number of the first argument in messages.

    Raises:
        ProgramError: The arguments differ from the parameters in number, size or type.
    """
    ordered = sorted(parameters, key=lambda parameter: parameter.ordinal)
    if len(arguments) != len(ordered):
        sizes = [str(parameter.size) for parameter in ordered]
        size_text = f" ({', '.join(sizes)} byte{'s' * (sizes != ['1'])})" if sizes else ""
        raise ArgumentCountError(
            f"{kernel} takes {len(ordered)} argument{'s' * (len(ordered) != 1)}{size_text}, "
            f"not {len(arguments)}"
        )
    block = bytearray(max((parameter.offset + parameter.size for parameter in ordered), default=0))
    for number, (parameter, argument) in enumerate(zip(ordered, arguments, strict=True), first):
        place = f"{kernel}, argument {number}"
        if parameter.name is not None:
            place += f" ({parameter.name})"
        content = argument_bytes(argument, addresses)
        if len(content) != parameter.size:
            raise ProgramError(
                f"{place}: expected {parameter.size} byte{'s' * (parameter.size != 1)}, got {len(content)}"
            )
        if (why := _other_type(parameter.type, argument)) is not None:
            raise ProgramError(f"{place}: {why}")
        block[parameter.offset : parameter.offset + parameter.size] = content
    return bytes(block)


def _other_type(expected: str | None, argument: Argument) -> str | None:
    """Describes why an argument's type does not match a parameter; None if it matches.

    A floating-point number is not accepted as an integer, nor an integer as a floating-point
    number. Bits are accepted as both.
    """
    match argument:
        case Scalar(_, _, str(found)):
            named = found
        case Buffer():
            found, named = "u64", "the address of a buffer"
        case _:
            return None
    if (
        expected is None
        or "b" in (expected[0], found[0])
        or (expected[0] == "f") == (found[0] == "f")
    ):
        return None
    bits = (
        "" if isinstance(argument, Buffer) else f" (bits of any type: b{8 * argument.size}:0x...)"
    )
    return f"expected {expected}, got {named}{bits}"
