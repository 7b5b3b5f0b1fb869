"""Program images that CUDA programs load: PTX text, cubins, fatbins.

A fatbin has several images of one program. A cubin for sm_50 is selected, else the PTX for the
newest architecture that is not newer than sm_50. The fields of its headers are as NVIDIA's and
LLVM's tools write them.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sim.cuda.compilers import Compiler, JitOptions
from sim.cuda.errors import CudaError
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import Module, ProgramError

__all__ = ["link_images", "module_of"]

_ELF = b"\x7fELF"
_FATBIN = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQI4x4xI8xQ8xQ")
"""Kind, version, header's size, size, compressed size, architecture, flags, decompressed size."""
_PTX, _CUBIN = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000
_TARGET = 50
_INVALID_IMAGE, _NO_BINARY = 200, 209
_UNKNOWN_KIND = "the image is no PTX text, cubin or fatbin"


@dataclass(frozen=True)
class _Image:
    """One image of a fatbin."""

    kind: int
    target: int
    content: bytes


def _decompressed(content: bytes, flags: int, size: int) -> bytes:
    """Decompresses the content of an entry, with the library for its compression."""
    name = "lz4.block" if flags & _LZ4 else "zstandard"
    try:
        library: Any = import_module(name)
    except ImportError:
        raise CudaError(
            _INVALID_IMAGE, "the fatbin is compressed: pip install -e '.[fatbin]'"
        ) from None
    if flags & _LZ4:
        return library.decompress(content, uncompressed_size=size)
    return library.ZstdDecompressor().decompress(content, max_output_size=size)


def _entries(content: bytes) -> Iterator[_Image]:
    """Yields the images of a fatbin; CudaError if it is damaged."""
    try:
        _, _, at, _ = _HEADER.unpack_from(content)
        while at + _ENTRY.size <= len(content):
            kind, _, header, size, compressed, target, flags, whole = _ENTRY.unpack_from(
                content, at
            )
            body = content[
                at + header : at + header + (compressed if flags & (_LZ4 | _ZSTD) else size)
            ]
            if not header:
                break
            yield _Image(
                kind, target, _decompressed(body, flags, whole) if flags & (_LZ4 | _ZSTD) else body
            )
            at += header + size
    except (struct.error, ValueError, RuntimeError) as error:
        raise CudaError(_INVALID_IMAGE, f"the fatbin is damaged: {error}") from error


def _chosen(content: bytes) -> bytes:
    """Returns the image of a fatbin that this machine can run."""
    images = list(_entries(content))
    for image in images:
        if image.kind == _CUBIN and image.target == _TARGET:
            return image.content
    fitting = [image for image in images if image.kind == _PTX and image.target <= _TARGET]
    if not fitting:
        targets = ", ".join(sorted({f"sm_{image.target}" for image in images})) or "nothing"
        raise CudaError(_NO_BINARY, f"the fatbin has no code for sm_50: it has {targets}")
    return max(fitting, key=lambda image: image.target).content


def _image(content: bytes) -> bytes:
    """Returns an image unchanged; for a fatbin, the image that this machine can run."""
    if len(content) >= _HEADER.size and _HEADER.unpack_from(content)[0] == _FATBIN:
        return _chosen(content)
    return content


def _text(content: bytes) -> str | None:
    """Returns the PTX text of an image; None if it is not PTX."""
    try:
        text = content.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    return text if ".version" in text else None


def module_of(content: bytes, compiler: Compiler, options: JitOptions) -> Module:
    """Returns the program of an image; PTX is compiled. CudaError, with the reason, if there is
    none.
    """
    content = _image(content)
    text = None if content.startswith(_ELF) else _text(content)
    try:
        if text is not None:
            return load(read_object(compiler.cubin(text, options), "PTX"))
        if content.startswith(_ELF):
            return load(read_object(content, "cubin"))
    except ProgramError as error:
        raise CudaError(_INVALID_IMAGE, str(error)) from error
    raise CudaError(_INVALID_IMAGE, _UNKNOWN_KIND)


def link_images(inputs: Sequence[tuple[bytes, JitOptions]], compiler: Compiler) -> bytes:
    """Links several images, each with the options of its text, to one; a single cubin stays
    unchanged.
    """
    texts, cubins = [], []
    for given, options in inputs:
        content = _image(given)
        if content.startswith(_ELF):
            cubins.append(content)
        elif (text := _text(content)) is not None:
            texts.append((text, options))
        else:
            raise CudaError(_INVALID_IMAGE, _UNKNOWN_KIND)
    if not texts and len(cubins) == 1:
        return bytes(cubins[0])
    return compiler.link(texts, cubins)
