// Keys of the whole page, and what a screen reader needs of it. Typing into a field is left alone; space is handled
// here, since playing must not wait.

const typing = (event) => {
  const target = event.composedPath()[0];
  const tag = (target?.tagName ?? "").toLowerCase();
  if (tag === "input") return !["checkbox", "radio", "button", "range"].includes(target.type);
  return tag === "textarea" || tag === "select" || target?.isContentEditable === true;
};
const ACTS = "button:focus-visible, summary, a, input, [role=option]:focus-visible";

const searchField = (root) => {
  for (const each of root.querySelectorAll("*")) {
    if (each.matches("input[placeholder^=search]") && each.getClientRects().length) return each;
    const inside = each.shadowRoot && searchField(each.shadowRoot);
    if (inside) return inside;
  }
  return null;
};

// A range's two handles have no name of their own: they get the slider's title.
const nameHandles = (root) => {
  for (const each of root.querySelectorAll("*")) {
    if (!each.shadowRoot) continue;
    const title = each.shadowRoot.querySelector(".bk-slider-title")?.textContent.split(":")[0].trim();
    const handles = each.shadowRoot.querySelectorAll(".noUi-handle:not([aria-label])");
    handles.forEach((handle, at) => handle.setAttribute("aria-label", `${title || "range"}, ${at ? "to" : "from"}`));
    nameHandles(each.shadowRoot);
  }
};

export function render({ model, el }) {
  el.style.display = "none";
  document.querySelector("[data-root-id]")?.setAttribute("role", "main");
  const naming = setInterval(() => nameHandles(document), 1000); // widgets come as views are opened
  // What the mouse clicked keeps the focus, and the next key makes it look as if the keyboard had put it there:
  // Enter and space then belong to the page, until Tab is pressed.
  let clicked = null;
  const click = (event) => { clicked = event.detail > 0 ? event.composedPath()[0].closest?.("button, summary, a") : clicked; };
  const onButton = (event) => {
    const target = event.composedPath()[0];
    return target !== clicked && (target?.matches?.(ACTS) ?? false);
  };
  const press = (event) => {
    if (event.key === "Tab") clicked = null;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing(event)) {
      if (event.key === "Escape") event.composedPath()[0].blur();
      return;
    }
    if (event.key === " ") {
      if (onButton(event)) return;
      event.preventDefault();
      window.dispatchEvent(new CustomEvent("wb-toggle"));
      return;
    }
    if (event.key === "Enter" && onButton(event)) return;
    if (event.key === "/") {
      event.preventDefault();
      const field = searchField(document);
      if (field) field.focus(); else model.send_msg({ key: "/" });
      return;
    }
    if (!model.keys.includes(event.key)) return;
    event.preventDefault();
    model.send_msg({ key: event.key });
  };
  document.addEventListener("click", click, true);
  document.addEventListener("keydown", press);
  model.on("remove", () => {
    clearInterval(naming);
    document.removeEventListener("click", click, true);
    document.removeEventListener("keydown", press);
  });
}
