"""Open pages of a built book in headless Chromium and tell, as JSON, what each one asked for and
how it came out.

Run as `python tests/browser.py HTML_FOLDER PAGE...`; the tests run it inside a network namespace
that holds only the loopback device where they may, so that nothing could be fetched even if a page
tried. With `--axe FILE` before the folder the script axe-core looks for what keeps people out, in
light and dark, in a window and on a phone.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,1600",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
)
WAIT = """
const done = arguments[0], began = Date.now();
(function look() {
  const math = document.querySelector(".math");
  if (window.MathJax && MathJax.startup && MathJax.startup.promise)
    MathJax.startup.promise.then(() => done(), () => done());
  else if (!math && document.readyState === "complete") done();
  else if (Date.now() - began > 15000) done();
  else setTimeout(look, 50);
})();
"""
EAGER = """
const done = arguments[0], began = Date.now();
for (const image of document.images) image.loading = "eager";  // also those out of sight
(function look() {
  const late = [...document.images].some((image) => !image.complete);
  late && Date.now() - began < 15000 ? setTimeout(look, 50) : done();
})();
"""
OPEN = """
for (const fold of document.querySelectorAll("details")) fold.open = true;
for (const solution of document.querySelectorAll(".toggle-hidden"))
  solution.classList.remove("toggle-hidden");
"""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """
return [...document.querySelectorAll("article span.math")].filter((span) => {
  const ink = span.querySelector("mjx-container > :is(svg, mjx-math)")?.getBoundingClientRect();
  return span.clientWidth && ink?.width > span.clientWidth + 2 && span.tabIndex < 0;
}).map((span) => span.textContent);
"""
COUNT = (
    OPEN
    + """
const n = (s) => document.querySelectorAll(s).length;
const tables = [...document.querySelectorAll("table.rbp-table")];
const links = [...document.querySelectorAll("a.rbp-csv")];
const begun = (table) => table.textContent.slice(0, 60), images = [...document.images];
return { math: n(".math"), faults: {
  "formulas not typeset": Math.max(0, n(".math") - n("mjx-container")),
  "formulas with an error": n("mjx-merror, mjx-container [data-mjx-error]"),
  "pictures that are not there":
    images.filter((i) => !i.complete || !i.naturalWidth).map((i) => i.src),
  "pictures without words":
    images.filter((i) => i.closest("article, main") && !(i.alt || "").trim()).length,
  "side bar or reference without a role":
    n('.bd-sidebar-primary:not([role]), [role="doc-biblioentry"]'),
  "two downloads of one name": links.length - new Set(links.map((link) => link.download)).size,
  "tables that do not sort": Math.max(0, tables.length - n("table.rbp-table th button")),
  "tables wider than their column": [...document.querySelectorAll("article table")]
    .filter((t) => t.scrollWidth > t.parentElement.clientWidth + 1).map(begun),
  "tables of more than six columns":
    tables.filter((t) => t.tHead.rows[0].cells.length > 6).map(begun),
} };
"""
)

LAID_OUT = """
const [width, done] = arguments, began = Date.now();
(function look(before) {  // figures and tables of a script's follow the window
  const height = window.innerWidth === width && document.documentElement.scrollHeight;
  const late = Date.now() - began > 5000;
  late || height && height === before ? done() : setTimeout(() => look(height), 60);
})();
"""

MOVE = """
const done = arguments[0], boxes = [...document.querySelectorAll(".rbp-move")], began = Date.now();
const drawn = () => boxes.map((box) => box.querySelector(".rbp-plot svg")?.outerHTML);
const early = boxes.filter((box) => box.dataset.done).length;
const heights = boxes.map((box) => box.dataset.done ? 0 : box.offsetHeight);
(function look() {
  const next = boxes.find((box) => !box.dataset.done);  // it is drawn when it comes into sight
  next?.scrollIntoView();
  if (next && Date.now() - began < 15000) return setTimeout(look, 50);
  const grown = boxes.filter((box, i) =>
    heights[i] && Math.abs(box.offsetHeight - heights[i]) > 24);
  const before = drawn(), knobs = boxes.map((box) => box.querySelector("input, select"));
  for (const knob of knobs.filter((knob) => knob)) {
    if (knob.max) knob.value = knob.max; else knob.selectedIndex = knob.length - 1;
    for (const kind of ["input", "change"]) knob.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  const over = (box) => box.querySelector("svg")?.getBoundingClientRect().right
    > box.getBoundingClientRect().right;
  const moved = () => drawn().filter((svg, i) => svg && svg !== before[i]).length;
  const moving = Date.now();
  (function wait() {
    if (moved() < boxes.length && Date.now() - moving < 3000) return setTimeout(wait, 25);
    const faults = { "figures that change their height when drawn": grown.length,
                     "knobs without a label": knobs.filter((k) => k && !k.closest("label")).length,
                     "figures that do not move": boxes.length - moved() };
    for (const box of boxes) box.style.width = "330px";  // as where a side bar opens
    const narrowed = Date.now();
    (function follow() {
      const wide = faults["figures beyond a narrow box"] = boxes.filter(over).length;
      if (wide && Date.now() - narrowed < 3000) return setTimeout(follow, 25);
      for (const box of boxes) box.style.width = "";
      done({ figures: boxes.length, "drawn later": boxes.length - early, faults });
    })();
  })();
})();
"""

PREVIEW = """
const kept = JSON.parse(document.getElementById("rbp-previews")?.textContent || "{}");
const links = [...document.querySelectorAll("article a[href*='#']")]
  .filter((link) => kept[link.getAttribute("href")]);
const empty = links.filter((link) => {
  link.dispatchEvent(new Event("mouseover", { bubbles: true }));
  const shown = document.getElementById("rbp-preview")?.textContent.trim();
  link.dispatchEvent(new MouseEvent("mouseout", { bubbles: true, relatedTarget: document.body }));
  return !shown || document.getElementById("rbp-preview");
});
return { previews: links.length,
         faults: { "links that show nothing": empty.map((link) => link.getAttribute("href")) } };
"""

TEXTS = """
const list = document.querySelector(".rbp-texts select");
const seen = (part) => !part.closest("[hidden]");
if (!list) return { texts: 0, faults: {} };
const shown = [...document.querySelectorAll("[data-of]")];
const every = [...list.options].slice(1).map((option) => option.textContent);
const cells = [...document.querySelectorAll("table.rbp-table")].flatMap((table) => {
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const at = heads.indexOf(heads.includes("corpus") ? "corpus" : "text");
  const found = [...table.tBodies[0].rows].map((row) => row.cells[at]);
  return found.filter((cell) => cell && every.includes(cell.textContent));
});
const own = every.map((title, i) => {
  list.selectedIndex = i + 1;
  list.dispatchEvent(new Event("change", { bubbles: true }));
  const right = [...cells.map((cell) => seen(cell) === (cell.textContent === title)),
                 ...shown.map((part) =>
                   seen(part) === JSON.parse(part.dataset.of).includes(title))];
  const knobs = [...document.querySelectorAll('.rbp-move select[name="corpus"]')]
    .filter((knob) => [...knob.options].some((option) => option.textContent === title));
  return { title, wrong: right.filter((x) => !x).length,
           seen: [...cells, ...shown].filter(seen).length,
           elsewhere: knobs.filter((k) => k.selectedOptions[0].textContent !== title).length,
           lists: knobs.length };
});
list.selectedIndex = 0;
list.dispatchEvent(new Event("change", { bubbles: true }));
const titled = (texts) => texts.map(({ title }) => title);
return { texts: own.length, faults: {
  "shows another text than the chosen":
    titled(own.filter((text) => text.wrong || text.elsewhere)),
  "texts that show nothing": titled(own.filter((text) => !text.seen && !text.lists)),
  "parts left away when all texts are chosen":
    [...cells, ...shown].filter((part) => !seen(part)).length,
} };
"""

UNFOLD = """
const done = arguments[0], folds = [...document.querySelectorAll("details")], shut = [];
const marks = [...document.querySelectorAll(".rbp-dot")].map((dot) => dot.parentElement.hash);
const own = [...document.querySelectorAll("article :is([id^=claim-], [id^=code-])")];
const all = [...new Set([...marks, ...own.map((part) => `#${part.id}`)])];
const names = all.filter((name, i) => i % Math.ceil(all.length / 40) === 0);  // each takes long
(async () => {
  for (const name of names) {
    for (const fold of folds) fold.open = false;
    const changed = new Promise((then) => addEventListener("hashchange", then, { once: true }));
    location.hash = name;
    await changed;
    const part = document.getElementById(name.slice(1));
    const rule = own.includes(part) ? "details.rbp-below, details.hide" : null;
    const open = !rule || part.closest("li, .cell").querySelector(`:is(${rule})[open]`);
    if (!part?.checkVisibility() || !open) shut.push(name);
  }
  done({ unfolded: names.length, faults: { "links into folds that stay shut": shut } });
})();
"""

AXE = """
const done = arguments[0], rules = { "target-size": { enabled: true } };
axe.run(document, { resultTypes: ["violations"], rules }).then(
  (all) => done(all.violations
    .map((r) => `${r.id}: ${r.nodes.map((n) => n.target).join("; ")}`)),
  (error) => done([String(error)]));
"""
ROOT = Path(__file__).resolve().parents[1]
WINDOW, PHONE = 1280, 375  # pixels
MOST = 2.5e6  # bytes of a page before a click


def find():
    """(browser, driver), each None where it is not installed."""
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    return browser, shutil.which("chromedriver")


def open_browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    browser, driver = find()
    options = Options()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return webdriver.Chrome(service=Service(driver), options=options)


def set_width(driver, width, url=None):
    """Give the window a width, open a page, and wait until it is laid out."""
    driver.set_script_timeout(60)
    size = {"width": width, "height": 1600, "deviceScaleFactor": 1, "mobile": False}
    if url:
        driver.get("about:blank")  # the page before is not laid out once more
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    if url:
        driver.get(url)
        driver.execute_async_script(WAIT)
    driver.execute_async_script(LAID_OUT, width)


def requests(driver):
    """Addresses that the page asked for since this was last called."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
    return [event["params"]["request"]["url"] for event in sent]


def visit(driver, url, base):
    """{"faults": sentences about a page, none where it is as it should be; and how much of each
    part it has}."""
    set_width(driver, WINDOW, url)
    addresses = requests(driver)
    weight = sum(
        Path(unquote(urlsplit(x).path)).stat().st_size for x in set(addresses) if x[:4] == "file"
    )
    driver.execute_async_script(EAGER)
    parts, wider = [driver.execute_script(COUNT)], [driver.execute_script(WIDER)]
    parts.append(driver.execute_async_script(MOVE))
    parts += [driver.execute_script(TEXTS), driver.execute_script(PREVIEW)]
    parts.append(driver.execute_async_script(UNFOLD))
    driver.execute_script(OPEN)
    set_width(driver, PHONE)
    wider.append(driver.execute_script(WIDER))
    cut = driver.execute_script(CUT)
    addresses += requests(driver)
    faults = {
        "asks outside": [x for x in addresses if not x.startswith((base, "data:", "blob:"))],
        "complains": [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"],
        "formulas cut off on a phone": cut,
        "pixels wider than its window": [pixels for pixels in wider if pixels > 0],
        "megabytes before a click": weight / 1e6 if weight > MOST else 0,
    }
    amounts = {}
    for part in parts:
        faults |= part.pop("faults")
        amounts |= part
    return {"faults": {words: what for words, what in faults.items() if what}, **amounts}


def audit(driver, url, axe):
    """Faults that axe-core finds, every fold open: sentences."""
    found = []
    for width in (WINDOW, PHONE):
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            set_width(driver, width, url)
            driver.execute_script(OPEN)
            time.sleep(0.3)  # colours fade over
            driver.execute_script(axe)
            found += [f"{scheme}, {width}: {fault}" for fault in driver.execute_async_script(AXE)]
    return found


def main(folder, *pages, axe=None):
    driver = open_browser()
    try:
        seen = {page: (Path(folder).resolve() / page).as_uri() for page in pages}
        base = Path(folder).resolve().as_uri()
        found = {
            p: audit(driver, url, axe) if axe else visit(driver, url, base)
            for p, url in seen.items()
        }
        print(json.dumps(found))
    finally:
        driver.quit()


if __name__ == "__main__":
    if sys.argv[1] == "--axe":
        main(*sys.argv[3:], axe=Path(sys.argv[2]).read_text())
    else:
        main(*sys.argv[1:])
