/* The list of groups: search, sort and filter. A page passes the text of a group, in which the search looks, and the link
   of a group. */
const SHOWN_AT_ONCE = 200;
const REASONS = {
  spread: "the largest spread of rewards in its step",
  truncated: "the most truncated completions in its step",
  identical: "the most identical completions in its step",
  conflict: "the most conflict tokens in its step",
  sample: "one of the other groups of its step",
  evaluation: "an evaluation sampled it: it was not trained on",
};
const reasonTitle = (reason) => (Object.hasOwn(REASONS, reason) ? REASONS[reason] : "why this group of the step was recorded");
const KINDS = { tied: "no completion has an advantage", mixed: "good and bad completions", truncated: "a completion was truncated", repeated: "two completions are identical" };
const SORTS = {
  "step": (group) => group.step,
  "reward spread, largest first": (group) => -(group.spread ?? -Infinity),
  "mean reward, lowest first": (group) => group.mean_reward ?? Infinity,
  "mean reward, highest first": (group) => -(group.mean_reward ?? -Infinity),
  "mean length, longest first": (group) => -group.mean_length,
};

function groupList({ textOf, linkOf }) {
  const chosen = new Set(); // kinds
  let shown = SHOWN_AT_ONCE;

  function found() {
    const shared = (data.shared_start || "").toLowerCase(); // left out of the prompts of an index
    const words = at("search").value.toLowerCase().split(/\s+/).filter((word) => !shared.includes(word));
    const fits = (group, index) => [...chosen].every((kind) => group.kinds.includes(kind)) &&
      (!words.length || words.every((word) => textOf(index).includes(word)));
    const key = SORTS[at("sort").value];
    const indices = [...data.summaries.keys()].filter((index) => fits(data.summaries[index], index));
    return indices.sort((first, second) => key(data.summaries[first]) - key(data.summaries[second]) || first - second);
  }

  function item(index) {
    const group = data.summaries[index];
    const link = make("a", "group-link", null, make("li", "", null, at("list")));
    link.href = linkOf(group);
    const where = make("span", "where", `step ${group.step}`, link);
    if (data.summaries.some((other) => other.step === group.step && other.number !== group.number)) where.append(`, group ${group.number}`);
    make("span", "group-prompt", group.prompt, link);
    const figures = make("span", "figures", null, link);
    const figure = (label, value) => make("b", "", value, make("span", "figure", `${label} `, figures));
    figure("mean reward", number(group.mean_reward));
    figure("spread", number(group.spread));
    figure("tokens", group.shortest === group.longest ? group.longest : `${group.shortest}–${group.longest}`);
    figure("completions", group.num_completions);
    if (group.reason) figure("recorded for", group.reason).parentNode.title = reasonTitle(group.reason);
    for (const kind of group.kinds) make("span", `kind ${kind}`, kind, figures).title = KINDS[kind];
  }

  function draw() {
    const indices = found();
    at("list").replaceChildren();
    indices.slice(0, shown).forEach(item);
    at("num-found").textContent = `${indices.length} of ${data.summaries.length} groups`;
    at("more").hidden = indices.length <= shown;
    at("more").textContent = `show ${Math.min(SHOWN_AT_ONCE, indices.length - shown)} more`;
  }
  function redraw() {
    shown = SHOWN_AT_ONCE;
    draw();
  }

  for (const name of Object.keys(SORTS)) make("option", "", name, at("sort")).value = name;
  for (const [kind, meaning] of Object.entries(KINDS)) {
    if (data.rollouts && kind === "truncated") continue; // files of completions do not have it
    const count = data.summaries.filter((group) => group.kinds.includes(kind)).length;
    const button = make("button", "", `${kind} ${count}`, at("kinds"));
    button.type = "button";
    button.title = meaning;
    button.disabled = !count;
    button.setAttribute("aria-pressed", false);
    button.onclick = () => {
      if (!chosen.delete(kind)) chosen.add(kind);
      button.setAttribute("aria-pressed", chosen.has(kind));
      redraw();
    };
  }
  at("search").oninput = redraw;
  at("sort").onchange = redraw;
  at("more").onclick = () => {
    const before = shown;
    shown += SHOWN_AT_ONCE;
    draw();
    at("list").children[before].firstChild.focus();
  };
  at("list").addEventListener("keydown", (event) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    event.target.closest("li")[next]?.firstChild.focus();
  });
  draw();
}
