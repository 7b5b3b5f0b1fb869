"""What the commands of this package share: how arguments are refused, and how results are written."""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

__all__ = ["OutputError", "Parser", "print_text", "write_file"]


class OutputError(Exception):
    """Results that can't be written: one line that says where to, and why."""


class Parser(argparse.ArgumentParser):
    """Parses a command's arguments; a wrong one gets one line on stderr and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        self.exit(2, f"{self.prog}: {message}\n")


def write_file(path: str | Path, content: bytes) -> None:
    """Writes a file as a whole or not at all; OutputError when that can't be done.

    A link stays one. What is no regular file, such as a terminal or a pipe, is written to as it is.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(content)
        else:
            _put_in_place(Path(os.path.realpath(target)), content)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def _put_in_place(target: Path, content: bytes) -> None:
    """Writes beside the target, where a rename takes no copying, and leaves nothing there."""
    unfinished = target.parent / f".{target.name}.{os.getpid()}"
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink()


def print_text(text: str) -> None:
    """Prints a long text. A reader that wants no more of it, such as ``head``, is no error; OutputError for others."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"standard output: {error.strerror}") from error
