"""Readable names of kernels."""

import re

__all__ = ["readable", "with_readable_kernels"]

_LONGEST_NAME = 40


def readable(name: str, longest: int | None = _LONGEST_NAME) -> str:
    """Returns the readable name of a kernel: for a mangled name, the nested names joined by dots.

    It is cut to ``longest`` characters, unless that is None.
    """
    if match := re.match(r"_Z(?:N|L|NL|NK)?(?=[0-9])", name):
        parts, at = [], match.end()
        while number := re.match(r"[0-9]+", name[at:]):
            start = at + number.end()
            at = start + int(number[0])
            parts.append(
                re.sub(
                    r"_(2[0-9a-f]|3[a-f]|5b|5d)",
                    lambda found: chr(int(found[1], 16)),
                    name[start:at],
                )
            )
        name = ".".join(part for part in parts if part not in ("cudapy", "<locals>"))
    return name if longest is None or len(name) <= longest else f"{name[: longest - 1]}…"


def with_readable_kernels(message: str) -> str:
    """Replaces the kernel names behind the word ``kernel`` in a message by readable ones."""
    return re.sub(r"(?<=\bkernel )_Z[\w$]+", lambda found: readable(found[0]), message)
