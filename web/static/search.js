// The rest of a search, as it is found. Cancel, or leaving the page, closes the connection, and the search ends.
const found = document.getElementById("found");

function goOn(address) {
  const source = new EventSource(address);
  const progress = document.getElementById("progress");
  const link = document.getElementById("go-on");
  const cancel = document.getElementById("cancel");
  link.hidden = true;
  cancel.hidden = false;
  const stop = (said) => {
    source.close();
    progress.textContent = said;
    cancel.hidden = true;
  };
  source.addEventListener("hits", (event) => {
    const part = document.createElement("template");
    part.innerHTML = event.data;
    found.append(part.content);
  });
  source.addEventListener("progress", (event) => { progress.textContent = event.data; });
  source.addEventListener("go-on", (event) => {
    if (!event.data) return;
    link.href = event.data;
    link.hidden = false;
  });
  source.addEventListener("end", (event) => stop(event.data));
  source.addEventListener("error", () => stop(`${progress.textContent} The connection was lost.`));
  cancel.addEventListener("click", () => {
    stop(`${progress.textContent} Cancelled.`);
    link.hidden = false;
  });
}

if (found?.dataset.stream) goOn(found.dataset.stream);
