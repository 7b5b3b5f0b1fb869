"""A picture that shows something else than is recorded now is found."""

import re
from pathlib import Path

import pytest
from PIL import Image

from testbench.waves.sources import (
    check_page,
    check_screen,
    kept_source,
    page_source,
    save_picture,
    wave_source,
)

SAVE = """\
[timestart] {start}
+{{clk}} sm.clk
@800200
-machine
+{{count}} sm.machine.count[3:0]
@1000200
-machine
@c00200
-issue
+{{valid}} sm.issue.valid
"""
WAVEFORM = """\
$timescale 1 ns $end
$scope module sm $end $var wire 1 ! clk $end
$scope module machine $end $var wire 4 " count $end $upscope $end
$scope module issue $end $var wire 1 # valid $end $upscope $end
$upscope $end $enddefinitions $end
#0
1!
b{before} "
0#
#5
0!
#10
1!
b{within} "
{closed}#
#15
0!
#20
1!
b{after} "
#25
0!
"""


def recorded(folder, start=10, **values) -> Path:
    """A waveform of three cycles with its save file."""
    path = folder / "a.vcd"
    path.write_text(
        WAVEFORM.format(**{"before": 1, "within": 10, "after": 11, "closed": 1} | values)
    )
    path.with_suffix(".gtkw").write_text(SAVE.format(start=start))
    return path


def drawn(path: Path, source: str) -> Path:
    save_picture(Image.new("RGB", (4, 4)), path, source, 2)
    return path


def test_a_picture_of_gtkwave_is_out_of_date_when_what_it_shows_has_changed(tmp_path):
    waveform = recorded(tmp_path)
    picture = drawn(tmp_path / "a.png", wave_source(waveform, waveform.with_suffix(".gtkw"), 19))
    assert re.fullmatch(r"GTKWave, 10 to 19, rows [0-9a-f]{16}", kept_source(picture))
    for unseen in ({}, {"before": 0}, {"after": 0}, {"closed": 0}):
        check_screen(picture, recorded(tmp_path, **unseen))
    for seen in ({"within": 11}, {"start": 5}):
        with pytest.raises(AssertionError, match=r"a\.png is out of date: .* a\.gtkw"):
            check_screen(picture, recorded(tmp_path, **seen))
    with pytest.raises(AssertionError, match="out of date"):
        check_screen(drawn(tmp_path / "a.png", ""), recorded(tmp_path))


def test_a_picture_of_a_page_is_out_of_date_when_the_page_has_changed(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("before")
    picture = drawn(tmp_path / "a.png", page_source(page))
    check_page(picture, page)
    page.write_text("after")
    with pytest.raises(AssertionError, match=r"a\.png is out of date: .* a\.html"):
        check_page(picture, page)
