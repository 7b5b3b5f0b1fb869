"""All operations by instruction name."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from rtl.isa.syntax import Values

from . import addition, bitwise, comparison, conversion, double, functions, predicates, products, single, video
from .lanes import Outcome, Sources

__all__ = ["OPERATIONS"]

OPERATIONS: Mapping[str, Callable[[Sources, Values], Outcome]] = MappingProxyType({
    "IADD": addition.iadd, "IADD32I": addition.iadd, "ISCADD": addition.iscadd, "ISCADD32I": addition.iscadd,
    "IADD3": addition.iadd3, "LEA": addition.lea, "LEA.HI": addition.lea_high,
    "XMAD": products.xmad, "IMUL": products.imul, "IMUL32I": products.imul, "IMAD": products.imad,
    "IMAD32I": products.imad,
    "SHL": bitwise.shl, "SHR": bitwise.shr, "SHF.L": partial(bitwise.shf, left=True),
    "SHF.R": partial(bitwise.shf, left=False), "BFE": bitwise.bfe, "BFI": bitwise.bfi, "LOP": bitwise.lop,
    "LOP32I": bitwise.lop, "LOP3.LUT": bitwise.lop3, "PRMT": bitwise.prmt, "POPC": bitwise.popc, "FLO": bitwise.flo,
    "ISETP": comparison.isetp, "ISET": comparison.iset, "ICMP": comparison.icmp, "IMNMX": comparison.imnmx,
    "SEL": comparison.sel,
    "VADD": video.vadd, "VMAD": video.vmad, "VMNMX": video.vmnmx, "VABSDIFF": video.vabsdiff,
    "VABSDIFF4": video.vabsdiff4, "VSET": video.vset,
    "VSETP": video.vsetp, "VSHL": video.vshl, "VSHR": video.vshr,
    "PSETP": predicates.psetp, "PSET": predicates.pset, "CSETP": predicates.csetp, "CSET": predicates.cset,
    "P2R": predicates.p2r, "R2P": predicates.r2p, "VOTE": predicates.vote, "MOV": predicates.mov,
    "MOV32I": predicates.mov,
    "FADD": single.fadd, "FADD32I": single.fadd, "FSWZADD": single.fswzadd,
    "FMUL": single.fmul, "FMUL32I": single.fmul, "FFMA": single.ffma,
    "FFMA32I": single.ffma, "FMNMX": single.fmnmx, "FSETP": single.fsetp, "FSET": single.fset, "FCMP": single.fcmp,
    "FCHK": single.fchk,
    "DADD": double.dadd, "DMUL": double.dmul, "DFMA": double.dfma, "DMNMX": double.dmnmx, "DSETP": double.dsetp,
    "DSET": double.dset,
    "I2I": conversion.i2i, "I2F": conversion.i2f, "F2I": conversion.f2i,
    "F2F": conversion.f2f, "MUFU": functions.mufu, "RRO": functions.rro,
})
"""From an instruction's name to its operation, which takes the fields of a word that encoding_error lets pass."""
