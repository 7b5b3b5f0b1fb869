"""Loading of complete object files, made by hand, as programs."""

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.nvinfo import Attribute, KernelParameter, Record, RecordFormat
from sim.toolchain.cubin.object_file import (
    Binding,
    Relocation,
    Section,
    SectionKind,
    Symbol,
    SymbolKind,
)
from sim.toolchain.cubin.relocation import RelocationKind
from sim.toolchain.module import (
    EntryParameter,
    EntryPoint,
    LaunchBounds,
    Module,
    Patch,
    PatchKind,
    ProgramError,
)

from .objects import function, object_file, of_section, records, section, variable

CODE = bytes(32)
KERNEL = function("k", entry=True)
UNKNOWN = 0xFFFF_FFFF


def code(name: str, content: bytes = CODE, *relocations: Relocation, **needs: int) -> Section:
    return section(f".text.{name}", content, 32, *relocations, **needs)


def loaded(*sections: Section, symbols: tuple[Symbol, ...] = ()) -> Module:
    """Returns a program with a kernel k, which is symbol 1."""
    return load(object_file([code("k"), *sections], KERNEL, *symbols))


def kernel_of(*entries: Record, sections: tuple[Section, ...] = ()) -> EntryPoint:
    """Returns the kernel k with these records."""
    return loaded(records(".nv.info.k", *entries), *sections).kernel()


def refusal(*sections: Section, symbols: tuple[Symbol, ...] = ()) -> str:
    with pytest.raises(ProgramError) as caught:
        loaded(*sections, symbols=symbols)
    return str(caught.value)


def sized(attribute: Attribute, *words: int) -> Record:
    return Record.sized(attribute, words)


def test_code_lies_at_multiples_of_64_bytes_or_of_a_larger_alignment():
    names = {"a": (b"\1" * 32, 32), "b": (b"\2" * 64, 16), "c": (b"\3" * 32, 256)}
    made = [section(f".text.{name}", *each) for name, each in names.items()]
    module = load(object_file(made, *(function(name, entry=name == "a") for name in names)))
    assert module.code.content == b"".join(
        (b"\1" * 32, bytes(32), b"\2" * 64, bytes(128), b"\3" * 32)
    )
    assert module.sections == (range(32), range(64, 128), range(256, 288))
    assert (module.code.symbols, module.code.alignment) == ({"a": 0, "b": 64, "c": 256}, 256)
    assert module.name == "x" and module.refused == {}
    assert loaded().code.alignment == 64


def test_zeroed_variables_lie_behind_those_with_values():
    made = (section(".nv.global", 12, 8), section(".nv.global.init", b"\1\2\3\4\5", 4))
    symbols = (
        variable("z", ".nv.global", 4, 8),
        variable("v", ".nv.global.init", 1, 2),
        variable("nothing", ".nv.global.init", 3, 0),
        variable("elsewhere", None),
    )
    data = loaded(*made, symbols=symbols).data
    assert data.content == b"\1\2\3\4\5" + bytes(3 + 12)
    assert (data.symbols, data.alignment) == ({"z": 12, "v": 1, "nothing": 3}, 8)
    assert data.sizes == {"z": 8, "v": 2}
    nothing = loaded().data
    assert (nothing.content, nothing.alignment, nothing.symbols) == (b"", 1, {})


def test_banks_are_of_a_kernel_or_of_all_and_bank_0_is_made_at_launch():
    banks = [(".nv.constant3", b"\3"), (".nv.constant2.k", b"\2"), (".nv.constant17", b"\7")]
    others = [(".nv.constant0.k", bytes(0x148)), (".nv.constant2.other", b"\5")]
    module = loaded(*(section(name, content, 4) for name, content in banks + others))
    assert {bank: data.content for bank, data in module.constants.items()} == {
        3: b"\3",
        17: b"\7",
    }
    own = module.kernel().constants
    assert {bank: data.content for bank, data in own.items()} == {2: b"\2"}
    assert own[2].alignment == 4


def test_a_kernel_needs_what_its_code_and_all_functions_need_but_not_other_kernels():
    made = [
        code("k", registers=10, barriers=3),
        code("f", registers=12, barriers=1),
        code("other", registers=40, barriers=9),
        section(".nv.shared.k", 96, 8),
    ]
    symbols = (KERNEL, function("f"), function("other", entry=True))
    module = load(object_file(made, *symbols))
    found = {
        name: (kernel.entry, kernel.registers, kernel.barriers, kernel.shared)
        for name, kernel in module.kernels.items()
    }
    assert found == {"k": (0, 12, 3, 96), "other": (128, 40, 9, 0)}


@pytest.mark.parametrize(
    ("stack", "bytes_a_thread"),
    [
        ([(Attribute.MIN_STACK_SIZE, 1, 48), (Attribute.FRAME_SIZE, 1, 8)], 48),
        ([(Attribute.MIN_STACK_SIZE, 1, 0), (Attribute.FRAME_SIZE, 1, 8)], 0),
        ([(Attribute.MIN_STACK_SIZE, 1, UNKNOWN), (Attribute.FRAME_SIZE, 1, 8)], 8),
        ([(Attribute.MIN_STACK_SIZE, 2, 48), (Attribute.FRAME_SIZE, 1, 8)], 8),
        ([(Attribute.FRAME_SIZE, symbol, 1 << symbol) for symbol in (1, 2, 3, 4)], 2 + 4 + 16),
        ([], 0),
    ],
)  # fmt: skip
def test_a_stack_is_as_the_file_says_or_every_frame_once(stack, bytes_a_thread):
    """The functions are k, f and the function inside k's section, not the other kernel."""
    made = [code("k"), code("f"), code("other")]
    made += [records(".nv.info", *(sized(attribute, *words) for attribute, *words in stack))]
    inner = function("$k$g", 16, ".text.k")
    file = object_file(made, KERNEL, function("f"), function("other", entry=True), inner)
    assert load(file).kernels["k"].local == bytes_a_thread


@pytest.mark.parametrize(
    ("sizes", "bytes_a_warp"), [([], 0), ([528], 528), ([UNKNOWN], 0), ([16, 32, UNKNOWN], 48)]
)
def test_a_call_stack_is_as_the_records_say_or_not_known(sizes, bytes_a_warp):
    entries = [sized(Attribute.CRS_STACK_SIZE, size) for size in sizes]
    assert kernel_of(*entries).crs == bytes_a_warp


@pytest.mark.parametrize(
    ("entries", "bank0", "base"),
    [
        ([sized(Attribute.PARAM_CBANK, 7, 0x0010_0161)], 0x200, 0x161),
        ([], 0x148, 0x148),
        ([], None, 0x140),
    ],
)
def test_parameters_begin_where_a_record_says_or_behind_bank_0(entries, bank0, base):
    sections = () if bank0 is None else (section(".nv.constant0.k", bytes(bank0), 4),)
    assert kernel_of(*entries, sections=sections).parameter_base == base


def test_parameters_are_in_the_order_of_their_numbers():
    given = [(1, 8, 12), (0, 0, 8), (2, 20, 4)]
    kernel = kernel_of(*(KernelParameter(*each).record() for each in given))
    assert kernel.parameters == tuple(EntryParameter(*each) for each in sorted(given))


@pytest.mark.parametrize(
    ("entries", "bounds"),
    [
        ([], LaunchBounds()),
        ([sized(Attribute.MAX_THREADS, 4, 5, 6)], LaunchBounds(largest=(4, 5, 6))),
        ([sized(Attribute.REQNTID, 1, 2, 3)], LaunchBounds(exact=(1, 2, 3))),
    ],
)
def test_launch_bounds_are_the_dimensions_in_the_records(entries, bounds):
    assert kernel_of(*entries).bounds == bounds


def place(kind: int, offset: int, symbol: int = 2, addend: int | None = None) -> Relocation:
    return Relocation(offset, kind, symbol, addend)


KIND = RelocationKind


@pytest.mark.parametrize(
    ("kind", "filled", "shift", "held"),
    [
        (KIND.DATA_32, PatchKind.WORD, 0, 0x8765_4321),
        (KIND.DATA_64, PatchKind.DOUBLE_WORD, 0, 0x0FED_CBA9_8765_4321),
        (KIND.DATA_32_HI, PatchKind.WORD, 32, 0x8765_4321 << 32),
        (KIND.DATA_8_0, PatchKind.BYTE, 0, 0x21),
        (KIND.DATA_8_16, PatchKind.BYTE, 16, 0x21 << 16),
        (KIND.GENERIC_8_8, PatchKind.BYTE, 8, 0x21 << 8),
        (KIND.FUNC_DESC_64, PatchKind.DOUBLE_WORD, 0, 0x0FED_CBA9_8765_4321),
    ],
)
def test_an_addend_is_beside_the_place_or_the_bits_of_the_address_that_the_place_holds(
    kind, filled, shift, held
):
    content = bytes(8) + 0x0FED_CBA9_8765_4321.to_bytes(8, "little")
    for given, addend in ((None, held), (5, 5), (0, 0)):
        made = section(".nv.global.init", content, 8, place(kind, 8, addend=given))
        symbols = (variable("v", ".nv.global.init"),)
        (patch,) = loaded(made, symbols=symbols).data.patches
        assert patch == Patch(8, filled, "v", addend, False, shift)


@pytest.mark.parametrize(
    ("kind", "filled", "addend"),
    [
        (KIND.ABS32_LO_20, PatchKind.IMMEDIATE_LOW, 0x1234),
        (KIND.ABS32_20, PatchKind.IMMEDIATE_LOW, 0x1234),
        (KIND.ABS32_HI_20, PatchKind.IMMEDIATE_HIGH, 0x1234 << 32),
    ],
)
def test_an_instruction_holds_the_addend_of_its_half(kind, filled, addend):
    content = assemble(".kernel k\nMOV32I R0, 0x1234\nEXIT", "t").sections[".text.k"].content
    made = code("f", content, place(kind, 8))
    module = loaded(made, symbols=(variable("v", ".nv.global"),))
    assert module.code.patches == (Patch(64 + 8, filled, "v", addend),)


def test_patches_are_in_the_order_of_their_places_and_name_sections_by_their_names():
    data = section(
        ".nv.global.init", bytes(24), 8, place(KIND.DATA_64, 16), place(KIND.DATA_64, 0, 3)
    )
    symbols = (variable("v", ".nv.global"), of_section(".nv.global.init"))
    module = loaded(data, section(".nv.global", 4, 4), symbols=symbols)
    assert [(patch.offset, patch.symbol) for patch in module.data.patches] == [
        (0, ".nv.global.init"),
        (16, "v"),
    ]
    # A section has an address by its name if a relocation needs it.
    assert module.data.symbols == {".nv.global.init": 0, "v": 24}


def test_an_address_of_a_constant_is_generic_where_the_kind_says_so():
    data = section(
        ".nv.global.init", bytes(24), 8,
        place(KIND.GENERIC_64, 0), place(KIND.DATA_64, 8), place(KIND.GENERIC_64, 16, 3),
    )  # fmt: skip
    symbols = (variable("c", ".nv.constant3"), variable("v", ".nv.global.init"))
    module = loaded(data, section(".nv.constant3", bytes(8), 4), symbols=symbols)
    assert [patch.generic for patch in module.data.patches] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "cleared"), [(KIND.UNUSED_CLEAR32, 4), (KIND.UNUSED_CLEAR64, 8), (KIND.NONE, 0)]
)
def test_places_that_nobody_uses_are_zero_and_need_no_address(kind, cleared):
    made = section(".nv.global.init", b"\x11" * 16, 8, place(kind, 4, 0))
    data = loaded(made).data
    assert data.content == b"\x11" * 4 + bytes(cleared) + b"\x11" * (12 - cleared)
    assert data.patches == ()


@pytest.mark.parametrize(
    "kind", [SymbolKind.TEXTURE, SymbolKind.SAMPLER, SymbolKind.SURFACE], ids=lambda kind: kind.name
)
def test_textures_of_a_kernel_are_those_that_its_bank_0_has_places_for(kind):
    textures = [Symbol(name, kind, Binding.GLOBAL, None) for name in ("t", "u")]
    bank = section(
        ".nv.constant0.k", bytes(0x150), 4,
        *(place(KIND.TEX_HEADER_INDEX, 0x140 + 4 * at, 2 + which) for at, which in enumerate((1, 0, 1, 2))),
    )  # fmt: skip
    module = loaded(bank, symbols=(*textures, variable("v", ".nv.global")))
    assert module.kernel().textures == ("u", "t") and loaded().kernel().textures == ()
    data = section(".nv.global.init", bytes(8), 8, place(KIND.TEX_HEADER_INDEX, 4))
    assert loaded(data, symbols=(textures[0],)).data.patches == (Patch(4, PatchKind.TEXTURE, "t"),)


DATA = section(".nv.global.init", bytes(16), 8)


@pytest.mark.parametrize(
    ("sections", "symbols", "message"),
    [
        (
            [],
            [function("j", 0, ".text.k", entry=True)],
            "kernel j is not in a section of its own",
        ),
        ([], [function("j", entry=True)], "kernel j is not in a section of its own"),
        (
            [code("j")],
            [function("j", 32, entry=True)],
            "kernel j begins at 0x20, behind its code",
        ),
        (
            [DATA],
            [variable("v", ".nv.global.init"), function("v", 0, ".text.k")],
            "two symbols are called v",
        ),
        (
            [section(".nv.global.init", bytes(8), 8, place(0x13, 4))],
            [variable("v", ".nv.global.init")],
            ".nv.global.init+0x4: relocation of kind 0x13: TEX_SLOT, for textures, which there are not",
        ),
        (
            [section(".nv.global.init", bytes(8), 8, place(0x99, 0))],
            [variable("v", ".nv.global.init")],
            ".nv.global.init+0x0: relocation of kind 0x99: unknown, or of no complete file",
        ),
        (
            [code("f", b"\xff" * 32, place(KIND.ABS32_20, 8))],
            [variable("v", ".nv.global.init")],
            ".text.f+0x8: relocation to v: 0xffffffffffffffff is no instruction",
        ),
        (
            [Section(".nv.info.k", SectionKind.CUDA_INFO, 0, b"\4", 1, 1)],
            [],
            ".nv.info.k: the record at 0x0 is cut off",
        ),
        (
            [Section(".nv.info", SectionKind.CUDA_INFO, 0, b"\4", 1, 1)],
            [],
            ".nv.info: the record at 0x0 is cut off",
        ),
    ],
)
def test_what_is_no_program_is_refused_by_its_place(sections, symbols, message):
    assert refusal(*sections, symbols=tuple(symbols)) == f"x: {message}"


def test_a_kernel_may_begin_at_the_last_byte_of_its_code():
    module = loaded(code("j"), symbols=(function("j", 31, entry=True),))
    assert module.kernels["j"].entry == 64 + 31


def test_a_variable_and_a_section_may_have_a_name_that_nothing_else_has():
    """Symbols of sections are names only if a relocation needs them."""
    symbols = (of_section(".nv.global.init"), variable("v", ".nv.global.init"))
    assert loaded(DATA, symbols=symbols).data.symbols == {"v": 0}


def test_records_that_have_no_words_say_nothing():
    entries = [Record(Attribute.MAXREG_COUNT, RecordFormat.HALF, 0xFF)]
    assert kernel_of(*entries).registers == 0


def test_a_kernel_that_is_not_there_is_named_with_those_that_are():
    module = load(assemble(".kernel b\nEXIT\n.kernel a\nEXIT\n", "t.sass"))
    assert module.kernel("a") is module.kernels["a"]
    with pytest.raises(ProgramError, match=r"^t\.sass: no kernel c; it has a, b$"):
        module.kernel("c")
    with pytest.raises(
        ProgramError, match=r"^t\.sass: which kernel\? It has a, b; name one with --entry$"
    ):
        module.kernel()
