"""The language of commands: names, arguments, help, completion, batches."""

import pytest

from sim.debugger.commands import COMMANDS, command_of
from sim.debugger.errors import DebuggerError
from sim.debugger.terminal import Batch, BatchError, read_batch, words_after
from testbench.debugger.commands.fake_machine import done, refusal, run


def test_a_command_is_found_by_a_prefix_that_only_it_has():
    assert command_of("disa").name == "disassemble"
    for short, name in (("b", "break"), ("s", "step"), ("w", "warps"), ("warp", "warp")):
        assert command_of(short).name == name
    for word, message in (
        ("st", "'st' could be step or stop or stack"),
        ("xyz", "'xyz' is no command; help lists them"),
    ):
        with pytest.raises(DebuggerError) as refused:
            command_of(word)
        assert str(refused.value) == message


def test_a_line_has_no_more_words_than_its_command_takes(session):
    session.look_at(1)
    assert run(session, "") == run(session, "  # masks") == []
    assert refusal(session, "masks now") == "masks now: too much; it is masks"
    assert refusal(session, "thread 1 2") == "thread 1 2: too much; it is thread [N]"
    assert run(session, "masks # now") == run(session, "masks")


def test_help_lists_the_commands_in_columns(session):
    lines = run(session, "help")
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    width = max(len(command.usage) for command in COMMANDS.values())
    assert {line[width : width + 2] for line in lines} == {"  "}
    assert run(session, "help st" + "ep") == [
        f"step [N] [all]  {COMMANDS['step'].meaning}",
    ]


def test_words_are_completed_by_what_can_stand_there(session):
    assert words_after(session, []) == list(COMMANDS)
    assert words_after(session, ["break"]) == ["$k$inner", "inner", "k", "z"]
    assert words_after(session, ["memory"]) == ["out"]
    assert words_after(session, ["help"]) == list(COMMANDS)
    assert tuple(words_after(session, ["masks", "x"])) == ()
    assert tuple(words_after(session, ["break", "k"])) == ()
    assert tuple(words_after(session, ["xyz"])) == ()


def test_a_batch_ends_at_its_end_or_where_a_command_cannot_be_done(session, capsys):
    session.look_at(1)
    batch = Batch("script", ["# nothing", "  masks ", "", "quit", "masks"])
    done(batch.serve(session))
    assert session.leaves
    assert capsys.readouterr().out.splitlines()[0] == "(warpstack) masks"
    session.leaves = False
    done(batch.serve(session))  # continues after the command at which it stopped
    assert capsys.readouterr().out.startswith("(warpstack) masks\n") and session.leaves
    session.leaves = False
    with pytest.raises(BatchError, match=r"^script:2: there is no thread 9; "):
        Batch("script", ["masks", "thread 9"]).serve(session).send(None)


def test_a_batch_is_checked_before_it_begins(tmp_path):
    path = tmp_path / "script"
    for text, message in (("masks\n\nxyz # no\n", f"{path}:3: 'xyz' is no command"),):
        path.write_text(text)
        with pytest.raises(BatchError, match=f"^{message}"):
            read_batch(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(BatchError, match=f"^{path}: not a text file$"):
        read_batch(str(path))
    path.write_text("masks # and more\n# all\n")
    read_batch(str(path))
