// Keeps the address of the page in step with the state. Opening another view adds to the browser's history, anything
// else replaces the entry, so that Back returns to the table it came from instead of undoing every step.

export function render({ model, el }) {
  el.style.display = "none";
  const write = () => {
    const [view, query] = model.state, wanted = location.pathname + query;
    if (wanted === location.pathname + location.search) return;
    if (view !== history.state?.view) history.pushState({ view }, "", wanted);
    else history.replaceState({ view }, "", wanted);
  };
  const back = () => model.send_msg({ query: location.search });
  history.replaceState({ view: model.state[0] }, "", location.href);
  model.on("state", write);
  model.on("reload", () => { write(); location.reload(); });
  window.addEventListener("popstate", back);
  // A server that was started without the routes of `files` answers 404: sound then comes through the websocket.
  if (model.probe) fetch(model.probe, { method: "HEAD" }).then((answer) => answer.ok || model.send_msg({ unserved: true }), () => null);
  model.on("remove", () => window.removeEventListener("popstate", back));
}
