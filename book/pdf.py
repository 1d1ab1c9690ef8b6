"""`python book/pdf.py`: the book as one page of HTML, printed by Chromium with page numbers.

Folds are open but the code's, which stands in the notebooks, and digests of rank tables.
"""

import re
import shutil
import subprocess

from rbplib.cli import ended
from rbplib.families import InputError, atomic_path, root, write_text
from workflow.book import build, executed
from workflow.forks import Failed

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 1800  # after which a browser that still prints is given up
FLAGS = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-pdf-header-footer
--generate-pdf-document-outline --virtual-time-budget=600000"""
PRINTED = """<style>
@page { size: A4; margin: 18mm 16mm 20mm;
  @bottom-center { content: counter(page); font-size: 9pt; } }
html { font-size: 13px !important; }
.bd-sidebar, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header, .bd-header-article,
.bd-footer, .prev-next-footer, .header-article, .toggle-button, .copybtn, #pst-back-to-top,
#pst-scroll-pixel-helper, details.hide > summary,
.rbp-families, .rbp-csv, details.above-input, .headerlink, .skip-link,
.rbp-made :is(dt, dd):last-of-type {
  display: none !important; }
.bd-main, .bd-content, .bd-article-container, .bd-container__inner {
  display: block !important; max-width: 100% !important; }
.toggle-hidden, .toggle-hidden > * { visibility: visible !important; opacity: 1 !important;
  max-height: none !important;  height: auto !important; display: block !important; }
span[id^="document-"] + section { break-before: page; }
img, svg, table, figure { max-width: 100% !important; }
img, svg, figure, pre, summary { break-inside: avoid; }
h1, h2, h3, summary, caption { break-after: avoid; }
p.rbp-caption { break-before: avoid; }
#jb-print-toc nav { columns: 2; }  /* the contents, beside the first page's claim */
#jb-print-toc li, #jb-print-toc a, #jb-print-toc p {
  margin: 0 !important; padding: 0.05rem 0 !important; }
.rbp-still img, img.rbp-figure {  /* two to a page */
  max-height: 112mm !important; object-fit: contain; }
.rbp-fold > .rbp-table-wrap.tall { display: none !important; }
.rbp-fold:has(> .rbp-table-wrap.tall)::after {
  content: "A long table, left out of print: the book on the web has it, and as CSV."; }
table { font-size: 0.88rem !important; }
th, td { white-space: normal !important; overflow-wrap: anywhere;
  padding: 0.1rem 0.2rem !important; }
th, td, td div { min-width: 0 !important; }
td.num { white-space: nowrap !important; }
.rbp-table-wrap { overflow: visible !important; max-height: none !important; }
pre { white-space: pre-wrap !important; overflow-wrap: anywhere; }
</style>"""


def browser():
    """The path of a Chromium or Chrome. Raises InputError: none is found."""
    paths = [path for path in map(shutil.which, BROWSERS) if path]
    if not paths:
        raise InputError(
            f"a PDF is printed by Chromium or Chrome, and neither is found: install {BROWSERS[0]}."
        )
    return paths[0]


def for_print(text):
    """A page of HTML with open folds, still pictures in place of moving figures, and the look of
    print."""
    text = re.sub(r"<details(?![^>]*\bopen\b)", "<details open", text)
    text = re.sub(r"<noscript>(.*?)</noscript>", r"\1", text, flags=re.S)
    text = text.replace('class="rbp-move"', 'class="rbp-still"')
    # all that it loads lies beside it
    text = re.sub(r'\b(src|href)="(?:\.\./)+', r'\1="', text)
    # a place on another page is one on this
    text = re.sub(r'href="(?:book/intro\.html|#document-[^"#]+)#', 'href="#', text)
    return text.replace("</head>", f"{PRINTED}\n</head>", 1)


def printed(page, out, chromium):
    """Print a page of HTML; formulas are set and figures drawn before, as the browser's clock runs
    ahead."""
    with atomic_path(out) as made:  # the one that is there stays until another is whole
        flags = [*FLAGS.split(), f"--timeout={SECONDS * 1000}", f"--print-to-pdf={made}"]
        command = [chromium, *flags, page.as_uri()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if run.returncode:
            raise Failed(f"{chromium} printed nothing:\n{run.stderr[-1000:]}")
    return out


def print_book():
    """Build the book as one page of HTML, print it, and tell its path."""
    chromium = browser()
    if not executed():
        raise InputError("no page of the book was run: run `make book` first.")
    folder = build("singlehtml", strict=())
    page = folder / "printed.html"
    text = (folder / "book" / "intro.html").read_text(encoding="utf-8")
    write_text(page, for_print(text))
    print(printed(page, root() / "_build" / "book.pdf", chromium))


def main():
    return ended(print_book)


if __name__ == "__main__":
    raise SystemExit(main())
