"""Sources of commands: a terminal, or a file."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sim.support.command import CommandError, print_text
from sim.support.interrupt import Interrupted, at_once

from .commands import COMMANDS, command_of, execute
from .errors import DebuggerError
from .session import DebuggerSession

__all__ = ["PROMPT", "Batch", "BatchError", "Terminal", "read_batch", "words_after"]

PROMPT = "(warpstack) "


class BatchError(CommandError):
    """A command in a file that cannot be executed. The message is one line with the place and the
    reason.
    """


class Batch:
    """Commands from a file. An error ends the session: BatchError."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self._name, self._lines = name, lines
        self._next: Iterator[tuple[int, str]] = iter(list(enumerate(lines, 1)))

    async def serve(self, session: DebuggerSession) -> None:
        """Executes commands until the session starts a grid, or all are done."""
        for number, line in self._next:
            if not line.partition("#")[0].strip():
                continue
            print_text(f"{PROMPT}{line.strip()}\n")
            try:
                print_text("".join(f"{text}\n" for text in await execute(session, line)))
            except DebuggerError as error:
                raise BatchError(f"{self._name}:{number}: {error}") from error
            if session.starts or session.leaves:
                return
        session.leaves = True


def read_batch(path: str) -> Batch:
    """Reads the commands in a file, ``-`` for standard input; BatchError if it cannot be read, or
    has an unknown command.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BatchError(
            f"{path}: {error.strerror if isinstance(error, OSError) else 'not a text file'}"
        ) from error
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if words := line.partition("#")[0].split():
            try:
                command_of(words[0])
            except DebuggerError as error:
                raise BatchError(f"{path}:{number}: {error}") from error
    return Batch(path, lines)


def words_after(session: DebuggerSession, words: Sequence[str]) -> Sequence[str]:
    """Returns completions for the words typed so far."""
    if not words:
        return list(COMMANDS)
    try:
        command = command_of(words[0])
    except DebuggerError:
        return ()
    if len(words) > command.most_arguments:
        return ()
    if command.takes_address:
        return session.functions.names
    return {"memory": list(session.area.launch.buffers), "help": list(COMMANDS)}.get(
        command.name, ()
    )


class Terminal:
    """Commands from a terminal, with editing, history and completion. An empty line repeats a step."""

    def __init__(self, session: DebuggerSession) -> None:
        # Imported here, because batches need no terminal.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.document import Document

        class Words(Completer):
            """Completes commands, and names of functions, including characters such as ``$`` and
            ``.``."""

            def get_completions(
                self, document: Document, complete_event: object
            ) -> Iterable[Completion]:
                *before, begun = document.text_before_cursor.lstrip().split(" ")
                return [
                    Completion(word, -len(begun))
                    for word in words_after(session, [*filter(None, before)])
                    if word.startswith(begun)
                ]

        self._prompt: PromptSession[str] = PromptSession(
            PROMPT, completer=Words(), complete_while_typing=False
        )
        self._last = ""

    async def serve(self, session: DebuggerSession) -> None:
        """Executes commands until the session starts a grid or the user leaves."""
        while not (session.starts or session.leaves):
            try:
                with at_once():
                    line = self._prompt.prompt()
            except Interrupted:
                raise
            except KeyboardInterrupt:
                continue
            except EOFError:
                session.leaves = True
                return
            line = line.strip() or self._last
            try:
                print_text("".join(f"{text}\n" for text in await execute(session, line)))
                self._last = line if line and command_of(line.split()[0]).name == "step" else ""
            except DebuggerError as error:
                print_text(f"{error}\n")
