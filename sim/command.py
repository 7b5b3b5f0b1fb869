"""What the commands of this package share: how arguments are refused, and how results are written."""

import argparse
import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

__all__ = ["OutputError", "Parser", "check_file", "print_text", "write_file"]


class OutputError(Exception):
    """Results that can't be written: one line that says where to, and why."""


class Parser(argparse.ArgumentParser):
    """Parses a command's arguments; a wrong one gets one line on stderr and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        self.exit(2, f"{self.prog}: {message}\n")


def check_file(path: str | Path, *, folders: bool = False) -> None:
    """Finds out before long work whether a file can be written; OutputError when not. Leaves no file.

    ``folders``: the folder that it goes to is made if need be.
    """
    target = Path(path)
    try:
        if folders and not target.parent.exists():
            target.parent.mkdir(parents=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not target.exists() or target.is_file():
            unfinished = _beside(target)
            unfinished.touch()
            unfinished.unlink()
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def write_file(path: str | Path, content: bytes) -> None:
    """Writes a file as a whole or not at all; OutputError when that can't be done.

    A link stays one. What is no regular file, such as a terminal or a pipe, is written to as it is.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(content)
        else:
            _put_in_place(target, content)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def _beside(target: Path) -> Path:
    """Where a file is made, so that a rename to the target takes no copying."""
    target = Path(os.path.realpath(target))
    return target.parent / f".{target.name}.{os.getpid()}"


def _put_in_place(target: Path, content: bytes) -> None:
    """Writes beside the target, and leaves nothing there."""
    unfinished = _beside(target)
    try:
        unfinished.write_bytes(content)
        unfinished.replace(os.path.realpath(target))
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
