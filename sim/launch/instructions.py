"""Whether a machine has all the instructions of a kernel."""

from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error, lacks
from rtl.isa.syntax import RZ
from rtl.isa.table import find
from rtl.params import SmParams
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.listing.refusals import refused_text
from sim.toolchain.module import EntryPoint, Module, PatchKind, ProgramError
from sim.toolchain.reachability import reachable_instructions

__all__ = ["check_instructions"]


def check_instructions(module: Module, kernel: EntryPoint, name: str, params: SmParams) -> None:
    """Raises ProgramError, with kernel, function and address, for a kernel that the machine called
    ``name`` cannot run.

    Such a kernel may reach an instruction that the machine lacks, or uses a texture.
    """
    textures = {
        patch.offset: patch.symbol
        for patch in module.code.patches
        if patch.kind is PatchKind.TEXTURE
    }
    used: tuple[int, int] | None = None
    for pc, word in reachable_instructions(module, kernel):
        if (
            encoding_error(word, RZ, params.floats, params.doubles)
            is WarpError.ILLEGAL_INSTR_ENCODING
        ):
            form = find(word)
            lack = (
                None
                if form is None
                else lacks(form, form.values(word), params.floats, params.doubles)
            )
            why = "" if lack is None else f": {lack.why.replace('the machine', f'preset {name}')}"
            raise ProgramError(
                f"{_place(module, kernel, pc)}: this machine has no instruction "
                f"{refused_text(word, pc)}{why}"
            )
        if used is None and pc in textures:
            used = pc, word
    if used is not None:
        pc, word = used
        raise ProgramError(
            f"{_place(module, kernel, pc)}: {spell(word, pc)} uses the texture {textures[pc]}: there "
            "are no textures"
        )
    if kernel.textures:
        raise ProgramError(
            f"{module.name}: kernel {kernel.name} uses the texture {kernel.textures[0]}: there are no "
            "textures"
        )


def _place(module: Module, kernel: EntryPoint, pc: int) -> str:
    """Describes the place of an instruction: file, kernel, the function if it is another one,
    address.
    """
    function = max((place, name) for name, place in module.code.symbols.items() if place <= pc)[1]
    inner = "" if function == kernel.name else f", function {function}"
    return f"{module.name}: kernel {kernel.name}{inner}, {pc:#06x}"
