// A link that can be copied: the page's own address with another query.

export function render({ model, el }) {
  const field = document.createElement("input");
  field.type = "text"; field.readOnly = true;
  field.setAttribute("aria-label", "link to this view");
  field.addEventListener("focus", () => field.select());
  const copy = document.createElement("button");
  copy.type = "button"; copy.textContent = "copy";
  copy.addEventListener("click", async () => {
    // The clipboard is refused on plain http from another host; the selected text can still be copied by hand.
    try { await navigator.clipboard.writeText(field.value); copy.textContent = "copied"; }
    catch { field.focus(); field.select(); copy.textContent = document.execCommand?.("copy") ? "copied" : "press Ctrl+C"; }
    setTimeout(() => { copy.textContent = "copy"; }, 1500);
  });
  el.append(field, copy);
  const draw = () => { field.value = `${location.origin}${location.pathname}${model.query}`; };
  model.on("query", draw);
  draw();
}
