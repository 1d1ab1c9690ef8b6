// A table of numbers that a reader pastes: its points, line, intervals and forecast, as `rbp fit` has them.
// Nothing leaves the page.
const rbpTable = (function () {
  const OUT_OF = { hits: "tokens", accuracy: "questions", loss: "tokens", loss_bits: "tokens" };
  const POWERS = { k: "e3", m: "e6", b: "e9", t: "e12" };

  // a number as people write it: 13e9, 13B, 350M, 1_000; NaN for what is none
  function number(text) {
    const word = text.trim().toLowerCase().replace(/(?<=\d)_(?=\d)/g, "").replace(/[kmbt]$/, (letter) => POWERS[letter]);
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(word) ? Number(word) : NaN;
  }

  // rows as objects; fields between commas, tabs or semicolons, in quotes where they hold one
  function read(text) {
    const lines = text.split(/\r?\n/).filter((line) => line.trim());
    const between = ["\t", ";", ","].find((mark) => (lines[0] || "").includes(mark)) || ",";
    const cells = (line) => {
      const fields = [""];
      let quoted = false;
      for (const letter of line) {
        if (letter === '"') quoted = !quoted;
        else if (letter === between && !quoted) fields.push("");
        else fields[fields.length - 1] += letter;
      }
      return fields.map((field) => field.trim());
    };
    const [names = [], ...rows] = lines.map(cells);
    rows.forEach((row, i) => {
      if (row.length > names.length) throw Error(`Row ${i + 1} has more fields than the first line names.`);
      if (row.length < names.length) throw Error(`Row ${i + 1} has fewer fields than the first line names.`);
    });
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined) throw Error(`The first line names the column "${twice}" twice.`);
    return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
  }

  // {name of a law: its points, [{model, S, loss}] smallest first}; an Error says in a sentence what is wrong
  function points(rows) {
    const has = (name) => rows.length && name in rows[0];
    const given = Object.keys(OUT_OF).filter(has);
    if (given.length !== 1) throw Error(`Give rows with one of ${Object.keys(OUT_OF).join(", ")}.`);
    const [what] = given, share = what === "hits" || what === "accuracy";
    const total = share || has("source") ? OUT_OF[what] : "";
    for (const name of ["model", "S", total])
      if (name && !has(name)) throw Error(`There is no column ${name} beside ${what}: add it.`);
    const laws = new Map(), families = new Map(), sizes = new Map();
    rows.forEach((row, i) => {
      const value = (name, least) => {
        const x = number(row[name]);
        if (!(x >= least && x < Infinity)) throw Error(`Row ${i + 1} has ${name} "${row[name]}": give a number from ${least} up.`);
        return x;
      };
      const k = has("k") ? value("k", 1) : 1, D = has("D") ? value("D", 1) : 0;
      if (has("loss_se") && !has("source")) value("loss_se", 0);
      if (row.family === "") throw Error(`The model ${row.model} is of no family: name one in each row.`);
      if (k % 1 || (what === "hits" && value(what, 0) % 1))
        throw Error(`The model ${row.model} is at a k, or of hits, that are no whole number.`);
      const S = value("S", 1), of = total ? value(total, 1) : 1;
      const scale = what === "hits" ? 1 : what === "loss_bits" ? of * Math.LN2 : of, sum = value(what, 0) * scale;
      if (share && sum > of) throw Error(`Row ${i + 1} has ${what} above ${total}: give a share of at most 1.`);
      const name = [row.family, has("k") && `k = ${k}`].filter(Boolean).join(", ") || "all rows";
      const model = row.model + (row.seed ? ` seed ${row.seed}` : "");
      const models = laws.get(name) || laws.set(name, new Map()).get(name), place = JSON.stringify([model, D]);
      const point = models.get(place) || models.set(place, { model, S, sum: 0, of: 0, sources: new Map() }).get(place);
      const whose = JSON.stringify([row.family, place]);
      if ((sizes.get(whose) ?? S) !== S) throw Error(`The model ${model} has two sizes: give it one.`);
      sizes.set(whose, S);
      if (point.sources.has(row.source)) throw Error(`The model ${model} is there twice: tell rows apart by k, source or seed.`);
      point.sources.set(row.source, of);
      const places = families.get(row.family) || families.set(row.family, new Map()).get(row.family);
      places.set(place, [...(places.get(place) || []), JSON.stringify([k, row.source, of])]);
      point.sum += sum;
      point.of += of;
    });
    for (const [family = "The table", places] of families)
      if (new Set([...places.values()].map((parts) => parts.sort().join())).size > 1)
        throw Error(`${family}: each model needs a row at every k and source, out of the same ${total || "text"}.`);
    for (const [name, models] of laws) {
      const all = [...models.values()].sort((a, b) => a.S - b.S);
      if (new Set(all.map((point) => point.S)).size < 3) throw Error(`${name}: a line needs three sizes.`);
      for (const point of all) {
        point.loss = share ? -Math.log(point.sum / point.of) : point.sum / point.of;
        if (share) Object.assign(point, { hits: point.sum, misses: point.of - point.sum });
      }
      laws.set(name, all);
    }
    return laws;
  }

  // the incomplete beta function by its continued fraction, and Student's t from it
  function beta(x, a, b) {
    const LANCZOS = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
      12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
    const lnGamma = (z) => {
      if (z < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * z)) - lnGamma(1 - z);
      const t = z + 6.5, sum = LANCZOS.reduce((s, c, i) => s + c / (z + i), 0.99999999999980993);
      return 0.5 * Math.log(2 * Math.PI) + (z - 0.5) * Math.log(t) - t + Math.log(sum);
    };
    if (x > (a + 1) / (a + b + 2)) return 1 - beta(1 - x, b, a);
    let c = 1, d = 1 - ((a + b) * x) / (a + 1);
    d = 1 / d;
    let f = d;
    for (let m = 1; m < 500; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / (1 + even * d);
      c = 1 + even / c;
      f *= c * d;
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / (1 + odd * d);
      c = 1 + odd / c;
      f *= c * d;
      if (Math.abs(c * d - 1) < 1e-15) break;
    }
    const front = lnGamma(a + b) - lnGamma(a) - lnGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
    return (Math.exp(front) * f) / a;
  }
  function quantile(df, level = 0.95) {
    let low = 0, high = 1e6;
    for (let i = 0; i < 200; i++) {
      const t = (low + high) / 2;
      if (beta(df / (df + t * t), df / 2, 0.5) > 1 - level) low = t;
      else high = t;
    }
    return (low + high) / 2;
  }

  // the gravest reason to doubt a law, as `rbp fit` has it; where losses are no counts only its sign is known
  function doubt(all, alpha) {
    const fewest = (what) => Math.min(...all.map((point) => point[what])), misses = fewest("misses"), hits = fewest("hits");
    const reasons = { saturated: misses === 0, "no hits": hits === 0, "few misses": misses < 100, "few hits": hits < 100, "wrong sign": alpha < 0 };
    return Object.keys(reasons).find((reason) => reasons[reason]) || "ok";
  }

  const hasLogarithm = (point) => point.loss > 0 && point.loss < Infinity;

  // least squares of log loss on log S, Student's t about it, and a new model at a size
  function fit(all, size) {
    const used = all.filter(hasLogarithm);
    const x = used.map((point) => Math.log(point.S)), y = used.map((point) => Math.log(point.loss));
    const n = x.length, mean = (values) => values.reduce((s, v) => s + v, 0) / n;
    // as `rbp fit` has it: a status, and here no law
    if (n > 1 && Math.max(...y) - Math.min(...y) < 1e-12) return { n, alpha: NaN, status: "equal losses" };
    if (new Set(x).size < 3) return { n, alpha: NaN, status: "too few models" };
    const mx = mean(x), my = mean(y), dot = (a, b) => a.reduce((s, v, i) => s + v * b[i], 0);
    const dx = x.map((v) => v - mx), dy = y.map((v) => v - my), spread = dot(dx, dx);
    const slope = dot(dx, dy) / spread, rest = dy.map((v, i) => v - slope * dx[i]);
    const sd = Math.sqrt(dot(rest, rest) / (n - 2)), t = n > 2 ? quantile(n - 2) : NaN;
    const half = (t * sd) / Math.sqrt(spread), log_c = my - slope * mx;
    const law = { n, status: doubt(all, -slope), alpha: -slope, log_c, r2: 1 - dot(rest, rest) / dot(dy, dy), models: [-slope - half, -slope + half] };
    if (!(size >= 1 && size < Infinity)) return law;
    const at = Math.log(size), wide = t * sd * Math.sqrt(1 + 1 / n + (at - mx) ** 2 / spread);
    const ends = [-wide, 0, wide].map((move) => Math.exp(log_c + slope * at + move));
    const beyond = Math.max(at - Math.max(...x), Math.min(...x) - at, 0) / Math.LN10;
    return { ...law, S: size, loss: ends[1], ci_loss: [ends[0], ends[2]], beyond };
  }

  const short = (x) => Number(x.toPrecision(4)).toString();
  const large = (x) => {
    const [power, letter] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([p]) => x >= p || p === 1);
    return short(x / power) + letter;
  };

  // points, line and forecast on logarithmic axes
  function draw(all, law) {
    const W = 640, H = 360, edge = { left: 64, right: 16, top: 12, bottom: 44 };
    const seen = all.filter(hasLogarithm), straight = Number.isFinite(law.alpha);
    const sizes = [...seen.map((point) => point.S), ...(law.S ? [law.S] : [])];
    const losses = [...seen.map((point) => point.loss), ...(law.S ? law.ci_loss : [])];
    const scale = (values, from, to) => {
      const low = Math.log(Math.min(...values)), high = Math.log(Math.max(...values)), room = 0.05 * (high - low) || 0.1;
      return (v) => from + ((Math.log(v) - low + room) / (high - low + 2 * room)) * (to - from);
    };
    const px = scale(sizes, edge.left, W - edge.right), py = scale(losses, H - edge.bottom, edge.top);
    const ends = [Math.min(...sizes), Math.max(...sizes)], at = (S) => Math.exp(law.log_c - law.alpha * Math.log(S));
    // round numbers: evenly apart on a short axis, by factors on a long one
    const ticks = (values) => {
      const marks = [], low = Math.min(...values), high = Math.max(...values), times = high / low;
      if (low === high) return [low];
      if (times < 4) {
        const power = 10 ** Math.floor(Math.log10((high - low) / 2));
        const step = power * [5, 2, 1].find((s) => (high - low) / (s * power) >= 2);
        for (let i = Math.ceil(low / step); i * step <= high; i++) marks.push(i * step);
        return marks;
      }
      const steps = times > 300 ? [1] : times > 30 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
      for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
        for (const s of steps) if (s * 10 ** p >= low && s * 10 ** p <= high) marks.push(s * 10 ** p);
      return marks;
    };
    const text = (x, y, words, how = "") => `<text x="${x}" y="${y}" ${how}>${words}</text>`;
    const parts = [`<path d="M${edge.left} ${edge.top}V${H - edge.bottom}H${W - edge.right}" class="axis"/>`];
    for (const S of ticks(sizes)) parts.push(text(px(S), H - edge.bottom + 18, large(S), 'text-anchor="middle"'));
    for (const L of ticks(losses)) parts.push(text(edge.left - 6, py(L) + 4, short(L), 'text-anchor="end"'));
    parts.push(text((W + edge.left) / 2, H - 6, "S, parameters outside the embedding tables", 'text-anchor="middle"'));
    parts.push(text(14, H / 2, "loss (nats)", `text-anchor="middle" transform="rotate(-90 14 ${H / 2})"`));
    if (straight) parts.push(`<path class="line" d="M${px(ends[0])} ${py(at(ends[0]))}L${px(ends[1])} ${py(at(ends[1]))}"/>`);
    for (const point of seen) parts.push(`<circle cx="${px(point.S)}" cy="${py(point.loss)}" r="4"/>`);
    if (law.S) {
      const x = px(law.S), y = py(law.loss);
      parts.push(`<path class="ahead" d="M${x} ${py(law.ci_loss[0])}V${py(law.ci_loss[1])}M${x - 5} ${y}L${x} ${y - 5}L${x + 5} ${y}L${x} ${y + 5}Z"/>`);
    }
    const line = straight ? ` and their line, exponent ${short(law.alpha)},` : "";
    const words = `${seen.length} points${line} on logarithmic axes`;
    return `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="${words}">${parts.join("")}</svg>`;
  }

  function show(box) {
    const rows = box.querySelector("textarea"), size = box.querySelector("input"), list = box.querySelector("select");
    const said = box.querySelector("output"), plot = box.querySelector(".rbp-own-plot");
    delete box.dataset.law;
    plot.innerHTML = "";
    try {
      const laws = points(read(rows.value)), chosen = laws.has(list.value) ? list.value : laws.keys().next().value;
      list.replaceChildren(...[...laws.keys()].map((name) => new Option(name, name, false, name === chosen)));
      list.parentElement.hidden = laws.size < 2;
      const all = laws.get(chosen), law = fit(all, number(size.value));
      box.dataset.law = JSON.stringify({ ...law, points: all.map(({ model, S, loss }) => ({ model, S, loss })) });
      plot.innerHTML = law.n ? draw(all, law) : "";
      const left = all.filter((point) => !hasLogarithm(point))
        .map(({ model, loss, hits }) => `${model} (${loss > 0 ? "no hits" : hits ? "no misses" : "loss 0"})`);
      const without = left.length ? `, without ${left.join(", ")}` : "";
      if (!Number.isFinite(law.alpha)) throw Error(`No exponent: ${law.status}${without}. A line needs three sizes, and losses that differ.`);
      const ahead = law.S ? ` At S = ${large(law.S)} the line has a loss of ${short(law.loss)} nats (95%: ${law.ci_loss.map(short).join(" to ")})`
        + (law.beyond > 0 ? `, ${law.beyond.toFixed(2)} decades outside the sizes given.` : ".")
        : size.value.trim() ? ` "${size.value}" is no size: write 13e9, 13B or 350M for a forecast.` : "";
      const status = law.status === "ok" ? "" : ` Status: ${law.status}.`;
      said.textContent = `Exponent ${short(law.alpha)} (95% over other sizes: ${law.models.map(short).join(" to ")}), `
        + `R² ${short(law.r2)}, from ${law.n} models${without}.${status}${ahead}`;
    } catch (error) {
      said.textContent = error.message;
    }
  }

  function start() {
    document.querySelectorAll(".rbp-own").forEach((box) => {
      box.addEventListener("input", () => show(box));
      box.hidden = false;
      show(box);
    });
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return { read, points, fit, quantile };
})();
