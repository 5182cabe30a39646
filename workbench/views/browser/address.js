// Keeps the address of the page in step with the state. Opening another view adds to the browser's history, anything
// else replaces the entry, so that Back returns to the table it came from instead of undoing every step.

export function render({ model, el }) {
  el.style.display = "none";
  const write = () => {
    const wanted = location.pathname + model.query;
    if (wanted === location.pathname + location.search) return;
    if (model.view !== (history.state?.view ?? model.view)) history.pushState({ view: model.view }, "", wanted);
    else history.replaceState({ view: model.view }, "", wanted);
  };
  const back = () => model.send_msg({ query: location.search });
  history.replaceState({ view: model.view }, "", location.href);
  model.on("query", write);
  model.on("reload", () => { write(); location.reload(); });
  window.addEventListener("popstate", back);
  model.on("remove", () => window.removeEventListener("popstate", back));
}
