"""Common parts of the commands of this package: parsing, error messages, exit codes, and output
files.
"""

import argparse
import errno
import gc
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, NoReturn
from weakref import finalize

from sim.support.entry import why_missing
from sim.support.interrupt import handled, interrupted

__all__ = [
    "CALLED",
    "CommandError",
    "OutputError",
    "OutputFile",
    "Parser",
    "add_cache_option",
    "check_file",
    "claim_folder",
    "is_whole",
    "make_folder",
    "print_text",
    "write_file",
]

CALLED: ContextVar[str | None] = ContextVar("CALLED", default=None)
"""The name under which the command was called, if not by its module."""


class CommandError(Exception):
    """An error of a command. The message is one line with the problem and its place."""


class OutputError(CommandError):
    """Results that cannot be written. The message is one line with the place and the reason."""


class Parser(argparse.ArgumentParser):
    """The parser of a command that ``python -m`` calls by the name of its module. ``example`` are
    example arguments.
    """

    def __init__(self, module: str, description: str, example: str) -> None:
        # An abbreviation would run what a mistyped option begins like, and change with the next option.
        super().__init__(
            prog=CALLED.get() or f"python -m {module}",
            description=description,
            allow_abbrev=False,
        )
        self.example = example

    def format_help(self) -> str:
        """Returns the help, with an example at its end."""
        return f"{super().format_help()}\nexample:\n  {self.prog} {self.example}\n"

    def run(
        self,
        arguments: Sequence[str] | None,
        body: Callable[[Any], int | None],
        *,
        exits: bool = True,
    ) -> int:
        """Calls ``body`` with the parsed options; returns the exit code.

        A CommandError, or a missing module of an extra, is printed as one line on stderr; the exit
        code is 2, as for wrong arguments. That ends the program, or is returned if not ``exits``.

        After Ctrl-C it also prints one line, and the exit code is 130; see
        :mod:`sim.support.interrupt`. If this is called as a function, with arguments, the exception
        is passed to the caller.
        """
        if arguments is not None and CALLED.get() is None:
            return self._carry_out(arguments, body, exits)
        try:
            with handled():
                return self._carry_out(arguments, body, exits)
        except KeyboardInterrupt as request:
            stopped = interrupted(request)
            warnings.simplefilter(
                "ignore"
            )  # Hardware that is no longer elaborated after an interrupt is no mistake
            gc.freeze()  # or Python looks for garbage in a whole design before it ends
            begin = "\r\x1b[K" if sys.stderr.isatty() else ""  # The terminal has shown ^C there
            print(f"{begin}{self.prog}: {stopped.line}", file=sys.stderr)
            return stopped.code

    def _carry_out(
        self, arguments: Sequence[str] | None, body: Callable[[Any], int | None], exits: bool
    ) -> int:
        """Runs the body, or prints the reason why it cannot."""
        options = self.parse_args(arguments)
        try:
            return body(options) or 0
        except CommandError as error:
            if exits:
                self.error(str(error))
            print(f"{self.prog}: {error}", file=sys.stderr)
            return 2
        except ModuleNotFoundError as error:
            if (why := why_missing(error.name)) is None:
                raise
            self.error(why)

    def error(self, message: str) -> NoReturn:
        """Prints a message and ends the program with exit code 2."""
        if message.startswith("unrecognized arguments: "):
            message += "; --help lists the options"
        self.exit(2, f"{self.prog}: {message}\n")


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option with which a command ignores the cache and compiles its model again."""
    parser.add_argument(
        "--no-cache",
        dest="cached",
        action="store_false",
        help="compile the hardware again, and keep nothing for the next run",
    )


def check_file(path: str | Path, *inputs: str | Path) -> None:
    """Checks before long work whether a file can be written; OutputError if not, also if its folder
    is missing, or if the file is one of the ``inputs``. Leaves no file.
    """
    target = Path(path)
    for file in map(Path, inputs):
        if is_whole(target) and target.exists() and file.exists() and target.samefile(file):
            raise OutputError(f"{path}: is the input, which the output would overwrite")
    try:
        _check_place(target)
        if is_whole(target):
            unfinished = _beside(target)
            unfinished.touch()
            unfinished.unlink()
        elif not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise OutputError(f"{path}: {_reason(target, error)}") from error


def make_folder(path: str | Path) -> None:
    """Makes a folder and its parents, where they are missing; OutputError if that fails."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OutputError(f"{path}: {os.strerror(errno.ENOTDIR)}") from error
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def claim_folder(path: str | Path, marker: str) -> None:
    """Makes a folder for files that a command replaces or deletes in its next run. The hidden file
    ``marker`` shows that the command made the folder.

    CommandError for any other folder that is not empty; OutputError when it can't be made.
    """
    folder = Path(path)
    make_folder(folder)
    try:
        if not (folder / marker).is_file() and any(folder.iterdir()):
            raise CommandError(
                f"{path}: this command did not make this folder, and it is not empty; "
                "name a new or an empty one"
            )
        (folder / marker).touch()
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def is_whole(path: str | Path) -> bool:
    """Whether a file is replaced as a whole.

    This holds for a new or regular file, unless a standard stream of this process is written to it.
    Other files, such as a terminal, a device or a pipe, are written directly.
    """
    target = Path(path)
    return not target.exists() or (target.is_file() and _stream(target) is None)


class OutputFile:
    """A file that is written part by part and appears as a whole when it is closed, or not at all.

    See :func:`is_whole` for files that are written directly. A symbolic link is kept. As a context it is closed, or
    discarded after an exception.

    Raises:
        OutputError: The file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._unfinished: Path | None = None
        self._leftover: finalize[Any, Any] | None = (
            None  # Also for an object that is neither closed nor discarded
        )
        self._error: OutputError | None = None
        try:
            _check_place(self._path)
            self._file = self._open()
        except OSError as error:
            raise OutputError(f"{path}: {_reason(self._path, error)}") from error

    def _open(self) -> BinaryIO:
        if is_whole(self._path):
            self._unfinished = _beside(self._path)
            self._leftover = finalize(self, _remove, self._unfinished)
            return self._unfinished.open("wb")
        if (stream := _stream(self._path)) is None:
            return self._path.open("wb")
        # Opened by its name, a file behind a stream would be written from its beginning.
        sys.stdout.flush()
        return os.fdopen(os.dup(stream), "wb")

    def write(self, content: bytes) -> None:
        """Writes a part."""
        if self._error is not None:
            raise self._error
        try:
            self._file.write(content)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Moves the file into place, if it was not discarded."""
        if self._file.closed:
            return
        try:
            self._file.close()
            if self._unfinished is not None and self._leftover is not None:
                self._unfinished.replace(os.path.realpath(self._path))
                self._leftover.detach()
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Removes the file, unless it was closed."""
        with suppress(OSError):
            self._file.close()
        if self._leftover is not None:
            self._leftover()

    def _failed(self, error: OSError) -> OutputError:
        """Returns the exception to raise, now and by every later write."""
        self.discard()
        self._error = OutputError(f"{self._path}: {error.strerror}")
        return self._error

    def __enter__(self) -> "OutputFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def write_file(path: str | Path, content: bytes) -> None:
    """Writes an :class:`OutputFile` at once."""
    with OutputFile(path) as file:
        file.write(content)


def _reason(target: Path, error: OSError) -> str:
    """Returns why a file cannot be made; a missing folder is named."""
    folder = target.parent
    if error.errno == errno.ENOENT and not folder.exists():
        return f"No such file or directory: there is no folder {folder}"
    return str(error.strerror)


def _check_place(target: Path) -> None:
    """Raises OSError if the path is a folder."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def _remove(path: Path) -> None:
    """Removes a file, if it is there."""
    with suppress(OSError):
        path.unlink()


def _beside(target: Path) -> Path:
    """Returns a temporary path in the target's folder, so that a rename needs no copy."""
    target = Path(os.path.realpath(target))
    return target.parent / f".{target.name}.{os.getpid()}"


def _stream(target: Path) -> int | None:
    """Returns the standard stream that is written to a file, under any name of it; None without
    one.
    """
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(target.stat(), os.fstat(stream)):
                return stream
    return None


def print_text(text: str) -> None:
    """Prints a long text. A reader that stops reading, such as ``head``, is no error; OutputError
    for other failures.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"standard output: {error.strerror}") from error
