/* Channels: what the color of a token shows. Each has a value per token, the class of a value, and a legend. */
const TIED = 1e-5;
const sign = (row) => (!row.valid || Math.abs(row.advantage) <= TIED ? 0 : Math.sign(row.advantage));
const isKnown = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/* The class of a value above and below zero; `largest` has the strongest color. */
function signedClass(value, largest) {
  const level = largest ? Math.min(4, Math.ceil((4 * Math.abs(value)) / largest - 1e-9)) : 0;
  return level && Math.abs(value) > TIED * largest ? `${value > 0 ? "plus" : "minus"}-${level}` : "zero";
}
function signedLegend(largest) {
  if (!largest) return [["zero", "0"]];
  return [-4, -3, -2, -1, 0, 1, 2, 3, 4].map((level) => [signedClass(level, 4), signed((level * largest) / 4)]);
}
/* The class of a value between limits, which are in the order of the colors. */
function heatClass(value, limits) {
  const level = limits.findIndex((limit) => (limit < 0 ? value >= limit : value <= limit));
  return `heat-${level < 0 ? limits.length : level}`;
}
function heatLegend(limits, explain) {
  const [within, beyond] = limits[0] < 0 ? ["≥", "<"] : ["≤", ">"];
  const items = limits.map((limit, level) => [`heat-${level}`, `${within} ${number(limit)}`, explain(limit, within)]);
  return [...items, [`heat-${limits.length}`, `${beyond} ${number(limits.at(-1))}`, explain(limits.at(-1), beyond)]];
}
const LOGP_LIMITS = [-0.1, -0.7, -2.3, -4.6, -6.9];
const ENTROPY_LIMITS = [0.1, 0.3, 0.7, 1.5, 3];

function largestOf(rows, channel) {
  let largest = 0;
  for (const row of rows) for (const value of channel.distinct(row)) largest = Math.max(largest, Math.abs(value || 0));
  return largest;
}

/* `lack` is why a group does not have the channel, or an empty text. */
const CHANNELS = {
  advantage: {
    label: () => "advantage",
    title: () => "A, the advantage of the completion",
    lack: () => "",
    value: (row) => (row.valid ? row.advantage : null),
    distinct: (row) => [row.valid ? row.advantage : null],
    text: signed,
  },
  credit: {
    label: () => "credit",
    title: () => "the advantage of each token that the trainer used",
    lack: () => (data.rollouts ? "these files do not have it" : ""),
    value: (row, place) => row.credits[place],
    distinct: (row) => row.stretches.map((stretch) => stretch[3]),
    text: signed,
  },
  logp: {
    label: () => "log p",
    title: () => "the log-probability of the token, in nats",
    lack: (group) => (group.rows.some((row) => row.logps) ? "" : "not recorded"),
    value: (row, place) => row.logps?.[place],
    text: (value) => number(value, 3),
    limits: LOGP_LIMITS,
    explain: (limit, relation) => `p ${relation} ${+Math.exp(limit).toPrecision(1)}`,
  },
  entropy: {
    label: () => "entropy",
    title: () => "the entropy of the policy before the token, in nats",
    lack: (group) => (group.rows.some((row) => row.entropies) ? "" : "not recorded"),
    value: (row, place) => row.entropies?.[place],
    text: (value) => `${number(value, 3)}${isKnown(value) ? " nats" : ""}`,
    limits: ENTROPY_LIMITS,
    explain: () => "",
  },
  gtpo: {
    label: (group) => (group.isGtpo ? "GTPO" : "with GTPO"),
    title: (group) => (group.isGtpo ? "what GTPO changed" : "what GTPO would change"),
    lack: () => "",
    classOf: (row, place) => data.fates[row.fates[place]].name,
  },
};
const CHANNEL_NAMES = Object.keys(CHANNELS);

function defaultChannel(group) {
  if (group.isGtpo) return "gtpo";
  return group.method === "grpo" || data.rollouts ? "advantage" : "credit";
}

/* A function from a token to the class of its color, and the legend as [class, text, explanation]. */
function colorsOf(name, group) {
  const channel = CHANNELS[name];
  if (channel.classOf) return { classOf: channel.classOf, legend: fateLegend(group) };
  const largest = channel.limits ? 0 : largestOf(group.rows, channel);
  const classOf = (row, place) => {
    const value = channel.value(row, place);
    const trained = data.fates[row.fates[place]].name === "untrained" ? " untrained" : "";
    if (!isKnown(value)) return "unknown" + trained;
    return (channel.limits ? heatClass(value, channel.limits) : signedClass(value, largest)) + trained;
  };
  const legend = channel.limits ? heatLegend(channel.limits, channel.explain) : signedLegend(largest);
  const untrained = data.fates.findIndex((fate) => fate.name === "untrained");
  if (group.rows.some((row) => row.stretches.some((stretch) => stretch[1] === untrained))) {
    legend.push(["untrained", "not trained", data.fates[untrained].meaning]);
  }
  if (group.rows.some((row) => row.size && !isKnown(channel.value(row, 0)))) legend.push(["unknown", "unknown", ""]);
  return { classOf, legend };
}

function fateLegend(group) {
  const present = new Set(group.rows.flatMap((row) => row.stretches.map((stretch) => stretch[1])));
  const isShown = (fate, index) => present.has(index) || !(fate.rare || (fate.name === "filtered" && !group.isGtpo));
  return data.fates.filter(isShown).map((fate) => [fate.name, fate.label, fate.meaning]);
}

function drawLegend(name, group, legend) {
  const list = at("legend");
  list.replaceChildren();
  const channel = CHANNELS[name];
  make("li", "channel-title", channel.title(group), list);
  for (const [names, text, why] of legend) {
    const item = make("li", "", null, list);
    make("span", `token ${names}`, text, item);
    if (why) make("span", "why", why, item);
  }
  for (const other of CHANNEL_NAMES) {
    const lack = CHANNELS[other].lack(group);
    if (lack) make("li", "lack", `${CHANNELS[other].label(group)}: ${lack}`, list);
  }
}
