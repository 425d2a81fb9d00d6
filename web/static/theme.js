// Runs before the first paint: a theme that was chosen earlier must not flash. No module on purpose: those are deferred.
const chosenTheme = localStorage.getItem("theme");
if (chosenTheme === "light" || chosenTheme === "dark") document.documentElement.dataset.theme = chosenTheme;
document.documentElement.classList.add("js");
