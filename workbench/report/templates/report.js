"use strict";
(() => {
  const read = (id) => document.getElementById(id).textContent;

  // Pictures: one stored document, drawn in the colours of the reader's theme. Its colours are unique
  // strings, so turning it dark is an exchange of strings before it is drawn.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = read("bokeh-docs");
  const items = JSON.parse(read("bokeh-items"));
  const pairs = JSON.parse(read("theme-data"));
  const draw = () => {
    if (!stored.trim() || !window.Bokeh) return;
    const text = dark.matches ? stored.replace(/#[0-9a-f]{6}/g, (colour) => pairs[colour] ?? colour) : stored;
    for (const item of items) {
      for (const element of Object.values(item.roots)) document.getElementById(element).replaceChildren();
    }
    document.documentElement.dataset.figures = dark.matches ? "dark" : "light";
    Bokeh.embed.embed_items(JSON.parse(text), JSON.parse(JSON.stringify(items)));
  };
  draw();
  dark.addEventListener("change", draw);

  // The table of cases. Everything is written with textContent: what models said is never markup.
  const PAGE = 50;
  const data = JSON.parse(read("case-data"));
  const names = data.order;
  const value = (name, row) => data.columns[name].values[data.columns[name].codes[row]];
  const state = { text: "", picked: {}, sort: null, down: false, page: 0 };
  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text !== null) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const natural = new Intl.Collator("en", { numeric: true });

  const controls = document.getElementById("controls");
  const table = document.getElementById("case-table");
  const search = make("input", null, make("label", "search", controls));
  search.type = "search";
  search.addEventListener("input", () => { state.text = search.value.toLowerCase(); state.page = 0; show(); });
  for (const name of names.filter((item) => data.columns[item].filter)) {
    const values = [...data.columns[name].values].sort(natural.compare);
    if (values.length < 2 && name !== "verdict") continue;
    const select = make("select", null, make("label", data.columns[name].heading, controls));
    make("option", "any", select).value = "";
    for (const item of values) make("option", item, select).value = item;
    if (name === "verdict" && values.includes("fail")) { select.value = "fail"; state.picked.verdict = "fail"; }
    select.addEventListener("change", () => { state.picked[name] = select.value; state.page = 0; show(); });
  }
  const pager = make("div", null, controls);
  pager.className = "pager";
  const back = make("button", "previous", pager);
  const on = make("button", "next", pager);
  const count = make("span", "", pager);
  count.className = "count";
  back.addEventListener("click", () => { state.page -= 1; show(); });
  on.addEventListener("click", () => { state.page += 1; show(); });

  const head = make("tr", null, make("thead", null, table));
  for (const name of names) {
    const cell = make("th", null, head);
    const button = make("button", data.columns[name].heading, cell);
    button.addEventListener("click", () => {
      state.down = state.sort === name && !state.down;
      state.sort = name;
      for (const other of head.children) other.removeAttribute("aria-sort");
      for (const other of head.querySelectorAll("button")) other.textContent = other.textContent.replace(/ [\u25b2\u25bc]$/, "");
      cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      button.textContent += state.down ? " \u25bc" : " \u25b2";
      show();
    });
  }
  const body = make("tbody", null, table);

  const chosen = () => {
    // Filters compare codes, not text: thousands of rows stay quick.
    const wanted = Object.entries(state.picked).filter(([, item]) => item !== "")
      .map(([name, item]) => [data.columns[name].codes, data.columns[name].values.indexOf(item)]);
    const hits = state.text === "" ? null
      : names.map((name) => data.columns[name].values.map((item) => item.toLowerCase().includes(state.text)));
    const rows = [];
    for (let row = 0; row < data.count; row += 1) {
      if (!wanted.every(([codes, code]) => codes[row] === code)) continue;
      if (hits && !names.some((name, index) => hits[index][data.columns[name].codes[row]])) continue;
      rows.push(row);
    }
    if (state.sort !== null) {
      const { values, codes } = data.columns[state.sort];
      const order = values.map((_, code) => code).sort((a, b) => natural.compare(values[a], values[b]));
      const rank = new Array(values.length);
      order.forEach((code, place) => { rank[code] = place; });
      rows.sort((a, b) => (rank[codes[a]] - rank[codes[b]]) * (state.down ? -1 : 1) || a - b);
    }
    return rows;
  };
  const show = () => {
    const rows = chosen();
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.page = Math.min(Math.max(0, state.page), pages - 1);
    body.replaceChildren();
    for (const row of rows.slice(state.page * PAGE, (state.page + 1) * PAGE)) {
      const line = make("tr", null, body);
      for (const name of names) {
        const cell = make("td", value(name, row), line);
        if (data.columns[name].text) cell.className = `text ${name}`;
        if (name === "verdict" || name === "strict") cell.className = value(name, row);
      }
    }
    back.disabled = state.page === 0;
    on.disabled = state.page >= pages - 1;
    count.textContent = `${rows.length} of ${data.count} rows, page ${state.page + 1} of ${pages}`;
  };
  show();
})();
