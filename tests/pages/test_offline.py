"""The book reads offline: no page loads anything from outside, and what it needs lies beside it."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser
import pytest

LOADING = {  # tag: attributes whose address a browser fetches by itself
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
INERT_LINKS = {"canonical", "search", "prev", "next", "author", "license"}


class Loads(HTMLParser):
    """Addresses that a page fetches, and the text of its scripts and styles."""

    def __init__(self):
        super().__init__()
        self.addresses, self.code, self.inside = [], [], None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.inside = tag if tag in ("script", "style") else self.inside
        if tag == "link" and set((attrs.get("rel") or "").split()) & INERT_LINKS:
            return
        for name in LOADING.get(tag, ()):
            if value := attrs.get(name):
                self.addresses += [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
        if style := attrs.get("style"):
            self.code.append(style)

    def handle_endtag(self, tag):
        if tag == self.inside:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.code.append(data)


def is_outside(address):
    return bool(re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", address.strip(), re.I))


def outside_in_code(text):
    """Addresses that a style or script of ours would fetch."""
    found = re.findall(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)", text)
    return found + re.findall(
        r"(?:fetch|import|importScripts|src\s*=|href\s*=)\s*\(?\s*[\"'`]((?:https?:)?//[^\"'`]+)", text
    )


@cache
def loads_of(page):
    parser = Loads()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def pages(html):
    """Every page; the theme leaves templates of its own under _static."""
    return sorted(p for p in html.rglob("*.html") if "_static" not in p.parts)


def test_the_scan_sees_what_it_should(tmp_path):
    page = tmp_path / "x.html"
    page.write_text(
        '<script src="https://cdn.example.org/a.js"></script><link rel="stylesheet" href="//x.org/b.css">'
        '<link rel="canonical" href="https://ours.example.org"><a href="https://fine.example.org">link</a>'
        "<style>@import url(https://fonts.example.org/c)</style><script>fetch('https://d.example.org')</script>"
        "<script>const link = 'https://only-text.example.org'</script>"
    )
    found = loads_of(page)
    assert [a for a in found.addresses if is_outside(a)] == ["https://cdn.example.org/a.js", "//x.org/b.css"]
    assert sum((outside_in_code(c) for c in found.code), []) == ["https://fonts.example.org/c", "https://d.example.org"]


def test_no_page_loads_anything_from_outside(built_html):
    found = pages(built_html)
    assert found
    outside = [
        (page.relative_to(built_html).as_posix(), address)
        for page in found
        for address in [
            *(a for a in loads_of(page).addresses if is_outside(a)),
            *(a for code in loads_of(page).code for a in outside_in_code(code)),
        ]
    ]
    assert not outside


def test_no_style_or_own_script_loads_anything_from_outside(built_html):
    for path in [*built_html.rglob("*.css"), built_html / "_static" / "rbp.js"]:
        assert not outside_in_code(path.read_text(encoding="utf-8", errors="replace")), path


def test_everything_a_page_loads_lies_in_the_book(built_html):
    missing = set()
    for page in pages(built_html):
        for address in loads_of(page).addresses:
            parts = urlsplit(address)
            if not parts.scheme and parts.path and not (page.parent / unquote(parts.path)).exists():
                missing.add((page.name, address))
    assert not missing


def test_only_pages_with_a_moving_figure_load_the_script_that_draws_it(built_html):
    loaded = {page: any("vendor/vega.js" in a for a in loads_of(page).addresses) for page in pages(built_html)}
    assert loaded == {page: 'class="rbp-move"' in page.read_text(encoding="utf-8") for page in loaded}
    assert any(loaded.values()) and (built_html / "_static" / "vendor" / "vega.js").stat().st_size < 1_500_000


def test_internal_links_lead_somewhere(built_html):
    broken = set()
    for page in pages(built_html):
        for href in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', page.read_text(encoding="utf-8")):
            parts = urlsplit(href)
            if (
                not parts.scheme
                and not parts.netloc
                and parts.path
                and not (page.parent / unquote(parts.path)).exists()
            ):
                broken.add((page.name, href))
    assert not broken


def without_network():
    """A prefix that takes the network away, where this user may do that."""
    for prefix in (["unshare", "-n"], ["unshare", "-r", "-n"]):
        shell = [*prefix, "sh", "-c", 'ip link set lo up 2>/dev/null || ifconfig lo up; exec "$@"', "_"]
        if shutil.which("unshare") and not subprocess.run([*shell, "true"], capture_output=True).returncode:
            return shell
    return []


def chosen(html):
    """One page of each kind: browsers are slow, and the scan above reads every page."""
    every = [p.relative_to(html).as_posix() for p in pages(html)]
    seen, out = set(), []
    for page in every:
        kind = Path(page).name if "_executed" in page else page
        if kind not in seen and "genindex" not in page and "search" not in page:
            seen.add(kind)
            out.append(page)
    return out


@pytest.fixture(scope="module")
def visited(built_html):
    if not all(browser.find()):
        pytest.skip("no Chromium with its driver is installed")
    command = [*without_network(), sys.executable, browser.__file__, built_html, *chosen(built_html)]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_the_browser_asks_for_nothing_outside(visited, built_html):
    base = built_html.resolve().as_uri()
    outside = [(p, u) for p, v in visited.items() for u in v["requests"] if not u.startswith((base, "data:", "blob:"))]
    assert not outside


def test_every_formula_is_typeset(visited):
    assert sum(v["math"] for v in visited.values()) > 5
    for page, v in visited.items():
        assert v["math_errors"] == 0, page
        assert v["typeset"] >= v["math"], page


def test_no_page_complains(visited):
    assert {p: v["console"] for p, v in visited.items() if v["console"]} == {}


def test_every_picture_is_there_and_has_words(visited):
    assert {p: v["images"] for p, v in visited.items() if v["images"]} == {}
    assert {p: v["no_alt"] for p, v in visited.items() if v["no_alt"]} == {}


def test_figures_move_and_tables_sort(visited):
    assert sum(v["figures"] for v in visited.values()) > 1
    for page, v in visited.items():
        assert v["moved"] == v["figures"] and not v["unlabelled"] and not v["beyond"], page
        assert not v["tables"] or v["sortable"] >= v["tables"], page


def test_headings_keep_what_is_set_in_them_and_files_have_names_of_their_own(visited, built_html):
    for page, v in visited.items():
        heads = "".join(re.findall(r"<th\b.*?</th>", (built_html / page).read_text(encoding="utf-8"), re.S))
        assert v["indexes"] == len(re.findall("<su[bp]>", heads)) and not v["twice"] and not v["headless"], page


def test_without_scripts_a_page_says_what_it_lacks(built_html):
    for page in pages(built_html):
        text = page.read_text(encoding="utf-8")
        written = bool(re.search(r'<h1>.+?<a class="headerlink"', text))  # not the index, the search, a sheet to take
        assert text.count('<noscript><p class="rbp-noscript">') == written, page.name
    assert "rbp-noscript" in (built_html / "book" / "intro.html").read_text(encoding="utf-8")
    style = (built_html / "_static" / "rbp.css").read_text(encoding="utf-8")  # the theme's colours want a script
    auto = style.split('html[data-theme="auto"] {')[1].split("}")[0]
    assert {*re.findall(r"var\((--pst-[\w-]+)\)", style)} <= {*re.findall(r"(--pst-[\w-]+):", auto)}


def test_the_switch_offers_the_pages_texts_and_leaves_one_alone(visited):
    found = {page: v["text"] for page, v in visited.items() if v["text"]}
    assert sum("_executed" in page for page in found) > 3
    for page, v in found.items():
        assert {one["title"] for one in v["own"]} <= set(v["titles"]) and not v["left away"], page
        assert all(one["seen"] or one["lists"] for one in v["own"]), page
        assert not any(one["wrong"] or one["elsewhere"] for one in v["own"]), page


def test_no_table_is_wider_than_its_column(visited):
    """At 1280 pixels, with every fold open."""
    assert {p: v["wide_tables"] for p, v in visited.items() if v["wide_tables"]} == {}


def test_tables_have_six_columns_at_most(visited):
    assert {p: v["many_columns"] for p, v in visited.items() if v["many_columns"]} == {}


@pytest.mark.parametrize("width", [browser.PHONE, browser.WINDOW])
def test_no_page_is_wider_than_its_window(visited, width):
    wider = {p: v[f"wider than {width}"] for p, v in visited.items()}
    assert {p: pixels for p, pixels in wider.items() if pixels > 0} == {}


def axe_core():
    """The script of axe-core, which is not part of this project: in RBP_AXE, or installed by npm beside it."""
    given = os.environ.get("RBP_AXE") or Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
    return Path(given) if Path(given).is_file() else None


def test_axe_finds_no_serious_fault(built_html):
    """Every kind of page, in light and dark, in a window and on a phone; a second for each."""
    if not axe_core():
        pytest.skip("axe-core is not here: `npm pack axe-core`, unpack it, and name its axe.min.js in RBP_AXE")
    if not all(browser.find()):
        pytest.skip("no Chromium with its driver is installed")
    command = [sys.executable, browser.__file__, "--axe", axe_core(), built_html, *chosen(built_html)]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {page: found for page, found in json.loads(done.stdout).items() if found} == {}
