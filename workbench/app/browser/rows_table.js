// A table of one page of rows. Every cell is text content, never markup; a row is named by its place among the
// filtered rows, so that paging, sorting and keys cannot disagree about it.

export function render({ model, el }) {
  const holder = document.createElement("div");
  holder.className = "holder";
  const table = document.createElement("table");
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", "cases");
  const head = table.createTHead(), body = table.createTBody();
  holder.append(table);
  const foot = document.createElement("div");
  foot.className = "foot";
  el.append(holder, foot);

  const drawHead = () => {
    head.replaceChildren();
    const row = head.insertRow();
    for (const [name, label, kind] of model.columns) {
      const cell = document.createElement("th");
      cell.className = kind;
      const button = document.createElement("button");
      button.type = "button";
      const on = model.sort.replace("-", "") === name;
      button.textContent = label + (on ? (model.sort.startsWith("-") ? " ▼" : " ▲") : "");
      cell.setAttribute("aria-sort", on ? (model.sort.startsWith("-") ? "descending" : "ascending") : "none");
      button.addEventListener("click", () => { model.sort = model.sort === name ? `-${name}` : model.sort === `-${name}` ? "" : name; });
      cell.append(button);
      row.append(cell);
    }
  };
  const drawBody = () => {
    body.replaceChildren();
    model.rows.forEach((values, at) => {
      const row = body.insertRow();
      const place = model.page * model.size + at;
      const chosen = place === model.selected;
      row.setAttribute("aria-selected", String(chosen));
      row.dataset.place = String(place);
      model.columns.forEach(([name, , kind], i) => {
        const cell = row.insertCell();
        cell.className = kind;
        cell.textContent = values[i];
        if (kind === "word") cell.dataset.word = values[i];
        if (kind === "long") cell.title = values[i];
      });
      row.addEventListener("click", () => model.send_msg({ open: place }));
    });
    if (!model.rows.length) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = model.columns.length;
      cell.className = "none";
      cell.textContent = model.empty;
    }
    if (model.follow) body.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  };
  const drawFoot = () => {
    foot.replaceChildren();
    const pages = Math.max(1, Math.ceil(model.total / model.size));
    const add = (label, title, to) => {
      const made = document.createElement("button");
      made.type = "button"; made.textContent = label; made.title = title; made.setAttribute("aria-label", title);
      made.disabled = to < 0 || to >= pages || to === model.page;
      made.addEventListener("click", () => { model.page = to; });
      foot.append(made);
    };
    add("«", "first page", 0);
    add("‹", "page before", model.page - 1);
    const where = document.createElement("span");
    const first = model.total ? model.page * model.size + 1 : 0, last = Math.min(model.total, (model.page + 1) * model.size);
    where.textContent = `${first.toLocaleString("en")}–${last.toLocaleString("en")} of ${model.total.toLocaleString("en")} rows`;
    foot.append(where);
    add("›", "next page", model.page + 1);
    add("»", "last page", pages - 1);
  };
  const draw = () => { drawHead(); drawBody(); drawFoot(); el.dataset.drawn = String(Number(el.dataset.drawn ?? 0) + 1); };
  model.on("stamp", draw);
  model.on("selected", () => {
    for (const row of body.rows) row.setAttribute("aria-selected", String(Number(row.dataset.place) === model.selected));
    if (model.follow) body.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
  draw();
}
