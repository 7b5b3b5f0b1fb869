"""Warp error codes, as NVIDIA's open drivers print them."""

from amaranth.lib import enum

__all__ = ["REPORT_MASK_RESET", "WarpError"]


class WarpError(enum.Enum, shape=8):
    """The ERROR field of the warp error status register. Bit n of the report mask enables code
    n."""

    NONE = 0x00
    STACK_ERROR = 0x01
    API_STACK_ERROR = 0x02
    RET_EMPTY_STACK_ERROR = 0x03
    PC_WRAP = 0x04
    MISALIGNED_PC = 0x05
    PC_OVERFLOW = 0x06
    MISALIGNED_IMMC_ADDR = 0x07
    MISALIGNED_REG = 0x08
    ILLEGAL_INSTR_ENCODING = 0x09
    ILLEGAL_SPH_INSTR_COMBO = 0x0A
    ILLEGAL_INSTR_PARAM = 0x0B
    INVALID_CONST_ADDR = 0x0C
    OOR_REG = 0x0D
    OOR_ADDR = 0x0E
    MISALIGNED_ADDR = 0x0F
    INVALID_ADDR_SPACE = 0x10
    ILLEGAL_INSTR_PARAM2 = 0x11
    INVALID_CONST_ADDR_LDC = 0x12
    GEOMETRY_SM_ERROR = 0x13
    DIVERGENT = 0x14
    WARP_EXIT = 0x15
    STACK_OVERFLOW = 0x16
    MMU_FAULT = 0x17


REPORT_MASK_RESET = 0x00D3EFF2
"""The report mask that drivers write for sm_50: which codes are errors and not silence."""
