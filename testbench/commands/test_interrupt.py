"""Ctrl-C, SIGTERM and SIGHUP: the messages of commands, and that they leave no files or processes."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Signal

from rtl.component import Component
from sim import run
from sim.checks.testbench import Bench
from sim.checks.testbench import run as run_testbench
from sim.engine import PysimEngine
from sim.support import interrupt
from sim.support.command import Parser
from sim.support.interrupt import Interrupted, deferred, handled, raise_noted

ROOT = Path(__file__).parents[2]
_HEAD = """\
import os, sys, time
from pathlib import Path
from sim.support.command import OutputFile, Parser
folder = Path(os.environ["FOLDER"])
def ready():
    print("ready", flush=True)
    time.sleep(60)
"""
_TAIL = "\nif __name__ == '__main__':\n    sys.exit(Parser('sim.any', 'does anything', 'it').run(None, body))\n"
_SLEEPER = """\
import os, subprocess, sys, time
from pathlib import Path
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
Path(sys.argv[1]).write_text(f"{os.getpid()} {inner.pid}")
print("ready", flush=True)
time.sleep(60)
"""
"""A program that starts another one, records both process numbers and reports that both run."""


@pytest.fixture
def interrupted(tmp_path) -> Callable[..., tuple[int, str]]:
    """Runs the body of a command until it prints ``ready``, then sends it a signal; returns exit
    code and stderr.

    Signals reach the command whatever their handling in this process is.
    """

    def run(body: str, *signals: signal.Signals, **environment: str) -> tuple[int, str]:
        script = tmp_path / "command.py"
        script.write_text(_HEAD + body + _TAIL)
        folder = tmp_path / "folder"
        folder.mkdir()
        given = {"PYTHONPATH": str(ROOT), "FOLDER": str(folder), **environment}

        def listen() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            for number in signals:
                signal.signal(number, signal.SIG_DFL)

        with subprocess.Popen(
            [sys.executable, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=listen,
            start_new_session=True,
            env={**os.environ, **given},
        ) as process:
            assert process.stdout is not None
            while (line := process.stdout.readline()) not in ("ready\n", ""):
                pass
            if line:
                for number in signals:
                    os.killpg(process.pid, number)  # as a terminal does it
            _, errors = process.communicate(timeout=60)
        assert line, errors
        return process.returncode, errors

    return run


def is_running(pid: int) -> bool:
    """Returns whether a process runs; a process that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def all_end(pids: list[int]) -> bool:
    """Returns whether all processes end soon."""
    end = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_running, pids))


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated: its terminal is gone"),
    ],
)
def test_a_command_ends_with_one_line(interrupted, number, code, word):
    assert interrupted("def body(_): ready()", number) == (code, f"python -m sim.any: {word}\n")


def test_hardware_that_is_being_made_is_no_mistake(interrupted):
    body = """\
from amaranth.hdl import Elaboratable
class Made(Elaboratable):
    pass
def body(_):
    made = Made()
    ready()
"""
    assert interrupted(body, signal.SIGINT) == (130, "python -m sim.any: interrupted\n")


def test_no_garbage_is_collected_at_the_end(interrupted):
    """A design has millions of objects, and one that was interrupted is garbage."""
    body = """
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        print("collected", file=sys.stderr)

def body(_options):
    gc.disable()
    Cycle()
    ready()
"""
    assert interrupted(f"import gc\n{body}", signal.SIGTERM) == (
        143,
        "python -m sim.any: terminated\n",
    )


def test_pressing_twice_is_pressing_once(interrupted, tmp_path):
    """The second signal does not interrupt the cleanup."""
    body = (
        "def body(_):\n    try:\n        ready()\n    finally:\n        time.sleep(0.3)\n"
        "        (folder / 'cleaned').touch()\n"
    )
    assert interrupted(body, signal.SIGINT, signal.SIGINT) == (
        130,
        "python -m sim.any: interrupted\n",
    )
    assert (tmp_path / "folder" / "cleaned").exists()


def test_a_file_is_not_left_half_written(interrupted, tmp_path):
    """The file is one in a context, or one that is not closed."""
    body = (
        "def body(_):\n    other = OutputFile(folder / 'other')\n    other.write(b'half')\n"
        "    with OutputFile(folder / 'file') as file:\n        file.write(b'half')\n        ready()\n"
    )
    assert interrupted(body, signal.SIGINT)[0] == 130
    assert list((tmp_path / "folder").iterdir()) == []


def test_what_a_command_runs_ends_with_it(interrupted, tmp_path):
    """Children of that program end as well; temporary files are removed."""
    body = (
        "from sim.support.children import run_child\n"
        f"def body(_):\n    run_child([sys.executable, '-c', {_SLEEPER!r}, str(folder / 'pids')])\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code, errors = interrupted(body, signal.SIGINT, TMPDIR=str(temporary))
    assert (code, errors) == (130, "python -m sim.any: interrupted\n")
    assert all_end([*map(int, (tmp_path / "folder" / "pids").read_text().split())])
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_what_they_run(interrupted, tmp_path, number):
    body = (
        "from sim.checks.workers import results_of\nfrom sim.support.children import run_child\n"
        f"def work(number):\n    run_child([sys.executable, '-c', {_SLEEPER!r}, str(folder / str(number))])\n"
        "def body(_):\n    for _ in results_of(work, ((n,) for n in range(9)), lambda: True, workers=2):\n"
        "        pass\n"
    )
    code, errors = interrupted(body, number)
    assert (code, errors.count("\n"), "Traceback" in errors) == (128 + number, 1, False), errors
    pids = [
        int(pid) for file in (tmp_path / "folder").iterdir() for pid in file.read_text().split()
    ]
    assert pids and all_end(pids)


def test_a_compiler_ends_and_leaves_no_model(interrupted, tmp_path):
    compiler = tmp_path / "compiler.py"
    compiler.write_text(_SLEEPER.replace("sys.argv[1]", repr(str(tmp_path / "pids"))))
    body = (
        "from testbench.engine.designs import Ripple\nfrom sim.engine import CompiledEngine, make_simulator\n"
        "def body(_): make_simulator(Ripple(), CompiledEngine)\n"
        + _WAIT.format(path=str(tmp_path / "pids"))
    )
    code, errors = interrupted(
        body,
        signal.SIGINT,
        CXX=f"{sys.executable} {compiler}",
        WARPSTACK_CACHE=str(tmp_path / "cache"),
    )
    assert (code, errors) == (130, "python -m sim.any: interrupted\n")
    assert all_end([*map(int, (tmp_path / "pids").read_text().split())])
    assert list((tmp_path / "cache").iterdir()) == []


_WAIT = """\
import threading
def tell():
    while not Path({path!r}).exists():
        time.sleep(0.02)
    print("ready", flush=True)
threading.Thread(target=tell, daemon=True).start()
"""
"""Reports that the compiler runs."""


@pytest.fixture
def listening(monkeypatch):
    """Restores the signal handlers after a command; two simultaneous signals are both handled."""
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(interrupt, "_SAME", 0.0)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_is_noted_until_it_may_be_raised(listening):
    passed = []
    with pytest.raises(Interrupted) as caught, handled():
        with deferred():
            signal.raise_signal(signal.SIGINT)
            passed.append("noted")
            raise_noted()
        passed.append("not raised")
    assert passed == ["noted"] and caught.value.code == 130


def test_a_signal_that_is_not_polled_is_raised_at_the_end(listening):
    with pytest.raises(Interrupted), handled(), deferred():
        signal.raise_signal(signal.SIGINT)


def test_a_thread_that_simulates_keeps_no_signal_from_the_main_thread(listening):
    """A server's thread simulates while the command waits for a program."""
    inside, over = threading.Event(), threading.Event()

    def simulate():
        with deferred():
            inside.set()
            over.wait()
            raise_noted()

    thread = threading.Thread(target=simulate)
    thread.start()
    inside.wait()
    try:
        with pytest.raises(Interrupted), handled():
            signal.raise_signal(signal.SIGINT)
    finally:
        over.set()
        thread.join()


def test_a_second_signal_does_not_wait(listening):
    with pytest.raises(Interrupted), handled(), deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("still here")


def test_a_function_leaves_ctrl_c_to_its_caller():
    def body(_options: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Parser("sim.any", "does anything", "it").run([], body)


def test_a_run_on_the_model_shows_where_its_warps_are(listening, tmp_path, monkeypatch, capsys):
    """No results are written."""
    source, out = tmp_path / "loop.sass", tmp_path / "out.json"
    source.write_text(".kernel k\nagain:\n        BRA again\n")
    monkeypatch.setattr(
        "sys.argv",
        ["sim.run", str(source), "--engine", "model", "--block", "4", "--json", str(out)],
    )

    def step(self: Any, count: int) -> Any:
        signal.raise_signal(signal.SIGINT)
        return honest(self, count // 1000)

    honest = run.WarpModel.run
    monkeypatch.setattr(run.WarpModel, "run", step)
    assert run.main() == 130
    printed = capsys.readouterr()
    assert printed.err == "python -m sim.run: interrupted after 10 instructions\n"
    assert "status        interrupted after 10 instructions\n" in printed.out
    assert re.search(
        r"^warp 0: it can continue\n  next 0x0008  .* BRA 0x", printed.out, re.MULTILINE
    )
    assert "  masks         active 0000000f" in printed.out
    assert not out.exists()


def test_a_testbench_keeps_its_waveform_up_to_there(listening, tmp_path):
    class Counter(Component):
        def __init__(self) -> None:
            super().__init__({})
            self.count = Signal(8)

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.sync += self.count.eq(self.count + 1)
            return m

    dut, waveform = Counter(), tmp_path / "counter.vcd"
    kept = tmp_path / "counter.gtkw"
    kept.write_text("kept")

    async def body(ctx: Any) -> None:
        for cycle in range(100):
            if cycle == 20:
                signal.raise_signal(signal.SIGINT)
            await ctx.tick()

    def test(bench: Bench) -> None:
        bench.simulate(dut, [body], traces={"count": dut.count})

    with pytest.raises(Interrupted) as caught, handled():
        run_testbench("counter", test, PysimEngine, vcd=waveform)
    assert caught.value.line == f"interrupted after 20 cycles; {waveform} goes up to there"
    assert f"#{20 * 10}\n" in waveform.read_text() and f"#{30 * 10}\n" not in waveform.read_text()
    assert kept.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counter.gtkw", "counter.vcd"]
