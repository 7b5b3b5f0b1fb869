"""The manual's block diagrams as SVG; ``python -m sim.manual --diagrams`` writes them into docs.

:data:`SM_DIAGRAM` has a box for each submodule of :class:`rtl.sm.Sm` and :class:`rtl.core.Core`,
and an arrow where these connect two units; a test compares both with the code.
:data:`PROJECT_DIAGRAM` shows the whole project.

A diagram has its own background, and colors for light and dark pages. Positions and sizes are in
pixels, from the top left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "DIAGRAMS",
    "NOT_DRAWN",
    "PROJECT_DIAGRAM",
    "SM_DIAGRAM",
    "Arrow",
    "Box",
    "DashedFrame",
    "Diagram",
    "Label",
    "draw",
]

_LINE = 16
"""Distance of two lines of text."""
_STYLE = """\
text { font: 12px sans-serif; fill: #1f2933 }
.title { font-weight: bold; font-size: 13.5px }
.note { fill: #52606d }
.page { fill: #ffffff }
.frame { fill: none; stroke: #9aa5b1; stroke-dasharray: 6 4 }
.unit { fill: #e3f1ef; stroke: #00796b }
.main { fill: #fdebc8; stroke: #b7791f; stroke-width: 2 }
.other { fill: #eef1f5; stroke: #7b8794 }
.check { fill: #e8e6fb; stroke: #5b4fc4 }
.token { fill: #fff8ea; stroke: #b7791f }
.arrow { fill: none; stroke: #52606d; stroke-width: 1.4 }
.spill { fill: none; stroke: #b7791f; stroke-width: 2 }
.tip { fill: #52606d }
.tip-spill { fill: #b7791f }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7eb }
.note { fill: #b8c2cc }
.page { fill: #171c22 }
.frame { stroke: #616e7c }
.unit { fill: #123f3a; stroke: #4db6ac }
.main { fill: #4d3a12; stroke: #e0b252 }
.other { fill: #29313a; stroke: #7b8794 }
.check { fill: #2d2960; stroke: #9a91ee }
.token { fill: #6b5120; stroke: #e0b252 }
.arrow { stroke: #b8c2cc }
.spill { stroke: #e0b252 }
.tip { fill: #b8c2cc }
.tip-spill { fill: #e0b252 }
}
"""


@dataclass(frozen=True)
class Box:
    """A component.

    Attributes:
        name: Name of the submodule, or of the component if it is none.
        x: Left edge.
        y: Top edge.
        width: Width.
        height: Height.
        lines: Its text; the first line is its title.
        look: Class of its colors: unit, main, other, check.
        tokens: Number of lines of four tokens that are drawn in it.
    """

    name: str
    x: int
    y: int
    width: int
    height: int
    lines: Sequence[str]
    look: str = "unit"
    tokens: int = 0


@dataclass(frozen=True)
class DashedFrame:
    """A dashed frame around components, with a title."""

    x: int
    y: int
    width: int
    height: int
    title: str


@dataclass(frozen=True)
class Arrow:
    """A connection.

    Attributes:
        ends: Names of the two components; empty for the outside of the diagram.
        points: Corners of the line, from the first component to the second.
        both: Whether it has a tip at both ends.
        look: Class of its color: arrow, spill.
        tip: Whether it has a tip at its end; otherwise it joins another line.
    """

    ends: tuple[str, str]
    points: Sequence[tuple[int, int]]
    both: bool = False
    look: str = "arrow"
    tip: bool = True


@dataclass(frozen=True)
class Label:
    """Text beside an arrow; ``anchor`` is start, middle or end."""

    x: int
    y: int
    text: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Diagram:
    """A diagram.

    Attributes:
        title: Description for readers who do not see it.
        width: Width.
        height: Height.
        parts: The drawn elements; the first ones are behind the others.
    """

    title: str
    width: int
    height: int
    parts: Sequence[Box | DashedFrame | Arrow | Label]

    @property
    def boxes(self) -> list[Box]:
        """Returns the boxes."""
        return [part for part in self.parts if isinstance(part, Box)]

    @property
    def arrows(self) -> list[Arrow]:
        """Returns the arrows."""
        return [part for part in self.parts if isinstance(part, Arrow)]


NOT_DRAWN = ("core", "conversion_clients", "constants", "conversion_constants")
"""Submodules without a box: the core is a frame; the others let units share an interface."""

SM_DIAGRAM = Diagram(
    "Block diagram of the streaming multiprocessor",
    1000,
    700,
    (
        DashedFrame(10, 50, 980, 600, "Sm"),
        DashedFrame(24, 158, 952, 400, "Core"),
        # The host's side.
        Arrow(("", "registers"), ((140, 18), (140, 75)), both=True),
        Label(150, 34, "host bus: registers, interrupt", "start"),
        Box(
            "registers",
            60,
            75,
            200,
            62,
            ("host registers", "error status, debugger,", "performance counters"),
        ),
        Arrow(("registers", "distributor"), ((260, 106), (390, 106)), both=True),
        Label(325, 100, "launch"),
        Box(
            "distributor",
            390,
            75,
            220,
            62,
            ("work distributor", "reads the launch descriptor,", "starts CTAs and their warps"),
        ),
        Arrow(("distributor", "execute"), ((570, 137), (570, 200))),
        Label(580, 175, "warps", "start"),
        # From memory to the units.
        Box("fetch", 62, 200, 150, 64, ("fetch", "instruction cache,", "constant cache")),
        Arrow(("fetch", "issue"), ((212, 222), (262, 222))),
        Label(237, 216, "groups"),
        Arrow(("issue", "fetch"), ((262, 248), (212, 248))),
        Label(237, 242, "pc"),
        Box("issue", 262, 200, 168, 64, ("issue", "scoreboards,", "stall counts, policy")),
        Arrow(("issue", "execute"), ((430, 232), (490, 232))),
        Box(
            "execute",
            490,
            200,
            190,
            64,
            ("execute", "registers, predicates, lanes;", "integers, single precision"),
        ),
        Arrow(("execute", "targets"), ((680, 232), (722, 232))),
        Box("targets", 722, 200, 106, 64, ("tables", "of indexed", "branches")),
        Arrow(("targets", "dispatcher"), ((828, 232), (862, 232))),
        Box("dispatcher", 862, 200, 104, 64, ("dispatcher", "to the unit", "of its kind")),
        # The flow unit and the stack.
        Arrow(("dispatcher", "queue"), ((930, 264), (930, 345))),
        Box("queue", 892, 345, 74, 60, ("flow", "queue")),
        Arrow(("queue", "flow"), ((892, 375), (790, 375))),
        Box(
            "flow",
            640,
            318,
            150,
            114,
            (
                "flow unit",
                "guards, targets,",
                "active masks,",
                "divergence;",
                "trap entry and exit",
            ),
        ),
        Arrow(("flow", "issue"), ((710, 318), (710, 184), (346, 184), (346, 200))),
        Label(718, 288, "flow result: next", "start"),
        Label(718, 304, "pc, active mask", "start"),
        Arrow(("flow", "stack"), ((640, 360), (570, 360))),
        Label(605, 354, "push"),
        Arrow(("stack", "flow"), ((570, 395), (640, 395))),
        Label(605, 411, "token"),
        Box(
            "stack",
            250,
            310,
            320,
            132,
            (
                "call/return stack (CRS) of every warp",
                "16 tokens on chip,",
                "in 4 lines; the rest",
                "in local memory",
            ),
            "main",
            tokens=4,
        ),
        # Units behind the dispatcher.
        Arrow(("dispatcher", "memory"), ((876, 264), (876, 464), (325, 464), (325, 490))),
        Arrow(("dispatcher", "conversion"), ((510, 464), (510, 492))),
        Arrow(("dispatcher", "double"), ((640, 464), (640, 492))),
        Arrow(("dispatcher", "barrier"), ((765, 464), (765, 492))),
        Arrow(("dispatcher", "trap"), ((325, 464), (226, 464), (226, 345), (212, 345))),
        Label(866, 458, "dispatch", "end"),
        Box("memory", 250, 490, 150, 60, ("memory unit", "shared memory,", "atomic operations")),
        Box("conversion", 450, 492, 120, 52, ("conversion", "and functions")),
        Box("double", 585, 492, 110, 52, ("double", "precision")),
        Box("barrier", 710, 492, 110, 52, ("barriers", "of CTAs")),
        Arrow(
            ("memory", "issue"),
            ((275, 490), (275, 478), (238, 478), (238, 286), (300, 286), (300, 264)),
        ),
        Arrow(("memory", "execute"), ((300, 286), (540, 286), (540, 264))),
        Label(418, 302, "register reads and writes, completions"),
        Arrow(("conversion", "issue"), ((475, 492), (475, 478), (275, 478)), tip=False),
        Arrow(("double", "issue"), ((610, 492), (610, 478), (475, 478)), tip=False),
        Arrow(("barrier", "issue"), ((735, 492), (735, 478), (610, 478)), tip=False),
        # Traps and errors.
        Box("trap", 62, 318, 150, 62, ("trap unit", "enter, hold, leave;", "BPT, RTT, IDE")),
        Arrow(("trap", "issue"), ((180, 318), (180, 276), (276, 276), (276, 264))),
        Label(172, 292, "hold, ENTER, LEAVE", "end"),
        Box("errors", 144, 410, 68, 52, ("error", "collector")),
        Arrow(("errors", "trap"), ((178, 410), (178, 380))),
        Box("status", 62, 410, 66, 52, ("error", "status")),
        Arrow(("errors", "status"), ((144, 436), (128, 436))),
        Arrow(
            ("registers", "status"),
            ((100, 137), (100, 180), (46, 180), (46, 436), (62, 436)),
            both=True,
        ),
        # Memory.
        Box("arbiter", 250, 588, 570, 42, ("memory arbiter",), "other"),
        Arrow(("memory", "arbiter"), ((325, 550), (325, 588)), both=True),
        Arrow(("stack", "arbiter"), ((425, 442), (425, 588)), both=True, look="spill"),
        Label(433, 578, "spill, fill", "start"),
        Arrow(("fetch", "arbiter"), ((62, 250), (36, 250), (36, 609), (250, 609)), both=True),
        Arrow(
            ("distributor", "arbiter"), ((610, 106), (970, 106), (970, 609), (820, 609)), both=True
        ),
        Arrow(("arbiter", ""), ((535, 630), (535, 686)), both=True),
        Label(545, 680, "memory port: lines of 64 bytes", "start"),
    ),
)

PROJECT_DIAGRAM = Diagram(
    "The project: programs, toolchain, commands, engines, hardware, and what checks what",
    1000,
    640,
    (
        # Programs and what makes machine code of them.
        DashedFrame(10, 24, 190, 330, "programs"),
        Box(
            "cuda",
            26,
            50,
            158,
            66,
            ("CUDA programs", "numba, tinygrad, C++,", "unchanged"),
            "other",
        ),
        Box("ptx", 26, 136, 158, 50, ("PTX", "text of a kernel"), "other"),
        Box("sass", 26, 206, 158, 50, ("assembly text", "sm_50"), "other"),
        Box("cubin", 26, 276, 158, 66, ("cubin", "from NVIDIA's tools", "or from here"), "other"),
        DashedFrame(226, 24, 190, 330, "toolchain: sim/"),
        Box("libcuda", 242, 50, 158, 66, ("cuda", "libcuda, libcudart and", "their server")),
        Box("compiler", 242, 136, 158, 50, ("toolchain/compiler", "PTX to machine code")),
        Box("assembler", 242, 206, 158, 50, ("toolchain", "assembler and back")),
        Box("launch", 242, 276, 158, 66, ("launch", "memory image,", "launch descriptor")),
        Arrow(("cuda", "libcuda"), ((184, 83), (242, 83))),
        Arrow(("ptx", "compiler"), ((184, 161), (242, 161))),
        Arrow(("sass", "assembler"), ((184, 231), (242, 231))),
        Arrow(("cubin", "launch"), ((184, 309), (242, 309))),
        Arrow(("libcuda", "compiler"), ((321, 116), (321, 136))),
        Arrow(("compiler", "assembler"), ((321, 186), (321, 206))),
        Arrow(("assembler", "launch"), ((321, 256), (321, 276))),
        # Commands.
        DashedFrame(442, 24, 150, 330, "commands"),
        Box(
            "commands",
            456,
            50,
            122,
            292,
            (
                "python -m",
                "sim.run",
                "sim.debug",
                "sim.profile",
                "sim.cuda",
                "sim.demo",
                "sim.fuzz",
                "",
                "from Python:",
                "from sim",
                "import Machine",
            ),
            "other",
        ),
        Arrow(("launch", "commands"), ((400, 309), (456, 309))),
        # Engines and the hardware.
        DashedFrame(618, 24, 372, 330, "what runs it: --engine"),
        Box("compiled", 634, 50, 130, 66, ("compiled", "C++ from the", "netlist")),
        Box("pysim", 634, 132, 130, 50, ("pysim", "Amaranth's own")),
        Box("board", 634, 198, 130, 50, ("board", "an FPGA")),
        Box("model", 634, 276, 130, 66, ("model", "the warp model,", "without cycles")),
        Box(
            "rtl",
            830,
            50,
            146,
            198,
            (
                "rtl/: the SM",
                "in Amaranth,",
                "synthesizable;",
                "call/return stack,",
                "traps, error status",
                "",
                "rtl/fpga: SDRAM,",
                "video, serial link",
            ),
            "main",
        ),
        Arrow(("commands", "compiled"), ((578, 83), (634, 83))),
        Arrow(("commands", "pysim"), ((578, 157), (634, 157))),
        Arrow(("commands", "board"), ((578, 223), (634, 223))),
        Arrow(("commands", "model"), ((578, 309), (634, 309))),
        Arrow(("compiled", "rtl"), ((764, 83), (830, 83))),
        Arrow(("pysim", "rtl"), ((764, 157), (830, 157))),
        Arrow(("board", "rtl"), ((764, 223), (830, 223))),
        # The machine language.
        Box(
            "isa",
            10,
            376,
            980,
            44,
            (
                "rtl/isa: the machine language as data",
                "one table for decoders, assembler, disassembler, models, tests and manual",
            ),
            "main",
        ),
        # Checks.
        DashedFrame(10, 446, 980, 184, "what checks what"),
        Box(
            "thread",
            26,
            476,
            170,
            56,
            ("thread model", "each thread alone: no", "masks, no stack"),
            "check",
        ),
        Box(
            "warp",
            276,
            476,
            180,
            56,
            ("warp model", "masks and stack, one", "instruction at a time"),
            "check",
        ),
        Box("hardware", 590, 476, 150, 56, ("RTL", "every instruction,", "every cycle"), "main"),
        Box("theorems", 804, 476, 170, 56, ("theorems", "proved with Z3:", "sim.prove"), "check"),
        Arrow(("thread", "warp"), ((196, 504), (276, 504)), both=True),
        Label(248, 497, "results"),
        Arrow(("warp", "hardware"), ((456, 504), (590, 504)), both=True),
        Label(523, 497, "lockstep: --check,"),
        Label(523, 521, "sim.fuzz"),
        Arrow(("theorems", "hardware"), ((804, 504), (740, 504))),
        Box(
            "interpreter",
            26,
            562,
            170,
            56,
            ("PTX interpreter", "checks the compiler;", "runs no machine code"),
            "check",
        ),
        Box(
            "nvidia",
            212,
            562,
            170,
            56,
            ("NVIDIA's tools", "check the table and", "the assembler"),
            "check",
        ),
        Box(
            "mutants",
            398,
            562,
            150,
            56,
            ("sim.mutate", "do the tests notice", "wrong hardware?"),
            "check",
        ),
        Box(
            "references",
            590,
            562,
            150,
            56,
            ("testbenches", "a reference for", "each unit"),
            "check",
        ),
        Box(
            "netlist",
            804,
            562,
            170,
            56,
            ("Verilog and netlist", "the same run", "in Verilator"),
            "check",
        ),
        Arrow(("interpreter", "warp"), ((170, 562), (170, 547), (310, 547), (310, 532)), both=True),
        Label(226, 543, "compiled PTX", "start"),
        Arrow(("nvidia", "isa"), ((220, 562), (220, 420))),
        Arrow(("mutants", "references"), ((548, 590), (590, 590))),
        Arrow(("references", "hardware"), ((665, 562), (665, 532))),
        Arrow(("netlist", "hardware"), ((804, 590), (770, 590), (770, 520), (740, 520)), both=True),
    ),
)

DIAGRAMS = {"docs/sm.svg": SM_DIAGRAM, "docs/project.svg": PROJECT_DIAGRAM}
"""Diagrams by the file that contains them."""


def _text(x: float, y: float, text: str, look: str = "", anchor: str = "middle") -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def _box(box: Box) -> str:
    drawn = [
        f'<rect class="{box.look}" x="{box.x}" y="{box.y}" '
        f'width="{box.width}" height="{box.height}" rx="5"/>'
    ]
    top = box.y + (box.height - _LINE * len(box.lines)) / 2 + 12.5
    middle = box.x + box.width / 2
    if box.tokens:
        top = box.y + 20
        drawn.append(_text(middle, top, box.lines[0], "title"))
        drawn += [
            _text(box.x + 16, top + 14 + _LINE * (at + 1), line, "note", "start")
            for at, line in enumerate(box.lines[1:])
        ]
        drawn += [
            f'<rect class="token" x="{box.x + box.width - 170 + 38 * column}" '
            f'y="{top + 12 + 24 * row:g}" width="38" height="18"/>'
            for row in range(box.tokens)
            for column in range(4)
        ]
        return "\n".join(drawn)
    drawn += [
        _text(middle, top + _LINE * at, line, "note" if at else "title")
        for at, line in enumerate(box.lines)
        if line
    ]
    return "\n".join(drawn)


def _frame(frame: DashedFrame) -> str:
    rectangle = f'x="{frame.x}" y="{frame.y}" width="{frame.width}" height="{frame.height}" rx="8"'
    title = _text(frame.x + frame.width - 10, frame.y + 17, frame.title, "note", "end")
    return f'<rect class="frame" {rectangle}/>\n{title}'


def _arrow(arrow: Arrow) -> str:
    line = " ".join(f"{x},{y}" for x, y in arrow.points)
    tip = "spill" if arrow.look == "spill" else "tip"
    begin = f' marker-start="url(#{tip})"' if arrow.both else ""
    end = f' marker-end="url(#{tip})"' if arrow.tip else ""
    return f'<polyline class="{arrow.look}" points="{line}"{begin}{end}/>'


def _tip(name: str, look: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        f'<path class="{look}" d="M0 0L8 4L0 8z"/></marker>'
    )


def draw(diagram: Diagram) -> str:
    """Returns the text of an SVG file."""
    size = f'width="{diagram.width}" height="{diagram.height}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {diagram.width} {diagram.height}" role="img">',
        f"<title>{escape(diagram.title)}</title>",
        f"<style>\n{_STYLE}</style>",
        f"<defs>{_tip('tip', 'tip')}{_tip('spill', 'tip-spill')}</defs>",
        f'<rect class="page" {size} rx="8"/>',
    ]
    for part in diagram.parts:
        match part:
            case Box():
                drawn.append(_box(part))
            case DashedFrame():
                drawn.append(_frame(part))
            case Arrow():
                drawn.append(_arrow(part))
            case Label():
                drawn.append(_text(part.x, part.y, part.text, "note", part.anchor))
    return "\n".join(drawn) + "\n</svg>\n"
