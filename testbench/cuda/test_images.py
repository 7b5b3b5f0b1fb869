"""Images of programs: which part of a fatbin is selected, and invalid images."""

import struct
from types import SimpleNamespace

import pytest

from sim.cuda import images
from sim.cuda.compilers import JitOptions, OwnCompiler
from sim.cuda.errors import RESULTS, CudaError
from sim.cuda.images import link_images, module_of
from testbench.programs import PROGRAMS

CUBIN = (PROGRAMS / "k01_vecadd.O3.cubin").read_bytes()
OTHER = (PROGRAMS / "k02_isaxpy_gridstride.O3.cubin").read_bytes()
PTX, CUBIN_KIND, LZ4, ZSTD = 1, 2, 0x2000, 0x8000


def text(name):
    """Returns PTX with one kernel."""
    return f".version 4.3\n.target sm_30\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n".encode()


def entry(kind, target, content, flags=0, compressed=None, whole=0, header=64):
    """Returns an image of a fatbin in NVIDIA's format: kind, version, size of this header, padded
    size, compressed size, two fields for options, the machine, name, flags, and the decompressed
    size.
    """
    head = struct.pack(
        "<HHIQI4xIIQQQQ",
        kind,
        0x101,
        header,
        len(content),
        compressed if compressed is not None else 0,
        0,
        target,
        0,
        flags,
        0,
        whole,
    )
    return head.ljust(header, b"\0") + content


def fatbin(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def kernels(image):
    return list(module_of(image, OwnCompiler(), JitOptions()).kernels)


def refusal(image):
    """Returns the result and the reason."""
    with pytest.raises(CudaError) as refused:
        module_of(image, OwnCompiler(), JitOptions())
    return RESULTS[refused.value.result][0], refused.value.message


def test_an_image_is_ptx_text_or_a_cubin():
    assert kernels(text("k")) == ["k"]
    assert kernels(text("k") + bytes(5)) == ["k"]
    assert len(kernels(CUBIN)) == 1


@pytest.mark.parametrize(
    "content", [b"", b"no text", b"\xff.version", b"\x50\xed\x55", b"P\xedU\xba"]
)
def test_anything_else_is_no_image(content):
    assert refusal(content) == (
        "CUDA_ERROR_INVALID_IMAGE",
        "the image is no PTX text, cubin or fatbin",
    )


@pytest.mark.parametrize(
    ("entries", "taken"),
    [
        ([(PTX, 50, "a")], "a"),
        ([(PTX, 30, "a"), (PTX, 35, "b"), (PTX, 52, "c")], "b"),
        ([(PTX, 50, "a"), (PTX, 35, "b"), (PTX, 90, "c")], "a"),
        ([(PTX, 50, "a"), (CUBIN_KIND, 52, None), (CUBIN_KIND, 30, None)], "a"),
        ([(PTX, 50, "a"), (CUBIN_KIND, 50, None)], None),
        ([(CUBIN_KIND, 50, None), (PTX, 50, "a")], None),
    ],
)
def test_the_cubin_for_sm_50_is_taken_or_else_the_newest_ptx_that_is_not_newer(entries, taken):
    image = fatbin(
        *(
            entry(kind, target, CUBIN if name is None else text(name), header=72 if number else 64)
            for number, (kind, target, name) in enumerate(entries)
        )
    )
    assert kernels(image) == (kernels(CUBIN) if taken is None else [taken])


@pytest.mark.parametrize(
    ("entries", "has"),
    [
        ([], "nothing"),
        ([(PTX, 51, "a")], "sm_51"),
        ([(CUBIN_KIND, 90, None), (PTX, 80, "a"), (PTX, 80, "b")], "sm_80, sm_90"),
        ([(CUBIN_KIND, 30, None)], "sm_30"),
    ],
)
def test_a_fatbin_without_code_for_this_machine_says_what_it_has(entries, has):
    image = fatbin(*(entry(kind, target, text(name or "k")) for kind, target, name in entries))
    assert refusal(image) == (
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        f"the fatbin has no code for sm_50: it has {has}",
    )


@pytest.mark.parametrize(("flag", "library"), [(LZ4, "lz4.block"), (ZSTD, "zstandard")])
def test_compressed_images_are_decompressed_by_the_library_for_it(monkeypatch, flag, library):
    """The compressed bytes are followed by padding."""

    def reversed_by(content, size):
        assert content == text("k")[::-1] and size == len(text("k"))
        return content[::-1]

    lz4 = SimpleNamespace(
        decompress=lambda content, uncompressed_size: reversed_by(content, uncompressed_size)
    )
    zstd = SimpleNamespace(
        ZstdDecompressor=lambda: SimpleNamespace(
            decompress=lambda content, max_output_size: reversed_by(content, max_output_size)
        )
    )
    asked = []

    def imported(name):
        asked.append(name)
        return {"lz4.block": lz4, "zstandard": zstd}[name]

    monkeypatch.setattr(images, "import_module", imported)
    packed = text("k")[::-1]
    image = fatbin(entry(PTX, 50, packed + bytes(7), flag, len(packed), len(packed)))
    assert kernels(image) == ["k"] and asked == [library]


def test_a_compression_without_its_library_names_the_extra(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(images, "import_module", missing)
    image = fatbin(entry(PTX, 50, b"packed", LZ4, 6, 10))
    assert refusal(image) == (
        "CUDA_ERROR_INVALID_IMAGE",
        "the fatbin is compressed: pip install -e '.[fatbin]'",
    )


def test_a_fatbin_that_is_damaged_is_said_to_be(monkeypatch):
    def fails(content, uncompressed_size):
        raise RuntimeError("wrong")

    monkeypatch.setattr(images, "import_module", lambda name: SimpleNamespace(decompress=fails))
    image = fatbin(entry(PTX, 50, b"packed", LZ4, 6, 10))
    assert refusal(image) == ("CUDA_ERROR_INVALID_IMAGE", "the fatbin is damaged: wrong")


def test_an_entry_with_no_header_ends_a_fatbin():
    image = fatbin(entry(PTX, 50, text("a")), bytes(64), entry(PTX, 50, text("b")))
    assert kernels(image) == ["a"]


def test_a_cubin_that_is_linked_alone_stays_as_it_is_also_from_a_fatbin():
    options = JitOptions()
    assert link_images([(CUBIN, options)], OwnCompiler()) == CUBIN
    assert link_images([(fatbin(entry(CUBIN_KIND, 50, CUBIN)), options)], OwnCompiler()) == CUBIN
    linked = link_images(
        [(text("a"), options), (fatbin(entry(PTX, 50, text("b"))), options)], OwnCompiler()
    )
    assert kernels(linked) == ["a", "b"]
    with pytest.raises(CudaError) as refused:
        link_images([(b"nothing", options)], OwnCompiler())
    assert RESULTS[refused.value.result][0] == "CUDA_ERROR_INVALID_IMAGE"
    with pytest.raises(CudaError, match="linked already"):
        link_images([(CUBIN, options), (OTHER, options)], OwnCompiler())
