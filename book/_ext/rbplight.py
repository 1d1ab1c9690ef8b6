"""What makes a built page light: styles and icons cut to what pages use, no index of search but on
its page, pictures with their size, and beside a link what it leads to.

All this is done to the files of a site, once, when it is built: the theme's templates know of none.
"""

import json
import re
from functools import cache
from pathlib import Path

from fontTools import subset

STYLES = "_static/styles"
FACE = re.compile(r"@font-face\{[^}]*Font Awesome[^}]*\}")
OURS = '@font-face{font-family:"Font Awesome 6 Free";font-weight:900;src:url(icons.woff)}'
RULE = re.compile(r"([^{}]+)\{[^{}]*\}")
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
SIGN = re.compile(r'"(?:\\([ef][\da-f]{3})|([\ue000-\uf8ff]))"')
SCRIPT = '<script[^>]*src="[^"]*%s[^"]*"[^>]*></script>\n?'
HEAVY = re.compile(SCRIPT % "fontawesome.js")
UNLIKE = ' aria-label="Toggle hidden content"'  # a name that is not what a fold of code shows
SEARCH = re.compile(SCRIPT % "(?:searchtools|language_data|searchindex).js")
MATHJAX = re.compile(SCRIPT % "mathjax/" + "|<script>window.MathJax = .*?</script>\n?")
PICTURE = re.compile(r'<img (?![^>]*\b(?:width|loading)=)(?=[^>]*\bsrc="([^"]+\.svg)")')
SIZE = re.compile(r'<svg[^>]*\bviewBox="0 0 ([\d.]+) ([\d.]+)"')
POINT = 96 / 72  # pixels
LINK = re.compile(r'<a [^>]*\bhref="((?!\w+:)[^"#]+)#([^"]+)"')
WITH_ID = re.compile(r'<(\w+)(?=[^<>]*\bid="([^"]+)")[^<>]*>')
# what a link shows before it is followed: a formula, a theorem, a task, a source, a figure
SHOWN = re.compile(r"\b(?:math|proof|exercise|citation|rbp-still)\b")


def lighten(app, error):
    """Make all pages of a site light."""
    if error or app.builder.name != "html":
        return
    out = Path(app.outdir)
    paths = [path for path in out.rglob("*.html") if "_static" not in path.parts]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    cut_styles(out, "".join(texts.values()))
    starts = {(path, at[2]): at for path, text in texts.items() for at in WITH_ID.finditer(text)}
    look = cache(lambda path, ident: element(starts.get((path, ident))))
    for path, text in texts.items():
        path.write_text(light(path, text, look), encoding="utf-8")


def light(path, text, look):
    """The HTML of a page, light. look: gives the HTML of an element of a page by its id."""
    text = HEAVY.sub("", text).replace(UNLIKE, "")
    if path.name != "search.html":
        text = SEARCH.sub("", text)
    text = PICTURE.sub(lambda image: f"{image[0]}{sized(path.parent / image[1])} ", text)
    shown = previews(path, text, look)
    if shown:
        data = json.dumps(shown, ensure_ascii=False).replace("<", "\\u003c")
        data = f'<script type="application/json" id="rbp-previews">{data}</script>'
        text = text.replace("</body>", f"{data}\n</body>")
    return text if 'class="math' in text + "".join(shown.values()) else MATHJAX.sub("", text)


@cache
def sized(picture):
    """The size of a picture in pixels as attributes, so that its place is kept for it."""
    size = SIZE.search(picture.read_text(encoding="utf-8")[:1500])
    width, height = (round(POINT * float(side)) for side in size.groups())
    return f'loading="lazy" width="{width}" height="{height}"'


# ---- what a link leads to


def previews(path, text, look):
    """{address: HTML} of what the links of a page to others lead to, where it can be shown."""
    shown = {}
    for address, ident in LINK.findall(text):
        if part := look((path.parent / address).resolve(), ident):
            shown[f"{address}#{ident}"] = part
    return shown


def element(start):
    """The HTML of the element that a match of WITH_ID begins, without ids and links; empty where it
    is none to show."""
    if not start or not SHOWN.search(start[0]):
        return ""
    depth, text = 0, start.string
    for tag in re.compile(rf"<(/?){start[1]}\b[^>]*>").finditer(text, start.start()):
        depth += -1 if tag[1] else 1
        if not depth:
            return re.sub(r' (?:id|href)="[^"]*"', "", text[start.start() : tag.end()])
    return ""


# ---- styles and icons


def cut_styles(out, pages):
    """Leave those rules of the style sheets whose classes pages or scripts name, and one font of
    the icons that are left."""
    fonts, sheets = out / "_static/vendor/fontawesome/webfonts", list(out.rglob("*.css"))
    out.joinpath("_static/scripts/fontawesome.js").unlink()
    scripts = [path.read_text(encoding="utf-8") for path in out.glob("_static/**/*.js")]
    words = set(re.findall(r"[\w-]+", " ".join([*re.findall('class="([^"]*)"', pages), *scripts])))

    def rule(match):
        classes = [set(CLASS.findall(selector)) for selector in match[1].split(",")]
        return match[0] if "(" in match[1] or any(names <= words for names in classes) else ""

    signs = set()
    for path in sheets:
        text = RULE.sub(rule, FACE.sub(OURS, path.read_text(encoding="utf-8")))
        path.write_text(text, encoding="utf-8")
        signs |= {int(code, 16) if code else ord(sign) for code, sign in SIGN.findall(text)}
    # the font's own notice stays in it
    options = subset.Options(flavor="woff", name_IDs=["*"])
    font, cutter = subset.load_font(fonts / "fa-solid-900.ttf", options), subset.Subsetter(options)
    cutter.populate(unicodes=signs)
    cutter.subset(font)
    subset.save_font(font, out / STYLES / "icons.woff", options)
    for heavy in [*fonts.iterdir(), *out.joinpath(STYLES).glob("*.map")]:
        heavy.unlink()


def setup(app):
    app.connect("build-finished", lighten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
