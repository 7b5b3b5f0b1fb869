"""What save files say, apart from when it happens."""

import re


def without_times(save: str) -> str:
    """A save file without the cycles of its markers, which are its waveform's."""
    return re.sub(
        r"^(?:\[timestart\]|\*\S+) .*$",
        lambda line: re.sub(r" \d+", " N", line[0]),
        save,
        flags=re.MULTILINE,
    )


def marks_of(save: str) -> list[str]:
    """The names of a save file's markers."""
    return re.findall(r"^\[markername\] [A-Z](.*)$", save, re.MULTILINE)
