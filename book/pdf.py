"""`make pdf`: the book as one page of HTML, printed by Chromium with page numbers; folds are open but the code's,
which stands in the notebooks, those of slides, whose figures stand on their pages, and digests of rank tables."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from rbplib.families import InputError, root, write_text
from workflow.html import families_page
from workflow.page import DEFAULT_FAMILY, executed_pages

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 1800  # after which a browser that still prints is given up
PRINTED = """<style>
@page { size: A4; margin: 18mm 16mm 20mm; @bottom-center { content: counter(page); font-size: 9pt; } }
html { font-size: 13px !important; }
.bd-sidebar, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header, .bd-header-article, .bd-footer, .prev-next-footer,
.header-article, .toggle-button, .copybtn, #pst-back-to-top, #pst-scroll-pixel-helper, details.hide > summary,
.rbp-families, .rbp-csv, .rbp-code, .headerlink, .skip-link, details.rbp-fold:has(> img.rbp-figure),
.rbp-made :is(dt, dd):last-of-type {
  display: none !important; }
.bd-main, .bd-content, .bd-article-container, .bd-container__inner {
  display: block !important; max-width: 100% !important; }
.toggle-hidden, .toggle-hidden > * { visibility: visible !important; opacity: 1 !important; max-height: none !important;
  height: auto !important; display: block !important; }
span[id^="document-"] + section { break-before: page; }
img, svg, table, figure { max-width: 100% !important; }
img, svg, figure, pre, summary { break-inside: avoid; }
h1, h2, h3, summary, caption { break-after: avoid; }
p.rbp-caption { break-before: avoid; }
#jb-print-toc nav { columns: 2; }  /* the contents, beside the first page's claim */
#jb-print-toc li, #jb-print-toc a, #jb-print-toc p { margin: 0 !important; padding: 0.05rem 0 !important; }
.rbp-still img, img.rbp-figure { max-height: 112mm !important; object-fit: contain; }  /* two to a page */
.rbp-fold > .rbp-table-wrap.tall { display: none !important; }
.rbp-fold:has(> .rbp-table-wrap.tall)::after {
  content: "A long table, left out of print: the book on the web has it, and as CSV."; }
table { font-size: 0.88rem !important; }
th, td { white-space: normal !important; overflow-wrap: anywhere; padding: 0.1rem 0.2rem !important; }
th, td, td div { min-width: 0 !important; }
td.num { white-space: nowrap !important; }
.rbp-table-wrap { overflow: visible !important; max-height: none !important; }
pre { white-space: pre-wrap !important; overflow-wrap: anywhere; }
</style>"""


def browser():
    """The path of a Chromium or Chrome. Raises InputError: none is found."""
    if found := next(filter(None, map(shutil.which, BROWSERS)), None):
        return found
    raise InputError(
        f"a PDF is printed by Chromium or Chrome, and neither is found: install one ({BROWSERS[0]})."
    )


def one_page():
    """Build the book as a single page of HTML below _build/pdf; its path."""
    place = root() / "_build" / "pdf"
    shutil.rmtree(place, ignore_errors=True)
    contents = place / "contents.yml"
    write_text(
        contents,
        (root() / "_toc.yml").read_text(encoding="utf-8").replace(DEFAULT_FAMILY, families_page()),
    )
    script = Path(sys.executable).with_name("jupyter-book")
    command = [
        script,
        "build",
        root(),
        "--toc",
        contents,
        "--builder",
        "singlehtml",
        "--path-output",
        place,
        "-q",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=root())
    found = sorted((place / "_build" / "singlehtml").rglob("intro.html"))
    if done.returncode or not found:
        raise RuntimeError(
            "the book could not be built as one page:\n" + (done.stdout + done.stderr)[-2000:]
        )
    return found[0]


def for_print(text):
    """A page of HTML with every fold open, still pictures in place of moving figures, and the look of print."""
    text = re.sub(r"<details(?![^>]*\bopen\b)", "<details open", text)
    text = re.sub(r"<noscript>(.*?)</noscript>", r"\1", text, flags=re.S).replace(
        'class="rbp-move"', 'class="rbp-still"'
    )
    text = re.sub(r'\b(src|href)="(?:\.\./)+', r'\1="', text)  # all that it loads lies beside it
    return within(text.replace("</head>", f"{PRINTED}\n</head>", 1))


def within(text):
    """The book as one page with its links between pages made links within it, and each notebook's number before its
    title, as texts say "page 14". Where pages have an id in common, one that is linked to gets its page's name too."""
    parts = re.split(r'(?=<span id="document-)', text)
    names = [(re.match(r'<span id="document-([^"]*)', part) or ("", ""))[1] for part in parts]
    ids = {
        name: set(re.findall(r'\bid="([^"]+)"', part))
        for name, part in zip(names, parts, strict=True)
    }
    renamed = set()

    def place(here, address):
        """The id that an address on a page leads to; None: it is not in the book."""
        path, _, at = address.removeprefix("#document-").partition("#")
        page = here if address.startswith("#") and not path else path.removesuffix(".html")
        holders = [name for name in ids if at in ids[name]]
        if (
            page not in ids or at and page not in holders
        ):  # citations are addressed as if they stood on the first page
            page = next((name for name in ("book/references", *holders) if name in holders), page)
        if at in ids.get(page, ()) and len(holders) > 1:
            renamed.add((page, at))
            return f"{page}--{at}"
        return at if holders else f"document-{page}" if page in ids else None

    def link(here, match):
        if not re.match(r"#.|[\w./-]+\.html(#|$)", match[2]):
            return match[0]
        known = place(here, match[2])
        return (
            f'{match[1]}"#{known}"' if known else match[1].removesuffix("href=")
        )  # of a page that is not printed

    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        parts[i] = re.sub(
            r'(<a\b[^>]*?\bhref=)"([^"]*)"', lambda match, name=name: link(name, match), part
        )
        if number := re.search(r"_executed/[^/]+/(\d\d)_", name):
            parts[i] = re.sub(r"(<h\d\b[^>]*>)", rf"\g<1>{number[1]} · ", parts[i], count=1)
    numbered = r'(<li class="toctree-l1[^>]*><a [^>]*href="[^"]*_executed/[^/"]+/(\d\d)_[^>]*>)'
    parts[0] = re.sub(numbered, r"\1\2 · ", parts[0])
    for page, at in renamed:
        i = names.index(page)
        parts[i] = parts[i].replace(f'id="{at}"', f'id="{page}--{at}"', 1)
    return "".join(parts)


def printed(page, out, chromium):
    """Print a page of HTML; formulas are set and figures drawn before, as the browser's clock runs ahead."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-pdf-header-footer",
    ]
    flags += ["--generate-pdf-document-outline"]
    flags += [
        "--virtual-time-budget=600000",
        f"--timeout={SECONDS * 1000}",
        f"--print-to-pdf={out}",
    ]
    done = subprocess.run(
        [chromium, *flags, page.as_uri()], capture_output=True, text=True, timeout=SECONDS
    )
    if not out.is_file():
        raise RuntimeError(f"{chromium} printed nothing:\n{done.stderr[-1000:]}")
    return out


def main():
    try:
        chromium = browser()
        if not executed_pages():
            raise InputError("no page of the book was run: run `make book` first.")
        built = one_page()  # in the folder of the first page, with addresses as if it lay one above
        page = built.parents[1] / "printed.html"
        write_text(page, for_print(built.read_text(encoding="utf-8")))
        print(printed(page, root() / "_build" / "book.pdf", chromium))
    except (InputError, RuntimeError) as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
