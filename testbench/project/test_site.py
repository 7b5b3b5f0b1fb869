"""The manual as a site: the targets of its links exist, and it loads nothing from the network."""

import json
import re
from html.parser import HTMLParser
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS
from rtl.isa.table import BY_NAME
from sim import manual
from sim.report.reference import reference_pages
from sim.support.command import CommandError, claim_folder
from testbench.refusal import refused

needs_mkdocs = pytest.mark.skipif(
    find_spec("mkdocs") is None or find_spec("material") is None,
    reason="mkdocs and mkdocs-material are not installed",
)


WIDTH_OF_A_PNG = slice(16, 20)
"""Position of the width in pixels in a PNG file."""


class Links(HTMLParser):
    """The links of a page, the files that it loads, and its anchors."""

    def __init__(self):
        super().__init__()
        self.links, self.loaded, self.places = set(), set(), set()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag in ("img", "script") and "src" in values:
            self.loaded.add(values["src"])
        if tag == "link" and values.get("rel") == "stylesheet":
            self.loaded.add(values["href"])
        self.places |= {values[name] for name in ("id", "name") if name in values}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert manual.main(["-o", str(folder), "--no-draw"]) == 0
    pages = {}
    for path in folder.rglob("*.html"):
        pages[path] = Links()
        pages[path].feed(path.read_text())
    return folder, pages


@needs_mkdocs
def test_a_folder_of_other_files_stays_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(manual, "render", lambda settings: pytest.fail("built"))
    (tmp_path / "notes.md").write_text("kept")
    assert refused(capsys, manual.main, ["-o", str(tmp_path)]) == (
        f"python -m sim.manual: {tmp_path}: this command did not make this folder, and it is not "
        "empty; name a new or an empty one"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]


@needs_mkdocs
def test_a_site_is_built_again_in_its_folder(tmp_path, capsys):
    """MkDocs deletes the old pages, and leaves the mark by which the folder is known."""
    (tmp_path / "pages").mkdir()
    page, site = tmp_path / "pages" / "index.md", tmp_path / "site"
    page.write_text("text")
    for _ in range(2):
        claim_folder(site, manual.MARKER)
        manual.render(manual.settings_of(page.parent, site, ["index.md"]))
        assert (site / "index.html").is_file()
        assert not (site / "old.html").exists()
        (site / "old.html").write_text("of a page that is not there any more")


@needs_mkdocs
def test_every_link_of_the_site_leads_somewhere(site):
    folder, pages = site
    assert len(pages) > 100
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                assert link not in page.loaded, f"{path.name} loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(folder)}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, (
                    f"{path.relative_to(folder)}: {link}"
                )


def test_the_pages_of_the_manual_are_in_the_navigation():
    named = manual.pages_of(manual.NAVIGATION)
    assert len(set(named)) == len(named)
    assert {f"docs/{path.name}" for path in (manual.ROOT / "docs").glob("*.md")} <= set(named)


@needs_mkdocs
def test_a_page_of_the_site_leads_to_every_page_of_the_navigation(site):
    folder, pages = site
    page = next(
        page
        for path, page in pages.items()
        if path.parent.name == "docs" and path.name == "tour.html"
    )
    targets = {(folder / "docs" / link).resolve() for link in page.links}
    for name in manual.pages_of(manual.NAVIGATION):
        path = (folder / name).with_suffix(".html")
        places = {path, path.with_name("index.html") if path.stem == "README" else path}
        assert places & targets or path == folder / "docs" / "tour.html", name


def test_the_manual_has_five_groups():
    assert [title for title, _ in manual.NAVIGATION] == [
        "Start",
        "Use",
        "Hardware",
        "Verification",
        "Board",
    ]


class Navigation(HTMLParser):
    """The links in the list of all pages beside a page."""

    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if (
            tag == "a"
            and "md-nav__link" in (values.get("class") or "")
            and not values["href"].startswith("#")
        ):
            self.targets.append(values["href"])


@needs_mkdocs
def test_the_navigation_lists_each_page_once(site):
    folder, _ = site
    navigation = Navigation()
    navigation.feed((folder / "docs" / "tour.html").read_text())
    assert navigation.targets.count("../index.html") == 1
    assert sorted(set(navigation.targets)) == sorted(navigation.targets)


@needs_mkdocs
def test_a_link_to_a_source_shows_its_name(site):
    """Markdown must not render ``__main__.py`` as a bold main."""
    folder, _ = site
    shown = re.findall(
        r'<a href="[^"]*?([\w.]+)\.html"[^>]*>((?:(?!</a>).)*\.py(?:(?!</a>).)*)</a>',
        "".join(path.read_text() for path in folder.rglob("*.html")),
    )
    assert len(shown) > 100
    assert [text for _, text in shown if "<strong>" in text] == []


@needs_mkdocs
def test_every_picture_opens_in_its_own_size(site):
    folder, _ = site
    pictures = 0
    for path in folder.rglob("*.html"):
        text = path.read_text()
        for picture, source in re.findall(
            r'((?:<a href="[^"]*">)?<img alt="[^"]*" src="([^"]*)")', text
        ):
            pictures += 1
            assert picture.startswith(f'<a href="{source}">'), (
                f"{path.relative_to(folder)}: {source}"
            )
    assert pictures > 40


def test_pictures_of_gtkwave_are_no_wider_than_a_page():
    """A page's text is 920 pixels wide on a screen of 1,440; GTKWave's text is readable unscaled."""
    screens = [
        *(manual.ROOT / "docs" / "waves").glob("*.png"),
        *(
            manual.ROOT / "docs" / "tour" / f"{name}.png"
            for name in ("call", "divergence", "recursion", "trap")
        ),
    ]
    assert len(screens) > 15
    widths = {
        path.name: int.from_bytes(path.read_bytes()[WIDTH_OF_A_PNG], "big") for path in screens
    }
    assert [name for name, width in widths.items() if width > 920] == []


@needs_mkdocs
def test_lines_of_commands_are_broken_where_the_page_ends(site):
    """Lines of diagrams and tables are not wrapped."""
    folder, _ = site
    text = (folder / "index.html").read_text()
    commands = re.findall(
        r'<div class="command highlight"><pre>.*?<code>(.*?)</code>', text, re.DOTALL
    )
    assert len(commands) == 6 and all("python" in command for command in commands)
    for page in ("units/crs.html", "profile.html"):
        first = (folder / "docs" / page).read_text().partition("<h2")[0]
        assert "<code>" in first and 'class="command' not in first, page
    style = (folder / "wide.css").read_text()
    assert re.search(r"\.command pre > code \{ white-space: pre-wrap;", style)


@needs_mkdocs
def test_a_search_finds_pages_and_not_their_sources(site):
    folder, _ = site
    found = json.loads((folder / "search" / "search_index.json").read_text())["docs"]
    places = {page["location"].partition("#")[0] for page in found}
    assert {
        "index.html",
        "docs/glossary.html",
        "docs/architecture.html",
        "rtl/index.html",
    } <= places
    assert [
        place for place in places if place.endswith((".py.html", ".sass.html", ".ptx.html"))
    ] == []
    (scripts,) = re.findall(
        r'<script id="__config" type="application/json">(.*?)</script>',
        (folder / "docs" / "tour.html").read_text(),
    )
    assert (folder / "docs" / json.loads(scripts)["search"]).is_file()


@needs_mkdocs
def test_a_link_that_leads_nowhere_is_named(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("[there](nowhere.md)\n")
    settings = manual.settings_of(tmp_path / "pages", tmp_path / "site", [{"A": "index.md"}])
    with pytest.raises(CommandError, match=r"nowhere\.md"):
        manual.render(settings)


def test_tables_are_those_of_the_machine():
    pages = reference_pages()
    for page, names in (("instructions.md", BY_NAME), ("registers.md", SM_REGISTERS)):
        assert all(f"| `{name}` |" in pages[page] for name in names)
    assert all(f"| {error.name} |" in pages["errors.md"] for error in WarpError if error.value)


def test_without_its_tools_it_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(manual, "find_spec", lambda _name: None)
    with pytest.raises(SystemExit) as ended:
        manual.main([])
    assert ended.value.code == 2
    assert (
        "mkdocs, material, pymdownx not installed: pip install -e '.[docs]'"
        in capsys.readouterr().err
    )
