"""Tables of units' ports for the manual: names, widths and fields from their signatures,
descriptions from docstrings.
"""

import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Const, Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In

from rtl.convert.unit import ConversionUnit
from rtl.crs import CallReturnStack
from rtl.fetch import FetchUnit
from rtl.flow.unit import FlowUnit
from rtl.fpga.flat import plain_ports
from rtl.fpga.units import UNITS
from rtl.host.debugger import DebuggerRegisters
from rtl.issue import IssueUnit
from rtl.issue.operations import OperationArbiter
from rtl.layouts import Event, LaneData, LaneWriteData, LaneWriterPort, StackPort
from rtl.params import PRESETS
from rtl.serial.fetch import SerialFetch
from rtl.sm import Sm
from rtl.trap import TrapUnit
from sim.engine.identity import identify
from sim.report.reference import markdown_table

__all__ = ["PORT_UNITS", "PRESET", "described_members", "port_comments", "port_table", "ports_of"]

PRESET = "default"
"""The preset of the widths."""


PORT_UNITS = (
    "fetch",
    "issue",
    "execute",
    "convert",
    "double",
    "flow",
    "crs",
    "memory",
    "memory_arbiter",
    "barrier",
    "trap",
    "error_status",
    "launch",
    "host",
)
"""The units that have a page in the manual."""
_WIDTH = 110
"""Line width of text about ports."""
_HEAD = re.compile(r"(?P<names>\w+(?:\.\.)?(?:, \w+(?:\.\.)?)*)(?: : .*)?$")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
_SEE = re.compile(r"See (\w+)\.(?: |$)")
_ELSEWHERE: dict[str, type] = {
    part.__name__: part
    for part in (
        CallReturnStack,
        ConversionUnit,
        DebuggerRegisters,
        FetchUnit,
        FlowUnit,
        IssueUnit,
        LaneData,
        LaneWriteData,
        LaneWriterPort,
        OperationArbiter,
        SerialFetch,
        Sm,
        StackPort,
        TrapUnit,
    )
}
"""A docstring's reference to the class that describes the ports."""


def ports_of(unit: str, preset: str = PRESET) -> wiring.Component:
    """Returns a unit in a preset, for its signature only: it is not elaborated."""
    whole: Any = UNITS.get(unit, Sm)(PRESETS[preset])
    identity = identify(whole)
    for part in identity.elaboratables if identity is not None else ():
        part._MustUse__used = True  # Prevents Amaranth's warning
    return whole.arbiter if unit == "memory_arbiter" else whole


def described_members(part: type) -> dict[str, str]:
    """Returns the descriptions of members in a class's docstring, in its order. Of ports that share
    a description the first has it.
    """
    lines = inspect.cleandoc(part.__doc__ or "").splitlines()
    if "Members" not in lines:
        return {}
    groups: list[tuple[list[str], list[str]]] = []
    first = lines.index("Members") + 2
    for line, below in zip(lines[first:], [*lines[first + 1 :], ""], strict=True):
        if below.startswith("---"):
            break
        if line.startswith("    "):
            groups[-1][1].append(line.strip())
        elif (head := _HEAD.match(line)) is not None:
            groups.append((head["names"].split(", "), []))
        elif line:
            break
    descriptions: dict[str, str] = {}
    for names, lines in groups:
        text = _ROLE.sub(r"\1", " ".join(lines)).replace("``", "`")
        see = _SEE.match(text)
        there = described_members(_ELSEWHERE[see[1]]) if see else {}
        rest = text[see.end() :] if see else text
        for name in names:
            descriptions[name] = " ".join(filter(None, (there.get(name, ""), rest)))
            rest = ""
    return descriptions


def port_table(unit: str) -> str:
    """Returns the ports of a unit in the preset, as a table in Markdown."""
    component = ports_of(unit)
    members, rows = dict(component.signature.members), []
    descriptions = described_members(type(component))
    for described, text in [
        *descriptions.items(),
        *((name, "") for name in members if name not in descriptions),
    ]:
        for name in [name for name in members if _means(described, name)]:
            rows += _rows(name, members.pop(name), text)
            text = ""
    return markdown_table(("port", "", "", "bits", "fields", "meaning"), rows)


def port_comments(component: wiring.Component) -> Iterator[str]:
    """Yields the plain ports of a component as lines of text, since a reader of Verilog sees no
    layouts.

    For each member they are its description, then direction, name, bits and parts of its ports; the
    values of the enumerations follow.
    """
    descriptions = described_members(type(component))
    words: dict[str, type[enum.Enum]] = {}
    before: tuple[Any, ...] = (None,)
    for port in plain_ports(component):
        member, *rest = port.path
        if member != before[0]:
            meaning = next(
                (
                    text
                    for described, text in descriptions.items()
                    if _means(described, str(member))
                ),
                "",
            )
            yield from _wrapped(": ".join(filter(None, (str(member), meaning))), 4)
        parts = _described_parts(component.signature.members[str(member)])
        if rest and port.path[:2] != before[:2] and (meaning := parts.get(str(rest[0]))):
            yield from _wrapped(f"  {member}.{rest[0]}: {meaning}", 4)
        before = port.path
        direction = "in " if port.flow is In else "out"
        inside = _inside(port.kind, words)
        yield from _wrapped(
            f"  {direction} {port.name}, {port.shape.width}{f': {inside}' if inside else ''}", 8
        )
    for name, each in words.items():
        line = f"{name}: {', '.join(f'{Const.cast(word).value}={word.name}' for word in each)}"
        yield from _wrapped(line, 4)


def _described_parts(member: Any) -> dict[str, str]:
    """Returns the descriptions of an interface's parts; none for a plain port, and for Amaranth's
    own interfaces.
    """
    if member.is_port or isinstance(
        signature := _upright(member.signature), (stream.Signature, Event)
    ):
        return {}
    return described_members(type(signature))


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent)


def _inside(kind: Any, words: dict[str, type[enum.Enum]]) -> str:
    """Returns the name of an enumeration, which is added to ``words``; the fields of a structure;
    the elements of an array; or "" for a number.
    """
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        words[kind.__name__] = kind
        return kind.__name__
    if Shape.cast(kind).width == 0:
        return ""
    layout: Any = (
        kind.as_shape()
        if isinstance(kind, type) and issubclass(kind, (data.Struct, data.Union))
        else kind
    )
    if isinstance(layout, data.ArrayLayout):
        part = _inside(layout.elem_shape, words)
        bits = Shape.cast(layout.elem_shape).width
        return f"{layout.length} of {bits}, the first one lowest" + (f" ({part})" if part else "")
    if not isinstance(layout, data.Layout):
        return ""
    fields = [(name, field, _inside(field.shape, words)) for name, field in layout if field.width]
    return ", ".join(
        f"[{field.offset + field.width - 1}:{field.offset}] {name}" + (f" ({part})" if part else "")
        for name, field, part in fields
    )


def _means(described: str, name: str) -> bool:
    """Whether a name in a docstring describes a port: ``client_0..`` describes all ports with a
    number.
    """
    return name == described or (
        described.endswith("..") and re.fullmatch(rf"{described.rstrip('0.')}\d+", name) is not None
    )


def _rows(name: str, member: Any, text: str) -> Iterator[tuple[str, ...]]:
    """Yields name, direction, kind, bits, fields and description of a port, or of each part of an
    interface.
    """
    flow = "in" if member.flow is In else "out"
    name += "".join(f"[{size}]" for size in member.dimensions)
    if member.is_port:
        yield f"`{name}`", flow, "", *_widths(member.shape), text
    elif isinstance(signature := _upright(member.signature), (stream.Signature, Event)):
        kind = "event" if isinstance(signature, Event) else "stream"
        yield f"`{name}`", flow, kind, *_widths(signature.members["payload"].shape), text
    else:
        descriptions = described_members(type(signature))
        for part, inner in member.signature.members.items():
            yield from _rows(
                f"{name}.{part}", inner, " ".join(filter(None, (text, descriptions.get(part))))
            )
            text = ""


def _upright(signature: Any) -> Any:
    """A signature as its class has made it."""
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def _widths(shape: Any) -> tuple[str, str]:
    """Returns the bits of a shape; and those of its fields, if it has any."""
    bits = str(Shape.cast(shape).width)
    layout = (
        data.Layout.cast(shape)
        if isinstance(shape, type) and issubclass(shape, data.Struct)
        else shape
    )
    if isinstance(layout, data.ArrayLayout):
        return bits, f"{layout.length} of {Shape.cast(layout.elem_shape).width}"
    if isinstance(layout, data.StructLayout):
        return bits, ", ".join(f"{name} {field.width}" for name, field in layout)
    return bits, ""
