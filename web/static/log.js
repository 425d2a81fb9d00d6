// The log page on top of plain HTML: ranges by shift-click, keys, and anchors that lie outside the loaded window.
import { isTyping } from "./app.js";

const log = document.querySelector(".log");
const lineOf = (number) => document.getElementById(`L${number}`);

function parseHash() {
  const match = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  if (!match) return null;
  const [one, other] = [Number(match[1]), Number(match[2] ?? match[1])];
  return { first: Math.min(one, other), last: Math.max(one, other) };
}

function show(range) {
  for (const line of log.querySelectorAll(".is-selected")) line.classList.remove("is-selected");
  for (let number = range.first; number <= range.last; number += 1) lineOf(number)?.classList.add("is-selected");
}

function select(first, last, anchor) {
  const range = { first: Math.min(first, last), last: Math.max(first, last) };
  const hash = range.first === range.last ? `#L${range.first}` : `#L${range.first}-L${range.last}`;
  const address = new URL(location.href);
  address.search = new URL(anchor.href).search;
  const query = address.searchParams;
  query.set("line", range.first);
  history.replaceState(null, "", `${address.pathname}?${query}${hash}`);
  for (const line of log.querySelectorAll(".is-focus")) line.classList.remove("is-focus");
  show(range);
}

log.addEventListener("click", (event) => {
  const anchor = event.target.closest("a.n");
  if (!anchor || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const number = Number(anchor.textContent);
  const from = event.shiftKey ? (parseHash()?.first ?? number) : number;
  select(from, number, anchor);
});

// An address like …#L812 that was shared without ?line= : ask the server for the part that holds the line.
function follow() {
  const range = parseHash();
  if (!range) return;
  if (!lineOf(range.first)) {
    const address = new URL(location.href);
    if (address.searchParams.get("line") === String(range.first)) return;
    for (const name of ["from", "at"]) address.searchParams.delete(name);
    address.searchParams.set("line", range.first);
    location.replace(address);
    return;
  }
  show(range);
  lineOf(range.first).scrollIntoView({ block: "center" });
}
addEventListener("hashchange", follow);
follow();
if (!location.hash && !location.search) scrollTo(0, log.offsetTop + log.offsetHeight);

function step(by) {
  const range = parseHash();
  const visible = [...log.querySelectorAll("li[id]")].find((line) => line.getBoundingClientRect().top >= 0);
  const current = range ? range.first : Number(visible?.id.slice(1) ?? 1) - by;
  const target = lineOf(current + by);
  if (!target) return;
  select(current + by, current + by, target.querySelector("a.n"));
  target.scrollIntoView({ block: "nearest" });
}

const links = { n: '[rel="next"]', p: '[rel="prev"]', w: '[data-key="w"]', t: '[data-key="t"]', g: '[data-key="g"]', G: '[data-key="G"]' };
const keys = document.querySelector("dialog.keys");
document.querySelector("[data-keys]").addEventListener("click", () => keys.showModal());

document.addEventListener("keydown", (event) => {
  if (isTyping(event)) return;
  if (event.key === "?") keys.showModal();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key in links) {
    const link = document.querySelector(links[event.key]);
    if (link) link.click();
    else if (event.key === "g") scrollTo(0, 0);
    else if (event.key === "G") scrollTo(0, document.body.scrollHeight);
  }
});
