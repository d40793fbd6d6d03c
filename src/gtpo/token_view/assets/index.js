/* The index of a recording that has several pages. A link to a place leads on to the page that has it. */
const pageOf = (group) => group.page + fragmentOf(group);

function follow() {
  const { place } = readFragment();
  if (!place || !data.summaries.length) return;
  const group = data.summaries[findGroup(place)];
  const isExact = group.step === place.step && group.number === place.group;
  location.replace(pageOf(group) + (isExact && place.token ? `-completion-${place.completion}-token-${place.token}` : ""));
}

const texts = data.summaries.map((group) => group.prompt.toLowerCase());
drawNotes();
groupList({ textOf: (index) => texts[index], linkOf: pageOf });
if (!data.rollouts && data.summaries.some((group) => group.method === "gtpo")) {
  at("changes").hidden = false;
  drawChanges(at("changes"), [[`all ${data.changes.groups} groups`, data.changes]], false);
}
at("theme").onclick = toggleTheme;
if (readFragment().options.has("theme")) root.dataset.theme = readFragment().options.get("theme");
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select")) return;
  if (event.key === "t") toggleTheme();
  if (event.key === "/") {
    event.preventDefault();
    at("search").focus();
  }
});
addEventListener("hashchange", follow);
follow();
