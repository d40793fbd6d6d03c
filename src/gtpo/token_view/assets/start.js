/* What the reader does: choose a group, a channel and a layout, walk through tokens, follow links. */
function channelShown() {
  const isThere = state.channel && !CHANNELS[state.channel].lack(group);
  return isThere ? state.channel : defaultChannel(group);
}
const linkTo = (row, place) => `${fragmentOf(group)}-completion-${row.sample}-token-${place + 1}`;

function showDetails(index, place) {
  const row = rows[index];
  for (const element of document.querySelectorAll(".current, .partner")) element.classList.remove("current", "partner");
  cells[index][place].classList.add("current");
  const partners = inRun(row, place) && channelShown() === "gtpo" ? shared(row, place) : [];
  for (const [other, there] of partners) cells[other][there]?.classList.add("partner");
  const box = at("details");
  box.replaceChildren();
  const line = make("div", "line", null, box);
  make("span", `token ${classOf(row, place)}`, textAt(row, place), line);
  const figure = (label, value) => make("b", "", value, make("span", "figure", label + " ", line));
  figure("completion", `#${row.sample}`);
  figure("token", `${place + 1} of ${row.size}`);
  if (row.has_ids) figure("id", idAt(row, place));
  for (const name of CHANNEL_NAMES) {
    const channel = CHANNELS[name];
    if (!channel.value) figure(group.isGtpo ? "λ" : "λ with GTPO", number(row.weights[place]));
    else if (!channel.lack(group)) figure(channel.label(group), channel.text(channel.value(row, place)));
    else figure(channel.label(group), channel.lack(group)).parentNode.classList.add("lack");
  }
  const link = make("a", "", "link to this token", line);
  link.href = (data.index || "") + linkTo(row, place);
  make("div", "", sentence(row, place, partners), box);
}

/* Make a token the current one: marked, described and in the address. */
function choose(index, place) {
  state.current = [index, place];
  setLink(linkTo(rows[index], place));
  showDetails(index, place);
}

function hint() {
  const line = make("div", "line", null, at("details"));
  at("details").replaceChildren(line);
  if (innerWidth < 700 || matchMedia("(hover: none) and (pointer: coarse)").matches) return make("span", "", "Tap a token for details.", line);
  make("span", "", "Hover over a token, or use the keys:", line);
  const keys = [["← → ↑ ↓", "tokens"], ["n p", "groups"], ["] [", "steps"], ["1 – 5", "channels"], ["/", "search"], ["v", "layout"], ["t", "theme"]];
  for (const [names, what] of keys) {
    const pair = make("span", "figure", null, line);
    for (const key of names.split(" ")) make(key === "–" ? "span" : "kbd", "", key, pair), pair.append(" ");
    pair.append(what);
  }
}

function drawChannels() {
  const name = channelShown();
  const colors = colorsOf(name, group);
  classOf = colors.classOf;
  drawLegend(name, group, colors.legend);
  CHANNEL_NAMES.forEach((other, index) => {
    const button = at(`channel-${other}`);
    const lack = CHANNELS[other].lack(group);
    button.textContent = CHANNELS[other].label(group);
    button.title = lack ? `${CHANNELS[other].label(group)}: ${lack}` : `${CHANNELS[other].title(group)}  ${index + 1}`;
    button.disabled = Boolean(lack);
    button.setAttribute("aria-pressed", other === name);
  });
  const isGtpoShown = name === "gtpo";
  at("formula").hidden = !isGtpoShown;
  at("changes").hidden = !isGtpoShown;
  const lines = [["this group", group.changes]];
  if (data.changes?.groups > 1) lines.push([`all ${data.changes.groups} groups`, data.changes]);
  if (isGtpoShown) drawChanges(at("changes"), lines, !group.isGtpo);
}

function draw() {
  group = decodeGroup(state.group);
  rows = group.rows;
  cells = rows.map(() => []);
  drawUntil = [];
  ends.disconnect();
  state.current = null;
  const inStep = [...data.summaries.keys()].filter((index) => data.summaries[index].step === group.step);
  const { kinds } = data.summaries[state.group];
  at("prompt").textContent = group.prompt;
  at("prompt").classList.toggle("long", at("prompt").scrollHeight > at("prompt").clientHeight + 1);
  at("prompt").scrollTop = at("prompt").scrollHeight; // a long prompt ends with the question
  const facts = kinds.map((kind) => [kind, KINDS[kind]]);
  if (!data.rollouts) facts.unshift([`trained with ${group.method.toUpperCase()}`, ""]);
  if (group.reason) facts.unshift([`recorded for: ${group.reason}`, reasonTitle(group.reason)]);
  at("about").replaceChildren();
  facts.forEach(([fact, meaning], index) => {
    if (index) at("about").append(" · ");
    make("span", "", fact, at("about")).title = meaning;
  });
  drawChannels();
  at("completions").replaceChildren();
  (state.view === "flow" ? drawFlow : drawAligned)(at("completions"));
  for (const view of ["aligned", "flow"]) at(`view-${view}`).setAttribute("aria-pressed", state.view === view);
  const first = cells.find((row) => row.length);
  if (first) first[0].tabIndex = 0;
  at("step").value = group.step;
  at("group-number").textContent = `group ${inStep.indexOf(state.group) + 1} of ${inStep.length}`;
  at("group-back").disabled = state.group === 0 && !data.before;
  at("group-on").disabled = state.group === blocks.length - 1 && !data.after;
  at("step-back").disabled = inStep[0] === 0 && !data.before;
  at("step-on").disabled = inStep.at(-1) === blocks.length - 1 && !data.after;
  hint();
}

const setLink = (link) => {
  if (location.protocol !== "about:") history.replaceState(null, "", link); // a frame with srcdoc has no address
};
function goTo(index) {
  if (index < 0 && data.before) location.href = data.before;
  if (index >= blocks.length && data.after) location.href = data.after;
  if (index < 0 || index >= blocks.length || index === state.group) return;
  state.group = index;
  draw();
  setLink(fragmentOf(group));
}
function moveStep(by) {
  const steps = [...new Set(data.summaries.map((summary) => summary.step))];
  const step = steps.indexOf(group.step) + by;
  const isInPage = step >= 0 && step < steps.length;
  goTo(isInPage ? data.summaries.findIndex((summary) => summary.step === steps[step]) : by * Infinity);
}
function setView(view) {
  const { current } = state;
  state.view = view;
  draw();
  if (current) focusToken(...current);
}
function setChannel(name) {
  if (CHANNELS[name].lack(group)) return;
  state.channel = name;
  drawChannels();
  rows.forEach((row, index) => cells[index].forEach((element, place) => {
    const led = element.classList.contains("led") ? " led" : "";
    element.className = `token ${classOf(row, place)}${led}`;
  }));
  if (state.current) showDetails(...state.current);
  else hint();
}

function focusToken(index, place) {
  if (!rows[index]?.size) return;
  const there = Math.max(0, Math.min(place, rows[index].size - 1));
  if (!cells[index][there]) drawUntil[index](there);
  for (const element of document.querySelectorAll('.token[tabindex="0"]')) element.tabIndex = -1;
  const element = cells[index][there];
  element.tabIndex = 0;
  choose(index, there);
  keepClear();
  element.focus();
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
}
/* Scroll to tokens between the header and the line at the bottom, not behind them. */
function keepClear() {
  const header = document.querySelector("header");
  const isSticky = getComputedStyle(header).position === "sticky";
  root.style.scrollPadding = `${isSticky ? header.offsetHeight + 8 : 0}px 0 ${at("details").offsetHeight + 8}px`;
}

function walk(key) {
  if (!state.current) return focusToken(rows.findIndex((row) => row.size), 0);
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

/* Show the place that the address names. */
function follow() {
  const { place } = readFragment();
  if (!place) return;
  const index = findGroup(place);
  if (index !== state.group || !group) {
    state.group = index;
    draw();
  }
  openList(false);
  if (!place.token) return;
  const row = rows.findIndex((other) => other.sample === place.completion);
  focusToken(row, place.token - 1);
  cells[row]?.[place.token - 1]?.scrollIntoView({ block: "center", inline: "center" });
}

const searchTexts = [];
function searchText(index) {
  searchTexts[index] ??= (() => {
    const { prompt, completions } = JSON.parse(blocks[index].textContent);
    const texts = completions.map((row) => Array.from(indices(row.tokens, row.size), (token) => data.texts[token]).join(""));
    return [prompt, ...texts].join("\n").replaceAll("↵", " ").toLowerCase();
  })();
  return searchTexts[index];
}
function openList(isOpen) {
  at("groups-box").hidden = !isOpen;
  at("groups").setAttribute("aria-expanded", isOpen);
  if (isOpen) at("search").focus();
}

const KEYS = {
  n: () => goTo(state.group + 1), p: () => goTo(state.group - 1), "]": () => moveStep(1), "[": () => moveStep(-1),
  v: () => setView(state.view === "flow" ? "aligned" : "flow"), t: toggleTheme, "/": () => openList(true),
};
CHANNEL_NAMES.forEach((name, index) => (KEYS[index + 1] = () => setChannel(name)));

function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !at("groups-box").hidden) openList(false), at("groups").focus();
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, #prompt")) return;
    if (/^Arrow/.test(event.key) || (state.current && /^(Home|End)$/.test(event.key))) {
      event.preventDefault();
      walk(event.key);
    } else if (KEYS[event.key]) {
      event.preventDefault();
      KEYS[event.key]();
    }
  });
  const onToken = (event) => {
    const element = event.target.closest("#completions .token");
    if (!element) return;
    const [row, place] = [+element.dataset.row, +element.dataset.place];
    if (event.type === "click") return focusToken(row, place);
    (event.type === "focusin" ? choose : showDetails)(row, place);
  };
  for (const kind of ["mouseover", "focusin", "click"]) at("completions").addEventListener(kind, onToken);
  at("group-back").onclick = KEYS.p;
  at("group-on").onclick = KEYS.n;
  at("step-back").onclick = KEYS["["];
  at("step-on").onclick = KEYS["]"];
  at("step").onchange = (event) => goTo(findGroup({ step: +event.target.value }));
  for (const view of ["aligned", "flow"]) at(`view-${view}`).onclick = () => setView(view);
  for (const name of CHANNEL_NAMES) at(`channel-${name}`).onclick = () => setChannel(name);
  at("list").addEventListener("click", (event) => event.target.closest("a") && openList(false));
  at("groups").onclick = () => openList(at("groups-box").hidden);
  at("theme").onclick = toggleTheme;
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => rows.forEach((row, index) => drawUntil[index](row.size)));
}

function start() {
  if (options.has("picture")) root.classList.add("picture");
  if (options.has("theme")) root.dataset.theme = options.get("theme");
  drawNotes();
  if (!blocks.length) return make("div", "note", "This page has no group: its records are damaged.", at("notes"));
  if (data.index) at("all-groups").href = data.index;
  at("all-groups").hidden = !data.index;
  for (const step of new Set(data.summaries.map((summary) => summary.step))) make("option", "", step, at("step")).value = step;
  groupList({ textOf: searchText, linkOf: fragmentOf });
  listen();
  follow();
  if (!group) draw();
}
start();
