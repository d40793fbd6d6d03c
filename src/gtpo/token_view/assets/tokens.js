/* The tokens of one group: decoded when the group is shown, drawn in one of two layouts, walked through by keys. */
const options = readFragment().options;
const DRAWN_AT_ONCE = options.has("picture") ? Infinity : 300; // tokens of a completion; more are drawn when its end is in view
const blocks = document.querySelectorAll("script.group");
const state = {
  group: Math.max(0, Math.min(data.opened, blocks.length - 1)),
  view: options.get("view") || (innerWidth < 700 ? "flow" : "aligned"),
  channel: null, // null until a channel is chosen: the default of the group
  current: null, // [row, place] of the last focused token
};
let group = null; // the group that is shown
let rows = []; // its completions, the good ones first
let cells = []; // cells[row][place] is the element of that token
let drawUntil = []; // drawUntil[row](place) draws the tokens of a completion up to that place
let classOf = () => "";

const isLn2 = (threshold) => Math.abs(threshold - Math.LN2) < 1e-4;
const inPrefix = (row, place) => place < row.prefix;
const inSuffix = (row, place) => place >= row.size - row.suffix;
const inRun = (row, place) => inPrefix(row, place) || inSuffix(row, place);
const textAt = (row, place) => data.texts[row.tokens[place]];
const idAt = (row, place) => data.ids[row.tokens[place]];
const breaks = new Set(data.breaks);

function bytes(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
function indices(text, size) {
  const content = bytes(text);
  return content.length > 2 * size ? new Uint32Array(content.buffer) : new Uint16Array(content.buffer);
}
/* Numbers from half-precision floats. */
function halves(text) {
  return text && Float32Array.from(new Uint16Array(bytes(text).buffer), (bits) => {
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return NaN;
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    return bits >> 15 ? -size : size;
  });
}
function decodeGroup(index) {
  const decoded = JSON.parse(blocks[index].textContent);
  decoded.isGtpo = decoded.method === "gtpo" && !data.rollouts;
  decoded.rows = decoded.completions.map((row, number) => {
    const spread = (entry) => row.stretches.map((stretch) => Array(stretch[0]).fill(stretch[entry])).flat();
    return {
      ...row, sample: number + 1, tokens: indices(row.tokens, row.size), fates: spread(1), weights: spread(2),
      credits: spread(3), entropies: halves(row.entropies), logps: halves(row.logps),
    };
  });
  decoded.rows.sort((first, second) => (second.valid - first.valid) || (second.advantage - first.advantage));
  return decoded;
}

function tokenElement(index, place, parent) {
  const row = rows[index];
  const text = textAt(row, place);
  const element = make("span", "", text, parent);
  element.className = `token ${classOf(row, place)}${text[0] === " " ? " led" : ""}`;
  element.dataset.row = index;
  element.dataset.place = place;
  cells[index][place] = element;
}

function factsElement(row, parent) {
  const facts = make("div", "facts", null, parent);
  const who = make("div", "who", null, facts);
  make("span", "number", `#${row.sample}`, who);
  const direction = sign(row);
  if (!row.valid) make("span", "out", "excluded: no reward, or masked", who);
  else if (!row.kept && group.isGtpo) make("span", "out", "filtered", who);
  else make("span", ["bad", "out", "good"][direction + 1], ["▼ bad", "= neutral", "▲ good"][direction + 1], who);
  const values = make("div", "values", null, facts);
  const value = (label, text, place = values) => make("b", "", text, make("span", "", label + " ", place));
  value("advantage", signed(row.advantage), who);
  for (const [name, reward] of row.rewards) value(name, number(reward));
  if (group.isGtpo) value("push", signed(row.push));
  value("tokens", row.size);
  if (row.truncated) make("span", "", "truncated", values);
  if (row.entropy === null) return;
  const meter = make("div", "meter", null, facts);
  make("b", "", `⟨H⟩ ${row.entropy.toFixed(2)}`, meter).title = "mean entropy of the policy over the tokens, in nats";
  if (group.threshold === null) return;
  const track = make("span", "track", null, meter);
  make("span", "fill", null, track).style.setProperty("--share", `${Math.min(100, (50 * row.entropy) / group.threshold)}%`);
  make("span", "mark", null, track);
  const side = row.entropy > group.threshold ? "above" : "below";
  make("span", "", `${side} ${isLn2(group.threshold) ? "ln 2" : number(group.threshold)}`, meter);
}

function flowTokens(index, places, parent) {
  let drawn = 0;
  const end = make("span", "rest", "…", parent);
  const drawTo = (count) => {
    const part = document.createDocumentFragment();
    for (const place of places.slice(drawn, count)) {
      tokenElement(index, place, part);
      if (breaks.has(rows[index].tokens[place])) make("br", "", null, part);
    }
    end.before(part);
    drawn = Math.max(drawn, count);
    end.hidden = drawn >= places.length;
  };
  drawTo(DRAWN_AT_ONCE);
  drawUntil[index] = (place) => drawTo(places.findLastIndex((other) => other <= place) + DRAWN_AT_ONCE);
  end.drawMore = () => drawTo(drawn + DRAWN_AT_ONCE);
  if (!end.hidden) ends.observe(end);
  if (!rows[index].size) make("span", "empty", "empty completion", parent);
}
const ends = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    target.drawMore();
    ends.unobserve(target);
    if (!target.hidden) ends.observe(target); // reports again if it is still in view
  }
});

function drawFlow(parent) {
  const flow = make("div", "flow", null, parent);
  rows.forEach((row, index) => {
    const card = make("article", "", null, flow);
    factsElement(row, card);
    flowTokens(index, [...row.tokens.keys()], make("div", "box", null, card));
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
  if (!root.classList.contains("picture")) return;
  for (const box of table.querySelectorAll(".box")) box.classList.toggle("cut", box.scrollHeight > box.clientHeight);
}

/* The tokens of opposite completions that are the same as this one. */
function shared(row, place) {
  const partners = [];
  if (!row.has_ids) return partners;
  rows.forEach((other, index) => {
    if (sign(other) * sign(row) >= 0) return;
    const fromEnd = other.size - row.size + place;
    if (inPrefix(row, place) && idAt(other, place) === idAt(row, place)) partners.push([index, place]);
    else if (inSuffix(row, place) && idAt(other, fromEnd) === idAt(row, place)) partners.push([index, fromEnd]);
  });
  return partners;
}

function sentence(row, place, partners) {
  const fate = data.fates[row.fates[place]];
  if (channelShown() !== "gtpo") {
    const credit = (row.valid && row.credits[place]) || 0;
    const name = ["untrained", "invalid"].includes(fate.name) ? fate.name : ["down", "still", "up"][Math.sign(credit) + 1];
    const plain = data.fates.find((other) => other.name === name);
    return data.rollouts && name !== "untrained" ? "" : `${plain.label}: ${plain.meaning}`;
  }
  if (!inRun(row, place) || ["filtered", "invalid", "untrained"].includes(fate.name)) return `${fate.label}: ${fate.meaning}`;
  const where = inPrefix(row, place) ? "prefix" : "suffix";
  const others = partners.map(([index]) => `#${rows[index].sample}`).join(", ");
  const kind = sign(row) > 0 ? "bad" : "good";
  const weight = row.weights[place];
  const is = group.isGtpo ? "is" : "would be";
  const effect = {
    skipped: `its penalty ${is} ${weight ? `multiplied by ${number(weight)}` : "skipped"}`,
    amplified: `its upward push ${is} multiplied by ${number(weight)}`,
    worsened: `its push ${is} multiplied by ${number(weight)}; the push ${is} downward because γ⟨H⟩ exceeds the advantage`,
  }[fate.name] || fate.label;
  if (!partners.length) return `Shared ${where}: a ${kind} completion has the same token in this position, so ${effect}.`;
  const subject = partners.length > 1 ? `completions ${others} have` : `completion ${others} has`;
  return `Shared ${where}: the ${kind} ${subject} the same token in this position, so ${effect}.`;
}
