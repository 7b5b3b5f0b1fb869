"""The manual's block diagrams: boxes and arrows agree with the connections in the hardware's code."""

import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import pytest
from amaranth.lib import wiring

import rtl.core
import rtl.sm
from rtl.params import PRESETS
from rtl.sm import Sm
from sim.report.diagrams import DIAGRAMS, NOT_DRAWN, PROJECT_DIAGRAM, SM_DIAGRAM, draw
from testbench.submodules import submodules

ROOT = Path(__file__).parents[2]
OUTSIDE = ""
"""Name of an arrow's end outside of the diagram."""


class Joints:
    """The units of the SM that are connected by an interface.

    ``connect`` is recorded while :class:`Sm` and its core are elaborated. A port of the core
    itself, or of a part that lets units share an interface (:data:`NOT_DRAWN`), is replaced by the
    units connected to it.
    """

    def __init__(self) -> None:
        sm = Sm(PRESETS["default"])
        self._connected = []
        with (
            patch.object(rtl.core, "connect", self._record),
            patch.object(rtl.sm, "connect", self._record),
        ):
            self.units = submodules(sm) | submodules(sm.core)
        self._owners = {}
        for name, unit in [(OUTSIDE, sm), *self.units.items()]:
            for port in ports_below(unit):
                self._owners.setdefault(id(port), name)

    def _record(self, _module, *ports):
        self._connected.append(
            [
                wiring.flipped(port) if isinstance(port, wiring.FlippedInterface) else port
                for port in ports
            ]
        )

    def _place(self, port):
        """Returns a number for the owner of a port, the same for all ports of a part that is passed
        through.
        """
        owner = self._owners.get(id(port))
        return owner if owner in NOT_DRAWN and owner != "core" else id(port)

    def pairs(self):
        """Returns pairs of names of connected units."""
        groups = []
        for ports in self._connected:
            joined = {self._place(port) for port in ports}
            names = {self._owners.get(id(port)) for port in ports} - {None, *NOT_DRAWN}
            for group in [group for group in groups if group[0] & joined]:
                groups.remove(group)
                joined, names = joined | group[0], names | group[1]
            groups.append((joined, names))
        return {frozenset(pair) for _, names in groups for pair in combinations(sorted(names), 2)}


def ports_below(owner):
    """Yields the interfaces among the members of a component or an interface, recursively."""
    for name, member in owner.signature.members.items():
        if member.is_signature:
            for port in in_dimensions(getattr(owner, name)):
                port = wiring.flipped(port) if isinstance(port, wiring.FlippedInterface) else port
                yield port
                yield from ports_below(port)


def in_dimensions(ports):
    """Returns the interfaces of a member, which may be an array of them."""
    if not isinstance(ports, (list, tuple)):
        return [ports]
    return [port for several in ports for port in in_dimensions(several)]


@pytest.fixture(scope="module")
def joints():
    return Joints()


def test_the_sm_diagram_has_a_box_for_every_unit(joints):
    boxes = [box.name for box in SM_DIAGRAM.boxes]
    assert sorted([*boxes, *NOT_DRAWN]) == sorted(joints.units)


def test_every_arrow_of_the_sm_diagram_is_a_connection(joints):
    pairs = joints.pairs()
    assert [arrow.ends for arrow in SM_DIAGRAM.arrows if frozenset(arrow.ends) not in pairs] == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_diagram_that_is_kept_is_the_one_that_is_drawn(name):
    assert (ROOT / name).read_text() == draw(DIAGRAMS[name]), "python -m sim.manual --diagrams"


@pytest.mark.parametrize("name", DIAGRAMS)
def test_arrows_begin_and_end_at_the_boxes_that_they_name(name):
    """An end may also be on another arrow of one of these boxes."""
    diagram = DIAGRAMS[name]
    for arrow in diagram.arrows:
        others = [
            other
            for other in diagram.arrows
            if other is not arrow and set(other.ends) & set(arrow.ends)
        ]
        for end, point in zip(arrow.ends, (arrow.points[0], arrow.points[-1]), strict=True):
            boxes = [box for box in diagram.boxes if box.name == end]
            if boxes:
                (box,) = boxes
                at_box = (
                    box.x <= point[0] <= box.x + box.width
                    and box.y <= point[1] <= box.y + box.height
                )
                assert at_box or any(is_on(point, other) for other in others), (arrow.ends, point)


def is_on(point, arrow):
    """Returns whether a point is on an arrow's line, whose segments are horizontal or vertical."""
    return any(
        min(a[0], b[0]) <= point[0] <= max(a[0], b[0])
        and min(a[1], b[1]) <= point[1] <= max(a[1], b[1])
        for a, b in zip(arrow.points, arrow.points[1:], strict=False)
    )


@pytest.mark.parametrize("name", DIAGRAMS)
def test_text_fits_into_its_box(name):
    """A character has 6 pixels, one of a title 8."""
    for box in DIAGRAMS[name].boxes:
        title, *lines = box.lines
        room = box.width if not box.tokens else box.width - 170
        assert 8 * len(title) <= box.width + 8, box.name
        assert all(6 * len(line) <= room for line in lines), box.name
        assert 16 * len(box.lines) + 8 <= box.height, box.name


def test_every_check_of_the_project_has_an_arrow():
    joined = {end for arrow in PROJECT_DIAGRAM.arrows for end in arrow.ends}
    assert [
        box.name for box in PROJECT_DIAGRAM.boxes if box.look == "check" and box.name not in joined
    ] == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_well_formed_and_has_colors_for_dark_pages(name):
    text = draw(DIAGRAMS[name])
    ElementTree.fromstring(text)
    assert "prefers-color-scheme: dark" in text and "http://www.w3.org/2000/svg" in text
