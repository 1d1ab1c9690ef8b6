// The book's own script: tables that sort, tables as CSV, figures that move handed to Vega, a
// switch for text, fields that check an answer, and slides. No network.
(function () {
  "use strict";

  function sortTable(table, column, heading) {
    const body = table.tBodies[0];
    const up = heading.getAttribute("aria-sort") !== "ascending";
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
    };
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (typeof x === "number" && typeof y === "number") {
        // NaN goes last whichever way the column is sorted
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return up ? x - y : y - x;
      }
      return up ? String(x).localeCompare(String(y)) : String(y).localeCompare(String(x));
    };
    [...body.rows].sort(compare).forEach((row) => body.append(row));
    table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  }

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((heading, column) => {
      if (!heading.textContent.trim()) return; // a button without a name
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes); // its words with what is set in them, such as an index
      heading.append(button);
      button.addEventListener("click", () => sortTable(table, column, heading));
    });
  }

  const taken = {}; // names of files on this page, and how often
  function csv(link) {
    link.href = "data:text/csv;charset=utf-8," + encodeURIComponent(JSON.parse(link.dataset.csv));
    const times = (taken[link.dataset.name] = (taken[link.dataset.name] || 0) + 1);
    link.download = times > 1 ? link.dataset.name.replace(/(\.\w+)?$/, `-${times}$1`) : link.dataset.name;
  }

  // a figure that moves is drawn when it comes near the window; the first one asks for the script that draws them
  let vega;
  function drawn(box) {
    vega = vega || new Promise((done) => {
      const script = document.createElement("script");
      script.src = `${document.documentElement.dataset.content_root || ""}_static/vendor/vega.js`;
      script.addEventListener("load", done);
      document.head.append(script);
    });
    vega.then(() => move(box));
  }
  const near = new IntersectionObserver((boxes) => boxes.filter((box) => box.isIntersecting).forEach(({ target }) => {
    near.unobserve(target);
    drawn(target);
  }), { rootMargin: "200px" });

  // Vega draws it; its marks that take a click take the keys of a button as well
  function move(box) {
    const spec = JSON.parse(box.querySelector("script").textContent);
    const [bind, plot] = [".rbp-controls", ".rbp-plot"].map((part) => box.querySelector(part));
    bind.replaceChildren(); // what kept their places
    const settings = { mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false, bind };
    vegaEmbed(plot, spec, settings).then(() => {
      const named = () => plot.querySelectorAll('path[aria-label^="Leave out"]').forEach((mark) => {
        const pressed = mark.getAttribute("fill-opacity") === "0";
        for (const [name, value] of Object.entries({ tabindex: 0, role: "button", "aria-pressed": pressed })) mark.setAttribute(name, value);
      });
      named();
      follow(box);
      new MutationObserver(named).observe(plot, { childList: true, subtree: true, attributeFilter: ["fill-opacity"] });
      // Vega asks for the width again when the window changes; here the page's side bar may have opened, too
      let wide = 0;
      new ResizeObserver(() => {
        if (wide !== (wide = plot.clientWidth)) window.dispatchEvent(new Event("resize"));
      }).observe(plot);
      plot.addEventListener("keydown", (event) => {
        if (!["Enter", " "].includes(event.key) || !event.target.matches('path[role="button"]')) return;
        event.preventDefault();
        event.target.dispatchEvent(new MouseEvent("click", { bubbles: true, view: window }));
      });
      box.dataset.done = "1";
    });
  }

  let chosen; // the text of the list below, where one was taken
  function follow(box) {
    box.querySelectorAll('select[name="corpus"]').forEach((knob) => {
      const at = [...knob.options].findIndex((option) => option.textContent === chosen);
      if (at < 0) return;
      knob.selectedIndex = at;
      knob.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }

  // what this tab of the browser remembers of the choice; nothing where it may not
  function kept(title) {
    try {
      return title === undefined ? sessionStorage.getItem("rbp-text") : sessionStorage.setItem("rbp-text", title);
    } catch {
      return null;
    }
  }

  // a list of texts at the top of a page that shows several of those in its record: tables keep the rows of the one
  // chosen, what is marked as of other texts alone is put away, and the moving figures go to it
  function texts() {
    const box = document.querySelector("[data-texts]"), titles = JSON.parse(box?.dataset.texts || "[]");
    const tables = [...document.querySelectorAll("table.rbp-table")].map((table) => {
      const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
      const at = heads.indexOf(heads.includes("corpus") ? "corpus" : "text");
      const rows = [...table.tBodies[0].rows].map((row) => [row, row.cells[at]?.textContent]);
      return { table, rows: rows.filter(([, title]) => titles.includes(title)) };
    }).filter(({ rows }) => rows.length);
    const parts = [...document.querySelectorAll("[data-of]")].map((part) => [part, JSON.parse(part.dataset.of)]);
    const lists = [...document.querySelectorAll(".rbp-move > script")].map((script) => JSON.parse(script.textContent).params
      ?.find(({ name }) => name === "corpus")?.bind?.options || []);
    const found = new Set([...tables.flatMap(({ rows }) => rows.map(([, title]) => title)), ...parts.flatMap(([, of]) => of), ...lists.flat()]);
    const names = titles.filter((title) => found.has(title));
    if (names.length < 2) return box?.remove();
    const label = document.createElement("label"), list = document.createElement("select"), told = document.createElement("span");
    list.append(...["all", ...names].map((name) => new Option(name)));
    told.setAttribute("role", "status");
    label.append("Text ", list);
    box.append(label, told);
    list.addEventListener("change", () => {
      const name = names[list.selectedIndex - 1];
      for (const { table, rows } of tables) {
        for (const [row, title] of rows) row.hidden = name !== undefined && title !== name;
        table.closest(".rbp-table-wrap").hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
      }
      for (const [part, of] of parts) {
        part.hidden = name !== undefined && !of.includes(name);
        part.querySelectorAll("details").forEach((fold) => { fold.open = name !== undefined && !part.hidden; });
      }
      chosen = name;
      kept(name || "");
      document.querySelectorAll(".rbp-move").forEach(follow);
      told.textContent = name === undefined ? "" : "What is of another text alone is put away; figures of all texts stay, to compare.";
    });
    list.selectedIndex = names.indexOf(kept()) + 1; // a choice lasts from page to page
    if (list.selectedIndex) list.dispatchEvent(new Event("change"));
  }

  // the numbers that people may mean: 0,0606 and 6.06e-2 and 2 000; both readings of 1,035 and 25%; none where it is none
  function typed(text) {
    const share = /%\s*$/.test(text) ? 0.01 : 1;
    const plain = text.replace(/%\s*$/, "").replace(/[\s\u00a0\u2009]/g, "").replace("\u2212", "-");
    const decimal = plain.replace(/^([^.]*),([^.,]*)$/, "$1.$2");
    const thousands = /^[-+]?\d{1,3}(,\d{3})+(\.\d*)?$/.test(plain) ? plain.replace(/,/g, "") : decimal;
    const number = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
    const read = [...new Set([decimal, thousands])].filter((x) => number.test(x)).map(Number);
    return [...new Set([...read, ...read.map((x) => x * share)])];
  }

  function checked(field) {
    const input = field.querySelector("input"), out = field.querySelector("output");
    const value = Number(field.dataset.value), within = Number(field.dataset.within);
    const slack = 1e-9 * Math.abs(value); // what rounding of the difference may add
    function check() {
      const given = typed(input.value);
      const right = given.some((x) => Math.abs(x - value) <= within + slack);
      const said = given.length ? right : "a number is needed, such as 0.25";
      field.dataset.state = said === true ? "right" : "open";
      out.textContent = said === true ? "\u2713 right" : said === false ? "\u2717 not yet" : said;
    }
    field.querySelector("button").addEventListener("click", check);
    input.addEventListener("keydown", (event) => event.key === "Enter" && check());
    input.addEventListener("input", () => { out.textContent = ""; field.dataset.state = "open"; });
  }

  // one answer of several
  function chosenAnswer(field) {
    field.addEventListener("change", (event) => {
      const right = event.target.dataset.right === "1";
      field.dataset.state = right ? "right" : "open";
      field.querySelector("output").textContent = right ? "\u2713 right" : "\u2717 not this one";
    });
  }

  // a page of slides: each second heading begins one; a button shows them one at a time
  function slides(deck) {
    const all = [...document.querySelectorAll("article section section")];
    const button = document.createElement("button");
    const told = document.createElement("span");
    let at = 0;
    button.type = "button";
    button.textContent = "Show as slides";
    told.setAttribute("aria-live", "polite");
    deck.replaceChildren(button, told);
    function show(i) {
      at = Math.min(Math.max(i, 0), all.length - 1);
      all.forEach((slide, j) => slide.classList.toggle("rbp-now", j === at));
      told.textContent = ` ${at + 1} of ${all.length}`;
    }
    function turn(on) {
      document.documentElement.classList.toggle("rbp-presenting", on);
      button.textContent = on ? "End" : "Show as slides";
      if (on) show(at);
      else told.textContent = "";
      (on ? deck : button).focus(); // on the button the space key would end the show
    }
    deck.tabIndex = -1;
    button.addEventListener("click", () => turn(!document.documentElement.classList.contains("rbp-presenting")));
    document.addEventListener("keydown", (event) => {
      if (!document.documentElement.classList.contains("rbp-presenting")) return;
      if (event.ctrlKey || event.altKey || event.metaKey) return; // the browser's own
      const space = event.target.closest?.("button, summary, input") ? at : at + (event.shiftKey ? -1 : 1);
      const to = { ArrowRight: at + 1, PageDown: at + 1, ArrowLeft: at - 1, PageUp: at - 1, Home: 0, End: all.length - 1, " ": space }[event.key];
      if (event.key === "Escape") turn(false);
      if (to === undefined || (event.key === " " && to === at)) return; // what has the focus is pressed
      event.preventDefault();
      show(to);
    });
  }

  // the theme's buttons: what they show has to be in their names, and pictures have no part in them
  function named() {
    document.querySelectorAll(".search-button-field").forEach((button) => button.removeAttribute("aria-label"));
    document.querySelectorAll(".theme-switch-button :is(i, svg)").forEach((icon) => {
      for (const name of ["title", "aria-labelledby"]) icon.removeAttribute(name);
      icon.setAttribute("aria-hidden", "true");
      icon.querySelector("title")?.remove();
    });
    const side = document.querySelector(".bd-sidebar-primary"); // its name and search are in no landmark otherwise
    for (const [name, value] of side ? [["role", "region"], ["aria-label", "Book"]] : []) side.setAttribute(name, value);
  }

  // what is wider than its place is reached by the tab key, to scroll it, also once its fold is open
  function reachable(box) {
    const reach = () => {
      // a figure drawn for a narrow page fits one
      for (const image of box.querySelectorAll("img")) if (image.naturalWidth && image.naturalWidth < 480) image.style.maxWidth = "100%";
      // of a formula in a sentence its ink alone counts, as what is read aloud is wider
      const ink = box.matches("span.math") && box.querySelector("mjx-container > :is(svg, mjx-math)")?.getBoundingClientRect().width;
      const wide = (ink || box.scrollWidth) > box.clientWidth + (ink ? 2 : 1);
      box.classList.toggle("rbp-wide", wide); // then the style sheet says so
      wide ? box.setAttribute("tabindex", 0) : box.removeAttribute("tabindex");
    };
    new ResizeObserver(reach).observe(box);
    box.querySelectorAll("img").forEach((image) => image.addEventListener("load", reach));
  }

  // what a link leads to, a formula, a theorem, a task, a source or a figure, beside it while it is pointed at; what
  // stands on other pages is kept in this one, as a page read from a disk may ask for no other
  function previews() {
    const kept = JSON.parse(document.getElementById("rbp-previews")?.textContent || "{}");
    const box = document.createElement("div");
    box.className = "rbp-preview";
    box.setAttribute("role", "tooltip");
    box.id = "rbp-preview";
    let link;
    function shown(of) {
      const address = of.getAttribute("href");
      if (kept[address]) return kept[address];
      const part = address.startsWith("#") && document.getElementById(decodeURIComponent(address.slice(1)));
      if (!part || !part.matches(".math, .proof, .exercise, .citation, .rbp-still")) return "";
      const copy = part.cloneNode(true);
      for (const named of [copy, ...copy.querySelectorAll("[id], [href]")]) ["id", "href"].forEach((name) => named.removeAttribute(name));
      return copy.outerHTML;
    }
    function put() {
      box.remove();
      link?.removeAttribute("aria-describedby");
      link = undefined;
    }
    function show(event) {
      const of = event.target.closest?.("article a[href*='#']:not(.headerlink)");
      if (!of || of === link) return;
      put();
      const text = shown(of);
      if (!text) return;
      link = of;
      box.innerHTML = text;
      document.body.append(box);
      link.setAttribute("aria-describedby", box.id);
      const at = link.getBoundingClientRect();
      const below = at.bottom + box.offsetHeight + 8 < window.innerHeight || at.top < box.offsetHeight;
      box.style.left = `${window.scrollX + Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8))}px`;
      box.style.top = `${window.scrollY + (below ? at.bottom + 4 : at.top - box.offsetHeight - 4)}px`;
      if (!box.querySelector("mjx-container")) window.MathJax?.typesetPromise?.([box]);
    }
    document.addEventListener("mouseover", show);
    document.addEventListener("focusin", show);
    document.addEventListener("mouseout", (event) => { if (link && !box.contains(event.relatedTarget) && !link.contains(event.relatedTarget)) put(); });
    document.addEventListener("focusout", put);
    document.addEventListener("keydown", (event) => event.key === "Escape" && put());
  }

  // what an address names is in sight, whatever folds hold it; a claim opens its rule, and a cell that judges one its code
  function unfold() {
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!part?.closest("article")) return;
    const line = /^(claim|code)-/.test(part.id) && part.closest("li, .cell");
    const own = line && line.querySelector("details.rbp-below, details.hide");
    let fold = own || part.closest("details");
    if (!fold) return;
    for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
    (own && own.matches(".hide") ? own : part).scrollIntoView({ block: own ? "start" : "center" });
  }

  function start() {
    named();
    window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(() => {
      document.documentElement.classList.add("rbp-set");
      document.querySelectorAll('mjx-container[display="true"], article span.math').forEach(reachable);
    }));
    window.addEventListener("load", named); // the theme draws its pictures meanwhile
    document.querySelectorAll("article pre, .rbp-still, .rbp-table-wrap, .pst-scrollable-table-container").forEach(reachable);
    document.querySelectorAll(".rbp-check").forEach(checked);
    document.querySelectorAll(".rbp-choice").forEach(chosenAnswer);
    document.querySelectorAll(".rbp-deck").forEach(slides);
    // the line below the name of an exercise begins with the name, not with the space before it
    document.querySelectorAll(".solution .admonition-title > a").forEach((link) => {
      link.before(" ");
      link.firstChild.data = link.firstChild.data.trimStart();
    });
    // docutils calls the bibliography a list and its entries something else; a screen reader then finds an empty list
    document.querySelectorAll('.citation-list[role="list"]').forEach((list) => list.removeAttribute("role"));
    document.querySelectorAll('[role="doc-biblioentry"]').forEach((entry) => entry.removeAttribute("role")); // out of use
    texts(); // before the headings of tables become buttons
    document.querySelectorAll("table.rbp-table").forEach(sortable);
    document.querySelectorAll("a.rbp-csv").forEach(csv);
    // slides hold several: what draws them is asked for once somebody moves among them
    const watch = () => document.querySelectorAll(".rbp-move").forEach((box) => near.observe(box));
    const waiting = new AbortController();
    const once = { signal: waiting.signal };
    if (!document.querySelector(".rbp-deck")) watch();
    else for (const kind of ["scroll", "keydown", "click"]) {
      window.addEventListener(kind, () => { waiting.abort(); watch(); }, once);
    }
    window.addEventListener("beforeprint", () => document.querySelectorAll(".rbp-move:not([data-done])").forEach(drawn));
    previews();
    unfold();
    window.addEventListener("hashchange", unfold);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
