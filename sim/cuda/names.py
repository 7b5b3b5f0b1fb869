"""Names of kernels for people."""

import re

__all__ = ["readable"]

_LONGEST_NAME = 40


def readable(name: str) -> str:
    """The name of a kernel for people: of a mangled one the names that it is nested in, joined by dots."""
    if match := re.match(r"_ZN?(?=[0-9])", name):
        parts, at = [], match.end()
        while number := re.match(r"[0-9]+", name[at:]):
            start = at + number.end()
            at = start + int(number[0])
            parts.append(re.sub(r"_(2[0-9a-f]|3[a-f]|5b|5d)", lambda found: chr(int(found[1], 16)), name[start:at]))
        name = ".".join(part for part in parts if part not in ("cudapy", "<locals>"))
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME - 1]}…"
