"""Waveforms as FST, GTKWave's own format, at most a tenth of the size of VCD.

``vcd2fst``, which is part of GTKWave, converts them while a simulation runs.
"""

import shutil
import subprocess
from pathlib import Path

from sim.support.command import CommandError, OutputError, OutputFile, is_whole

__all__ = ["FST", "FstFile", "check_fst", "is_fst"]

FST = ".fst"
"""The suffix of these files."""
_TOOL = "vcd2fst"


def is_fst(path: Path) -> bool:
    """Whether a waveform of this name is an FST."""
    return path.suffix == FST


def check_fst(path: Path) -> None:
    """Checks before long work whether a waveform of this name can be written; CommandError if not."""
    if is_fst(path) and shutil.which(_TOOL) is None:
        raise CommandError(
            f"{path}: an FST needs {_TOOL}, which comes with GTKWave and is not installed; "
            "a VCD needs nothing"
        )
    if is_fst(path) and not is_whole(path):
        raise CommandError(f"{path}: an FST is written to a file")


class FstFile:
    """An FST that is written as VCD, part by part, and appears when it is closed; OutputError if
    that fails.
    """

    def __init__(self, path: Path) -> None:
        check_fst(path)
        self._path, self._target = path, OutputFile(path)
        self._made = path.with_name(f".{path.name}.made")
        self._tool = subprocess.Popen(
            [_TOOL, "-", str(self._made)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )  # Ctrl-C must not reach it.
        assert self._tool.stdin is not None
        self._input = self._tool.stdin

    def write(self, content: bytes) -> None:
        """Writes a part of the VCD."""
        try:
            self._input.write(content)
        except OSError as error:
            self.discard()
            raise OutputError(f"{self._path}: {_TOOL}: {error.strerror}") from error

    def close(self) -> None:
        """Moves the file to its place."""
        _, output = self._tool.communicate()
        try:
            if self._tool.returncode or not self._made.is_file():
                raise OutputError(
                    f"{self._path}: {_TOOL}: {output.decode(errors='replace').strip() or 'failed'}"
                )
            self._target.write(self._made.read_bytes())
            self._target.close()
        finally:
            self.discard()

    def discard(self) -> None:
        """Removes the file, unless it was closed."""
        if self._tool.poll() is None:
            self._tool.kill()
            self._tool.communicate()
        self._target.discard()
        self._made.unlink(missing_ok=True)
