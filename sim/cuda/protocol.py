"""The protocol of the CUDA libraries and the server: the one table from which both sides are made.

A client sends requests over a local socket and waits for the reply to each. A request is a
:data:`REQUEST_HEADER`, the call's fields, and as many bytes of data as the header says; a reply
likewise. All numbers are little endian. Device memory never passes through the socket: both sides
have it mapped, at the device's addresses.

:func:`c_header` writes the table as C, for ``sim/cuda/library``.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = [
    "CALLS",
    "REPLY_HEADER",
    "REQUEST_HEADER",
    "SOCKET_VARIABLE",
    "VERSION",
    "Call",
    "Fields",
    "c_header",
]

VERSION = 3
"""Version of this table. A library built from another version is refused."""
SOCKET_VARIABLE = "WARPSTACK_CUDA_SOCKET"
"""The environment variable with the name of the server's socket, in Linux's abstract name space."""

_TYPES: Mapping[str, tuple[str, str]] = {
    "u32": ("I", "uint32_t"),
    "i32": ("i", "int32_t"),
    "u64": ("Q", "uint64_t"),
    "u32[3]": ("3I", "uint32_t"),
}
"""The format for ``struct`` and the C type, by the type of a field."""


@dataclass(frozen=True)
class Fields:
    """Consecutive numbers without padding. ``types`` maps their names to u32, i32, u64 or u32[3]."""

    types: Mapping[str, str]

    @cached_property
    def _struct(self) -> struct.Struct:
        return struct.Struct("<" + "".join(_TYPES[kind][0] for kind in self.types.values()))

    @property
    def size(self) -> int:
        """Size of all fields in bytes."""
        return self._struct.size

    def pack(self, **values: Any) -> bytes:
        """Encodes the fields; the value of a field of three numbers is a tuple."""
        flat: list[int] = []
        for name, kind in self.types.items():
            value = values.pop(name)
            flat += value if "[" in kind else [value]
        assert not values, f"no such fields: {values}"
        return self._struct.pack(*flat)

    def unpack(self, content: bytes) -> dict[str, Any]:
        """Decodes the fields; returns them by name."""
        numbers = list(self._struct.unpack(content))
        values: dict[str, Any] = {}
        for name, kind in self.types.items():
            values[name] = (
                tuple(numbers.pop(0) for _ in range(3)) if "[" in kind else numbers.pop(0)
            )
        return values

    def c_struct(self, name: str) -> str:
        """Returns a packed C struct; empty without fields."""
        if not self.types:
            return ""
        lines = []
        for field, kind in self.types.items():
            count = kind[3:] if "[" in kind else ""
            lines.append(f"    {_TYPES[kind][1]} {field}{count};")
        return f"struct {name} {{\n" + "\n".join(lines) + "\n} __attribute__((packed));\n"


@dataclass(frozen=True)
class Call:
    """A request and its reply. ``meaning`` describes the call and the data of request and reply."""

    number: int
    request: Fields
    reply: Fields
    meaning: str


def _call(number: int, request: str, reply: str, meaning: str) -> Call:
    def fields(text: str) -> Fields:
        return Fields(dict(part.split(":") for part in text.split()))

    return Call(number, fields(request), fields(reply), meaning)


REQUEST_HEADER = Fields({"call": "u32", "context": "u32", "data_bytes": "u64"})
"""Header of a request: the call's number, the current context, the number of bytes of data behind
the fields.
"""
REPLY_HEADER = Fields({"result": "i32", "sticky": "i32", "data_bytes": "u64"})
"""Header of a reply: a CUresult; the context's permanent error, or 0; the number of bytes of data.

The reply's fields follow only if the result is 0.
"""

CALLS: Mapping[str, Call] = {
    "hello": _call(
        1,
        "version:u32 process:u32",
        "base:u64 size:u64 clock_khz:u32",
        "Begins a connection. With the reply comes a file descriptor: the device's memory, which the client "
        "maps at `base`.",
    ),
    "device_attribute": _call(
        2, "attribute:u32", "value:i32", "An attribute of the device by its number."
    ),
    "memory_info": _call(3, "", "free:u64 total:u64", "Bytes of device memory."),
    "context_create": _call(
        4, "", "context:u32", "Makes a context, which owns memory and modules."
    ),
    "context_destroy": _call(5, "context:u32", "", "Frees a context and what it owns."),
    "allocate": _call(
        6,
        "size:u64 kind:u32",
        "address:u64",
        "Allocates zeroed memory; `kind` is kept for address_range.",
    ),
    "free": _call(7, "address:u64", "", "Frees what `allocate` gave."),
    "address_range": _call(
        8,
        "address:u64 size:u64",
        "base:u64 size:u64 kind:u32 context:u32",
        "The allocation that has `size` bytes from `address`.",
    ),
    "module_load": _call(
        9,
        "max_registers:u32 level:u32",
        "module:u64",
        "Loads an image: PTX text, a cubin or a fatbin, the data of the request. `level` is how much "
        "the compiler optimises. The reply's data are its log, also after a failure.",
    ),
    "module_unload": _call(10, "module:u64", "", "Forgets a module, its code and variables."),
    "module_function": _call(
        11,
        "module:u64",
        "function:u64 max_threads:u32 shared:u32 constant:u32 local:u32 registers:u32 "
        "parameters:u32",
        "The kernel that the request's data name. The reply's data are offset and size of each "
        "parameter, as pairs of u32, then the kernel's name.",
    ),
    "module_global": _call(
        12, "module:u64", "address:u64 size:u64", "The variable that the request's data name."
    ),
    "module_functions": _call(
        13, "module:u64", "count:u32", "Names of all kernels, each ended by 0, as data."
    ),
    "occupancy": _call(
        14,
        "function:u64 threads:u32 dynamic_shared:u32",
        "blocks:u32",
        "How many blocks of so many threads the machine holds at a time.",
    ),
    "launch": _call(
        15,
        "function:u64 grid:u32[3] block:u32[3] dynamic_shared:u32 cooperative:u32",
        "failed:u32",
        "Runs a grid to its end. Data: the bytes of its parameters. The reply's data: what it printed.",
    ),
    "clock": _call(16, "", "cycles:u64", "Cycles that the device has run."),
    "link": _call(
        17,
        "",
        "",
        "Links images into one, the reply's data. Of each: u64 size, u32 the most registers, u32 level of "
        "optimisation, the image.",
    ),
    "get_limit": _call(18, "limit:u32", "value:u64", "A limit of the context: CUlimit."),
    "set_limit": _call(19, "limit:u32 value:u64", "", "Sets a limit of the context."),
    "set_shared": _call(
        20,
        "function:u64 dynamic_shared:u32",
        "",
        "Sets the most dynamic shared memory of a kernel: checked, and nothing else.",
    ),
}
"""Calls by name: number, fields and meaning."""


def _comment(text: str) -> str:
    return f"/* {text} */\n"


def c_header() -> str:
    """Returns the table as a C header."""
    parts = [
        _comment("Made from sim/cuda/protocol.py."),
        "#pragma once\n#include <stdint.h>\n",
        f'#define PROTOCOL_VERSION {VERSION}\n#define SOCKET_VARIABLE "{SOCKET_VARIABLE}"\n',
        REQUEST_HEADER.c_struct("request_header"),
        REPLY_HEADER.c_struct("reply_header"),
    ]
    for name, call in CALLS.items():
        parts.append(
            _comment(call.meaning)
            + f"#define CALL_{name.upper()} {call.number}\n"
            + call.request.c_struct(f"{name}_request")
            + call.reply.c_struct(f"{name}_reply")
        )
    return "\n".join(parts)
