"""The manual as a site: what it links to is there, and it asks nothing of the net."""

from html.parser import HTMLParser
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS
from rtl.isa.table import BY_NAME
from sim import manual
from sim.report.reference import reference_pages
from sim.support.command import CommandError

needs_mkdocs = pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("material") is None,
                                  reason="mkdocs and mkdocs-material are not installed")


class Links(HTMLParser):
    """What a page links to, what it loads, and the places in it."""

    def __init__(self):
        super().__init__()
        self.links, self.loaded, self.places = set(), set(), set()

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        if tag == "a" and "href" in told:
            self.links.add(told["href"])
        if tag in ("img", "script") and "src" in told:
            self.loaded.add(told["src"])
        if tag == "link" and told.get("rel") == "stylesheet":
            self.loaded.add(told["href"])
        self.places |= {told[name] for name in ("id", "name") if name in told}


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
                assert unquote(parts.fragment) in pages[target].places, f"{path.relative_to(folder)}: {link}"


def test_the_pages_of_the_manual_are_in_the_navigation():
    named = [page for _, pages in manual.NAVIGATION for page in pages]
    assert len(set(named)) == len(named)
    assert {f"docs/{path.name}" for path in (manual.ROOT / "docs").glob("*.md")} <= set(named)


@needs_mkdocs
def test_a_page_of_the_site_leads_to_every_page_of_the_navigation(site):
    folder, pages = site
    page = next(page for path, page in pages.items() if path.parent.name == "docs" and path.name == "tour.html")
    targets = {(folder / "docs" / link).resolve() for link in page.links}
    for _, names in manual.NAVIGATION:
        for name in names:
            path = (folder / name).with_suffix(".html")
            places = {path, path.with_name("index.html") if path.stem == "README" else path}
            assert places & targets or path == folder / "docs" / "tour.html", name


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
    assert "mkdocs, material, pymdownx not installed: pip install -e '.[docs]'" in capsys.readouterr().err
