// A table of numbers that a reader pastes: its points, line, intervals and forecast, as `rbp fit` has them.
// Nothing leaves the page.
const rbpTable = (function () {
  const OUT_OF = { hits: "tokens", accuracy: "questions", loss: "tokens", loss_bits: "tokens", perplexity: "tokens", bpb: "bytes", bpc: "characters" };
  const POWERS = { k: "e3", m: "e6", b: "e9", t: "e12" };
  // names that people give to columns, as rbplib.sheets has them
  const NAMES = {
    model: "model name run runname modelname",
    S: "s n params nparams parameters nparameters numparams numparameters paramcount modelsize size weightparams nonembeddingparams nonembparams paramsnoembed",
    D: "d ntokens tokensseen trainingtokens traintokens numtokens trainedtokens",
    hits: "hits",
    accuracy: "accuracy acc",
    loss: "loss valloss evalloss finalloss finalvalloss validationloss validloss testloss crossentropy crossentropyloss",
    loss_bits: "lossbits",
    perplexity: "perplexity ppl valppl evalppl valperplexity",
    bpb: "bpb valbpb bitsperbyte",
    bpc: "bpc valbpc bitsperchar bitspercharacter",
    questions: "questions nquestions numquestions",
    loss_se: "lossse lossstderr",
    accuracy_se: "accuracyse accse accstderr accuracystderr",
    perplexity_se: "perplexityse pplse pplstderr",
    tokens: "tokens",
    bytes: "bytes",
    characters: "characters",
    family: "family",
    k: "k",
    seed: "seed",
    source: "source"
  };
  const UNIT = "(?:in)?(k|m|b|t|bn|mn|thousand|million|billion|trillion)s?";
  const COUNTS = ["S", "D", "k", "hits", "tokens", "questions", "bytes", "characters"];
  const WORDS = ["model", "family", "source", "seed"], OTHERS = ["family", "source", "seed", "k", "loss_se", "accuracy_se", "perplexity_se"];
  const NOTHING = ["", "nan", "none", "null", "na", "n/a", "-", "<na>"];
  const SIZE = /(?<![a-z0-9.])(?<!\d[_-])\d+(?:\.\d+)?[kmbt](?![a-z0-9])/gi;
  const LARGEST = 1e18, WHOLE = 2 ** 53, MOST_ROWS = 100000, MOST_COLUMNS = 10000, MOST_TOLD = 12, MOST_DRAWN = 2000;

  const least = (values) => values.reduce((a, b) => (b < a ? b : a), Infinity);
  const most = (values) => values.reduce((a, b) => (b > a ? b : a), -Infinity);

  // a number as people write it: 13e9, 13B, 350M, 1_000; NaN for what is none
  function number(text) {
    const word = String(text).trim().toLowerCase().replace(/(?<=\d)_(?=\d)/g, "").replace(/[kmbt]$/, (letter) => POWERS[letter]);
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(word) ? Number(word) : NaN;
  }

  // cells as `number` takes them: thousands apart by blanks or commas, decimal commas, per cent
  function plainCells(cells, counts) {
    cells = cells.map((cell) => cell.trim().replace(/(?<=\d)[\s'’](?=\d{3}(?!\d))|\s+(?=[kmbt%]$)/gi, ""));
    let commas = cells.filter((cell) => cell.includes(","));
    if (commas.every((cell) => /^[+-]?\d{1,3}(,\d{3})+(\.\d+)?[kmbt]?$/i.test(cell)))
      if (counts || commas.some((cell) => cell.split(",").length > 2 || cell.includes("."))) {
        commas = [];
        cells = cells.map((cell) => cell.replace(/,/g, ""));
      }
    const dots = cells.some((cell) => /\.\d{1,2}(?!\d)|\.\d{4}/.test(cell));
    if (commas.length && !dots) cells = cells.map((cell) => cell.replace(/\./g, "").replace(/,/g, "."));
    else if (!dots && cells.every((cell) => cell.split(".").length !== 2)) cells = cells.map((cell) => cell.replace(/\./g, ""));
    return cells.map((cell) => cell.replace(/%$/, "e-2"));
  }
  const numbersOf = (cells, name) => plainCells(cells, COUNTS.includes(name)).map(number);

  // {names, rows of cells} of pasted text: no comments, no blank rows and columns, no index
  function read(text) {
    const lines = text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/).filter((line) => line.trim() && !line.trim().startsWith("#"));
    if (lines.length > MOST_ROWS + 1) throw Error(`These are ${lines.length - 1} rows, and at most ${MOST_ROWS} are read here: rbp fit takes them.`);
    const bare = (lines[0] || "").replace(/"[^"]*"/g, ""), times = (mark) => bare.split(mark).length - 1;
    const mark = ["\t", ";", ",", "|"].reduce((a, b) => (times(b) > times(a) ? b : a)), between = times(mark) ? mark : null;
    if (times(mark) > MOST_COLUMNS) throw Error(`These are ${times(mark)} columns, and at most ${MOST_COLUMNS} are read.`);
    const cells = (line) => {
      if (!between) line = line.trim();
      const fields = [""];
      let quoted = false;
      for (const letter of between ? line : line.replace(/\s+/g, " ")) {
        if (letter === '"') quoted = !quoted;
        else if (!quoted && letter === (between || " ")) fields.push("");
        else fields[fields.length - 1] += letter;
      }
      if (quoted) throw Error(`A quotation mark is open at the end of the line "${line.slice(0, 40)}": close it there.`);
      return fields.map((field) => field.trim());
    };
    let [names = [], ...rows] = lines.map(cells);
    // the line below the names of a table in Markdown
    if (between === "|") rows = rows.filter((row) => !row.every((cell) => /^:?-*:?$/.test(cell)));
    if (rows.some((row) => row.length > names.length + 1)) throw Error("A row has more fields than the first line names.");
    // one column more than names: a comma at each line's end, or the index of R
    if (rows.some((row) => row[names.length])) {
      const isIndex = [0, 1].some((start) => rows.every((row, i) => row[0] === String(i + start)));
      if (!isIndex) throw Error("A row has more fields than the first line names.");
      rows = rows.map((row) => row.slice(1));
    }
    rows = rows.map((row) => names.map((_, i) => row[i] ?? "")).filter((row) => row.some((cell) => cell));
    const kept = names.map((name, i) => (name && !/^Unnamed: \d+$/.test(name) ? i : -1)).filter((i) => i >= 0);
    names = kept.map((i) => names[i]);
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined) throw Error(`The first line names the column "${twice}" twice.`);
    return { names, rows: rows.map((row) => kept.map((i) => row[i])) };
  }

  const plain = (name) => name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

  // the unit, "" or a letter, in which a column may be the one that we call so; null where it is not
  function reading(column, ours) {
    const last = OTHERS.includes(ours) || !column.includes(".") ? "" : column.slice(column.lastIndexOf(".") + 1);
    for (const name of [plain(column), plain(last)]) {
      if (NAMES[ours].split(" ").includes(name)) return "";
      const match = name.match(RegExp(`^(${NAMES[ours].replace(/ /g, "|")})${UNIT}$`));
      if (["S", "D"].includes(ours) && match && match[1].length > 1) return match[2][0];
    }
    return null;
  }

  // {our name: cells}, units of S and D, and what is told; an Error says what is lacking, or has two readings
  function byOurNames({ names, rows }, said) {
    const column = (name) => rows.map((row) => row[names.indexOf(name)]);
    const chosen = {}, units = {}, told = [];
    for (const [ours, theirs] of Object.entries(said)) {
      if (!(ours in NAMES)) throw Error(`The column "${ours}" is not known: choose one of ${Object.keys(NAMES).join(", ")}.`);
      const alike = names.includes(theirs) ? [theirs] : names.filter((name) => plain(name) === plain(theirs));
      if (alike.length !== 1) throw Error(`There is no column "${theirs}": the first line has ${names.join(", ")}.`);
      chosen[ours] = alike[0];
      // a unit in the name of a column that was said
      const spelled = Object.values(NAMES).join(" ").split(" "), match = plain(theirs).match(RegExp(`^(..+?)${UNIT}$`));
      if (["S", "D"].includes(ours) && match && spelled.includes(match[1]) && !spelled.includes(plain(theirs))) units[ours] = match[2][0];
    }
    const holdsNumbers = (name) => {
      const cells = column(name).slice(0, 1000).filter((cell) => !NOTHING.includes(cell.trim().toLowerCase()));
      return numbersOf(cells, name).some(Number.isFinite);
    };
    const free = names.filter((name) => !Object.values(chosen).includes(name));
    const groups = [Object.keys(OUT_OF), ...Object.keys(NAMES).filter((ours) => !(ours in OUT_OF)).map((ours) => [ours])];
    for (const group of groups) {
      if (group.some((ours) => ours in chosen)) continue;
      const exact = group.filter((ours) => free.includes(ours)), could = new Map();
      for (const theirs of exact.length ? [] : free)
        for (const ours of group) {
          const unit = reading(theirs, ours);
          if (unit !== null && (WORDS.includes(ours) || holdsNumbers(theirs))) could.set(theirs, [ours, unit]);
        }
      if (could.size > 1) {
        const [[theirs, [ours]]] = could;
        throw Error(`This may have ${[...could].map(([t, [o]]) => `${o} from "${t}"`).join(" or ")}: say which, as in ${ours}=${theirs}.`);
      }
      for (const [theirs, [ours, unit]] of could) [chosen[ours], units[ours]] = [theirs, unit];
      for (const ours of exact) chosen[ours] = ours;
    }
    const measured = Object.keys(OUT_OF).filter((ours) => ours in chosen);
    const lacking = "S" in chosen ? [] : ["S"];
    if (measured.join() === "hits" && !("tokens" in chosen)) lacking.push("tokens");
    if (!measured.length) lacking.push(`one of ${Object.keys(OUT_OF).join(", ")}`);
    if (lacking.length) throw Error(`This lacks ${lacking.join(" and ")}; it has ${names.join(", ") || "no column"}: name its columns, as in S=n_params, loss=val_loss.`);
    if (measured.length > 1) throw Error(`This has ${measured.join(" and ")}: give rows of one of ${Object.keys(OUT_OF).join(", ")}.`);
    const changed = Object.entries(chosen).filter(([ours, theirs]) => ours !== theirs);
    if (changed.length) told.push(`${changed.map(([ours, theirs]) => `${ours} from ${theirs}`).join(", ")}.`);
    const columns = Object.fromEntries(Object.entries(chosen).map(([ours, theirs]) => [ours, column(theirs)]));
    return { columns, units, told, what: measured[0] };
  }

  // sizes or tokens in the unit that is said, for cells without a letter
  function inUnits(cells, values, unit, name) {
    const bare = cells.map((cell) => !/\p{L}$/u.test(cell.trim()));
    if (unit) return values.map((x, i) => (bare[i] ? x * (unit === "1" ? 1 : number(`1${unit}`)) : x));
    const small = values.map((x, i) => bare[i] && x > 0 && x < 1000), row = small.indexOf(true) + 1;
    if (row) {
      throw Error(`${name} is below 1,000 in row ${row}: are billions or millions meant? Choose the unit, or 1 where they are meant so.`);
    }
    return values;
  }

  // {laws: {name: its points, [{model, S, loss}] smallest first}, told}; an Error says in a sentence what is wrong
  function points(table, { columns: said = {}, sizeUnit = "", tokenUnit = "", dropBad = false } = {}) {
    const { columns, units, told, what } = byOurNames(table, said), n = table.rows.length;
    const has = (name) => name in columns, rows = [...Array(n).keys()];
    if (!n) throw Error("There is no row below the first line: give one for each model.");
    const inNames = (cell) => ((cell.match(SIZE) || []).length === 1 ? number(cell.match(SIZE)[0]) : NaN);
    if (!has("model") && numbersOf(columns.S, "S").every(Number.isNaN)) columns.model = columns.S;
    if (!has("model")) columns.model = rows.map((i) => (has("k") || has("source") ? `S = ${columns.S[i]}` : `row ${i + 1}`));
    // a source that no row needs only says where it is from
    if (has("source")) {
      const keys = rows.map((i) => JSON.stringify(["family", "k", "model", "D", "seed"].filter(has).map((name) => columns[name][i])));
      if (new Set(keys).size === n) {
        delete columns.source;
        told.push("The source says where each row is from, and is no piece of text.");
      }
    }
    const counted = what === "hits" || has("source") || (what === "accuracy" && has("questions"));
    const total = counted ? OUT_OF[what] : "", share = what === "hits" || (what === "accuracy" && !!total);
    if (total && !has(total)) throw Error(`There is no column ${total} beside ${what}: add it.`);
    const errors = has("source") ? [] : what === "accuracy" && total ? ["loss_se"] : [`${what}_se`, "loss_se"];
    const error = errors.find(has);
    const unnamed = has("family") ? columns.family.findIndex((cell) => !cell.trim()) : -1;
    if (unnamed >= 0) throw Error(`The model ${columns.model[unnamed]} is of no family: name one in each row.`);

    // numbers, and the rows that cannot be used
    const values = {}, faults = { model: columns.model.map((cell) => !cell.trim()) };
    for (const name of ["S", "D", "k", what, total, error].filter((name) => name && has(name))) {
      const cells = columns[name], isTokens = name === "D", isSize = name === "S";
      let x = numbersOf(cells, name);
      if (isSize && x.every(Number.isNaN)) x = cells.map(inNames);
      if (isSize) x = inUnits(cells, x, sizeUnit || units.S, "S");
      if (isTokens) x = inUnits(cells, x, tokenUnit || units.D, "D");
      const low = ["S", "k", "perplexity", ...COUNTS.slice(4)].includes(name) ? 1 : 0, high = isSize || isTokens ? LARGEST : WHOLE;
      const mayLack = isTokens || name === error, above = name === what && !total ? (what === "perplexity" ? 1 : 0) : -1;
      const isWhole = name === "k" || name === "hits";
      // a loss of millions, or of per cent, is none
      if ([what, error].includes(name) && !/^(hits|accuracy)/.test(name)) x = x.map((v, i) => (/[kmbt%]$/i.test(cells[i].trim()) ? NaN : v));
      faults[name] = x.map((v, i) => !(v >= low && v <= high && v > above && !(isWhole && v % 1)) && !(mayLack && NOTHING.includes(cells[i].trim().toLowerCase())));
      values[name] = x;
    }
    let y = values[what];
    const fine = y.filter((_, i) => !faults[what][i]);
    if (what === "accuracy" && fine.length && least(fine) > 1 && most(fine) <= 100) {
      told.push("The accuracies are read as per cent, since all are above 1.");
      y = y.map((x) => x / 100);
    }
    if (what === "hits" || what === "accuracy") faults[what] = y.map((x, i) => faults[what][i] || x > (what === "hits" ? values.tokens[i] : 1));
    const nats = { loss_bits: (x) => x * Math.LN2, bpb: (x) => x * Math.LN2, bpc: (x) => x * Math.LN2, perplexity: Math.log, accuracy: total ? (x) => x : (x) => -Math.log(x) };
    y = y.map((x, i) => (nats[what] || Number)(x) * (total && what !== "hits" ? values[total][i] : 1));
    const name = (i) => columns.model[i] + (has("seed") ? ` seed ${columns.seed[i]}` : "");
    const whose = (i) => JSON.stringify([has("family") ? columns.family[i] : "", name(i), has("D") ? values.D[i] : 0]);
    const bad = rows.filter((i) => Object.values(faults).some((fault) => fault[i]));
    if (bad.length) {
      const cellsOf = (i) => Object.keys(faults).filter((of) => faults[of][i]).map((of) => `${of} "${columns[of][i].slice(0, 40)}"`);
      const list = bad.slice(0, MOST_TOLD).map((i) => `row ${i + 1} (${name(i).slice(0, 40)}) has ${cellsOf(i).join(" and ")}`);
      const sentence = list.join(", ") + (bad.length > MOST_TOLD ? `, and ${bad.length - MOST_TOLD} more` : "");
      if (!dropBad) throw Error(`These rows cannot be used: ${sentence}; mend them, or leave them out.`);
      told.push(`Left out: ${sentence}.`);
    }

    // the points of each law
    const out = new Set(bad.map(whose)), laws = new Map(), families = new Map(), sizes = new Map(), counts = [];
    for (const i of rows) {
      if (out.has(whose(i))) continue;
      const family = has("family") ? columns.family[i] : undefined, k = has("k") ? values.k[i] : 1;
      const law = [family, has("k") && `k = ${k}`].filter(Boolean).join(", ") || "all rows";
      const models = laws.get(law) || laws.set(law, new Map()).get(law), place = whose(i), S = values.S[i];
      const point = models.get(place) || models.set(place, { model: name(i), S, sum: 0, of: 0, sources: new Set() }).get(place);
      if ((sizes.get(place) ?? S) !== S) throw Error(`The model ${name(i)} has two sizes: give it one.`);
      sizes.set(place, S);
      const source = has("source") ? columns.source[i] : "", of = total ? values[total][i] : 1;
      if (point.sources.has(source)) throw Error(`The model ${name(i)} is there twice: tell rows apart by k, source, seed or D.`);
      point.sources.add(source);
      const places = families.get(family) || families.set(family, new Map()).get(family);
      if (!places.has(place)) places.set(place, []);
      places.get(place).push(JSON.stringify([k, source, of]));
      if (has("k")) counts.push({ of: JSON.stringify([place, source]), model: name(i), k, sum: share ? y[i] : -y[i] });
      point.sum += y[i];
      point.of += of;
    }
    for (const [family = "The table", places] of families)
      if (new Set([...places.values()].map((parts) => parts.sort().join())).size > 1)
        throw Error(`${family}: each model needs a row at every k and source, out of the same ${total || "text"}.`);
    // what is among the first few is among more
    counts.sort((a, b) => (a.of < b.of ? -1 : a.of > b.of ? 1 : a.k - b.k));
    const falls = counts.find((row, i) => i && row.of === counts[i - 1].of && row.sum < counts[i - 1].sum);
    if (falls) throw Error(`The model ${falls.model} is worse in ${what} at k = ${falls.k} than at a smaller k: check both.`);
    const few = [];
    for (const [law, models] of laws) {
      const all = [...models.values()].sort((a, b) => a.S - b.S);
      for (const point of all) {
        point.loss = share ? -Math.log(point.sum / point.of) : point.sum / point.of;
        if (share) Object.assign(point, { hits: point.sum, misses: point.of - point.sum });
      }
      laws.set(law, all);
      if (sizesOf(all).length < 3) few.push(law);
    }
    for (const law of few) laws.delete(law);
    if (!laws.size) throw Error(`${few[0] || "The table"}: a line needs three sizes that differ by more than 5%.`);
    if (few.length) told.push(`Left out, for a line needs three sizes: ${few.slice(0, MOST_TOLD).join(", ")}.`);
    if (what === "bpb" || what === "bpc") told.push(`The exponent is that of the loss; its level is in nats by ${OUT_OF[what]}.`);
    return { laws, told };
  }

  // places of points, smallest first, in groups of one size: within 5% of the smallest of them
  function sizesOf(all) {
    const groups = [];
    all.forEach(({ S }, i) => {
      const last = groups[groups.length - 1];
      if (last && S <= 1.05 * all[last[0]].S) last.push(i);
      else groups.push([i]);
    });
    return groups;
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
    const fewest = (what) => least(all.map((point) => point[what])), misses = fewest("misses"), hits = fewest("hits");
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
    if (n > 1 && most(y) - least(y) < 1e-12) return { n, alpha: NaN, status: "equal losses" };
    const groups = sizesOf(used);
    if (groups.length < 3) return { n, alpha: NaN, status: "too few models" };
    const mx = mean(x), my = mean(y), dot = (a, b) => a.reduce((s, v, i) => s + v * b[i], 0);
    const dx = x.map((v) => v - mx), dy = y.map((v) => v - my), spread = dot(dx, dx);
    const slope = dot(dx, dy) / spread, rest = dy.map((v, i) => v - slope * dx[i]);
    // sizes are the replicates: how height and tilt move with the mean of each, and what is left of it
    const sum = (values, of) => of.reduce((s, i) => s + values[i], 0), over = (values, of) => sum(values, of) / of.length;
    const height = groups.map((of) => of.length / n), tilt = groups.map((of) => sum(dx, of) / spread);
    const sized = groups.map((of) => over(rest, of));
    let trace = groups.length - 2, free = trace;
    if (groups.length < n && groups.length < 300) {
      const left = groups.map((of, g) => groups.map((_, j) => (g === j) - height[j] - over(dx, of) * tilt[j]));
      const form = left.map((row) => left.map((other) => dot(row, other)));
      trace = form.reduce((s, row, g) => s + row[g], 0);
      free = trace ** 2 / form.reduce((s, row) => s + dot(row, row), 0);
    }
    const scatter = dot(sized, sized) / trace, t = quantile(free);
    const half = t * Math.sqrt(scatter * dot(tilt, tilt)), log_c = my - slope * mx;
    // a new model scatters as sizes do, and at least as trainings of one size
    const within = y.map(() => 0);
    for (const of of groups) for (const i of of) within[i] = y[i] - over(y, of);
    const trainings = n > groups.length ? dot(within, within) / (n - groups.length) : 0;
    const law = { n, status: doubt(all, -slope), alpha: -slope, log_c, r2: 1 - dot(rest, rest) / dot(dy, dy), models: [-slope - half, -slope + half] };
    // what `rbp fit` doubts beside its status, as far as sizes tell it
    const holds0 = law.models[0] <= 0 && law.models[1] >= 0;
    law.caveats = [...(holds0 ? ["not told from 0"] : []), ...(holds0 || law.r2 < 0.5 ? ["no line"] : [])];
    if (!(size >= 1 && size <= LARGEST)) return law;
    const at = Math.log(size), lever = height.map((h, g) => h + (at - mx) * tilt[g]);
    const wide = t * Math.sqrt(Math.max(scatter, trainings) + scatter * dot(lever, lever));
    const ends = [-wide, 0, wide].map((move) => Math.exp(log_c + slope * at + move));
    const beyond = Math.max(at - most(x), least(x) - at, 0) / Math.LN10;
    return { ...law, S: size, loss: ends[1], ci_loss: [ends[0], ends[2]], beyond };
  }

  const short = (x) => Number(x.toPrecision(4)).toString();
  const large = (x) => {
    const [power, letter] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([p]) => x >= p || p === 1);
    return short(x / power) + letter;
  };

  // points, line and forecast on logarithmic axes, W pixels wide
  function draw(all, law, W) {
    const H = 360, edge = { left: 64, right: 16, top: 12, bottom: 44 };
    const seen = all.filter(hasLogarithm).slice(0, MOST_DRAWN), straight = Number.isFinite(law.alpha);
    const sizes = [...seen.map((point) => point.S), ...(law.S ? [law.S] : [])];
    const known = seen.map((point) => point.loss), low = Math.max(least(known) / 1e6, Number.MIN_VALUE), high = most(known) * 1e6;
    // an interval or a line that leaves all numbers is drawn as far as a million times the points
    const inside = (loss) => Math.min(Math.max(loss, low), high), drawn = (law.S ? [...law.ci_loss, law.loss] : []).map(inside);
    const losses = [...known, ...drawn];
    const scale = (values, from, to) => {
      const low = Math.log(least(values)), high = Math.log(most(values)), room = 0.05 * (high - low) || 0.1;
      return (v) => from + ((Math.log(v) - low + room) / (high - low + 2 * room)) * (to - from);
    };
    const px = scale(sizes, edge.left, W - edge.right), py = scale(losses, H - edge.bottom, edge.top);
    const ends = [least(sizes), most(sizes)], at = (S) => inside(Math.exp(law.log_c - law.alpha * Math.log(S)));
    // round numbers: evenly apart on a short axis, by factors on a long one
    const ticks = (values) => {
      const marks = [], low = least(values), high = most(values), times = high / low;
      if (!(times > 1 + 1e-9)) return [low];
      if (times < 4) {
        const power = 10 ** Math.floor(Math.log10((high - low) / 2));
        const step = power * [5, 2, 1].find((s) => (high - low) / (s * power) >= 2);
        for (let i = Math.ceil(low / step); i * step <= high && marks.length < 12; i++) marks.push(i * step);
        return marks;
      }
      const every = Math.ceil(Math.log10(times) / 10), steps = times > 300 ? [1] : times > 30 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
      for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p += every)
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
      const x = px(law.S), y = py(drawn[2]);
      parts.push(`<path class="ahead" d="M${x} ${py(drawn[0])}V${py(drawn[1])}M${x - 5} ${y}L${x} ${y - 5}L${x + 5} ${y}L${x} ${y + 5}Z"/>`);
    }
    const line = straight ? ` and their line, exponent ${short(law.alpha)},` : "";
    const words = `${seen.length} points${line} on logarithmic axes`;
    return `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="${words}">${parts.join("")}</svg>`;
  }

  // {our name: theirs} of "S=n_params, loss=val_loss"
  function saidColumns(text) {
    const parts = text.split(/,(?=\s*\w+=)/).map((part) => part.trim()).filter(Boolean);
    const pairs = parts.map((part) => [part.slice(0, part.indexOf("=")).trim(), part.slice(part.indexOf("=") + 1).trim()]);
    if (!parts.every((part, i) => part.includes("=") && pairs[i][0] && pairs[i][1])) throw Error(`"${text.slice(0, 60)}" names no columns: write S=n_params.`);
    return Object.fromEntries(pairs);
  }

  function show(box) {
    const part = (name) => box.querySelector(`[name=${name}]`);
    const rows = box.querySelector("textarea"), size = part("size"), list = part("law");
    const said = box.querySelector("output"), plot = box.querySelector(".rbp-own-plot");
    delete box.dataset.law;
    plot.innerHTML = "";
    try {
      const options = { columns: saidColumns(part("columns").value), sizeUnit: part("sizeunit").value, tokenUnit: part("tokenunit").value, dropBad: part("dropbad").checked };
      const { laws, told } = points(read(rows.value), options);
      const chosen = laws.has(list.value) ? list.value : laws.keys().next().value;
      list.replaceChildren(...[...laws.keys()].slice(0, MOST_DRAWN).map((name) => new Option(name, name, false, name === chosen)));
      list.parentElement.hidden = laws.size < 2;
      const all = laws.get(chosen), law = fit(all, number(size.value));
      box.dataset.law = JSON.stringify({ ...law, told, points: all.slice(0, MOST_DRAWN).map(({ model, S, loss }) => ({ model, S, loss })) });
      plot.innerHTML = law.n ? draw(all, law, Math.min(640, plot.clientWidth || 640)) : "";
      const left = all.filter((point) => !hasLogarithm(point)).slice(0, MOST_TOLD)
        .map(({ model, loss, hits }) => `${model} (${loss > 0 ? "no hits" : hits ? "no misses" : "loss 0"})`);
      const without = left.length ? `, without ${left.join(", ")}` : "";
      if (!Number.isFinite(law.alpha)) throw Error(`No exponent: ${law.status}${without}. A line needs three sizes, and losses that differ.`);
      const ahead = law.S ? ` At S = ${large(law.S)} the line has a loss of ${short(law.loss)} nats (95%: ${law.ci_loss.map(short).join(" to ")})`
        + (law.beyond > 0 ? `, ${law.beyond.toFixed(2)} decades outside the sizes given.` : ".")
        : size.value.trim() ? ` "${size.value}" is no size: write 13e9, 13B or 350M for a forecast.` : "";
      const doubts = [...(law.status === "ok" ? [] : [law.status]), ...law.caveats];
      const status = doubts.length ? ` Status: ${doubts.join("; ")}.` : "";
      said.textContent = `Exponent ${short(law.alpha)} (95% over other sizes: ${law.models.map(short).join(" to ")}), `
        + `R² ${short(law.r2)}, from ${law.n} models${without}.${status}${ahead}${told.map((words) => ` ${words}`).join("")}`;
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
  return { read, points, fit, quantile, NAMES };
})();
