"""The machine from Python, and the notebook that shows it: what its cells show is what they would show now."""

import json
from pathlib import Path

import numpy as np
import pytest

import sim
from rtl.params import PRESETS
from sim import Machine
from sim.api import DifferenceError, Picture
from sim.toolchain.module import ProgramError
from testbench.engine.designs import needs_compiled
from testbench.notebooks.execute import execute, shown

NOTEBOOK = Path(__file__).parents[2] / "docs" / "machine.ipynb"
SUM = """
.kernel sum
.param a 8
.param b 8
.param n 4
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, c[0x0][n], PT
    @P0 EXIT
        ISCADD R2.CC, R0, c[0x0][a], 0x2
        IADD.X R3, RZ, c[0x0][a+4]
        LDG.E R4, [R2]
        ISCADD R6.CC, R0, c[0x0][b], 0x2
        IADD.X R7, RZ, c[0x0][b+4]
        LDG.E R5, [R6]
        IADD R4, R4, R5
        STG.E [R6], R4
        EXIT
"""


@pytest.fixture(scope="module")
def model():
    return Machine("tiny", engine="model")


@pytest.fixture
def kernel(model):
    return model.load(SUM)


def test_arrays_go_in_and_come_out(kernel):
    a, b = np.arange(40, dtype=np.int32), np.full(40, 100, np.int32)
    run = kernel(a, b, 30, block=40)
    assert (run.status, run.cycles, str(run)) == ("ok", 0, run.report)
    assert b.tolist() == [100 + number for number in range(30)] + [100] * 10
    assert a.tolist() == list(range(40))


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "model"},
        pytest.param({"engine": "compiled", "check": True}, marks=needs_compiled),
    ],
)
def test_arrays_that_are_made_while_a_launch_runs_stay(options):
    machine = Machine("tiny", **options)
    kernel, made = machine.load(SUM), []
    a, b = machine.array(np.arange(8, dtype=np.uint32)), machine.array(np.zeros(8, np.uint32))
    regions = len(machine.memory.regions)
    kernel(
        a,
        b,
        8,
        block=8,
        progress=lambda _cycles: made.append(machine.array(np.arange(4, dtype=np.uint32))),
    )
    assert made
    assert len(machine.memory.regions) == regions + len(made)
    kernel(made[0], b, 4, block=4)
    assert b.get().tolist() == [0, 2, 4, 6, 4, 5, 6, 7]
    assert all(one.get().tolist() == [0, 1, 2, 3] for one in made)


def test_arrays_of_any_shape_and_order(kernel):
    a, whole = np.arange(12, dtype=np.uint32).reshape(3, 4), np.zeros((3, 8), np.uint32)
    kernel(a, whole[:, ::2], 12, block=12)
    assert whole[:, ::2].tolist() == a.tolist()
    assert not whole[:, 1::2].any()


def test_arrays_that_cannot_be_written_stay(kernel):
    a, b = np.ones(4, np.uint32), np.ones(4, np.uint32)
    b.flags.writeable = False
    kernel(a, b, 4, block=4)
    assert b.tolist() == [1] * 4


COUNTS = """
.version 7.8
.target sm_50
.address_size 64
.visible .global .align 4 .u32 calls;
.visible .entry add(.param .u64 to, .param .u32 step)
{
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d1, [to]; ld.param.u32 %r1, [step];
mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, %r1; st.global.u32 [%d1], %r3;
atom.global.add.u32 %r3, [calls], 1;
ret;
}
"""


@pytest.mark.parametrize("engine", ["model", pytest.param("compiled", marks=needs_compiled)])
def test_device_arrays_and_programs_stay_between_launches(engine):
    machine = Machine("tiny", engine=engine, check=engine != "model")
    add = machine.load(COUNTS, "add")
    values = machine.array(np.arange(32, dtype=np.uint32).reshape(4, 8))
    for step in (1, 10):
        run = add(values, step)
        assert (run.status, run.error) == ("ok", None)
        assert (
            f"argument 0, 128 bytes at {values.address:#x}: {1 if step == 1 else 11} " in run.report
        )
    assert (values.get() == np.arange(11, 43).reshape(4, 8)).all()
    assert np.asarray(values, np.int64).dtype == np.int64
    assert (values.shape, values.dtype, len(values)) == ((4, 8), np.uint32, 4)
    values.set(5)
    session = add.start(values, 2)
    session.step()
    assert (np.asarray(values) == 5).all()
    assert session.run().status == "ok"
    assert (np.asarray(values) == 7).all()


def test_global_variables_of_a_program_keep_what_launches_leave_there():
    machine = Machine("tiny", engine="model")
    add, out = machine.load(COUNTS, "add"), np.zeros(32, np.uint32)
    for _ in range(3):
        add(out, 1)
    assert out.tolist() == [3] * 32
    session = add.start(out, 1)
    session.run()
    base = machine.memory.regions["globals"][0]
    assert machine.memory.read_number(base, 4) == 3 * 32  # a session works on a copy


def test_what_is_collected_leaves_the_memory():
    machine = Machine("tiny", engine="model")
    kernel, array = machine.load(COUNTS, "add"), machine.array(np.zeros(8, np.uint32))
    other = machine.array([1.0, 2.0])
    assert {"program", "array", "array 2"} <= machine.memory.regions.keys()
    kernel(np.zeros(32, np.uint32), 1)
    assert not [name for name in machine.memory.regions if name.startswith(("argument", "local"))]
    other.free()
    other.free()
    assert repr(other) == "DeviceArray(shape=(2,), dtype=float64, freed)"
    del kernel, array
    assert machine.memory.regions == {}


def test_an_error_says_where_it_was(model):
    kernel = model.load(SUM)
    nowhere = kernel(16, np.zeros(4, np.int32), 4, block=4)
    assert nowhere.status == "error"
    assert str(nowhere.error).startswith("kernel sum: MMU_FAULT at pc 0x")
    assert str(nowhere.error).endswith("warp 0, block [0,0,0], thread [0,0,0], address 0x10")


def test_bad_uses_of_device_arrays_are_said_in_one_line(model, kernel):
    array, freed = model.array(np.zeros(4, np.int32)), model.array(np.zeros(4, np.int32))
    freed.free()
    stranger = Machine("tiny", engine="model").array(np.zeros(4, np.int32))
    for use, message in (
        (
            lambda: kernel(array, stranger, 4),
            "argument 1: the array is in the memory of another machine",
        ),
        (lambda: kernel(freed, array, 4), "argument 0: the array was freed"),
        (
            lambda: kernel(array, array, array),
            "argument 2: an array's address has 8 bytes, the parameter 4",
        ),
        (freed.get, "the array was freed"),
        (lambda: freed.set(1), "the array was freed"),
        (lambda: model.array(["a"]), "an array of <U1 has no place in a machine's memory"),
        (lambda: model.array(None), "an array of object has no place in a machine's memory"),
        (
            lambda: array.set(np.zeros(5)),
            r"an array of shape \(4,\) and type int32 can't have these values: .*",
        ),
    ):
        with pytest.raises(ProgramError, match=f"^{message}$"):
            use()
    with pytest.raises(ValueError, match="without a copy"):
        np.array(array, copy=False)


def test_programs_are_files_and_texts(model, tmp_path):
    path = tmp_path / "sum.sass"
    path.write_text(SUM)
    for program in (path, str(path)):
        assert model.load(program).name == "sum"
    assert model.load(SUM, "sum").sizes == (8, 8, 4)
    ptx = ".version 7.8\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n  ret;\n}\n"
    assert model.load(ptx).sizes == (8,)


def test_all_warps_of_a_session_step_together(kernel):
    b = np.full(40, 100, np.int32)
    session = kernel.start(np.arange(40, dtype=np.int32), b, 34, block=40)
    assert sorted(session.warps) == [0, 1]
    session.step(1)
    assert [session.warps[slot].pc for slot in (0, 1)] == [0x8, 0x10]
    assert session.warps[1].registers[0][:3].tolist() == [32, 33, 34]
    session.step(1)
    assert session.warps[1].predicates[0][:4].tolist() == [False, False, True, True]
    assert session.warps[1].masks["active"] == 0xFF
    session.step(1)
    assert session.warps[1].masks["exited"] == 0xFC
    assert session.warps[1].next.startswith("ISCADD ")
    assert "masks         active 00000003" in str(session.warps[1])
    assert b[0] == 100
    assert session.run().status == "ok"
    assert b[33] == 133
    assert session.warps == {}
    with pytest.raises(ProgramError, match="there is no warp 1: there are none"):
        session.step(1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1, 2), {}, "kernel sum takes 3 arguments, not 2"),
        (
            (np.zeros(4), np.zeros(4), np.zeros(4)),
            {},
            "argument 2: an array's address has 8 bytes, the parameter 4",
        ),
        ((np.array([None]), 0, 0), {}, "argument 0: an array of object has no bytes"),
        ((0, 0, np.int64(1)), {}, "argument 2: int64 has 8 bytes, the parameter 4"),
        ((0, 0, 1 << 32), {}, "argument 2: 4294967296 does not fit into 4 bytes"),
        ((0, 0, 1e39), {}, r"argument 2: 1e\+39 is too large for 4 bytes"),
        ((0, 0, "4"), {}, "argument 2: str is neither an array nor a number"),
        ((0, 0, 0), {"block": (1, 2, 3, 4)}, r"\(1, 2, 3, 4\) is not one, two or three numbers"),
        (
            (0, 0, 0),
            {"block": 256},
            r"a block of 256 threads needs 8 warps, the machine \(tiny\) has 2",
        ),
        (
            (0, 0, 0),
            {"vcd": "k.vcd"},
            "a waveform needs hardware, which the engine model does not have",
        ),
    ],
)
def test_bad_kernel_arguments_are_refused_by_name(kernel, arguments, options, message):
    with pytest.raises(ProgramError, match=f"^{message}$"):
        kernel(*arguments, **options)


def test_programs_that_are_none(model):
    with pytest.raises(ProgramError, match=r"^the text is no program: "):
        model.load("this is\nno program")
    with pytest.raises(ProgramError, match=r"^program\.sass:2:1: "):
        model.load(".kernel k\nFROB R0\n")
    with pytest.raises(ValueError, match="no preset huge: there are tiny, "):
        Machine("huge")
    with pytest.raises(AttributeError, match="module 'sim' has no attribute 'Nothing'"):
        _ = sim.Nothing


@needs_compiled
def test_the_hardware_does_what_the_model_does(kernel, tmp_path):
    machine = Machine(PRESETS["tiny"], engine="compiled", check=True)
    a, b, c = np.arange(40, dtype=np.int32), np.full(40, 7, np.int32), np.full(40, 7, np.int32)
    kernel(a, b, 33, block=40)
    run = machine.load(SUM)(a, c, 33, block=40, vcd=tmp_path / "sum.vcd")
    assert run.cycles
    assert run.counters["instructions"] == run.instructions
    assert b.tolist() == c.tolist()
    picture = run.picture("issue.valid", "issue.pc@issue.valid", first=10, cycles=5)
    assert isinstance(picture, Picture)
    picture.save(tmp_path / "sum.svg")
    assert (tmp_path / "sum.svg").read_text().startswith("<svg ")


@needs_compiled
def test_a_difference_is_an_exception(monkeypatch):
    machine = Machine("tiny", engine="compiled", check=True)
    loaded = machine.load(SUM)
    monkeypatch.setattr(
        "sim.machine.lockstep.memory_difference", lambda *memories: "buffer a, byte 0"
    )
    with pytest.raises(
        DifferenceError, match=r"^difference    memory at the end: buffer a, byte 0$"
    ):
        loaded(np.zeros(4, np.int32), np.zeros(4, np.int32), 4, block=4)


@needs_compiled
def test_the_notebook_shows_what_it_would_show_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert shown(execute(kept)) == shown(kept)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".vcd"] == ["halve.vcd"]
