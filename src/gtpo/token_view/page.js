"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const fragment = new URLSearchParams(location.hash.slice(1));
const root = document.documentElement;
const at = (id) => document.getElementById(id);
const TIED = 1e-5;
const state = {
  group: data.opened,
  view: fragment.get("view") || (innerWidth < 700 ? "flow" : "aligned"),
  current: null, // [row, place] of the last focused token
  withGtpo: false, // show what GTPO would do to a group that was trained without it
};
let rows = []; // the completions of the group, the good ones first
let cells = []; // cells[row][place] is the element of that token

function make(tag, names, text, parent) {
  const element = document.createElement(tag);
  if (names) element.className = names;
  if (text !== undefined && text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function number(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = size && size < 0.005 ? size.toPrecision(2) : String(+size.toFixed(size < 100 ? digits : 1));
  return (value < 0 ? "−" : "") + text;
}
const signed = (value) => (value > 0 ? "+" : "") + number(value);
const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);
const sign = (row) => (!row.valid || Math.abs(row.advantage) <= TIED ? 0 : Math.sign(row.advantage));
const isLn2 = (threshold) => Math.abs(threshold - Math.LN2) < 1e-4;
const inPrefix = (row, place) => place < row.prefix;
const inSuffix = (row, place) => place >= row.size - row.suffix;
const inRun = (row, place) => inPrefix(row, place) || inSuffix(row, place);
const isPlain = () => data.groups[state.group].is_plain && !state.withGtpo;
const isHypothetical = () => data.rollouts || data.groups[state.group].is_plain;

function tokenElement(index, place, parent) {
  const row = rows[index];
  const fate = data.fates[row.fates[place]].name;
  const text = data.texts[row.texts[place]];
  const element = make("span", `token ${fate}`, text, parent);
  element.classList.toggle("run", inRun(row, place));
  element.classList.toggle("led", text.startsWith(" "));
  element.dataset.row = index;
  element.dataset.place = place;
  element.tabIndex = -1;
  if (row.entropies && row.entropies[place] !== null) {
    const scale = 2 * (data.groups[state.group].threshold || Math.LN2);
    element.style.setProperty("--share", `${Math.min(100, (100 * row.entropies[place]) / scale)}%`);
  }
  cells[index][place] = element;
  return element;
}

function factsElement(row, parent) {
  const group = data.groups[state.group];
  const facts = make("div", "facts", null, parent);
  const who = make("div", "who", null, facts);
  make("span", "number", `#${row.sample}`, who);
  const direction = sign(row);
  if (!row.valid) make("span", "out", "excluded: no reward, or masked", who);
  else if (!row.kept) make("span", "out", "filtered", who);
  else make("span", ["bad", "out", "good"][direction + 1], ["▼ bad", "= tied", "▲ good"][direction + 1], who);
  const values = make("div", "values", null, facts);
  const value = (label, text, place = values) => make("b", "", text, make("span", "", label + " ", place));
  value("advantage", signed(row.advantage), who);
  for (const [name, reward] of row.rewards) value(name, number(reward));
  if (!isHypothetical()) value("push", signed(row.push));
  value("tokens", row.size);
  if (row.truncated) make("span", "", "truncated", values);
  if (row.entropy !== null) {
    const meter = make("div", "meter", null, facts);
    const above = group.threshold !== null && row.entropy > group.threshold;
    make("b", "", `⟨H⟩ ${number(row.entropy)}`, meter);
    if (group.threshold !== null) {
      const track = make("span", "track", null, meter);
      make("span", "fill", null, track).style.setProperty("--share", `${Math.min(100, (50 * row.entropy) / group.threshold)}%`);
      make("span", "mark", null, track);
      make("span", "", `${above ? "above" : "below"} ${isLn2(group.threshold) ? "ln 2" : number(group.threshold)}`, meter);
    }
  }
}

function flowTokens(index, places, parent) {
  const breaks = new Set(rows[index].breaks);
  for (const place of places) {
    tokenElement(index, place, parent);
    if (breaks.has(place)) make("br", "", null, parent);
  }
  if (!rows[index].size) make("span", "empty", "empty completion", parent);
}

function drawFlow(parent) {
  const flow = make("div", "flow", null, parent);
  rows.forEach((row, index) => {
    const card = make("article", "", null, flow);
    factsElement(row, card);
    flowTokens(index, row.texts.keys(), make("div", "box", null, card));
  });
}

/* The columns of a row's tokens: `left` for the shared prefix, `right` for the shared suffix, `middle` for the rest. Each
   token is shown once. Where left and right overlap, the row's own conflict runs decide. */
function columns(row, left, right) {
  const size = row.size;
  const places = { left: [], middle: [], right: [] };
  for (let place = 0; place < size; place++) {
    const endsIn = place >= size - right;
    if (place < left && (inPrefix(row, place) || !inSuffix(row, place))) places.left[place] = place;
    else if (endsIn) places.right[place - size + right] = place;
    else places.middle.push(place);
  }
  return places;
}

function drawAligned(parent) {
  const left = Math.max(...rows.map((row) => row.prefix));
  const right = Math.max(...rows.map((row) => row.suffix));
  const table = make("table", "aligned", null, make("div", "scroll", null, parent));
  const head = make("tr", "", null, make("thead", "", null, table));
  make("th", "facts-cell", "", head);
  const bracket = (size, label) => {
    if (!size) return;
    const cell = make("th", "bracket", null, head);
    cell.colSpan = size;
    make("span", "", size > 1 ? label : label.split(" ")[1], cell).title = label;
  };
  bracket(left, "shared prefix");
  make("th", "differ", left || right ? "where they differ" : "no conflict tokens at the start or at the end", head);
  bracket(right, "shared suffix");
  const body = make("tbody", "", null, table);
  const placed = rows.map((row) => columns(row, left, right));
  const longest = Math.max(...placed.map((places) => places.middle.length));
  table.style.setProperty("--middle", `${Math.min(48, Math.max(19, 4 * Math.sqrt(longest))).toFixed(1)}rem`); // used in pictures only
  rows.forEach((row, index) => {
    const line = make("tr", "", null, body);
    const header = make("th", "facts-cell", null, line);
    header.scope = "row";
    factsElement(row, header);
    const places = placed[index];
    const column = (place, names) => {
      const cell = make("td", names, null, line);
      if (place !== undefined) tokenElement(index, place, cell);
    };
    for (let number = 0; number < left; number++) column(places.left[number], number ? "" : "first");
    flowTokens(index, places.middle, make("div", "box", null, make("td", "middle", null, line)));
    for (let number = 0; number < right; number++) column(places.right[number], number === right - 1 ? "last" : "");
  });
  for (const box of table.querySelectorAll(".box")) box.classList.toggle("cut", box.scrollHeight > box.clientHeight);
}

function drawLegend() {
  const present = new Set(data.groups.flatMap((group) => group.completions.flatMap((row) => row.fates)));
  data.fates.forEach((fate, index) => {
    const never = data.groups.every((group) => data.rollouts || group.is_plain) && fate.name === "filtered";
    if ((fate.rare || never) && !present.has(index)) return;
    const item = make("li", "", null, at("legend"));
    make("span", `token ${fate.name}`, fate.label, item);
    make("span", "why", fate.meaning, item);
  });
}

function drawChanges() {
  const box = at("changes");
  box.replaceChildren();
  const table = make("table", "counts", null, box);
  make("caption", "", isHypothetical() ? "What would GTPO have changed?" : "What did GTPO change?", table);
  const titles = ["", "tokens protected", "downward push removed", "tokens amplified", "upward push added", "conflict tokens in format tags"];
  if (!isHypothetical()) titles.push("completions filtered");
  const head = make("tr", "", null, make("thead", "", null, table));
  titles.forEach((title) => make("th", "", title, head));
  const body = make("tbody", "", null, table);
  const line = (title, changes) => {
    const row = make("tr", "", null, body);
    make("th", "", title, row);
    const share = (count, of) => `${count.toLocaleString("en")} of ${of.toLocaleString("en")}`;
    [
      share(changes.protected, changes.tokens), percent(changes.share_removed), share(changes.amplified, changes.tokens),
      percent(changes.share_added), `${percent(changes.share_tags)} of ${changes.conflicts.toLocaleString("en")}`,
      ...(isHypothetical() ? [] : [share(changes.filtered, changes.completions)]),
    ].forEach((text) => make("td", "", text, row));
  };
  line("this group", data.groups[state.group].changes);
  if (data.changes.groups > 1) line(`all ${data.changes.groups} groups`, data.changes);
}

function shared(row, place) {
  const partners = [];
  if (!row.ids) return partners;
  rows.forEach((other, index) => {
    if (sign(other) * sign(row) >= 0) return;
    const fromEnd = other.size - row.size + place;
    if (inPrefix(row, place) && other.ids[place] === row.ids[place]) partners.push([index, place]);
    else if (inSuffix(row, place) && other.ids[fromEnd] === row.ids[place]) partners.push([index, fromEnd]);
  });
  return partners;
}

function sentence(row, place, partners) {
  const fate = data.fates[row.fates[place]];
  if (isPlain() || !inRun(row, place) || ["filtered", "invalid"].includes(fate.name)) return `${fate.label}: ${fate.meaning}`;
  const where = inPrefix(row, place) ? "prefix" : "suffix";
  const others = partners.map(([index]) => `#${rows[index].sample}`).join(", ");
  const kind = sign(row) > 0 ? "bad" : "good";
  const weight = row.weights[place];
  const effect = {
    skipped: weight ? `its penalty is multiplied by ${number(weight)}` : "its penalty is skipped",
    amplified: `its upward push is multiplied by ${number(weight)}`,
    worsened: `its push is multiplied by ${number(weight)}; the push is downward because γ⟨H⟩ exceeds the advantage`,
  }[fate.name] || fate.label;
  if (!partners.length) return `Shared ${where}: a ${kind} completion has the same token in this position, so ${effect}.`;
  const subject = partners.length > 1 ? `completions ${others} have` : `completion ${others} has`;
  return `Shared ${where}: the ${kind} ${subject} the same token in this position, so ${effect}.`;
}

function showDetails(index, place) {
  const row = rows[index];
  for (const element of document.querySelectorAll(".current, .partner")) element.classList.remove("current", "partner");
  cells[index][place].classList.add("current");
  const partners = inRun(row, place) && !isPlain() ? shared(row, place) : [];
  for (const [other, there] of partners) cells[other][there]?.classList.add("partner");
  const box = at("details");
  box.replaceChildren();
  const line = make("div", "line", null, box);
  make("span", `token ${data.fates[row.fates[place]].name}`, data.texts[row.texts[place]], line);
  const figure = (label, value) => make("b", "", value, make("span", "figure", label + " ", line));
  figure("completion", `#${row.sample}`);
  figure("token", `${place + 1} of ${row.size}`);
  if (row.ids) figure("id", row.ids[place]);
  figure("entropy", row.entropies ? `${number(row.entropies[place], 3)} nats` : "not recorded");
  figure("log p", row.logps ? number(row.logps[place], 3) : "not recorded");
  if (isPlain()) figure("A", signed(row.advantages[place]));
  else figure("λ", number(row.weights[place]));
  if (!data.groups[state.group].is_plain) figure("Ã", signed(row.advantages[place]));
  make("div", "", sentence(row, place, partners), box);
}

function hint() {
  const line = make("div", "line", null, at("details"));
  at("details").replaceChildren(line);
  if (matchMedia("(hover: none) and (pointer: coarse)").matches) return make("span", "", "Tap a token for details.", line);
  make("span", "", "Hover over a token, or use the keys:", line);
  for (const [keys, what] of [["← → ↑ ↓", "tokens"], ["n p", "groups"], ["] [", "steps"], ["v", "layout"], ["g", "with GTPO"], ["e", "entropy"], ["t", "theme"]]) {
    if ((what === "entropy" && at("entropy").hidden) || (what === "with GTPO" && at("gtpo").hidden)) continue;
    const pair = make("span", "figure", null, line);
    for (const key of keys.split(" ")) make("kbd", "", key, pair), pair.append(" ");
    pair.append(what);
  }
}

function draw() {
  const group = data.groups[state.group];
  rows = group.completions.map((row, index) => ({ ...row, sample: index + 1, fates: isPlain() ? row.plain_fates : row.fates }));
  rows.sort((first, second) => (second.valid - first.valid) || (second.advantage - first.advantage));
  cells = rows.map(() => []);
  state.current = null;
  at("prompt").textContent = group.prompt;
  at("completions").replaceChildren();
  (state.view === "flow" ? drawFlow : drawAligned)(at("completions"));
  for (const view of ["aligned", "flow"]) at(`view-${view}`).setAttribute("aria-pressed", state.view === view);
  if (cells.some((row) => row.length)) cells.find((row) => row.length)[0].tabIndex = 0;
  const inStep = data.groups.map((_, index) => index).filter((index) => data.groups[index].step === group.step);
  at("step").value = group.step;
  at("group-number").textContent = `group ${inStep.indexOf(state.group) + 1} of ${inStep.length}`;
  at("reason").textContent = group.reason ? `recorded for: ${group.reason}` : "";
  at("gtpo").setAttribute("aria-pressed", state.withGtpo);
  at("group-back").disabled = state.group === 0;
  at("group-on").disabled = state.group === data.groups.length - 1;
  at("step-back").disabled = inStep[0] === 0;
  at("step-on").disabled = inStep.at(-1) === data.groups.length - 1;
  drawChanges();
  hint();
}

function goTo(index) {
  if (index < 0 || index >= data.groups.length || index === state.group) return;
  state.group = index;
  draw();
}
const goToStep = (step) => goTo(data.groups.findIndex((group) => group.step === step));
function moveStep(by) {
  const steps = [...new Set(data.groups.map((group) => group.step))];
  goToStep(steps[steps.indexOf(data.groups[state.group].step) + by]);
}
function setView(view) {
  state.view = view;
  draw();
}
function toggleGtpo() {
  if (at("gtpo").hidden) return;
  state.withGtpo = !state.withGtpo;
  draw();
}
function toggleEntropy() {
  at("entropy").setAttribute("aria-pressed", root.classList.toggle("entropies"));
}
function toggleTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

function focusToken(index, place) {
  if (!cells[index]?.length) return;
  for (const element of document.querySelectorAll('.token[tabindex="0"]')) element.tabIndex = -1;
  const element = cells[index][Math.max(0, Math.min(place, cells[index].length - 1))];
  element.tabIndex = 0;
  element.focus();
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function walk(key) {
  if (!state.current) return focusToken(cells.findIndex((row) => row.length), 0);
  const [index, place] = state.current;
  const size = rows[index].size;
  if (key === "ArrowLeft") return focusToken(index, place - 1);
  if (key === "ArrowRight") return focusToken(index, place + 1);
  if (key === "Home") return focusToken(index, 0);
  if (key === "End") return focusToken(index, size - 1);
  const next = index + (key === "ArrowUp" ? -1 : 1);
  if (!rows[next]) return;
  const nearEnd = size - place <= Math.max(...rows.map((row) => row.suffix));
  focusToken(next, nearEnd ? rows[next].size - size + place : place);
}

const KEYS = {
  n: () => goTo(state.group + 1), p: () => goTo(state.group - 1), "]": () => moveStep(1), "[": () => moveStep(-1),
  v: () => setView(state.view === "flow" ? "aligned" : "flow"), e: toggleEntropy, t: toggleTheme, g: toggleGtpo,
};

function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, #prompt")) return;
    if (/^Arrow/.test(event.key) || (state.current && /^(Home|End)$/.test(event.key))) {
      event.preventDefault();
      walk(event.key);
    } else if (KEYS[event.key]) KEYS[event.key]();
  });
  const onToken = (event) => {
    const element = event.target.closest("#completions .token");
    if (!element) return;
    const { row, place } = element.dataset;
    if (event.type !== "mouseover") state.current = [+row, +place];
    showDetails(+row, +place);
  };
  for (const kind of ["mouseover", "focusin", "click"]) at("completions").addEventListener(kind, onToken);
  at("group-back").onclick = KEYS.p;
  at("group-on").onclick = KEYS.n;
  at("step-back").onclick = KEYS["["];
  at("step-on").onclick = KEYS["]"];
  at("step").onchange = (event) => goToStep(+event.target.value);
  at("view-aligned").onclick = () => setView("aligned");
  at("view-flow").onclick = () => setView("flow");
  at("gtpo").onclick = toggleGtpo;
  at("entropy").onclick = toggleEntropy;
  at("theme").onclick = toggleTheme;
}

function start() {
  at("title").textContent = data.title;
  document.title = `Token view: ${data.title}`;
  if (data.rollouts) at("prompt-box").before(at("changes"));
  if (fragment.has("picture")) root.classList.add("picture");
  if (fragment.has("theme")) root.dataset.theme = fragment.get("theme");
  for (const note of data.notes) make("div", "note", note, at("notes"));
  for (const step of new Set(data.groups.map((group) => group.step))) make("option", "", step, at("step")).value = step;
  at("entropy").hidden = !data.groups.some((group) => group.completions.some((row) => row.entropies));
  at("gtpo").hidden = !data.groups.some((group) => group.is_plain);
  drawLegend();
  listen();
  draw();
}
start();
