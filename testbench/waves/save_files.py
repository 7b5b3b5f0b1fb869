"""Contents of save files that are independent of cycles."""

import re


def without_times(save: str) -> str:
    """Returns a save file without the cycles of its markers, which depend on the waveform."""
    return re.sub(
        r"^(?:\[timestart\]|\*\S+) .*$",
        lambda line: re.sub(r" \d+", " N", line[0]),
        save,
        flags=re.MULTILINE,
    )


def marks_of(save: str) -> list[str]:
    """Returns the names of a save file's markers."""
    return re.findall(r"^\[markername\] [A-Z](.*)$", save, re.MULTILINE)
