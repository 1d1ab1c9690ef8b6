"""`make pdf`: the book as one page of HTML, printed by Chromium with page numbers; folds are open but the code's,
which stands in the notebooks, those of slides, whose figures stand on their pages, and digests of rank tables."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from rbplib.pages.html import executed_pages, families_page
from rbplib.pages.notebooks import DEFAULT_FAMILY
from rbplib.settings import InputError, root, write_text

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 1800  # after which a browser that still prints is given up
PRINTED = """<style>
@page { size: A4; margin: 18mm 16mm 20mm; @bottom-center { content: counter(page); font-size: 9pt; } }
html { font-size: 11px !important; }
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
table { font-size: 0.8rem !important; }
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
    raise InputError(f"a PDF is printed by Chromium or Chrome, and neither is found: install one ({BROWSERS[0]}).")


def one_page():
    """Build the book as a single page of HTML below _build/pdf; its path."""
    place = root() / "_build" / "pdf"
    shutil.rmtree(place, ignore_errors=True)
    contents = place / "contents.yml"
    write_text(contents, (root() / "_toc.yml").read_text(encoding="utf-8").replace(DEFAULT_FAMILY, families_page()))
    script = Path(sys.executable).with_name("jupyter-book")
    command = [script, "build", root(), "--toc", contents, "--builder", "singlehtml", "--path-output", place, "-q"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=root())
    found = sorted((place / "_build" / "singlehtml").rglob("intro.html"))
    if done.returncode or not found:
        raise RuntimeError("the book could not be built as one page:\n" + (done.stdout + done.stderr)[-2000:])
    return found[0]


def for_print(text):
    """A page of HTML with every fold open, still pictures in place of moving figures, and the look of print."""
    text = re.sub(r"<details(?![^>]*\bopen\b)", "<details open", text)
    text = re.sub(r"<noscript>(.*?)</noscript>", r"\1", text, flags=re.S).replace(
        'class="rbp-move"', 'class="rbp-still"'
    )
    text = re.sub(r'\b(src|href)="(?:\.\./)+', r'\1="', text)  # all that it loads lies beside it
    return text.replace("</head>", f"{PRINTED}\n</head>", 1)


def printed(page, out, chromium):
    """Print a page of HTML; formulas are set and figures drawn before, as the browser's clock runs ahead."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-pdf-header-footer"]
    flags += ["--virtual-time-budget=600000", f"--timeout={SECONDS * 1000}", f"--print-to-pdf={out}"]
    done = subprocess.run([chromium, *flags, page.as_uri()], capture_output=True, text=True, timeout=SECONDS)
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
