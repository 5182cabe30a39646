// Which runs stand side by side, in order: the first is the baseline. Names are text content, never markup.

export function render({ model, el }) {
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "runs side by side, the baseline first");
  el.append(bar);

  const draw = () => {
    const focus = el.getRootNode().activeElement?.dataset?.run;
    bar.replaceChildren();
    const add = (name, place) => {
      const made = document.createElement("button");
      made.type = "button";
      made.dataset.run = name;
      made.setAttribute("aria-pressed", String(place >= 0));
      const on = place >= 0;
      if (on) made.style.setProperty("--run", model.colours[place % model.colours.length] ?? "");
      const dot = document.createElement("span");
      dot.className = on ? "dot on" : "dot";
      const text = document.createElement("span");
      text.className = "name";
      text.textContent = name;
      made.append(dot, text);
      if (place === 0 && model.baseline) {
        const word = document.createElement("span");
        word.className = "word";
        word.textContent = "baseline";
        made.append(word);
      }
      made.title = on ? `${name}: leave out` : model.chosen.length >= model.most
        ? `${name}: at most ${model.most} runs; leave one out first` : `${name}: add`;
      made.disabled = !on && model.chosen.length >= model.most;
      made.addEventListener("click", () => {
        model.chosen = on ? model.chosen.filter((each) => each !== name) : [...model.chosen, name];
      });
      bar.append(made);
      if (on && place > 0 && model.baseline) {
        const first = document.createElement("button");
        first.type = "button";
        first.className = "first";
        first.textContent = "⇤";
        first.title = `make ${name} the baseline`;
        first.setAttribute("aria-label", first.title);
        first.addEventListener("click", () => { model.chosen = [name, ...model.chosen.filter((each) => each !== name)]; });
        bar.append(first);
      }
    };
    model.chosen.forEach((name, place) => add(name, place));
    for (const name of model.options) if (!model.chosen.includes(name)) add(name, -1);
    if (focus) [...bar.querySelectorAll("button")].find((each) => each.dataset.run === focus)?.focus();
  };
  for (const name of ["options", "chosen", "most"]) model.on(name, draw);
  draw();
}
