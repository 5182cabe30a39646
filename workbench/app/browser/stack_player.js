// Plays one of several recordings that share a picture. Choosing another keeps the moment and goes on playing,
// so that two systems can be heard against each other. `lead` is what its clock shows where the picture shows 0.

const bokehModel = (name) => {
  for (const doc of window.Bokeh?.documents ?? []) {
    const found = doc.get_model_by_name(name);
    if (found) return found;
  }
  return null;
};

export function render({ model, el }) {
  const audio = new Audio();
  audio.preload = "auto";
  let context = null, gains = null, frame = 0, at = 0, resume = false, range = null, unwatch = null, told = 0, updates = 0;
  const bar = document.createElement("div");
  bar.className = "bar";
  el.append(bar);
  const button = (label, title, act, into = bar) => {
    const made = document.createElement("button");
    made.type = "button"; made.textContent = label; made.title = title;
    made.setAttribute("aria-label", title);
    made.addEventListener("click", act);
    into.append(made);
    return made;
  };
  const select = (title, options, attribute, number) => {
    const made = document.createElement("select");
    made.title = title; made.setAttribute("aria-label", title);
    for (const [value, label] of options) made.append(new Option(label, value));
    made.value = String(model[attribute]);
    made.addEventListener("change", () => { model[attribute] = number ? Number(made.value) : made.value; made.blur(); });
    bar.append(made);
    return made;
  };
  const play = button("▶", "play or pause (space)", () => toggle());
  const clock = document.createElement("output");
  clock.className = "clock";
  bar.append(clock);
  const hear = document.createElement("span");
  hear.className = "hear";
  hear.setAttribute("role", "radiogroup");
  hear.setAttribute("aria-label", "whose audio sounds (1 to 4)");
  bar.append(hear);
  const channel = select("channels to hear", [["both", "both (user left, agent right)"], ["user", "user only"], ["agent", "agent only"]], "channel");
  const speed = select("speed ([ and ])", [0.5, 0.75, 1, 1.25, 1.5, 2].map((s) => [String(s), `${s}×`]), "speed", true);
  const loop = button("loop window", "loop the window (l)", () => { model.loop = !model.loop; });
  const note = document.createElement("span");
  note.className = "note";
  bar.append(note);

  const chosen = () => model.systems[model.heard];
  const shown = () => audio.currentTime - (chosen()?.lead ?? 0);
  const toAudio = (x) => Math.max(0, x + (chosen()?.lead ?? 0));
  const drawHear = () => {
    hear.replaceChildren();
    model.systems.forEach(({ name, src }, place) => {
      const made = button(`${place + 1} ${name}`, src ? `hear ${name} (${place + 1})` : `${name} has no audio here`, () => { model.heard = place; }, hear);
      made.setAttribute("role", "radio");
      made.setAttribute("aria-checked", String(place === model.heard));
      made.classList.toggle("on", place === model.heard);
      made.disabled = !src;
    });
  };
  const move = () => {
    const x = shown();
    for (const name of model.heads) bokehModel(name)?.setv({ location: x }, { sync: false });
    updates += 1;
    el.dataset.updates = String(updates);
    el.dataset.time = audio.currentTime.toFixed(3);
    clock.textContent = `${audio.currentTime.toFixed(2)} s`;
  };
  const tick = () => {
    at = audio.currentTime;
    const { window: w, loop: looping } = model;
    if (looping && w.length === 2 && shown() >= w[1]) audio.currentTime = toAudio(w[0]);
    move();
    if (!audio.paused) frame = requestAnimationFrame(tick);
  };
  const route = () => {
    if (!gains) return;
    const [ul, ur, al, ar] = model.channel === "user" ? [1, 1, 0, 0] : model.channel === "agent" ? [0, 0, 1, 1] : [1, 0, 0, 1];
    [ul, ur, al, ar].forEach((value, i) => { gains[i].gain.value = value; });
  };
  const wire = () => {
    if (context) return;
    context = new AudioContext();
    const source = context.createMediaElementSource(audio);
    const split = context.createChannelSplitter(2), merge = context.createChannelMerger(2);
    source.connect(split);
    gains = [[0, 0], [0, 1], [1, 0], [1, 1]].map(([from, to]) => {
      const gain = context.createGain();
      split.connect(gain, from); gain.connect(merge, 0, to);
      return gain;
    });
    merge.connect(context.destination);
    route();
  };
  const start = async () => {
    wire();
    await context.resume();
    audio.playbackRate = model.speed;
    try { await audio.play(); } catch (error) { note.textContent = `cannot play: ${error.message}`; }
  };
  const toggle = () => {
    if (!chosen()?.src) return;
    if (!audio.paused) { audio.pause(); return; }
    const { window: w, loop: looping } = model;
    if (looping && w.length === 2 && (shown() < w[0] || shown() >= w[1])) audio.currentTime = toAudio(w[0]);
    start();
  };
  const seek = (x) => { audio.currentTime = toAudio(x); at = audio.currentTime; move(); };

  let from = null, keep = null;
  const load = () => {
    const next = chosen();
    drawHear();
    if (next?.src === from?.src) { from = next; move(); return; }
    // Of the same case: keep what the picture shows. Of another: start anew.
    keep = from && next && from.group === next.group ? at - from.lead : null;
    resume = keep !== null && !audio.paused;
    from = next ?? null;
    audio.pause();
    play.disabled = loop.disabled = !next?.src;
    note.textContent = next?.src || !model.systems.length ? "" : "no audio";
    if (next?.src) audio.src = next.src; else audio.removeAttribute("src");
    if (keep === null) at = 0;
    move();
  };
  audio.addEventListener("loadedmetadata", () => {
    if (keep !== null) audio.currentTime = Math.min(toAudio(keep), audio.duration || 0);
    keep = null;
    move();
    if (resume) start();
    resume = false;
  });
  audio.addEventListener("play", () => { play.textContent = "❚❚"; cancelAnimationFrame(frame); tick(); });
  audio.addEventListener("pause", () => { play.textContent = "▶"; cancelAnimationFrame(frame); if (keep === null) at = audio.currentTime; move(); });
  audio.addEventListener("seeked", move);
  audio.addEventListener("error", () => { if (chosen()?.src) note.textContent = "the audio cannot be loaded"; });

  const paint = () => {
    channel.value = model.channel; speed.value = String(model.speed);
    loop.classList.toggle("on", model.loop); loop.setAttribute("aria-pressed", String(model.loop));
    audio.playbackRate = model.speed;
    route();
  };
  const tellView = () => {
    clearTimeout(told);
    told = setTimeout(() => { model.viewport = [range.start, range.end]; }, 40);
  };
  const watchRange = (tries = 0) => {
    range = bokehModel(model.range);
    if (!range) { if (tries < 200) setTimeout(() => watchRange(tries + 1), 25); return; }
    const slots = [range.properties.start.change, range.properties.end.change];
    slots.forEach((signal) => signal.connect(tellView));
    unwatch = () => slots.forEach((signal) => signal.disconnect(tellView));
    move();
  };
  const onSeek = (event) => { if (event.detail.id === model.range) seek(event.detail.t); };
  const onToggle = () => { if (el.isConnected && el.getClientRects().length) toggle(); else audio.pause(); };
  window.addEventListener("wb-seek", onSeek);
  window.addEventListener("wb-toggle", onToggle);
  model.on("msg:custom", (message) => {
    const data = message.data ?? message;
    if (data.by !== undefined) seek(shown() + data.by);
    if (data.pause) audio.pause();
  });
  model.on("systems", load);
  model.on("heard", load);
  for (const name of ["channel", "speed", "loop"]) model.on(name, paint);
  model.on("remove", () => {
    audio.pause(); audio.removeAttribute("src"); audio.load();
    cancelAnimationFrame(frame);
    if (unwatch) unwatch();
    if (context) context.close();
    window.removeEventListener("wb-seek", onSeek);
    window.removeEventListener("wb-toggle", onToggle);
  });
  paint();
  load();
  watchRange();
}
