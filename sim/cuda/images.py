"""Images of programs as CUDA programs hand them over: PTX text, cubins, fatbins.

A fatbin has several images of one program. Of those for sm_50 a cubin is taken, else the PTX of the newest machine
that is not newer than sm_50. Fields of its headers are from what NVIDIA's and LLVM's tools write.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sim.cuda.errors import CudaError
from sim.engine.cache import cache_folder, is_on, store
from sim.engine.cache import load as load_kept
from sim.toolchain.compiler.allocate import REGISTERS
from sim.toolchain.cubin import load
from sim.toolchain.elf_reader import read_object
from sim.toolchain.elf_writer import write_object
from sim.toolchain.from_ptx import compiled_object
from sim.toolchain.module import Module, ProgramError
from sim.toolchain.object_file import ObjectFile
from sim.toolchain.ptx.front_end import parse_ptx

__all__ = ["link_images", "module_of"]

_ELF = b"\x7fELF"
_FATBIN = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQI4x4xI8xQ8xQ")
"""Kind, version, header's size, size, compressed size, architecture, flags, size when decompressed."""
_PTX, _CUBIN = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000
_TARGET = 50
_INVALID_IMAGE, _NO_BINARY, _INVALID_PTX = 200, 209, 218


@dataclass(frozen=True)
class _Image:
    """One image of a fatbin."""

    kind: int
    target: int
    content: bytes


def _decompressed(content: bytes, flags: int, size: int) -> bytes:
    """The content of an entry, by the libraries for its compression."""
    name = "lz4.block" if flags & _LZ4 else "zstandard"
    try:
        library: Any = import_module(name)
    except ImportError:
        raise CudaError(_INVALID_IMAGE, "the fatbin is compressed: pip install -e '.[fatbin]'") from None
    if flags & _LZ4:
        return library.decompress(content, uncompressed_size=size)
    return library.ZstdDecompressor().decompress(content, max_output_size=size)


def _entries(content: bytes) -> Iterator[_Image]:
    """The images of a fatbin; CudaError where it is damaged."""
    try:
        _, _, at, _ = _HEADER.unpack_from(content)
        while at + _ENTRY.size <= len(content):
            kind, _, header, size, compressed, target, flags, whole = _ENTRY.unpack_from(content, at)
            body = content[at + header:at + header + (compressed if flags & (_LZ4 | _ZSTD) else size)]
            if not header:
                break
            yield _Image(kind, target, _decompressed(body, flags, whole) if flags & (_LZ4 | _ZSTD) else body)
            at += header + size
    except (struct.error, ValueError, RuntimeError) as error:
        raise CudaError(_INVALID_IMAGE, f"the fatbin is damaged: {error}") from error


def _chosen(content: bytes) -> bytes:
    """The image of a fatbin that this machine takes."""
    images = list(_entries(content))
    for image in images:
        if image.kind == _CUBIN and image.target == _TARGET:
            return image.content
    fitting = [image for image in images if image.kind == _PTX and image.target <= _TARGET]
    if not fitting:
        targets = ", ".join(sorted({f"sm_{image.target}" for image in images})) or "nothing"
        raise CudaError(_NO_BINARY, f"the fatbin has no code for sm_50: it has {targets}")
    return max(fitting, key=lambda image: image.target).content


def _text(content: bytes) -> str | None:
    """PTX text; None for what is none."""
    try:
        text = content.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    return text if ".version" in text else None


def _registers(limit: int) -> int:
    return min(limit, REGISTERS) if limit else REGISTERS


def _compiled(text: str, limit: int) -> ObjectFile:
    """The object file of PTX text."""
    try:
        return compiled_object(parse_ptx(text, "PTX"), "PTX", _registers(limit))
    except ProgramError as error:
        raise CudaError(_INVALID_PTX, str(error)) from error


@cache
def _toolchain() -> bytes:
    """A digest of the compiler: its sources, and those of the machine language."""
    root = Path(__file__).parents[2]
    files = [path for folder in ("sim/toolchain", "rtl/isa") for path in sorted((root / folder).rglob("*"))
             if path.suffix in (".py", ".lark", ".ptx")]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).digest()


def _program(text: str, limit: int) -> Module:
    """The program of PTX text. What was compiled once is kept in the cache, found by text and compiler."""
    key = hashlib.sha256(b"\0".join((text.encode(), str(limit).encode(), _toolchain()))).hexdigest()
    place = cache_folder() / f"{key[:24]}.cubin"
    content = load_kept(place) if is_on() else None
    if content is None:
        content = write_object(_compiled(text, limit))
        if is_on():
            with suppress(OSError):     # a folder that can't be written: it is compiled again next time
                store(place, content)
    return load(read_object(content, "PTX"))


def module_of(content: bytes, max_registers: int = 0) -> Module:
    """The program of an image. ``max_registers`` limits those of a thread in compiled PTX, 0 does not. CudaError where
    there is none, with the line that says why."""
    if len(content) >= _HEADER.size and _HEADER.unpack_from(content)[0] == _FATBIN:
        content = _chosen(content)
    try:
        if content.startswith(_ELF):
            return load(read_object(content, "cubin"))
        if (text := _text(content)) is not None:
            return _program(text, max_registers)
    except ProgramError as error:
        raise CudaError(_INVALID_IMAGE, str(error)) from error
    raise CudaError(_INVALID_IMAGE, "the image is no PTX text, cubin or fatbin")


def link_images(images: Sequence[bytes], max_registers: int = 0) -> bytes:
    """One image of several: texts of PTX are compiled as one, a single cubin stays as it is."""
    texts = [text for image in images if (text := _text(image)) is not None]
    if len(images) == 1 and not texts:
        return bytes(images[0])
    if len(texts) != len(images):
        raise CudaError(_INVALID_IMAGE, "cubins and PTX are not linked with each other")
    return write_object(_compiled(joined_texts(texts), max_registers))


def joined_texts(texts: Sequence[str]) -> str:
    """Several PTX texts as one: the directives for the whole file only once, declarations of what another text
    defines left to the compiler."""
    if len(texts) == 1:
        return texts[0]
    kept: list[str] = []
    for number, text in enumerate(texts):
        for line in text.splitlines():
            word = line.split(maxsplit=1)[0] if line.strip() else ""
            if number and word in (".version", ".target", ".address_size"):
                continue
            kept.append(line)
    return "\n".join(kept) + "\n"
