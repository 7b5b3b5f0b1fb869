"""Output of commands: files are written completely or not at all, long texts to any reader."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from sim import __main__ as warpstack
from sim import asm, manual, profile, ptx, run
from sim.checks import run_tb
from sim.support.command import (
    CommandError,
    OutputError,
    OutputFile,
    Parser,
    check_file,
    claim_folder,
    is_whole,
    make_folder,
    write_file,
)
from sim.waves import picture, sequence
from testbench.programs import PROGRAMS, RECURSION
from testbench.refusal import refused

ROOT = Path(__file__).parents[2]
LONG = [sys.executable, "-m", "sim.dis", str(PROGRAMS / "k22_alu64.O0.cubin")]


FIBONACCI = ["--block", "12", "--arg", "buf:out=u32[12]"]
SOURCE = ".kernel k\n        EXIT\n"
SCRIPT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["warpstack"]
MODULES = {
    name: module.removesuffix(".command").removesuffix(".__main__")
    for name, module in warpstack.COMMANDS.items()
}
"""Command -> name of its module for ``python -m``."""
NOWHERE = "No such file or directory"
BAD = {
    "cuda": (["--engine", "model"], "PROGRAM: the program is missing: "),
    "run": (["none.ptx"], f"PROGRAM: none.ptx: {NOWHERE}"),
    "debug": (["none.ptx"], f"PROGRAM: none.ptx: {NOWHERE}"),
    "run_tb": (["none"], "PROGRAM: no testbench none; there are "),
    "bench": (["none"], "PROGRAM: no benchmark none; "),
    "ptx": (["none.ptx", "-o", "out"], f"PROGRAM: none.ptx: {NOWHERE}"),
    "asm": (["none", "-o", "out"], f"PROGRAM: none: {NOWHERE}"),
    "dis": (["none"], f"PROGRAM: none: {NOWHERE}"),
    "demo": (["life", "--port", "/dev/null"], "PROGRAM: --port needs --engine "),
    "fpga": (["--unit", "none"], "PROGRAM: no unit none; there are "),
    "board": (["--memory", "3"], "PROGRAM: "),
    "picture": (["none.vcd", "clk", "-o", "out.svg"], "PROGRAM: none.vcd: "),
    "sequence": (["none.vcd", "-o", "out.svg"], "PROGRAM: none.vcd: "),
    "prove": (["none"], "PROGRAM: no theorem none: there are "),
    "fuzz": (["--minutes", "0"], "PROGRAM: --minutes must be more than 0, not 0"),
    "mutate": (["none"], "PROGRAM: no unit none: there are "),
    "waves": (["none.vcd"], "PROGRAM: none.vcd: "),
    "profile": (["none.ptx"], f"PROGRAM: none.ptx: {NOWHERE}"),
    "manual": (["-o", "/dev/null/none"], "PROGRAM: "),
}
"""Arguments that each command refuses, and the start of its message."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "out"
    for content in (b"long content", b"short"):
        write_file(path, content)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("folder", "Is a directory"),
        ("none/out", "No such file or directory: there is no folder {folder}/none"),
        ("file/out", "Not a directory"),
        ("n" * 300, "File name too long"),
    ],
    ids=["folder", "nowhere", "below a file", "long name"],
)
def test_what_cannot_be_written_is_left_as_it_was(path, reason, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    for write in (check_file, lambda target: write_file(target, b"new")):
        with pytest.raises(OutputError) as caught:
            write(tmp_path / path)
        assert str(caught.value) == f"{tmp_path / path}: {reason.format(folder=tmp_path)}"
    assert names(tmp_path) == ["file", "folder"] and names(tmp_path / "folder") == []
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_the_empty_path_is_no_file():
    with pytest.raises(OutputError, match=r"^: "):
        check_file("")
    with pytest.raises(OutputError, match=r"^: "):
        write_file("", b"")


def test_a_check_leaves_all_as_it_was(tmp_path):
    path = tmp_path / "out"
    check_file(path)
    assert names(tmp_path) == []
    path.write_bytes(b"kept")
    check_file(path)
    assert path.read_bytes() == b"kept" and names(tmp_path) == ["out"]
    check_file("/dev/null")


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (asm.main, ["{source}", "-o", "{out}"]),
        (run.main, ["{source}", "--engine", "model", "--json", "{out}"]),
        (run.main, ["{source}", "--vcd", "{out}"]),
        (run.main, ["{source}", "--timeline", "{out}"]),
        (run_tb.main, ["crs", "--vcd", "{out}"]),
    ],
)
def test_no_command_makes_the_folder_of_what_it_writes(tmp_path, capsys, main, arguments):
    """All options follow one rule: a mistyped name causes a message, and no folder."""
    (tmp_path / "k.sass").write_text(SOURCE)
    out = tmp_path / "none" / "out.vcd"
    given = [word.format(source=tmp_path / "k.sass", out=out) for word in arguments]
    try:
        code = main(given)
    except SystemExit as ended:
        code = ended.code
    assert (code, names(tmp_path)) == (2, ["k.sass"])
    assert capsys.readouterr().err.endswith(
        f"{out}: No such file or directory: there is no folder {out.parent}\n"
    )


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_bytes(b"kept")

    write = OutputFile.write

    def cut_off(self: OutputFile, content: bytes) -> None:
        write(self, content[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(OutputFile, "write", cut_off)
    with pytest.raises(KeyboardInterrupt):
        write_file(path, b"new")
    assert path.read_bytes() == b"kept" and names(tmp_path) == ["out"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    write_file(path, b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert path.is_fifo() and names(tmp_path) == ["pipe"]


@pytest.mark.parametrize(
    "command",
    [
        [run.main, RECURSION, *FIBONACCI, "--engine", "model", "--json"],
        [asm.main, "k.sass", "-o"],
        [ptx.main, RECURSION.replace(".O3.cubin", ".ptx"), "-o"],
    ],
    ids=["run", "asm", "ptx"],
)
def test_a_device_stays_one(command, full_device, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("k.sass").write_text(SOURCE)
    main, *arguments = command
    try:
        code = main([*arguments, str(full_device)])
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    errors = capsys.readouterr().err
    assert errors.endswith(f"{full_device}: No space left on device\n") and errors.count("\n") == 1
    assert full_device.is_char_device()
    assert set(names(tmp_path)) <= {"k.sass", full_device.name}


def test_an_output_error_is_raised_again(full_device):
    file = OutputFile(full_device)
    with pytest.raises(OutputError) as first:
        file.write(bytes(1 << 20))
    with pytest.raises(OutputError) as second:
        file.write(b"more")
    assert first.value is second.value
    file.close()
    assert full_device.is_char_device()


def test_a_file_appears_when_it_is_closed(tmp_path):
    path = tmp_path / "out"
    with OutputFile(path) as file:
        file.write(b"one ")
        file.write(b"two")
        assert not path.exists()
    assert path.read_bytes() == b"one two" and names(path.parent) == ["out"]


@pytest.mark.parametrize("before", [b"", b"before\n"])
def test_the_standard_output_is_written_to_though_it_is_a_file(before, tmp_path):
    """The text printed before it and the text printed after it are both kept."""
    output, source = tmp_path / "out", tmp_path / "k.sass"
    source.write_text(SOURCE)
    script = (
        "from sim import asm; import sys; print(sys.argv[1], end='')\n"
        "asm.main([sys.argv[2], '-o', '/dev/stdout']); print('behind')"
    )
    with output.open("wb") as file:
        subprocess.run(
            [sys.executable, "-c", script, before.decode(), source],
            stdout=file,
            cwd=ROOT,
            check=True,
        )
    asm.main([str(source), "-o", str(tmp_path / "expected")])
    assert output.read_bytes() == before + (tmp_path / "expected").read_bytes() + b"behind\n"
    assert names(tmp_path) == ["expected", "k.sass", "out"]


def test_only_files_are_whole(tmp_path):
    path = tmp_path / "file"
    assert is_whole(path)
    path.touch()
    assert is_whole(path)
    os.mkfifo(tmp_path / "pipe")
    assert not is_whole(tmp_path / "pipe")
    assert not is_whole("/dev/null")


def test_a_folder_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError) as caught:
        make_folder(tmp_path / "file" / "in")
    assert str(caught.value) == f"{tmp_path / 'file' / 'in'}: Not a directory"
    with pytest.raises(OutputError) as caught:
        make_folder(tmp_path / "file")
    assert str(caught.value) == f"{tmp_path / 'file'}: Not a directory"


def test_a_reader_that_stops_is_no_error():
    with subprocess.Popen(LONG, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"// .text.k\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        ["sim.run", RECURSION, *FIBONACCI, "--engine", "model"],
        ["sim.run_tb", "--list"],
        ["sim.dis", RECURSION],
    ],
    ids=lambda command: command[0],
)
def test_a_reader_that_has_gone_is_no_error(command):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", *command], stdout=writer, stderr=subprocess.PIPE, cwd=ROOT
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device /dev/full")
def test_a_full_output_is_an_error():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(LONG, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (
        2,
        b"python -m sim.dis: standard output: No space left on device\n",
    )


def test_wrong_arguments_get_one_line(capsys):
    parser = Parser("sim.any", "does anything", "it")
    assert (
        refused(capsys, parser.parse_args, ["--wrong"])
        == "python -m sim.any: unrecognized arguments: --wrong; --help lists the options"
    )


def test_an_abbreviation_is_no_option(capsys):
    """``--diagram`` of sim.manual, mistyped for an option that is not there, wrote into ``docs``."""
    for command, arguments in (
        (manual.main, ["--diagram"]),
        (run.main, [str(RECURSION), "--refuse", "x"]),
        (run.main, [str(RECURSION), "--max", "9"]),
    ):
        assert f"unrecognized arguments: {arguments[-2 if len(arguments) > 2 else -1]}" in refused(
            capsys, command, arguments
        )


def test_a_folder_is_claimed_when_it_is_new_empty_or_the_commands_own(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        claim_folder(folder, ".mark")
        (folder / "result").write_text("result")
        claim_folder(folder, ".mark")
        assert {".mark", "result"} <= set(names(folder))
        with pytest.raises(CommandError, match="did not make this folder, and it is not empty"):
            claim_folder(folder, ".of-another-command")
        assert ".of-another-command" not in names(folder)
    with pytest.raises(OutputError, match="Not a directory"):
        claim_folder(folder / "result", ".mark")


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(
    ("main", "name", "arguments"),
    [
        (asm.main, "k.sass", ["-o"]),
        (ptx.main, "k.ptx", ["-o"]),
        (run.main, "k.sass", ["--engine", "model", "--json"]),
        (run.main, "k.sass", ["--vcd"]),
        (run.main, "k.sass", ["--timeline"]),
        (profile.main, "k.sass", ["--html"]),
        (picture.main, "k.vcd", ["clk", "-o"]),
        (sequence.main, "k.vcd", ["-o"]),
    ],
)
def test_no_command_overwrites_its_input(tmp_path, capsys, main, name, arguments, link):
    source = output = tmp_path / name
    source.write_text(SOURCE)
    if link:
        output = tmp_path / "link"
        output.symlink_to(source)
    try:
        code = main([str(source), *arguments, str(output)])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert capsys.readouterr().err.endswith(
        f": {output}: is the input, which the output would overwrite\n"
    )
    assert source.read_text() == SOURCE


@pytest.mark.parametrize("name", ["tour/divergence.sass", "tour/call.ptx", "k22_alu64.O0.cubin"])
def test_a_file_of_the_project_is_found_from_another_folder(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    path = f"{PROGRAMS.relative_to(ROOT)}/{name}"
    assert refused(capsys, run.main, [path]) == (
        f"python -m sim.run: {path}: No such file or directory; "
        f"there is {os.path.relpath(PROGRAMS / name)}"
    )
    missing = str(Path(path).with_stem("none"))
    assert refused(capsys, run.main, [missing]).endswith(f"{missing}: No such file or directory")


def both_ways(name: str, arguments: Sequence[str], monkeypatch, capsys) -> tuple[object, str, str]:
    """Runs the installed script; returns exit code, output and errors without the program's name.

    ``python -m`` must print the same, except for line breaks that depend on the name; an error is
    one line.
    """
    module, found = MODULES[name], []
    package, function = SCRIPT.split(":")
    ways: tuple[tuple[str, list[str], Callable[[], object]], ...] = (
        (
            f"warpstack {name}",
            ["warpstack", name],
            lambda: sys.exit(getattr(import_module(package), function)()),
        ),
        (f"python -m {module}", [module], lambda: runpy.run_module(module, run_name="__main__")),
    )
    for program, called, call in ways:
        monkeypatch.setattr(sys, "argv", [*called, *arguments])
        with pytest.raises(SystemExit) as done, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the module has been imported as well
            call()
        printed = capsys.readouterr()
        assert printed.err.count("\n") == bool(printed.err)
        found.append(
            (
                done.value.code,
                *(" ".join(text.replace(program, "PROGRAM").split()) for text in printed),
            )
        )
    assert found[0] == found[1]
    return found[0]


def test_what_is_documented_are_all_commands():
    documented = re.findall(
        r"^\| `python -m ([\w.]+)` \|", (ROOT / "sim" / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(documented) == sorted(MODULES.values())


@pytest.mark.parametrize("name", warpstack.COMMANDS)
def test_a_command_gives_the_same_help_by_either_name(name, monkeypatch, capsys):
    code, out, err = both_ways(name, ["--help"], monkeypatch, capsys)
    assert (code, err) == (0, "") and out.startswith("usage: PROGRAM [-h]")


@pytest.mark.parametrize("name", warpstack.COMMANDS)
def test_the_example_of_a_command_is_one_that_it_takes(name, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        warpstack.main([name, "--help"])
    _, _, example = capsys.readouterr().out.partition("\nexample:\n  ")
    words = shlex.split(example)
    assert words[:2] == ["warpstack", name] and example.count("\n") == 1
    taken = []
    monkeypatch.setattr(
        Parser,
        "run",
        lambda parser, arguments, *_, **__: taken.append(parser.parse_args(arguments)),
    )
    warpstack.main(words[1:])
    assert len(taken) == 1
    for word in words[2:]:
        assert not word.startswith("testbench/") or (ROOT / word).is_file()


@pytest.mark.parametrize("name", warpstack.COMMANDS)
def test_a_command_refuses_the_same_by_either_name(name, monkeypatch, capsys):
    unknown = ["--no-such-option", *BAD[name][0]]
    for arguments, reason in (
        BAD[name],
        (unknown, "PROGRAM: unrecognized arguments: --no-such-option"),
    ):
        code, out, err = both_ways(name, arguments, monkeypatch, capsys)
        assert (code, out) == (2, "") and err.startswith(reason)


@pytest.mark.parametrize("name", warpstack.COMMANDS)
def test_every_option_says_what_it_is(name, monkeypatch):
    """Each text begins with its verb or its noun, so that it is clear without the option's name."""
    parsers = []
    monkeypatch.setattr(Parser, "run", lambda parser, *_, **__: parsers.append(parser))
    warpstack.main([name])
    (parser,) = parsers
    texts = {action.metavar or action.dest: action.help or "" for action in parser._actions}
    assert [
        option
        for option, text in texts.items()
        if not re.match(r"(?!(?:of|for|in|which|what was|where|default)\b)\w", text)
    ] == []
    assert [option for option, text in texts.items() if re.search(r"[;,] default \w", text)] == []


def test_one_name_leads_to_all_commands(capsys):
    assert warpstack.main(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in warpstack.COMMANDS:  # each with a whole sentence about its purpose
        assert re.search(rf"^  {name} +[A-Z]\w+s ", listed, re.MULTILINE)
        title = (import_module(warpstack.COMMANDS[name]).__doc__ or "").partition("\n")[0]
        assert ":" in title or title.endswith(".")
    assert warpstack.main(["dis", RECURSION]) == 0


@pytest.mark.parametrize(
    "arguments, message", [([], "a command is missing"), (["runs"], "no command runs")]
)
def test_a_command_that_is_none_gets_one_line(capsys, arguments, message):
    assert warpstack.main(arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith(f"warpstack: {message}; there are run, ")
