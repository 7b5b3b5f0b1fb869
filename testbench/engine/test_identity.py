"""The identity of a design: equal for equivalent objects, different if one attribute differs, None
if there is none.
"""

import operator
import subprocess
import sys
import time
from enum import Enum
from functools import partial
from typing import Any

import pytest
from amaranth.hdl import Const, Elaboratable, MemoryData, Module, Shape, Signal

from sim.engine import identity
from sim.engine.identity import identify


class Color(Enum):
    RED = 1
    GREEN = 2


class Plain:
    """An object with the attributes that it is given."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def method(self):
        return self


class Other(Plain):
    pass


class Slotted:
    __slots__ = ("__hidden", "one", "two")

    def __init__(self, one, hidden=None):
        self.one = one
        self.__hidden = hidden


class Single(Slotted):
    __slots__ = "three"

    def __init__(self, one, three):
        super().__init__(one)
        self.three = three


class Design(Elaboratable):
    def __init__(self, inner=None):
        self.inner = inner
        self._MustUse__used = True

    def elaborate(self, platform):
        return Module()


def function():
    return 1


def another():
    return 2


def digest(thing, *depends):
    found = identify(thing, *depends)
    assert found is not None
    return found.digest


def signal(name="a", width=4, signed=False, init=1, reset_less=False, attrs=None) -> Any:
    return Signal(
        Shape(width, signed), name=name, init=init, reset_less=reset_less, attrs=attrs or {}
    )


MAKERS = [
    lambda: 1,
    lambda: 2,
    lambda: 1.0,
    lambda: True,
    lambda: "1",
    lambda: b"1",
    lambda: None,
    lambda: ...,
    lambda: range(1),
    lambda: range(2),
    lambda: Color.RED,
    lambda: Color.GREEN,
    lambda: Color,
    lambda: Plain,
    lambda: Other,
    lambda: Plain(),
    lambda: Other(),
    lambda: Plain(a=1),
    lambda: Plain(a=2),
    lambda: Plain(b=1),
    lambda: [1, 2],
    lambda: [2, 1],
    lambda: (1, 2),
    lambda: [[1], 2],
    lambda: [1, [2]],
    list,
    dict,
    lambda: {1: 2},
    lambda: {1: 3},
    lambda: {2: 2},
    lambda: {1, 2},
    lambda: {1, 3},
    lambda: frozenset({1, 2}),
    lambda: function,
    lambda: another,
    lambda: operator.add,
    lambda: partial(function),
    lambda: partial(another),
    lambda: partial(sorted, [1]),
    lambda: partial(sorted, key=len),
    lambda: Plain().method,
    lambda: Plain(a=1).method,
    lambda: sys,
    lambda: operator,
    lambda: Shape(3),
    lambda: Shape(3, True),
    lambda: Slotted(1),
    lambda: Slotted(2),
    lambda: Slotted(1, 5),
    lambda: Single(1, 2),
    lambda: Single(1, 3),
    lambda: signal(),
    lambda: signal(name="b"),
    lambda: signal(width=5),
    lambda: signal(signed=True),
    lambda: signal(init=2),
    lambda: signal(reset_less=True),
    lambda: signal(attrs={"keep": 1}),
    lambda: signal(attrs={"keep": 2}),
    lambda: Const(3, 4),
    lambda: Const(4, 4),
    lambda: MemoryData(shape=8, depth=4, init=[1]),
    lambda: MemoryData(shape=8, depth=4, init=[2]),
    lambda: MemoryData(shape=8, depth=5, init=[1]),
]


def test_equal_things_have_one_identity_and_others_have_others():
    found = [digest(Plain(what=make())) for make in MAKERS]
    assert [digest(Plain(what=make())) for make in MAKERS] == found
    assert len(set(found)) == len(MAKERS)


def test_one_object_twice_is_not_two_equal_ones():
    one, other = signal(), signal()
    assert digest([one, one]) != digest([one, other]) == digest([other, one])
    first, second = Plain(), Plain()
    assert digest([first, second, first]) != digest([first, second, second])


def test_an_object_that_refers_to_itself_has_an_identity():
    one: Any = Plain()
    one.own = one
    assert identify(one) is not None


def test_what_it_depends_on_is_in_the_digest():
    assert len({digest(Plain()), digest(Plain(), "a"), digest(Plain(), "a", "b")}) == 3


def test_signals_memories_and_elaboratables_are_found_in_one_order():
    a, b, rows = signal("a"), signal("b"), MemoryData(shape=8, depth=4, init=[])
    inner = Design([b, a])
    design = Design(Plain(one=inner, rows=rows, again=a, slotted=Slotted(b)))
    found = identify(design)
    assert found is not None
    assert [one.name for one in found.signals if one.name in ("a", "b")] == ["b", "a"]
    assert found.memories == [rows]
    assert found.elaboratables[0] is design and found.elaboratables[1] is inner
    assert len(found.elaboratables) == 2


def test_places_in_the_source_and_amaranths_marks_are_no_difference():
    one = Design()
    other: Any = Design()
    other._MustUse__mark = 1
    other.src_loc = ("file", 3)
    other._src_loc = ("file", 3)
    assert digest(one) == digest(other)
    assert digest(Plain(a=1, c=2)) != digest(Plain(a=1, b=2))


def test_a_slot_without_a_value_is_not_one_that_has_none():
    empty, none = Slotted(1), Slotted(1)
    none.two = None
    assert digest(empty) != digest(none)


def test_what_has_no_source_of_its_own_has_no_identity():
    class Local:
        pass

    def inner():
        return 1

    hidden = type("Hidden", (), {"__module__": "__main__"})
    for thing in (Local(), Local, inner, lambda: 1, hidden(), {Plain()}, pytest.raises):
        assert identify(Plain(what=thing)) is None
    deep: list = []
    for _ in range(sys.getrecursionlimit() + 10):
        deep = [deep]
    assert identify(deep) is None


@pytest.fixture
def pack(monkeypatch, tmp_path):
    """A folder of packages that designs depend on."""
    monkeypatch.setattr(identity, "ROOT", tmp_path)
    monkeypatch.setattr(identity, "ALWAYS", ("always",))
    for name in ("_digest", "_files_of", "_imports"):
        monkeypatch.setattr(identity, name, getattr(identity, name).__wrapped__)

    def write(path, text=""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


def test_imports_of_a_file_relative_ones_and_those_inside_of_functions(pack):
    pack("pack/__init__.py")
    pack("other/__init__.py")
    file = pack(
        "pack/inner/file.py",
        "import os, other.deep\nimport pack.a as b\nfrom . import one\nfrom .two import three\n"
        "from .. import four\nfrom ..five import six\n"
        "def late():\n    from other import seven\n    from json import dumps\n",
    )
    assert sorted(identity._imports(file, 0)) == [
        "other",
        "other.deep",
        "other.seven",
        "pack",
        "pack.a",
        "pack.five",
        "pack.five.six",
        "pack.four",
        "pack.inner",
        "pack.inner.one",
        "pack.inner.two",
        "pack.inner.two.three",
    ]


def test_the_file_of_a_module_and_those_of_the_packages_around_it(pack):
    top = pack("pack/__init__.py")
    inner, module = pack("pack/inner/__init__.py"), pack("pack/inner/file.py")
    pack("bare/file.py")
    assert identity._files_of("pack.inner.file") == (module, (top, inner))
    assert identity._files_of("pack.inner") == (inner, (top,))
    assert identity._files_of("pack") == (top, ())
    assert identity._files_of("pack.inner.name") == (None, ())
    assert identity._files_of("bare.file")[1] == ()
    assert identity._files_of("json") == identity._files_of("amaranth.hdl") == (None, ())
    assert identity._files_of("no.such.module") == (None, ())
    with pytest.raises(identity._UncertainError):
        identity._files_of("pytest")


def test_sources_are_those_of_all_designs_and_what_modules_import(pack, tmp_path):
    pack("always/hardware.py", "import pack.unread")
    pack("always/deep/runtime.cc", "x")
    pack("always/runtime.h")
    pack("always/notes.txt")
    pack("pack/__init__.py")
    pack("pack/read.py", "from pack.next import name")
    pack("pack/next.py", "import pack.read")
    pack("pack/unread.py")
    found = identity._sources({"pack.read"})
    assert [name for name, _, _ in found] == [
        "always/deep/runtime.cc",
        "always/hardware.py",
        "always/runtime.h",
        "pack/__init__.py",
        "pack/next.py",
        "pack/read.py",
    ]
    name, content, changed = found[0]
    assert content == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert changed == pytest.approx((tmp_path / name).stat().st_mtime, abs=1e-3)


def test_a_file_that_changed_after_the_process_began_rules_out_an_identity(monkeypatch):
    start = identity._process_start()
    files = [("a", "1", start - 1)]
    monkeypatch.setattr(identity, "_sources", lambda _: files)
    assert identify(Plain()) is not None
    files.append(("b", "2", start))
    assert identify(Plain()) is None


def test_the_start_of_a_process_is_not_too_early():
    before = time.time()
    command = "from sim.engine.identity import _process_start; print(_process_start())"
    found = float(subprocess.check_output([sys.executable, "-c", command], text=True))
    assert before - 0.05 < found < before + 0.5
