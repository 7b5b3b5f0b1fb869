"""Names of kernels for people."""

import re

__all__ = ["readable", "with_readable_kernels"]

_LONGEST_NAME = 40


def readable(name: str, longest: int | None = _LONGEST_NAME) -> str:
    """The name of a kernel for people: of a mangled one the names that it is nested in, joined by dots; of ``longest``
    characters at most, None: of as many as it has."""
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
    """A message with readable names of the kernels that it names behind the word ``kernel``."""
    return re.sub(r"(?<=\bkernel )_Z[\w$]+", lambda found: readable(found[0]), message)
