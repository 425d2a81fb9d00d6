// What every page gets on top of plain HTML: the theme switch, copying, "/" to search, local time in titles.
const root = document.documentElement;

function isDark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.firstChild.textContent = "copied";
    setTimeout(() => { button.firstChild.textContent = "copy"; }, 1500);
  });
}

for (const moment of document.querySelectorAll("time[datetime]")) {
  const local = new Date(moment.dateTime);
  if (moment.title && !Number.isNaN(local.valueOf())) moment.title += `\n${local.toLocaleString()} here`;
}

export function isTyping(event) {
  return event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || isTyping(event)) return;
  event.preventDefault();
  (document.querySelector("[data-find]") ?? document.querySelector("#search"))?.focus();
});
