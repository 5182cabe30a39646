// The annotation form. Every change is sent at once, with the row it belongs to, so that a note finished after
// moving on still lands on its own case. All text is text content or field values, never markup.

const KEPT = "workbench-annotator";
const bokehModel = (name) => {
  for (const doc of window.Bokeh?.documents ?? []) {
    const found = doc.get_model_by_name(name);
    if (found) return found;
  }
  return null;
};
const typing = (event) => {
  const target = event.composedPath()[0], tag = (target?.tagName ?? "").toLowerCase();
  if (tag === "input") return !["checkbox", "radio", "button", "range"].includes(target.type);
  return tag === "textarea" || tag === "select" || target?.isContentEditable === true;
};

export function render({ model, el }) {
  const make = (tag, into, text, more = {}) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    Object.assign(made, more);
    into?.append(made);
    return made;
  };
  const form = make("section", el, "", { className: "annotation" });
  const first = make("div", form, "", { className: "line" });
  const name = make("input", first, "", { type: "text", placeholder: "your name", maxLength: 80, className: "who" });
  name.setAttribute("aria-label", "annotator's name");
  name.value = model.annotator || localStorage.getItem(KEPT) || "";
  const stances = make("span", first, "", { className: "stances" });
  const label = make("input", first, "", { type: "text", placeholder: "own label", maxLength: 120, className: "label" });
  label.setAttribute("aria-label", "own label");
  const known = make("datalist", first, "", { id: "wb-known-labels" });
  label.setAttribute("list", known.id);
  const score = make("input", first, "", { type: "number", placeholder: "score", className: "score", step: "any" });
  score.setAttribute("aria-label", "own score on the judge's scale");
  const second = make("div", form, "", { className: "line" });
  const mark = make("button", second, "mark moment (m)", { type: "button", title: "mark the moment at the playhead (m)" });
  const moments = make("span", second, "", { className: "moments" });
  const note = make("textarea", form, "", { placeholder: "note (saved when you leave the field, or with Ctrl+Enter)", rows: 2, maxLength: 4000 });
  note.setAttribute("aria-label", "note");
  const told = make("div", form, "", { className: "told" });
  told.setAttribute("role", "status");
  const others = make("div", form, "", { className: "others" });
  const past = make("details", form);
  make("summary", past, "history");
  const lines = make("div", past);

  const tell = (text, bad) => { told.textContent = text; told.classList.toggle("bad", Boolean(bad)); };
  const send = (kind, value, more = {}, key = model.subject.key) => {
    const who = name.value.trim();
    if (!key) return false;
    if (!who) { tell("Write your name first; it is saved with each annotation.", true); name.focus(); return false; }
    tell("saving …");
    model.send_msg({ kind, value, annotator: who, key, ...more });
    return true;
  };
  const playhead = () => Math.max(0, bokehModel(model.head)?.location ?? 0);
  const stance = (kind, target, value, saw) => {
    const now = kind === "verdict" ? model.own.verdict : model.own.judges?.[target];
    send(kind, now === value ? "" : value, { target, saw });
  };

  const drawStances = () => {
    stances.replaceChildren();
    const add = (kind, target, text, saw, keys) => {
      const now = kind === "verdict" ? model.own.verdict : model.own.judges?.[target];
      const group = make("span", stances, "", { className: "stance" });
      make("span", group, text, { className: "what", title: saw });
      for (const value of ["agree", "disagree"]) {
        const made = make("button", group, value === "agree" ? "✓ right" : "✗ wrong", { type: "button" });
        made.title = `${value} with the ${kind}${keys ? ` (${value[0]})` : ""}`;
        made.setAttribute("aria-label", `${value} with ${text}`);
        made.setAttribute("aria-pressed", String(now === value));
        made.addEventListener("click", () => stance(kind, target, value, saw));
      }
    };
    add("verdict", "", "verdict", model.subject.verdict ?? "", true);
    for (const [folder, spoke, said] of model.subject.judges ?? []) add("judge", folder, model.subject.judges.length > 1 ? spoke : "judge", said || spoke, false);
  };
  const drawMoments = () => {
    moments.replaceChildren();
    for (const [id, at, text] of model.own.moments ?? []) {
      const one = make("span", moments, "", { className: "moment" });
      const go = make("button", one, `${at.toFixed(2)} s`, { type: "button", title: "go there" });
      go.addEventListener("click", () => window.dispatchEvent(new CustomEvent("wb-seek", { detail: { id: model.range, t: at } })));
      const about = make("input", one, "", { type: "text", value: text, placeholder: "what", maxLength: 200, size: Math.min(24, Math.max(6, text.length + 1)) });
      about.setAttribute("aria-label", `what happens at ${at.toFixed(2)} s`);
      const key = model.subject.key;
      about.addEventListener("change", () => send("moment", about.value, { target: id, t_s: at }, key));
      const gone = make("button", one, "×", { type: "button", title: "take this mark back" });
      gone.addEventListener("click", () => send("moment", "", { target: id }, key));
    }
  };
  let shown = "";
  const draw = () => {
    const key = JSON.stringify(model.subject.key ?? null);
    const focus = el.getRootNode().activeElement;
    drawStances();
    if (!moments.contains(focus) || key !== shown) drawMoments();
    const { labels = [], scale = [] } = model.subject;
    known.replaceChildren(...labels.map((each) => new Option(each, each)));
    score.style.display = scale.length ? "" : "none";
    if (scale.length) { [score.min, score.max] = scale; score.title = `own score, ${scale[0]} to ${scale[1]}`; }
    // What a hand is just typing is left alone.
    for (const [field, value] of [[label, model.own.label ?? ""], [score, model.own.score ?? ""], [note, model.own.note ?? ""]]) {
      if (field !== focus || key !== shown) field.value = value;
    }
    others.replaceChildren();
    for (const [who, said] of model.others) {
      const line = make("div", others);
      make("b", line, `${who}: `);
      make("span", line, said);
    }
    lines.replaceChildren(...model.history.map((text) => make("div", null, text)));
    past.style.display = model.history.length ? "" : "none";
    shown = key;
    el.dataset.annotations = String(Number(el.dataset.annotations ?? 0) + 1);
  };

  const row = () => model.subject.key;
  let noteRow = null, labelRow = null;
  note.addEventListener("focus", () => { noteRow = row(); });
  label.addEventListener("focus", () => { labelRow = row(); });
  const saveNote = () => send("note", note.value, {}, noteRow ?? row());
  note.addEventListener("change", saveNote);
  note.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) note.blur(); });
  label.addEventListener("change", () => send("label", label.value.trim(), {}, labelRow ?? row()));
  score.addEventListener("change", () => {
    const [low, high] = model.subject.scale ?? [];
    if (score.value !== "" && !(Number(score.value) >= low && Number(score.value) <= high)) { tell(`A score lies within ${low} and ${high}.`, true); return; }
    send("score", score.value);
  });
  name.addEventListener("change", () => {
    localStorage.setItem(KEPT, name.value.trim());
    model.annotator = name.value.trim();
  });
  mark.addEventListener("click", () => send("moment", "", { t_s: playhead() }));
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event) || !el.getClientRects().length) return;
    if (event.key === "m") mark.click();
    else if (event.key === "a" || event.key === "d") stance("verdict", "", event.key === "a" ? "agree" : "disagree", model.subject.verdict ?? "");
    else if (event.key === "e") note.focus();
    else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", press);
  model.on("remove", () => document.removeEventListener("keydown", press));
  // One redraw a change: `stamp` is raised when everything else has been set.
  model.on("stamp", draw);
  model.on("told", () => tell(model.told, model.bad));
  if (name.value !== model.annotator) model.annotator = name.value;
  draw();
}
