"""PTX features that this machine lacks: the first machine of each later instruction, and texture
instructions.

The table follows the *Target ISA Notes* of the PTX ISA up to version 8.8. A row has a machine and
instructions; an instruction here is an opcode, or ``*`` for any, and modifiers that the text must
contain, in any order. ``a/b`` is an alternative. If several rows match, the latest machine applies.
"""

from collections.abc import Sequence
from functools import cache

__all__ = ["first_machine", "is_texture"]

_TABLE = """
sm_52   | alloca stacksave stackrestore
sm_53   | add.f16/f16x2 sub.f16/f16x2 mul.f16/f16x2 fma.f16/f16x2 neg.f16/f16x2 abs.f16/f16x2
sm_53   | set.f16/f16x2 setp.f16/f16x2
sm_60   | atom.f64 red.f64 atom.f16x2 red.f16x2 atom.cta/gpu/sys red.cta/gpu/sys
sm_60   | membar.proxy
sm_61   | dp2a dp4a
sm_70   | atom.f16 red.f16 atom.b16 atom.acquire/release/acq_rel/relaxed red.relaxed/release
sm_70   | bmsk cvta.param fence isspacep.param ld.weak/relaxed/acquire/mmio lop3.or/and match
sm_70   | mma mov.b128 nanosleep st.weak/relaxed/release/mmio szext wmma
sm_70   | ld.unified
sm_70   | *.L1::evict_normal/L1::evict_unchanged/L1::evict_first/L1::evict_last/L1::no_allocate
sm_72   | cvt.pack wmma.s8/u8
sm_75   | ex2.f16/f16x2 ldmatrix movmatrix tanh wmma.b1/s4/u4 *.L2::64B/L2::128B
sm_75   | mma.m16n8k8/m8n8k16/m8n8k32/m8n8k128
sm_80   | applypriority cp createpolicy discard mbarrier redux mma.f64/bf16/tf32/sp
sm_80   | mma.m16n8k4/m16n8k16/m16n8k32/m16n8k64/m16n8k128/m16n8k256
sm_80   | min.f16/f16x2 max.f16/f16x2 min.NaN max.NaN prefetch.L2::evict_last/L2::evict_normal
sm_80   | *.bf16/bf16x2/tf32/relu/L2::cache_hint/L2::256B cvt.rna/f16x2
sm_86   | *.xorsign
sm_89   | cvt.e4m3x2/e5m2x2 mma.e4m3/e5m2
sm_90   | add.bf16/bf16x2 sub.bf16/bf16x2 mul.bf16/bf16x2 set.bf16/bf16x2 setp.bf16/bf16x2
sm_90   | ex2.bf16/bf16x2 tanh.bf16/bf16x2 atom.bf16/bf16x2 red.bf16/bf16x2 atom.b128 red.async
sm_90   | atom.v2/v4/v8 red.v2/v4/v8 add.u16x2/s16x2 min.u16x2/s16x2 max.u16x2/s16x2 min.s32.relu max.s32.relu
sm_90   | barrier.cluster cp.bulk cp.reduce elect fence.async/mbarrier_init/proxy::async fma.oob
sm_90   | fence.proxy::tensormap::generic fence.sync_restrict fence.proxy.async/async::generic
sm_90   | getctarank griddepcontrol mapa mbarrier.try_wait/expect_tx/complete_tx multimem prefetch.tensormap
sm_90   | st.async stmatrix tensormap *.cluster/shared::cluster/release::cluster cvt.rn.tf32 cvt.rz.tf32
sm_90a  | setmaxnreg tensormap.replace wgmma
sm_100  | add.f32x2 sub.f32x2 mul.f32x2 fma.f32x2 add.f32.f16/bf16 sub.f32.f16/bf16 fma.f32.f16/bf16
sm_100  | clusterlaunchcontrol ld.v8 st.v8 ld.v4.b64/u64/s64/f64 st.v4.b64/u64/s64/f64 st.bulk
sm_100a | cvt.e2m1x2/e2m3x2/e3m2x2/ue8m0x2/rs cvt.e4m3x4/e5m2x4/e2m1x4/e2m3x4/e3m2x4 redux.f32 tcgen05
sm_120a | mma.kind::mxf8f6f4/kind::mxf4/kind::mxf4nvf4/kind::f8f6f4
"""

_REGISTERS = """
sm_80 | reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
sm_80 | reserved_smem_offset_0 reserved_smem_offset_1
sm_90 | aggr_smem_size is_explicit_cluster clusterid nclusterid cluster_ctaid cluster_nctaid
sm_90 | cluster_ctarank cluster_nctarank
"""
"""The first machines of special registers, in the same format."""

_TEXTURE = frozenset({"istypep", "suld", "suq", "sured", "sust", "tex", "tld4", "txq"})
"""Instructions on textures, samplers and surfaces, which are not supported."""


def is_texture(opcode: str) -> bool:
    """Whether an instruction operates on textures, samplers or surfaces."""
    return opcode in _TEXTURE


def _age(machine: str) -> tuple[int, str]:
    digits = machine.removeprefix("sm_").rstrip("a")
    return int(digits), machine


@cache
def _rows() -> tuple[tuple[str, str, tuple[frozenset[str], ...]], ...]:
    """Returns for each instruction of the table the machine, the opcode, and sets of modifiers of
    which the text must have one each.
    """
    found = []
    for line in _TABLE.strip().splitlines():
        machine, instructions = line.split("|")
        for instruction in instructions.split():
            opcode, *groups = instruction.split(".")
            found.append(
                (machine.strip(), opcode, tuple(frozenset(group.split("/")) for group in groups))
            )
    return tuple(found)


@cache
def _registers() -> dict[str, str]:
    return {
        name: line.split("|")[0].strip()
        for line in _REGISTERS.strip().splitlines()
        for name in line.split("|")[1].split()
    }


def first_machine(opcode: str, modifiers: Sequence[str] = ()) -> str | None:
    """Returns the first machine with an instruction, such as ``sm_70``, or None if it is not in the
    table.

    Args:
        opcode: The opcode, or ``%name`` for a special register.
        modifiers: The modifiers without dots.
    """
    if opcode.startswith("%"):
        return _registers().get(opcode[1:])
    written = set(modifiers)
    needed = [
        machine
        for machine, name, groups in _rows()
        if name in ("*", opcode) and all(group & written for group in groups)
    ]
    return max(needed, key=_age, default=None)
