"""The timeline of a run: as a page in a real browser, as a trace, as a log."""

import json
import re
import shutil
import subprocess
from itertools import combinations, pairwise

import pytest

from rtl.isa.errors import WarpError
from rtl.layouts import InstructionKind, WaitReason
from rtl.params import SmParams
from sim.machine.timeline import IssuedInstruction, Span, Timeline
from sim.report.timeline import REASONS, konata, page, trace
from sim.run import main
from testbench import refusal
from testbench.engine.designs import needs_compiled
from testbench.programs import ADD, BUFFERS
from testbench.words import NOP, move

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
DRIVE = """<script>
const box = canvas.getBoundingClientRect(), began = performance.now();
for (let turn = 0; turn < 40; turn++)
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: turn < 20 ? -100 : 100, clientX: box.left + 300,
                                                 clientY: box.top + 60, cancelable: true }));
const took = (performance.now() - began) / 40;
canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + HERE, clientY: box.top + 40 }));
document.title = JSON.stringify({ tip: tip.innerText, shown: tip.style.display, took,
                                  on: tip.querySelectorAll("td.on").length });
</script>"""


def made(instructions=2):
    """Returns a timeline of two warps; the first is ready, issues and waits alternately."""
    timeline = Timeline(SmParams(warps=2))
    for number in range(instructions):
        begin = 10 * number
        timeline.spans += [
            Span(0, begin, begin + 3, WaitReason.READY),
            Span(0, begin + 3, begin + 10, WaitReason.STALL),
        ]
        timeline.executed.append(
            IssuedInstruction(
                0,
                begin + 2,
                8 * number,
                move(1, number & 0xFFFF),
                InstructionKind.LANES.value,
                0xFF,
                begin + 9,
            )
        )
    timeline.spans.append(Span(1, 5, 10 * instructions, WaitReason.RESUME))
    timeline.executed.append(
        IssuedInstruction(1, 5, 0, NOP, InstructionKind.NOTHING.value, 1, None, WarpError.NONE)
    )
    timeline.cycles = 10 * instructions
    return timeline


def test_colours_can_be_distinguished():
    """The distance of two colours weighs red, green and blue by the mean of their reds (Riemersma's
    formula).
    """

    def distance(one: str, other: str) -> float:
        (r, g, b), (s, h, c) = (
            [int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (one, other)
        )
        mean = (r + s) / 2
        return (
            (2 + mean / 256) * (r - s) ** 2
            + 4 * (g - h) ** 2
            + (2 + (255 - mean) / 256) * (b - c) ** 2
        ) ** 0.5

    colours = [colour for colour, _ in REASONS.values()]
    assert min(distance(one, other) for one, other in combinations(colours, 2)) > 100


def test_a_trace_has_states_and_issues_of_each_warp():
    events = json.loads(trace(made()))["traceEvents"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == [
        "warp 0",
        "warp 0: issued",
        "warp 1",
        "warp 1: issued",
    ]
    states = [
        tuple(event[name] for name in ("tid", "ts", "dur", "name"))
        for event in events
        if event.get("cat") == "state"
    ]
    assert states == [
        (0, 0, 3, "ready"),
        (0, 3, 7, "stall"),
        (0, 10, 3, "ready"),
        (0, 13, 7, "stall"),
        (2, 5, 15, "resume"),
    ]
    issued = [event for event in events if event.get("cat") == "instruction"]
    assert [(event["tid"], event["ts"], event["name"].split()[0]) for event in issued] == [
        (1, 2, "MOV32I"),
        (1, 12, "MOV32I"),
        (3, 5, "NOP"),
    ]
    assert issued[0]["args"] == {
        "pc": "0x0000",
        "active": "000000ff",
        "complete": 9,
        "error": "NONE",
    }


def test_a_log_for_konata():
    lines = konata(made()).splitlines()
    assert lines[:2] == ["Kanata\t0004", "C=\t0"]
    now, stages = 0, {}
    for line in lines[2:]:
        what, *fields = line.split("\t")
        if what == "C":
            assert int(fields[0]) > 0
            now += int(fields[0])
        elif what in "SER":
            stages.setdefault(int(fields[0]), []).append((what, now))
    assert stages == {
        0: [("S", 2), ("E", 9), ("R", 9)],
        1: [("S", 12), ("E", 19), ("R", 19)],
        2: [("S", 5), ("E", 20), ("R", 20)],
    }


def test_a_page_has_all_in_itself():
    text = page(made(), "A </script> title")
    (written,) = re.findall(r"const content = (.*);\n", text)
    content = json.loads(written.replace("<\\/", "</"))
    assert content["title"] == "A </script> title"
    assert text.count("</script>") == 1
    assert content["spans"] == [[0, 3, 0, 3, 10, 1, 10, 13, 0, 13, 20, 1], [5, 20, 8]]
    assert content["executed"][0][:6] == [2, 9, 0, 0, 0xFF, 0]
    assert "http" not in text


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize(("instructions", "here"), [(2, 200), (50_000, 400)])
def test_a_page_in_a_browser(instructions, here, tmp_path):
    """The page renders, hovering shows the instruction and its threads, and 10^5 elements are
    responsive.
    """
    path = tmp_path / "page.html"
    path.write_text(
        page(made(instructions), "k").replace(
            "</html>", DRIVE.replace("HERE", str(here)) + "</html>"
        )
    )
    assert BROWSER is not None
    shown = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,400",
            "--dump-dom",
            f"--user-data-dir={tmp_path / 'profile'}",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    state = json.loads(re.findall("<title>(.*)</title>", shown)[0])
    assert state["shown"] == "block"
    assert state["tip"].startswith("warp 0, cycle ")
    assert "MOV32I R1, 0x" in state["tip"]
    assert state["on"] == 8
    assert state["took"] < 100  # milliseconds for a step of the wheel, on any machine


@needs_compiled
def test_the_timeline_of_a_kernel(tmp_path, capsys):
    files = {name: tmp_path / f"run.{name}" for name in ("timeline", "trace", "konata")}
    given = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert (
        main(
            [
                ADD,
                "--preset",
                "tiny",
                *BUFFERS,
                "--arg",
                "u32:40",
                "--block",
                "40",
                "--json",
                str(tmp_path / "run.json"),
                *given,
            ]
        )
        == 0
    )
    result = json.loads((tmp_path / "run.json").read_text())
    events = json.loads(files["trace"].read_text())["traceEvents"]
    issued = [event for event in events if event.get("cat") == "instruction"]
    assert len(issued) == result["instructions"]
    assert {event["tid"] for event in issued} == {1, 3}
    assert all(event["args"]["complete"] is not None for event in issued)
    assert {event["args"]["active"] for event in issued if event["tid"] == 3} == {"000000ff"}
    spans = sorted(
        (event["tid"], event["ts"], event["dur"]) for event in events if event.get("cat") == "state"
    )
    assert all(one[0] != next_[0] or one[1] + one[2] <= next_[1] for one, next_ in pairwise(spans))
    assert files["timeline"].read_text().startswith("<!doctype html>")
    (written,) = re.findall(r"const content = (.*);\n", files["timeline"].read_text())
    assert json.loads(written)["ran"] == result["cycles"]
    assert json.loads(written)["cycles"] == max(start + length for _, start, length in spans)
    assert files["konata"].read_text().count("\nI\t") == result["instructions"]
    assert f"timeline      {files['timeline']}" in capsys.readouterr().out


def test_files_and_engines_that_cannot_record_are_refused(capsys, tmp_path):
    for name in ("timeline", "trace", "konata"):
        arguments = [ADD, *BUFFERS, "--arg", "u32:1", f"--{name}", str(tmp_path / "no" / "file")]
        assert refusal.refused(capsys, main, arguments).endswith(
            f"no/file: No such file or directory: there is no folder {tmp_path / 'no'}"
        )
        assert refusal.refused(capsys, main, [*arguments, "--engine", "model"]).endswith(
            f"--{name} needs hardware, which the engine model does not have"
        )
