// Thresholds as sliders with a number beside each. While an answer is awaited only the newest values are kept,
// so dragging never queues work: the server works on one setting at a time and the last one always arrives.

export function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "sliders";
  el.append(box);
  let waiting = false, next = null, asked = 0, began = 0;
  const lines = new Map();

  const send = () => {
    if (waiting || next === null) return;
    waiting = true;
    asked += 1;
    began = performance.now();
    model.send_msg({ values: next, asked });
    next = null;
  };
  const current = () => Object.fromEntries([...lines].map(([name, line]) => [name, Number(line.range.value)]));
  const decimals = (step) => (String(step).split(".")[1] ?? "").length;

  const draw = () => {
    box.replaceChildren();
    lines.clear();
    for (const { name, heading, about, value, low, high, step, usual, unit, ticks } of model.sliders) {
      const line = document.createElement("div");
      line.className = "line";
      const label = document.createElement("label"), range = document.createElement("input"),
        number = document.createElement("input"), was = document.createElement("button"), list = document.createElement("datalist");
      label.textContent = heading;
      label.title = `${name}${about ? `: ${about}` : ""}`;
      label.htmlFor = range.id = `slider-${name}`;
      range.type = "range";
      range.setAttribute("aria-label", `${heading} (${name})`);
      number.type = "number";
      for (const each of [range, number]) { each.min = low; each.max = high; each.step = step; each.value = value; }
      number.step = "any";
      number.setAttribute("aria-label", `${heading} (${name})${unit ? ` in ${unit}` : ""}`);
      list.id = `ticks-${name}`;
      for (const tick of ticks) list.append(new Option(String(tick), tick));
      range.setAttribute("list", list.id);
      was.type = "button";
      was.className = "was";
      was.title = `back to what the runs were scored with, ${usual}${unit ? ` ${unit}` : ""}`;
      was.textContent = `${usual}${unit ? ` ${unit}` : ""}`;
      const paint = () => { line.classList.toggle("moved", Math.abs(Number(range.value) - usual) > 1e-9); };
      const take = (from) => {
        const value = Math.min(Math.max(Number(from.value), low), high);
        if (from.value === "" || !Number.isFinite(value)) return;
        range.value = value;
        if (from !== number) number.value = Number(range.value).toFixed(decimals(step));
        paint();
        next = current();
        send();
      };
      range.addEventListener("input", () => take(range));
      number.addEventListener("change", () => take(number));
      // Arrow keys belong to the slider here, not to the page's list of rows.
      for (const each of [range, number]) each.addEventListener("keydown", (event) => { if (event.key !== "Escape") event.stopPropagation(); });
      was.addEventListener("click", () => { range.value = usual; take(range); });
      line.append(label, range, number, was, list);
      box.append(line);
      lines.set(name, { range, number, paint });
      paint();
    }
  };
  const refresh = () => {
    // Values that came from elsewhere (a link, reset); what a hand is just moving is left alone.
    const same = model.sliders.length === lines.size && model.sliders.every(({ name }) => lines.has(name));
    if (!same) { draw(); return; }
    if (waiting || next) return;
    for (const { name, value, step } of model.sliders) {
      const line = lines.get(name);
      line.range.value = value;
      line.number.value = Number(value).toFixed(decimals(step));
      line.paint();
    }
  };
  model.on("sliders", refresh);
  model.on("answered", () => {
    // Told after the next frame, when the answer has been painted: what the benchmark reads.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      el.dataset.took = (performance.now() - began).toFixed(1);
      el.dataset.answered = String(model.answered);
    }));
    waiting = false;
    send();
  });
  draw();
}
