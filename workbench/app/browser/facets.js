// Filters with counts: one group a column, one line a value. Values are text content, never markup.

export function render({ model, el }) {
  const open = new Map();
  const draw = () => {
    const focus = el.getRootNode().activeElement?.dataset?.key;
    el.querySelector(".facets")?.remove();
    const all = document.createElement("div");
    all.className = "facets";
    for (const { name, label, options, shown } of model.groups) {
      const chosen = new Set(model.chosen[name] ?? []);
      const group = document.createElement("details");
      group.open = open.get(name) ?? (shown || chosen.size > 0);
      group.addEventListener("toggle", () => open.set(name, group.open));
      const title = document.createElement("summary");
      title.textContent = label + (chosen.size ? ` (${chosen.size})` : "");
      group.append(title);
      for (const [value, text, count] of options) {
        const line = document.createElement("button");
        line.type = "button";
        line.dataset.key = JSON.stringify([name, value]);
        line.setAttribute("aria-pressed", String(chosen.has(value)));
        if (!count && !chosen.has(value)) line.classList.add("zero");
        const what = document.createElement("span"), number = document.createElement("span");
        what.textContent = text;
        what.title = text;
        number.textContent = count.toLocaleString("en");
        number.className = "count";
        line.append(what, number);
        line.addEventListener("click", () => {
          const next = new Set(chosen);
          if (next.has(value)) next.delete(value); else next.add(value);
          const all = { ...model.chosen, [name]: [...next] };
          if (!next.size) delete all[name];
          model.chosen = all;
        });
        group.append(line);
      }
      all.append(group);
    }
    el.append(all);
    if (focus) [...el.querySelectorAll("button")].find((each) => each.dataset.key === focus)?.focus();
  };
  model.on("groups", draw);
  draw();
}
