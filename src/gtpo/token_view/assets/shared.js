"use strict";
/* Shared by the pages of tokens and the index: elements, numbers, links, the theme and the table of changes. */
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
const root = document.documentElement;

function make(tag, names, text, parent) {
  const element = document.createElement(tag);
  if (names) element.className = names;
  if (text !== undefined && text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function number(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const text = size && size < 0.005 ? size.toPrecision(2) : String(+size.toFixed(size < 100 ? digits : 1));
  return (value < 0 ? "−" : "") + text;
}
/* With two decimals, unless the value is an integer or large. */
function signed(value) {
  const text = number(value);
  return (value > 0 ? "+" : "") + (/\.\d$/.test(text) && Math.abs(value) < 100 ? `${text}0` : text);
}
const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);

/* A link to a place: #step-120, #step-120-group-2 or #step-120-group-2-completion-3-token-45. Options such as view=flow
   follow after &. */
const PLACE = /^step-(-?\d{1,15})(?:-group-(\d{1,9})(?:-completion-(\d{1,9})-token-(\d{1,9}))?)?$/;
function readFragment() {
  const parts = location.hash.slice(1).split("&");
  const match = PLACE.exec(parts[0]);
  const [step, group, completion, token] = match ? match.slice(1).map((text) => text && +text) : [];
  return { place: match && { step, group, completion, token }, options: new URLSearchParams(parts.join("&")) };
}
const fragmentOf = (group) => `#step-${group.step}-group-${group.number}`;

/* The index of the group at a place, otherwise of the first group of the nearest step before it, otherwise of the first
   group of all. */
function findGroup({ step, group }) {
  const exact = data.summaries.findIndex((other) => other.step === step && other.number === (group || 1));
  if (exact >= 0) return exact;
  const nearest = data.summaries.findLast((other) => other.step <= step) || data.summaries[0];
  return data.summaries.findIndex((other) => other.step === nearest?.step);
}

function toggleTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

/* `lines` are pairs of a title and the changes of a group or of all groups. */
function drawChanges(box, lines, isHypothetical) {
  box.replaceChildren();
  const table = make("table", "counts", null, box);
  make("caption", "", isHypothetical ? "What would GTPO have changed?" : "What did GTPO change?", table);
  const titles = ["", "tokens protected", "downward push removed", "tokens amplified", "upward push added", "conflict tokens in format tags"];
  if (!isHypothetical) titles.push("completions filtered");
  const head = make("tr", "", null, make("thead", "", null, table));
  for (const title of titles) make("th", "", title, head);
  const body = make("tbody", "", null, table);
  const share = (count, of) => `${count.toLocaleString("en")} of ${of.toLocaleString("en")}`;
  for (const [title, changes] of lines) {
    const row = make("tr", "", null, body);
    make("th", "", title, row);
    const texts = [
      share(changes.protected, changes.tokens), percent(changes.share_removed), share(changes.amplified, changes.tokens),
      percent(changes.share_added), `${percent(changes.share_tags)} of ${changes.conflicts.toLocaleString("en")}`,
      ...(isHypothetical ? [] : [share(changes.filtered, changes.completions)]),
    ];
    for (const text of texts) make("td", "", text, row);
  }
}

function drawNotes() {
  for (const note of data.notes) make("div", "note", note, at("notes"));
}
