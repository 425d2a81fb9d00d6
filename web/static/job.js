// The page of a RayJob while it runs: the same address is read again, and what changed is put in place. Nothing else moves.
const EVERY_MS = 5000;

function isLive(page) {
  return page.querySelector("[data-live]") !== null;
}

// What the reader has opened stays open.
function keepOpen(old, fresh) {
  const before = old.querySelectorAll("details");
  fresh.querySelectorAll("details").forEach((each, place) => { if (before[place]) each.open = before[place].open; });
}

function isInUse(part) {
  const typed = part.contains(document.activeElement) && document.activeElement.closest("form");
  return Boolean(typed) || (String(getSelection()) !== "" && part.contains(getSelection().anchorNode));
}

function put(fresh) {
  for (const part of document.querySelectorAll("[data-live-part]")) {
    const next = fresh.querySelector(`[data-live-part="${part.dataset.livePart}"]`);
    if (!next || isInUse(part)) continue;
    keepOpen(part, next);
    if (!part.isEqualNode(next)) {
      const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      part.replaceWith(next);
      if (focused) next.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    }
  }
  document.title = fresh.title;
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.ok) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // the next look may reach it
    }
  }
  if (isLive(document)) setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
