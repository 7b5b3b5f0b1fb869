"""A sequence diagram shows the events in a waveform's signals as messages at their cycles and in
their columns.
"""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from vcd import VCDWriter

from rtl.isa.registers import SM_BLOCK, SM_REGISTERS, WORK_BLOCK, WORK_REGISTERS
from sim.waves.picture import PictureError, Waveform
from sim.waves.sequence import draw, main, messages

ROOT = Path(__file__).parents[2]
PERIOD, CYCLES = 10, 8
LAUNCH = WORK_BLOCK + WORK_REGISTERS["LAUNCH"].offset
NAME, REGISTER = next(iter(SM_REGISTERS.items()))
SM = SM_BLOCK + REGISTER.offset


def waveform(path, changes=(), cycles=CYCLES, warps=(0, 1)):
    """Writes a waveform of the whole machine, in which signals change: (cycle, name, value)."""
    at_first = {
        "host.write": 0,
        "host.address": 0,
        "host.data": 0,
        "machine.trap": "RUNNING",
        "machine.error": "",
        "machine.interrupt": 0,
        "trap.barrier": 0,
    }
    for warp in warps:
        at_first |= {
            f"warp{warp}.{name}": text
            for name, text in (
                ("instruction", ""),
                ("trap", "outside"),
                ("token", ""),
                ("active", ""),
            )
        }
    with path.open("w") as file, VCDWriter(file, timescale="1 ns", date="", version="") as writer:
        clock = writer.register_var("sm", "clk", "wire", size=1, init=1)
        variables = {}
        for name, value in at_first.items():
            scope, _, last = name.partition(".")
            kind, size = ("string", None) if isinstance(value, str) else ("wire", 32)
            variables[name] = writer.register_var(("sm", scope), last, kind, size=size, init=value)
        for cycle in range(cycles):
            if cycle:
                writer.change(clock, cycle * PERIOD, 1)
            for at, name, value in changes:
                if at == cycle:
                    writer.change(variables[name], cycle * PERIOD, value)
            writer.change(clock, cycle * PERIOD + PERIOD // 2, 0)
        writer.close(cycles * PERIOD)
    return Waveform(path)


def told(wave, first=0, count=None):
    found = messages(wave, first, wave.cycles - first if count is None else count)
    return [(one.cycle, one.sender, one.receiver, one.text) for one in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(3, "warp1.trap", "in the handler")], [(3, "warp 1", "warp 1", "is in the handler")]),
        (
            [(2, "warp0.trap", "waiting"), (4, "warp0.trap", "outside")],
            [
                (2, "warp 0", "warp 0", "is waiting"),
                (4, "warp 0", "warp 0", "is outside of the trap"),
            ],
        ),
        (
            [(2, "warp0.token", "+SSY"), (5, "warp0.token", "-SSY")],
            [(2, "warp 0", "stack", "push SSY"), (5, "stack", "warp 0", "pop SSY")],
        ),
        (
            [(2, "warp0.active", "0000000f"), (5, "warp0.active", "ended")],
            [
                (2, "warp 0", "warp 0", "resumes with 0000000f"),
                (5, "warp 0", "warp 0", "has ended"),
            ],
        ),
        (
            [
                (2, "machine.error", "warp 0: 0068 MMU_FAULT"),
                (4, "machine.error", "warp 0: 0070 OOR_ADDR, warp 1: 0008 OOR_REG"),
                (6, "machine.error", ""),
            ],
            [
                (2, "warp 0", "trap unit", "0068: MMU_FAULT"),
                (4, "warp 0", "trap unit", "0070: OOR_ADDR"),
                (4, "warp 1", "trap unit", "0008: OOR_REG"),
            ],
        ),
        (
            [(2, "machine.trap", "TRAPPING"), (5, "machine.trap", "RUNNING")],
            [
                (2, "trap unit", "", "the machine is TRAPPING"),
                (5, "trap unit", "", "the machine is RUNNING"),
            ],
        ),
        (
            [(2, "machine.interrupt", 1), (5, "machine.interrupt", 0)],
            [
                (2, "trap unit", "host", "interrupt"),
                (5, "trap unit", "host", "no interrupt any more"),
            ],
        ),
    ],
)
def test_a_state_that_changes_is_a_message(tmp_path, changes, expected):
    assert told(waveform(tmp_path / "a.vcd", changes)) == expected


@pytest.mark.parametrize(
    ("shown", "sender", "receiver"),
    [
        ("0008 BPT.TRAP 0x1", "warp 1", "trap unit"),
        ("0010 @!P0 BPT.INT 0x2", "warp 1", "trap unit"),
        ("0018 RTT", "warp 1", "trap unit"),
        ("0020 IDE.DI 0x1", "warp 1", "trap unit"),
        ("0028 BAR.SYNC 0x0", "warp 1", "barrier unit"),
        ("0030 @P3 BAR.ARV 0x0, 0x40", "warp 1", "barrier unit"),
        ("enters the trap", "trap unit", "warp 1"),
        ("leaves the trap", "trap unit", "warp 1"),
    ],
)
def test_an_instruction_for_a_unit_is_a_message_to_it(tmp_path, shown, sender, receiver):
    wave = waveform(tmp_path / "a.vcd", [(4, "warp1.instruction", shown)])
    assert told(wave) == [(4, sender, receiver, shown)]


def test_other_instructions_are_counted_where_they_begin(tmp_path):
    """They are counted up to the next message of the warp, and to the end; BARS is not an
    instruction of barriers.
    """
    texts = ["MOV R0, R1", "@P0 BAR.SYNC 0x0", "BARS", "@P0 MOV R1, R2", "RTT", "NOP", "NOP"]
    changes = [
        (at, "warp0.instruction", f"{8 * at:04x} {text}") for at, text in enumerate(texts, 1)
    ]
    assert told(waveform(tmp_path / "a.vcd", changes)) == [
        (1, "warp 0", "warp 0", "1 instruction"),
        (2, "warp 0", "barrier unit", "0010 @P0 BAR.SYNC 0x0"),
        (3, "warp 0", "warp 0", "2 instructions"),
        (5, "warp 0", "trap unit", "0028 RTT"),
        (6, "warp 0", "warp 0", "2 instructions"),
    ]
    assert told(waveform(tmp_path / "a.vcd", changes[:2] + changes[4:])) == [
        (1, "warp 0", "warp 0", "1 instruction"),
        (2, "warp 0", "barrier unit", "0010 @P0 BAR.SYNC 0x0"),
        (5, "warp 0", "trap unit", "0028 RTT"),
        (6, "warp 0", "warp 0", "2 instructions"),
    ]


def test_an_error_is_a_message_with_the_last_instruction_of_its_address(tmp_path):
    changes = [
        (1, "warp0.instruction", "0068 MOV R0, R1"),
        (2, "warp0.instruction", "0068 STG.E [R2], R4"),
        (3, "warp0.instruction", "0070 NOP"),
        (3, "warp1.instruction", "0068 EXIT"),
        (4, "machine.error", "warp 0: 0068 MMU_FAULT"),
        (5, "warp0.instruction", "0068 NOP"),
    ]
    wave = waveform(tmp_path / "a.vcd", changes)
    error = (4, "warp 0", "trap unit", "0068 STG.E [R2], R4: MMU_FAULT")
    assert [message for message in told(wave) if message[2] == "trap unit"] == [error]


@pytest.mark.parametrize(
    ("write", "address", "expected"),
    [
        (1, LAUNCH, [("host", "", "the host starts a grid")]),
        (1, SM, [("host", "trap unit", f"{NAME} = 0x1f")]),
        (1, LAUNCH + 4, []),
        (0, LAUNCH, []),
        (0, SM, []),
    ],
)
def test_a_write_of_the_host_is_a_message_in_its_cycle(tmp_path, write, address, expected):
    changes = [
        (3, "host.write", write),
        (3, "host.address", address),
        (3, "host.data", 31),
        (4, "host.write", 0),
    ]
    wave = waveform(tmp_path / "a.vcd", changes)
    assert told(wave) == [(3, *message) for message in expected]
    assert told(wave, 3, 2) == told(wave)  # also in the first one
    assert told(wave, 0, 3) == told(wave, 4, 4) == []


def test_a_warp_leaves_a_barrier_or_is_withdrawn_from_it_for_the_trap(tmp_path):
    """It is withdrawn while the machine traps, unless it is in the handler already."""
    changes = [
        (1, "trap.barrier", 0b111),
        (2, "trap.barrier", 0b101),
        (3, "machine.trap", "TRAPPING"),
        (4, "warp2.trap", "in the handler"),
        (5, "trap.barrier", 0),
    ]
    wave = waveform(tmp_path / "a.vcd", changes, warps=(0, 1, 2))
    expected = [
        (2, "barrier unit", "warp 1", "resumes"),
        (5, "trap unit", "barrier unit", "warp 0 withdrawn"),
        (5, "barrier unit", "warp 2", "resumes"),
    ]
    assert [one for one in told(wave) if "barrier unit" in one] == expected
    assert [one for one in told(wave, 2, 6) if "barrier unit" in one] == expected[1:]


def test_messages_are_in_the_order_of_their_cycles_and_of_the_warps_numbers(tmp_path):
    changes = [(2, f"warp{warp}.token", "+SSY") for warp in (2, 0, 10)]
    changes += [(1, "warp10.token", "+BRK"), (1, "machine.interrupt", 1)]
    wave = waveform(tmp_path / "a.vcd", changes, warps=(10, 2, 0))
    assert [(cycle, *sorted((sender, receiver))) for cycle, sender, receiver, _ in told(wave)] == [
        (1, "stack", "warp 10"),
        (1, "host", "trap unit"),
        (2, "stack", "warp 0"),
        (2, "stack", "warp 2"),
        (2, "stack", "warp 10"),
    ]


def texts_of(svg):
    """Returns the texts of a picture: (x, y, text)."""
    return [
        (float(one.attrib["x"]), float(one.attrib["y"]), one.text)
        for one in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_columns_are_those_that_send_or_receive_with_the_warps_in_order(tmp_path):
    changes = [(1, f"warp{warp}.token", "+SSY") for warp in (0, 2, 10)]
    wave = waveform(tmp_path / "a.vcd", changes, warps=(0, 1, 2, 10))
    names = [text for _, _, text in texts_of(draw(wave, 0, CYCLES))][:7]
    assert names == ["host", "trap unit", "barrier unit", "warp 0", "warp 2", "warp 10", "stack"]


DIAGRAM = """\
<svg xmlns="http://www.w3.org/2000/svg" width="900" height="200" viewBox="0 0 900 200" \
font-family="sans-serif" font-size="12">
<rect width="900" height="200" fill="white"/>
<text x="450.0" y="14" text-anchor="middle" font-weight="bold">A &lt; B</text>
<path d="M110 46V190" stroke="#aaa" stroke-dasharray="3 3"/><rect x="55" y="20" width="110" height="22" rx="4" \
fill="#d0ebe7" stroke="#00796b"/><text x="110" y="35" text-anchor="middle">host</text>
<path d="M290 46V190" stroke="#aaa" stroke-dasharray="3 3"/><rect x="235" y="20" width="110" height="22" rx="4" \
fill="#d0ebe7" stroke="#00796b"/><text x="290" y="35" text-anchor="middle">trap unit</text>
<path d="M470 46V190" stroke="#aaa" stroke-dasharray="3 3"/><rect x="415" y="20" width="110" height="22" rx="4" \
fill="#d0ebe7" stroke="#00796b"/><text x="470" y="35" text-anchor="middle">barrier unit</text>
<path d="M650 46V190" stroke="#aaa" stroke-dasharray="3 3"/><rect x="595" y="20" width="110" height="22" rx="4" \
fill="#d0ebe7" stroke="#00796b"/><text x="650" y="35" text-anchor="middle">warp 0</text>
<path d="M830 46V190" stroke="#aaa" stroke-dasharray="3 3"/><rect x="775" y="20" width="110" height="22" rx="4" \
fill="#d0ebe7" stroke="#00796b"/><text x="830" y="35" text-anchor="middle">stack</text>
<text x="6" y="74" fill="#777">3</text>
<path d="M650 75H830" stroke="#333"/><path d="M830 75l-6 -4v8z" fill="#333"/>\
<rect x="719.0" y="61" width="42" height="12" fill="white"/>\
<text x="740.0" y="71" text-anchor="middle">push &amp;</text>
<text x="6" y="98" fill="#777">4</text>
<path d="M830 99H650" stroke="#333"/><path d="M650 99l6 -4v8z" fill="#333"/>\
<rect x="722.5" y="85" width="35" height="12" fill="white"/>\
<text x="740.0" y="95" text-anchor="middle">pop &amp;</text>
<rect x="613.5" y="108" width="73" height="20" rx="9" fill="#eee" stroke="#999"/><text x="650" y="122" \
text-anchor="middle">has ended</text>
<rect x="40" y="132" width="850" height="20" fill="#fff2b3" stroke="#c9a400"/><text x="450.0" y="146" \
text-anchor="middle">the machine is TRAPPING</text>
<text x="6" y="170" fill="#777">5</text>
<path d="M290 171H110" stroke="#333"/><path d="M110 171l6 -4v8z" fill="#333"/>\
<rect x="168.5" y="157" width="63" height="12" fill="white"/>\
<text x="200.0" y="167" text-anchor="middle">interrupt</text>
</svg>
"""


def test_a_diagram_has_a_column_a_row_and_an_arrow_for_each(tmp_path):
    """Every message has a row below the previous one; a cycle has one label; arrow heads are at the
    receiver.
    """
    changes = [
        (3, "warp0.token", "+&"),
        (4, "warp0.token", "-&"),
        (4, "warp0.active", "ended"),
        (4, "machine.trap", "TRAPPING"),
        (5, "machine.interrupt", 1),
    ]
    wave = waveform(tmp_path / "a.vcd", changes)
    assert draw(wave, 0, CYCLES, "A < B") == DIAGRAM
    untitled = draw(wave, 0, CYCLES)
    assert untitled == re.sub(r"<text [^>]*>A &lt; B</text>\n", "", DIAGRAM)


@pytest.mark.parametrize(("first", "count"), [(-1, 4), (0, CYCLES + 1), (5, 4)])
def test_cycles_that_a_waveform_does_not_have_are_refused(tmp_path, first, count):
    wave = waveform(tmp_path / "a.vcd", [(1, "machine.interrupt", 1)])
    with pytest.raises(
        PictureError, match=rf"has cycles 0 to 7, not {first} to {first + count - 1}$"
    ):
        draw(wave, first, count)


@pytest.mark.parametrize("count", [-1, 0, 1])
def test_a_diagram_has_at_least_two_cycles(tmp_path, count, capsys):
    path, out = tmp_path / "a.vcd", tmp_path / "a.svg"
    waveform(path, [(1, "machine.interrupt", 1)])
    assert main([str(path), "-o", str(out), "--cycles", str(count)]) == 2
    assert capsys.readouterr().err.endswith(f": --cycles {count}: at least 2\n")


def test_a_name_that_a_group_lacks_gets_all_that_it_has(tmp_path):
    wave = waveform(tmp_path / "a.vcd")
    with pytest.raises(PictureError) as caught:
        wave.variable("warp0.pc")
    names = ("instruction", "trap", "token", "active")
    assert str(caught.value) == (
        f"{wave.path}: no signal warp0.pc; there is {', '.join(f'warp0.{name}' for name in names)}"
    )


def test_cycles_in_which_nothing_happens_are_refused(tmp_path):
    wave = waveform(tmp_path / "a.vcd", [(5, "machine.interrupt", 1)])
    with pytest.raises(PictureError, match=r"a\.vcd: nothing happens in cycles 0 to 4$"):
        draw(wave, 0, 5)
    assert draw(wave, 4, 2) == draw(wave, 4, 4)


def test_the_manuals_diagram_has_a_whole_trap_in_the_cycles_that_all_pages_name():
    shown = (ROOT / "docs" / "trap_sequence.svg").read_text()
    texts = re.findall(r">([^<>]+)</text>", shown)
    for text, count in (
        ("the machine is TRAPPING", 1),
        ("warp 0 withdrawn", 1),
        ("enters the trap", 2),
        ("leaves the trap", 2),
        ("has ended", 2),
    ):
        assert texts.count(text) == count, text
    assert sum("BPT.TRAP" in text for text in texts) == 1
    pages = ("docs/commands.md", "docs/barriers_traps.md", "sim/waves/sequence.py")
    ranges = {
        tuple(map(int, found))
        for page in pages
        for found in re.findall(r"--first (\d+) --cycles (\d+)", (ROOT / page).read_text())
    }
    ((first, count),) = ranges
    cycles = [int(text) for text in texts if text.isdecimal()]
    assert first <= min(cycles) and max(cycles) < first + count


def test_the_command_draws_the_cycles_that_it_is_asked_for(tmp_path, capsys):
    changes = [(2, "machine.interrupt", 1), (5, "machine.interrupt", 0)]
    path, out = tmp_path / "a.vcd", tmp_path / "a.svg"
    wave = waveform(path, changes)
    for more, first, count in (
        ([], 0, CYCLES),
        (["--first", "3"], 3, CYCLES - 3),
        (["--cycles", "4"], 0, 4),
        (["--first", "1", "--cycles", "2"], 1, 2),
    ):
        assert main([str(path), "-o", str(out), *more]) == 0
        assert out.read_text() == draw(wave, first, count)
    assert main([str(path), "-o", str(out), "--title", "A"]) == 0
    assert out.read_text() == draw(wave, 0, CYCLES, "A")
    assert main([str(path), "-o", str(out), "--first", "9"]) == 2
    assert capsys.readouterr().err == (
        f"python -m sim.waves.sequence: {path}: has cycles 0 to 7, not 9\n"
    )
    with pytest.raises(SystemExit, match="2"):
        main([str(path)])
    assert capsys.readouterr().err.endswith("required: -o/--output\n")
