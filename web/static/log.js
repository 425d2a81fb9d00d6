// The log page on top of plain HTML: ranges by shift-click, keys, local times, counting on, following what grows.
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
  for (let number = range.first; number <= range.last; number += 1) {
    const line = lineOf(number);
    if (!line) break;
    line.classList.add("is-selected");
    open(line);
  }
}

function open(line) {
  const fold = line.closest(".fold > details");
  if (fold) fold.open = true;
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
  const anchor = event.target.closest("li[id] > a.n");
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
    for (const name of ["from", "at", "seek"]) address.searchParams.delete(name);
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

// Times are written in UTC; here they become the reader's own, of the same width, with UTC in the title.
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
function localize(part) {
  for (const time of part.querySelectorAll("time[data-at]")) {
    const moment = new Date(time.dataset.at.replace(/(\.\d{3})\d*/, "$1"));
    if (!Number.isNaN(moment.valueOf())) time.textContent = clock.format(moment).replace(",", ".");
  }
}
localize(log);

function current() {
  const range = parseHash();
  if (range) return range.first;
  const top = document.querySelector(".tools").getBoundingClientRect().bottom;
  const visible = [...log.querySelectorAll("li[id]")].find((line) => line.getBoundingClientRect().top >= top);
  return Number(visible?.id.slice(1) ?? 1) - 1;
}

function goTo(line) {
  select(Number(line.id.slice(1)), Number(line.id.slice(1)), line.querySelector("a.n"));
  line.scrollIntoView({ block: "center" });
}

function step(by) {
  const range = parseHash();
  const target = lineOf(range ? range.first + by : current() + 1);
  if (!target) return;
  select(Number(target.id.slice(1)), Number(target.id.slice(1)), target.querySelector("a.n"));
  target.scrollIntoView({ block: "nearest" });
}

// The next error or match: in this window where it has one, else the server looks for it in the whole log.
function seek(what) {
  const link = document.querySelector(`[data-seek="${what}"]`);
  if (!link) return;
  const isBackward = what.startsWith("previous");
  const from = current();
  const lines = [...log.querySelectorAll(what.endsWith("error") ? "li[id].is-error" : "li[id].is-match")];
  const near = lines.filter((line) => (isBackward ? Number(line.id.slice(1)) < from : Number(line.id.slice(1)) > from));
  const target = isBackward ? near.at(-1) : near[0];
  if (target) {
    goTo(target);
    return;
  }
  const address = new URL(link.href);
  address.searchParams.set("line", Math.max(1, from));
  location.assign(address);
}
for (const link of document.querySelectorAll("[data-seek]")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    seek(link.dataset.seek);
  });
}

const links = { "<": '[rel="prev"]', ">": '[rel="next"]', w: '[data-key="w"]', t: '[data-key="t"]', f: '[data-key="f"]', g: '[data-key="g"]', G: '[data-key="G"]' };
const seeks = { n: "next-match", N: "previous-match", e: "next-error", E: "previous-error" };
const keys = document.querySelector("dialog.keys");
document.querySelector("[data-keys]").addEventListener("click", () => keys.showModal());

document.addEventListener("keydown", (event) => {
  if (isTyping(event)) return;
  if (event.key === "?") keys.showModal();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key in seeks) seek(seeks[event.key]);
  else if (event.key in links) {
    const link = document.querySelector(links[event.key]);
    if (link) link.click();
    else if (event.key === "g") scrollTo(0, 0);
    else if (event.key === "G") scrollTo(0, document.body.scrollHeight);
  }
});

// A long log is searched bit by bit: ask on until the counts are exact. Nothing changes its size.
async function countOn() {
  for (let strip = document.getElementById("strip"); strip?.dataset.more; strip = document.getElementById("strip")) {
    const answer = await fetch(strip.dataset.more);
    if (!answer.ok) return;
    const part = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("strip");
    strip.replaceWith(document.adoptNode(part));
    for (const [id, said] of [["errors-at", part.dataset.errors], ["matches-at", part.dataset.matches]]) {
      const place = document.getElementById(id);
      if (place) place.textContent = said;
    }
  }
  document.getElementById("go-on")?.remove();
}
countOn();

// What is written while the page is open: lines come as the server rendered them, and each only once.
function tail() {
  const list = log.querySelector(":scope > ol");
  const address = new URL(log.dataset.tail, location.href);
  address.searchParams.set("after", log.dataset.after);
  const source = new EventSource(address);
  const state = document.getElementById("live");
  const button = document.querySelector("[data-follow]");
  let isFollowing = true;
  const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 60;
  addEventListener("scroll", () => {
    isFollowing = atEnd();
    button.hidden = isFollowing;
  }, { passive: true });
  button.addEventListener("click", () => scrollTo(0, document.documentElement.scrollHeight));
  function append(content) {
    list.querySelector(":scope > .is-open")?.remove();
    localize(content);
    list.append(content);
    if (isFollowing) scrollTo(0, document.documentElement.scrollHeight);
  }
  const last = () => Number([...list.querySelectorAll("li[id]")].at(-1)?.id.slice(1) ?? 0);
  source.addEventListener("lines", (event) => {
    const part = document.createElement("template");
    part.innerHTML = event.data;
    const known = last();
    for (const line of [...part.content.querySelectorAll("li[id]")]) {
      if (Number(line.id.slice(1)) <= known) line.remove();
    }
    append(part.content);
  });
  // The last line has no end yet: it is shown as it stands, and replaced until it is whole.
  source.addEventListener("open-line", (event) => {
    if (!event.data) return;
    const part = document.createElement("template");
    part.innerHTML = event.data;
    const line = part.content.querySelector("li[id]");
    if (!line || Number(line.id.slice(1)) <= last()) return;
    line.removeAttribute("id");
    line.classList.add("is-open");
    append(part.content);
  });
  source.addEventListener("end", (event) => {
    source.close();
    state.textContent = event.data;
    document.getElementById("live-state").textContent = event.data;
  });
}
if (log.dataset.tail) {
  log.setAttribute("role", "log");
  log.setAttribute("aria-live", "polite");
  tail();
}
