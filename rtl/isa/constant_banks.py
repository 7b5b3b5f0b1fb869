"""Where compiled code expects what the driver writes into constant memory."""

__all__ = ["DRIVER_BANK", "PARAMETER_BASE"]

DRIVER_BANK = 0
"""The constant bank with the driver's words, such as the stack pointer, and the parameters."""
PARAMETER_BASE = 0x140
"""Where the kernel's parameters begin in it, in bytes."""
