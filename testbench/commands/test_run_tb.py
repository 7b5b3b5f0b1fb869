"""The command that runs testbenches: its output, its exit codes, and the interface for testbenches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Assert, Format, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from sim.checks import run_tb
from sim.checks.testbench import run
from sim.engine import CompiledEngine, EngineError, PysimEngine

COUNTER = '''\
"""A counter counts up.

And that is all.
"""

from testbench.commands.test_run_tb import Counter


def run(bench):
    dut, wrong = Counter(), bench.seed == 13

    async def count(ctx):
        for number in bench.progress(range(20 if bench.thorough else 10), "counting"):
            bench.expect("the count", ctx.get(dut.count), number + (wrong and number > 6))
            await ctx.tick()
            bench.checked("counts up")

    cycles = bench.simulate(dut, [count], traces={"count": dut.count})
    bench.figure("rate", 10 / cycles, "counts/cycle")
    bench.table("shares", ["who", "counts", "share"], [["one", 1234, 0.5], ["other", 7, 1 / 3]])
'''


class Counter(wiring.Component):
    count: Out(8)

    def __init__(self, limit=255):
        super().__init__()
        self.limit = limit

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + 1)
        m.d.sync += Assert(self.count <= self.limit, Format("count is {:d}", self.count))
        return m


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Changes to a folder with two testbenches."""
    (tmp_path / "tb_counter.py").write_text(COUNTER)
    (tmp_path / "tb_broken.py").write_text('"""Cannot even be read."""\nraise SyntaxError\n')
    (tmp_path / "helper.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_tb, "ROOT", tmp_path)
    return tmp_path


def outcome(capsys, folder, *arguments):
    """Returns exit code, output and errors of the command, without the run time."""
    try:
        code = run_tb.main(arguments, folder)
    except SystemExit as exit:
        code = exit.code
    output, errors = capsys.readouterr()
    return (
        code,
        "\n".join(
            line.partition(" in ")[0] if line.startswith("PASS") else line
            for line in output.splitlines()
        ),
        errors,
    )


def test_the_list_has_a_whole_sentence_for_each_testbench(capsys):
    assert run_tb.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(run_tb.testbenches())
    assert [line for line in lines if not line.endswith(".")] == []


def test_the_list_has_the_first_sentence_of_each(capsys, folder):
    (folder / "tb_long.py").write_text(
        '"""A counter whose first sentence\ntakes two lines. More."""\n'
    )
    assert (
        run_tb.title_of(folder / "tb_long.py") == "A counter whose first sentence takes two lines."
    )
    (folder / "tb_long.py").unlink()
    assert outcome(capsys, folder, "--list") == (
        0,
        "broken   Cannot even be read.\ncounter  A counter counts up.",
        "",
    )


def test_a_passing_testbench_says_what_it_checked_and_measured(capsys, folder):
    assert outcome(capsys, folder, "counter", "--engine", "pysim") == (
        0,
        """\
counter: A counter counts up.
engine pysim, seed 0

checked
  10  counts up

figures
  cycles  10
  rate     1  counts/cycle

shares
  who    counts   share
  one     1,234     0.5
  other       7  0.3333

PASS
waveform waveforms/counter.vcd, shown by: gtkwave waveforms/counter.gtkw
""",
        "",
    )
    assert sorted(path.name for path in (folder / "waveforms").iterdir()) == [
        "counter.gtkw",
        "counter.vcd",
    ]


def test_a_failing_testbench_shows_the_first_difference_and_its_waveform(capsys, folder):
    code, output, _ = outcome(
        capsys, folder, "counter", "--engine", "pysim", "--seed", "13", "--vcd", "y.vcd"
    )
    assert code == 1
    assert output.splitlines()[-2:] == [
        "FAIL the count: 7, expected 8, at clock edge 7 (70 ns)",
        "waveform y.vcd, shown by: gtkwave y.gtkw",
    ]
    assert (folder / "y.vcd").read_text().endswith("#75\n0!\n#80\n")


def test_a_waveform_may_go_to_a_pipe(capsys, folder):
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
    code, output, _ = outcome(capsys, folder, "counter", "--engine", "pysim", "--vcd", "pipe")
    assert code == 0
    assert output.splitlines()[-1] == "waveform pipe"
    outcome(capsys, folder, "counter", "--engine", "pysim", "--vcd", "file.vcd")
    assert os.read(reader, 1 << 16) == (folder / "file.vcd").read_bytes()
    os.close(reader)
    assert (folder / "pipe").is_fifo()
    assert not (folder / "pipe.gtkw").exists()


def test_a_waveform_that_cannot_be_written_gets_one_line(capsys, folder, full_device):
    assert outcome(capsys, folder, "counter", "--engine", "pysim", "--vcd", str(full_device)) == (
        2,
        "",
        f"python -m sim.run_tb: {full_device}: No space left on device\n",
    )
    assert full_device.is_char_device()
    assert not full_device.with_suffix(".gtkw").exists()


def test_the_long_form_and_no_waveform(capsys, folder):
    code, output, _ = outcome(capsys, folder, "counter", "--engine", "pysim", "--all", "--no-vcd")
    assert code == 0
    assert "  20  counts up" in output.splitlines()
    assert output.splitlines()[-1] == "PASS"
    assert not (folder / "waveforms").exists()


def test_all_testbenches_run_without_a_name(capsys, folder):
    (folder / "tb_broken.py").unlink()
    (folder / "tb_other.py").write_text(COUNTER.replace("number + ", "number + 1 + "))
    code, output, _ = outcome(capsys, folder, "--all", "--engine", "pysim")
    assert code == 1
    assert [
        line.partition(" ")[0] for line in output.splitlines() if line.startswith(("PASS", "FAIL"))
    ] == ["PASS", "FAIL"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no testbench nonsense; there are broken, counter"),
        ([], "no testbench is named; there are broken, counter"),
        (["counter", "--engine", "fast"], "no engine fast; there are auto, pysim, compiled"),
        (["counter", "--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["--all", "--vcd", "a.vcd"], "--vcd names one file, and there are several testbenches"),
        (["counter", "--engine", "pysim", "--vcd", "."], ".: Is a directory"),
        (
            ["counter", "--record", "--no-vcd"],
            "--record and --no-vcd exclude each other: --record only records the waveform of a testbench",
        ),
        (
            ["counter", "--record", "--all"],
            "--record and --all exclude each other: --record only records the waveform of a testbench",
        ),
        (
            ["counter", "--engine", "pysim", "--vcd", "helper.py/x/y.vcd"],
            "helper.py/x/y.vcd: Not a directory",
        ),
    ],
)
def test_bad_arguments_get_one_line(capsys, folder, arguments, message):
    assert outcome(capsys, folder, *arguments) == (2, "", f"python -m sim.run_tb: {message}\n")


def test_a_waveform_can_be_recorded_without_checks(capsys, folder):
    testbench = folder / "tb_counter.py"
    without = outcome(capsys, folder, "counter", "--engine", "pysim", "--record")
    assert without == (2, "", f"python -m sim.run_tb: {testbench}: no function record(bench)\n")
    testbench.write_text(
        COUNTER
        + "\n\ndef record(bench):\n"
        + "    async def wait(ctx):\n        await ctx.tick().repeat(7)\n\n"
        + '    bench.simulate(Counter(), [wait], traces={})\n    bench.expect("the seed", bench.seed, 0)\n'
    )
    code, output, _ = outcome(capsys, folder, "counter", "--engine", "pysim", "--record")
    *lines, end, file = output.splitlines()
    assert code == 0 and lines == ["counter: A counter counts up.", "engine pysim, seed 0", ""]
    assert end.startswith("recorded 7 cycles in ")
    assert file == "waveform waveforms/counter.vcd, shown by: gtkwave waveforms/counter.gtkw"
    code, output, _ = outcome(
        capsys, folder, "counter", "--engine", "pysim", "--record", "--seed", "1"
    )
    assert code == 1 and "FAIL the seed: 1, expected 0" in output and "recorded" not in output


@pytest.mark.skipif(shutil.which("vcd2fst") is None, reason="vcd2fst of GTKWave is not installed")
def test_a_waveform_can_be_an_fst(capsys, folder):
    code, output, _ = outcome(capsys, folder, "counter", "--engine", "pysim", "--fst")
    assert code == 0
    assert (
        output.splitlines()[-1]
        == "waveform waveforms/counter.fst, shown by: gtkwave waveforms/counter.fst.gtkw"
    )
    assert sorted(path.name for path in (folder / "waveforms").iterdir()) == [
        "counter.fst",
        "counter.fst.gtkw",
    ]


def test_the_slow_engine_says_how_to_get_the_fast_one(capsys, folder, monkeypatch):
    monkeypatch.setattr(
        CompiledEngine,
        "missing",
        classmethod(lambda _engine: "there is no C++ compiler: install one"),
    )
    code, output, errors = outcome(capsys, folder, "counter", "--no-vcd")
    assert (code, errors) == (
        0,
        "engine pysim; compiled would be faster, but there is no C++ compiler: install one\n",
    )
    assert "engine pysim, seed 0" in output
    assert outcome(capsys, folder, "counter", "--engine", "compiled") == (
        2,
        "",
        "python -m sim.run_tb: engine compiled: there is no C++ compiler: install one\n",
    )


def test_an_engine_that_fails_later_gets_one_line_too(capsys, folder, monkeypatch):
    def refuse(_self, _design):
        raise EngineError("no engine simulates EHXPLLL")

    monkeypatch.setattr(PysimEngine, "__init__", refuse)
    assert outcome(capsys, folder, "counter", "--engine", "pysim") == (
        2,
        "",
        "python -m sim.run_tb: no engine simulates EHXPLLL\n",
    )


def test_it_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "sim.run_tb", "no such unit"],
        capture_output=True,
        text=True,
        cwd=run_tb.ROOT,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("python -m sim.run_tb: no testbench no such unit; there are ")
    assert len(done.stderr.splitlines()) == 1


def simulated(testbench, dut=None, **options):
    """Returns the report of a testbench that simulates a counter."""
    dut = dut or Counter()

    def body(bench):
        async def bound(ctx):
            await testbench(bench, ctx, dut)

        bench.simulate(dut, [bound], **options)

    return run("counter", body, PysimEngine)


async def wait(_bench, ctx, _dut):
    await ctx.tick().repeat(100)


def test_pytest_can_look_at_a_report():
    report = simulated(wait)
    assert report.passed
    assert (report.name, report.engine, report.cycles, report.waveforms) == (
        "counter",
        "pysim",
        100,
        [],
    )


def test_an_assertion_in_the_hardware_is_a_failure_with_its_place():
    report = simulated(wait, Counter(limit=6))
    lines = Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "m.d.sync += Assert" in text)
    assert report.failure is not None
    assert report.failure.endswith(
        f"test_run_tb.py:{line}: Assertion violated: count is 7, at clock edge 8 (80 ns)"
    )
    assert report.cycles == 8


def test_an_assertion_in_the_testbench_is_a_failure_with_its_line():
    async def testbench(_bench, ctx, dut):
        await ctx.tick()
        assert ctx.get(dut.count) == 5

    report = simulated(testbench, name="short")
    assert report.failure is not None
    assert report.failure.endswith(": assert 1 == 5, at clock edge 1 (10 ns) of short")


def test_a_run_without_end_is_a_failure():
    async def testbench(_bench, ctx, _dut):
        while True:
            await ctx.tick()

    assert (
        simulated(testbench, limit=2000).failure
        == "not over after 2,000 cycles, at clock edge 2000 (20000 ns)"
    )


def test_a_combinational_loop_is_a_failure_that_names_it():
    class Loop(wiring.Component):
        a: Out(1)

        def elaborate(self, platform):
            m = Module()
            x = Signal()
            m.d.comb += x.eq(~x)
            m.d.sync += self.a.eq(x)
            return m

    report = simulated(wait, Loop())
    assert report.failure is not None
    assert report.failure.startswith("Combinational cycle detected, path:")
    assert "signal x bit 0" in report.failure


def test_other_errors_are_not_hidden():
    async def testbench(_bench, ctx, dut):
        ctx.get(dut.nothing)

    with pytest.raises(AttributeError):
        simulated(testbench)


def test_several_simulations_have_their_own_waveforms(tmp_path):
    def body(bench):
        for name in ("", "deep", "deep"):
            dut = Counter()

            async def testbench(ctx):
                await ctx.tick().repeat(bench.random.randrange(1, 5))

            bench.simulate(dut, [testbench], traces={"count": dut.count}, name=name)

    first = run("counter", body, PysimEngine, seed=3, vcd=tmp_path / "a.vcd")
    assert first.waveforms == [
        (tmp_path / f"{name}.vcd", tmp_path / f"{name}.gtkw") for name in ("a", "a_deep")
    ]
    assert run("counter", body, PysimEngine, seed=3).cycles == first.cycles
    assert {run("counter", body, PysimEngine, seed=seed).cycles for seed in range(5)} != {
        first.cycles
    }


def test_background_testbenches_act_first():
    log = []

    def body(bench):
        async def device(ctx):
            while True:
                log.append("device")
                await ctx.tick()

        async def testbench(ctx):
            for _ in range(2):
                log.append("testbench")
                await ctx.tick()

        bench.simulate(Counter(), [testbench], background=[device])

    assert run("counter", body, PysimEngine).passed
    assert log == ["device", "testbench"] * 2 + ["device"]


@pytest.mark.parametrize("path", run_tb.testbenches().values(), ids=lambda path: path.stem)
def test_testbenches_need_nothing_of_the_extra_test(path):
    """Users who install the package without extras can run them."""
    missing = "sys.modules |= dict.fromkeys(('pytest', 'hypothesis', 'vcdvcd'))"
    script = f"import sys; {missing}; import {run_tb.module_name(path)}"
    subprocess.run([sys.executable, "-c", script], cwd=run_tb.ROOT, check=True)
