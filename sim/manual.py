"""Builds the manual as a site: ``python -m sim.manual``.

Its pages are the project's Markdown files; source files that they link to become pages, too.
Register map, instructions and error codes are generated from the hardware's tables, and pictures of
waveforms are drawn again.
"""

import os
import re
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from typing import Any

from sim.report.diagrams import DIAGRAMS, draw
from sim.report.ports import PORT_UNITS, port_table
from sim.report.reference import reference_pages
from sim.support.activity import activity
from sim.support.children import run_child
from sim.support.command import CommandError, Parser, claim_folder

__all__ = ["MARKER", "NAVIGATION", "ROOT", "Pages", "main", "render", "settings_of", "with_ports"]

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the sources."""
_CODE = {
    ".py": "python",
    ".sass": "text",
    ".ptx": "text",
    ".lark": "text",
    ".h": "cpp",
    ".cc": "cpp",
    ".toml": "toml",
    ".html": "html",
    "": "bash",
    ".cu": "cpp",
    ".cff": "yaml",
    ".gtkw": "text",
}
"""Suffixes of source files that become pages, and their languages."""
_HOME = "README.md"
MARKER = ".warpstack-manual"
"""In a folder that this command made. MkDocs deletes what else is in it, except hidden files."""
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Excludes source pages from the search, so that it finds the pages of the manual, which link to
the sources.
"""
_QUOTED = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_DRAWN = re.compile(
    r"^python -m (sim\.waves\.(?:picture|sequence)) (waveforms/(\w+)\.vcd (?:.*\\\n)*.*)$",
    re.MULTILINE,
)
_PORTS = re.compile(r"(<!-- ports -->\n).*?(<!-- end of ports -->\n)", re.DOTALL)
"""The place of the table of ports in a unit's page."""
Navigation = Sequence["str | tuple[str, Navigation]"]
"""Pages, and titled sections of pages."""
NAVIGATION: Navigation = (
    (
        "Start",
        (
            "README.md",
            "docs/architecture.md",
            "docs/glossary.md",
            "docs/tour.md",
            "docs/implemented.md",
            "docs/comparison.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ),
    ),
    (
        "Use",
        (
            "docs/commands.md",
            "sim/README.md",
            "docs/cuda.md",
            "docs/python.md",
            "docs/ptx.md",
            "docs/runtime.md",
            "docs/trap_handlers.md",
            "docs/debugger.md",
            "docs/profile.md",
            "waveforms/README.md",
            "docs/examples/README.md",
        ),
    ),
    (
        "Hardware",
        (
            "rtl/README.md",
            "docs/front_end.md",
            "docs/lanes.md",
            "docs/control_flow.md",
            "docs/memory.md",
            "docs/barriers_traps.md",
            "docs/traps.md",
            "docs/host.md",
            "docs/serial.md",
            "docs/reset.md",
            "docs/choices.md",
            "docs/benchmarks.md",
            ("Units", tuple(f"docs/units/{unit}.md" for unit in PORT_UNITS)),
            (
                "Reference",
                (
                    "reference/instructions.md",
                    "docs/refused.md",
                    "reference/registers.md",
                    "reference/errors.md",
                ),
            ),
        ),
    ),
    (
        "Verification",
        (
            "testbench/README.md",
            "docs/proofs.md",
            "docs/fuzz.md",
            "docs/mutation.md",
            "docs/verification_results.md",
            "docs/cuda_tests.md",
            "testbench/programs/README.md",
            "testbench/programs/cuda/README.md",
            "testbench/programs/clients/README.md",
        ),
    ),
    (
        "Board",
        (
            "docs/board.md",
            "docs/board_video.md",
            "docs/board_measurements.md",
            "constraints/README.md",
        ),
    ),
)
"""The sections of pages, in the order of the site."""
_STYLE = """\
.md-grid { max-width: 90rem; }
.md-typeset table:not([class]) { font-size: .62rem; }
.md-typeset table:not([class]) th { min-width: 0; }
.md-typeset td:first-child code { white-space: nowrap; }
.md-typeset pre > code { font-size: .72em; }
.md-typeset .command pre > code { white-space: pre-wrap; overflow-wrap: anywhere; }
.md-typeset a:has(> img) { cursor: zoom-in; }
.md-typeset table:not([class]) { background: none; }
.md-typeset__scrollwrap {
  --page: var(--md-default-bg-color);
  --edge: var(--md-default-fg-color--lighter);
  background:
    linear-gradient(to right, var(--page) 40%, transparent) left / 3rem 100% local,
    linear-gradient(to left, var(--page) 40%, transparent) right / 3rem 100% local,
    linear-gradient(to right, var(--edge), transparent) left / .5rem 100% scroll,
    linear-gradient(to left, var(--edge), transparent) right / .5rem 100% scroll;
  background-repeat: no-repeat;
}
@media (max-width: 600px) {
  .md-typeset table:not([class]) :is(th, td) { padding: .5em .6em; }
  .md-typeset a:has(> img[src$=".svg"]) { display: block; overflow-x: auto; }
  .md-typeset a > img[src$=".svg"] { max-width: none; min-width: 700px; }
}
"""
"""Makes room for tables of registers and for block diagrams. Names are not broken, but lines of
commands are. A picture links to itself in full size. On a narrow page a diagram and a wide table scroll; a shadow at
the edge of a table shows that it does.
"""
_COMMAND = re.compile(
    r"^```\n(?=(?:\$ |\. |\w+=\S+ )*(?:python3?|pip|pytest|bash|warpstack|cat) )", re.MULTILINE
)
"""The beginning of a code block with a command, with or without its output."""
_PAGE_CHARACTERS, _TABLE_LINES = 106, 3
"""Characters of a line of text on a page; this many wider lines of output count as a table."""
_PICTURE = re.compile(r"(?<!\[)!\[[^]]*\]\(([^)#:\s]+)\)")


def pages_of(navigation: Navigation) -> list[str]:
    """Returns all pages of a navigation, in its order."""
    return [
        page
        for entry in navigation
        for page in ([entry] if isinstance(entry, str) else pages_of(entry[1]))
    ]


def _has_wide_table(text: str) -> bool:
    """Whether a command prints a table that is wider than a page. Its lines are not broken, to keep
    the columns aligned.
    """
    lines = [line for line in text.splitlines() if not line.startswith("$ ")]
    wide = [line for line in lines if len(line) > _PAGE_CHARACTERS]
    return "\n$ " in text and len(wide) >= _TABLE_LINES


class Pages:
    """The pages of the site, collected in a folder.

    Attributes:
        pages: Paths of the pages below the folder.
    """

    def __init__(self, root: Path, stage: Path) -> None:
        self._root, self._stage = root, stage
        self.pages: set[str] = set()
        self._waiting: list[Path] = []

    def gather(self, first: Sequence[str]) -> None:
        """Adds pages, and all files that they link to."""
        for name in first:
            self._add(self._root / name)
        while self._waiting:
            self._write(self._waiting.pop())

    def write(self, name: str, text: str) -> None:
        """Adds a generated page."""
        target = self._stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._linked(text, self._root / name), encoding="utf-8")
        self.pages.add(name)

    def _add(self, path: Path) -> str | None:
        """Returns the path of a file or folder in the site; None for a missing one."""
        if path.is_dir():
            if not (path / "README.md").is_file():
                return self._folder(path)
            path = path / "README.md"
        if not path.is_file() or not path.is_relative_to(self._root):
            return None
        name = path.relative_to(self._root).as_posix()
        if path.suffix in _CODE and path.suffix != ".md":
            name += ".md"
        if name not in self.pages:
            self.pages.add(name)
            self._waiting.append(path)
        return name

    def _folder(self, path: Path) -> str:
        """Returns a page that lists the Markdown files and packages of a folder."""
        name = f"{path.relative_to(self._root).as_posix()}/index.md"
        if name not in self.pages:
            self.pages.add(name)
            files = sorted(file.name for file in path.iterdir() if file.suffix == ".md")
            lines = [f"# {path.name}", "", *(f"- [{file}]({file})" for file in files)]
            self.write(name, "\n".join(lines) + "\n")
        return name

    def _write(self, path: Path) -> None:
        name = path.relative_to(self._root).as_posix()
        target = self._stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(
                self._linked(path.read_text(encoding="utf-8"), path), encoding="utf-8"
            )
        elif path.suffix in _CODE:
            text = path.read_text(encoding="utf-8")
            fence = "`" * 8  # More than any file has
            text = f"{_NOT_SEARCHED}# {name}\n\n{fence}{_CODE[path.suffix]}\n{text}\n{fence}\n"
            target.with_name(f"{target.name}.md").write_text(text, encoding="utf-8")
        else:
            shutil.copy(path, target)

    def _linked(self, text: str, path: Path) -> str:
        """Returns a page's text with links rewritten to paths in the site."""

        def link(found: re.Match[str]) -> str:
            target = self._add(Path(os.path.normpath(path.parent / found[2])))
            if target is None:
                return found[0]
            here = path.relative_to(self._root).parent
            return found[1] + Path(os.path.relpath(target, here)).as_posix() + found[3]

        def shown(part: str, *, is_quoted: bool) -> str:
            if not is_quoted:
                return _PICTURE.sub(r"[\g<0>](\1)", _LINK.sub(link, part))
            if _has_wide_table(part):
                return part
            return _COMMAND.sub("```{ .text .command }\n", part)

        return "".join(
            shown(part, is_quoted=at % 2 == 1) for at, part in enumerate(_QUOTED.split(text))
        )


def _draw(root: Path, stage: Path, say: Callable[[str], None]) -> None:
    """Draws the pictures of waveforms that pages describe; records each testbench once."""

    def run(what: str, module: str, *arguments: str) -> None:
        done = run_child(
            [sys.executable, "-m", module, *arguments], cwd=root, stdout=PIPE, stderr=PIPE
        )
        if done.returncode:
            raise CommandError(f"{what}: {(done.stderr or done.stdout).strip()}")

    with tempfile.TemporaryDirectory() as folder:
        for page in [*sorted(root.glob("docs/**/*.md")), root / "README.md"]:
            for found in _DRAWN.finditer(page.read_text(encoding="utf-8")):
                words, unit = shlex.split(found[2].replace("\\\n", " ")), found[3]
                target, waveform = words[words.index("-o") + 1], Path(folder) / f"{unit}.vcd"
                if not waveform.exists():
                    say(f"recording {unit}")
                    run(page.name, "sim.run_tb", unit, "--record", "--vcd", str(waveform))
                say(f"drawing {target}")
                words[0], words[words.index("-o") + 1] = str(waveform), str(stage / target)
                run(f"{page.name}: {target}", found[1], *words)


def with_ports(text: str, unit: str) -> str:
    """Returns the page of a unit with the current table of its ports."""
    return _PORTS.sub(lambda found: f"{found[1]}\n{port_table(unit)}\n{found[2]}", text)


def _write_ports() -> int:
    for unit in PORT_UNITS:
        page = ROOT / "docs" / "units" / f"{unit}.md"
        page.write_text(with_ports(page.read_text(encoding="utf-8"), unit), encoding="utf-8")
    print(f"ports         of {len(PORT_UNITS)} units, in docs/units")
    return 0


def _listed(navigation: Navigation, pages: set[str]) -> list[Any]:
    """Returns the navigation in the form of MkDocs, with the existing pages."""
    listed: list[Any] = []
    for entry in navigation:
        if not isinstance(entry, str):
            listed.append({entry[0]: _listed(entry[1], pages)})
        elif entry in pages:
            listed.append({"Overview": entry} if entry == _HOME else entry)
    return listed


def _write_diagrams() -> int:
    for name, diagram in DIAGRAMS.items():
        (ROOT / name).write_text(draw(diagram), encoding="utf-8")
    print(f"diagrams      {', '.join(DIAGRAMS)}")
    return 0


def settings_of(stage: Path, site: Path, navigation: list[Any]) -> dict[str, Any]:
    """Returns the MkDocs configuration for a folder of pages. No page loads resources from the
    network.
    """
    from pymdownx.slugs import slugify  # pyright: ignore[reportMissingImports]

    palette = [
        {"media": f"(prefers-color-scheme: {kind})", "scheme": scheme, "primary": "teal"}
        for kind, scheme in (("light", "default"), ("dark", "slate"))
    ]
    return {
        "site_name": "Warpstack",
        "docs_dir": str(stage),
        "site_dir": str(site),
        "nav": navigation,
        "use_directory_urls": False,
        "strict": True,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.sections", "navigation.top", "toc.follow"],
            "palette": palette,
        },
        "plugins": ["search"],
        "extra": {"homepage": "index.html"},
        "extra_css": ["wide.css"],
        "markdown_extensions": [
            "tables",
            "attr_list",
            "pymdownx.superfences",
            "pymdownx.highlight",
            {"toc": {"slugify": slugify(case="lower"), "permalink": True}},
        ],
        "validation": {
            "nav": {"omitted_files": "ignore", "not_found": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
        },
    }


def _build(options: Namespace) -> int:
    if not (ROOT / "rtl" / "README.md").is_file():
        raise CommandError("the manual is not there: it is built from the sources of the project")
    if options.ports:
        return _write_ports()
    if options.diagrams:
        return _write_diagrams()
    missing = [name for name in ("mkdocs", "material", "pymdownx") if find_spec(name) is None]
    if missing:
        raise CommandError(f"{', '.join(missing)} not installed: pip install -e '.[docs]'")
    site: Path = options.output.resolve()
    claim_folder(site, MARKER)

    def say(what: str) -> None:
        print(what, file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        pages = Pages(ROOT, stage)
        say("gathering pages")
        for name, text in reference_pages().items():
            pages.write(f"reference/{name}", text)
        pages.gather([name for name in pages_of(NAVIGATION) if (ROOT / name).is_file()])
        (stage / "wide.css").write_text(_STYLE, encoding="utf-8")
        if options.draw:
            _draw(ROOT, stage, say)
        say(f"building {len(pages.pages)} pages")
        with activity("building"):
            render(settings_of(stage, site, _listed(NAVIGATION, pages.pages)))
    print(f"manual        {os.path.relpath(site)}/index.html")
    return 0


def render(settings: dict[str, Any]) -> None:
    """Builds the site; CommandError with the problems of its pages."""
    import logging

    from mkdocs.commands.build import build  # pyright: ignore[reportMissingImports]
    from mkdocs.config.defaults import MkDocsConfig  # pyright: ignore[reportMissingImports]
    from mkdocs.exceptions import Abort, MkDocsException  # pyright: ignore[reportMissingImports]

    class Warnings(logging.Handler):
        """Collects the messages of the log."""

        def __init__(self) -> None:
            super().__init__(logging.WARNING)
            self.messages: list[str] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.messages.append(record.getMessage())

    warnings = Warnings()
    logger = logging.getLogger("mkdocs")
    logger.addHandler(warnings)
    config: Any = MkDocsConfig()
    config.load_dict(settings)
    errors, _ = config.validate()
    if errors:
        raise CommandError(f"settings of MkDocs: {errors}")
    try:
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
    except (Abort, MkDocsException) as error:
        raise CommandError("; ".join(warnings.messages[:3]) or str(error)) from error
    finally:
        logger.removeHandler(warnings)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "sim.manual",
        "Builds the manual as a site. A browser opens it from its folder; search needs a "
        "server, such as python -m http.server.",
        "-o build/manual",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("build/manual"),
        metavar="FOLDER",
        help="folder of the site: a new or an empty one, or one that this command made, whose files it "
        "replaces (default: build/manual)",
    )
    parser.add_argument(
        "--no-draw",
        dest="draw",
        action="store_false",
        help="use the existing pictures of waveforms instead of drawing them again",
    )
    parser.add_argument(
        "--ports",
        action="store_true",
        help="regenerate the tables of ports in docs/units from the signatures; build nothing",
    )
    parser.add_argument(
        "--diagrams",
        action="store_true",
        help="regenerate the block diagrams in docs; build nothing",
    )
    return parser.run(arguments, _build)


if __name__ == "__main__":
    sys.exit(main())
