"""Open pages of a built book in headless Chromium and tell, as JSON, what each one asked for and how it came out.

Run as `python tests/browser.py HTML_FOLDER PAGE...`; the tests run it inside a network namespace that holds only the
loopback device where they may, so that nothing could be fetched even if a page tried.
"""

import json
import shutil
import sys
import time
from pathlib import Path

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
    MathJax.startup.promise.then(() => setTimeout(done, 150), () => done());
  else if (!math && document.readyState === "complete") done();
  else if (Date.now() - began > 15000) done();
  else setTimeout(look, 50);
})();
"""
COUNT = """
for (const fold of document.querySelectorAll("details.rbp-fold")) fold.open = true;
const n = (s) => document.querySelectorAll(s).length;
return {
  math: n(".math"), typeset: n("mjx-container"), math_errors: n("mjx-merror, mjx-container [data-mjx-error]"),
  images: [...document.images].filter((i) => !i.complete || i.naturalWidth === 0).map((i) => i.src),
  no_alt: [...document.querySelectorAll("article img, main img")].filter((i) => !(i.alt || "").trim()).length,
  tables: n("table.rbp-table"), sortable: n("table.rbp-table th button"),
  wide_tables: [...document.querySelectorAll("table.rbp-table")]
    .filter((t) => t.scrollWidth > t.parentElement.clientWidth + 1).map((t) => t.textContent.slice(0, 60)),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
};
"""

MOVE = """
const done = arguments[0], boxes = [...document.querySelectorAll(".rbp-move")], began = Date.now();
const drawn = () => boxes.map((box) => box.querySelector(".rbp-plot svg")?.outerHTML);
(function look() {
  if (boxes.some((box) => !box.dataset.done) && Date.now() - began < 15000) return setTimeout(look, 50);
  const before = drawn(), knobs = boxes.map((box) => box.querySelector("input, select"));
  for (const knob of knobs.filter((knob) => knob)) {
    if (knob.max) knob.value = knob.max; else knob.selectedIndex = knob.length - 1;
    for (const kind of ["input", "change"]) knob.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  const wait = boxes.length && 400;
  const over = (box) => box.querySelector("svg")?.getBoundingClientRect().right > box.getBoundingClientRect().right;
  setTimeout(() => {
    const said = { figures: boxes.length, unlabelled: knobs.filter((k) => k && !k.closest("label")).length,
                   moved: drawn().filter((svg, i) => svg && svg !== before[i]).length };
    for (const box of boxes) box.style.width = "330px";  // as where a side bar opens
    setTimeout(() => done({ ...said, beyond: boxes.filter(over).length }), wait);
  }, wait);
})();
"""


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


def visit(driver, url):
    driver.get(url)
    driver.set_script_timeout(30)
    driver.execute_async_script(WAIT)
    time.sleep(0.1)
    found = driver.execute_script(COUNT) | driver.execute_async_script(MOVE)
    events = [json.loads(e["message"])["message"] for e in driver.get_log("performance")]
    found["requests"] = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    found["console"] = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
    return found


def main(folder, pages):
    driver = open_browser()
    try:
        print(json.dumps({page: visit(driver, (Path(folder).resolve() / page).as_uri()) for page in pages}))
    finally:
        driver.quit()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
