// Owns the audio element: it is the clock of a case. Moves Bokeh spans on every animation frame, and tells
// Python only what Python needs: where playback stands when it stops, and what part is in view.

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
  let context = null, gains = null, frame = 0, updates = 0, heads = null, range = null, unwatch = null;

  const bar = document.createElement("div");
  bar.className = "bar";
  const button = (label, title, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.title = title;
    made.setAttribute("aria-label", title);
    made.addEventListener("click", act);
    bar.append(made);
    return made;
  };
  const select = (title, options, attribute) => {
    const made = document.createElement("select");
    made.title = title;
    made.setAttribute("aria-label", title);
    for (const [value, label] of options) made.append(new Option(label, value));
    made.value = String(model[attribute]);
    made.addEventListener("change", () => {
      model[attribute] = attribute === "speed" ? Number(made.value) : made.value;
      made.blur();
    });
    bar.append(made);
    return made;
  };

  const play = button("▶", "play or pause (space)", () => toggle());
  const back = button("−1 s", "back one second (left arrow)", () => seek(audio.currentTime - 1));
  const on = button("+1 s", "on one second (right arrow)", () => seek(audio.currentTime + 1));
  const clock = document.createElement("output");
  clock.className = "clock";
  bar.append(clock);
  const channel = select("channels to hear (1, 2, 3)",
    [["both", "both (user left, agent right)"], ["user", "user only"], ["agent", "agent only"]], "channel");
  const speed = select("speed ([ and ])", [0.5, 0.75, 1, 1.25, 1.5, 2].map((s) => [String(s), `${s}×`]), "speed");
  const loop = button("loop window", "loop the window, or what is in view (l)", () => { model.loop = !model.loop; });
  const note = document.createElement("span");
  note.className = "note";
  bar.append(note);
  el.append(bar);

  const length = () => (Number.isFinite(audio.duration) ? audio.duration : model.duration);
  const show = () => {
    const t = audio.currentTime;
    clock.textContent = `${t.toFixed(2)} / ${length().toFixed(2)} s`;
  };
  const findHeads = () => {
    heads = model.heads.map(bokehModel).filter(Boolean);
    return heads.length === model.heads.length;
  };
  const move = () => {
    if (!heads || heads.length < model.heads.length) findHeads();
    const t = audio.currentTime;
    for (const head of heads) head.setv({ location: t }, { sync: false });
    updates += 1;
    el.dataset.updates = String(updates);
    el.dataset.time = t.toFixed(3);
    show();
  };
  const follow = () => {
    // Turn the page when the playhead runs out of view.
    if (!range || audio.paused) return;
    const { start, end } = range, t = audio.currentTime;
    if (t > end && start > 0 - 1e9 && t < length()) range.setv({ start: t, end: t + (end - start) });
  };
  const tick = () => {
    if (model.loop && model.window.length === 2) {
      const [w0, w1] = model.window;
      if (audio.currentTime >= w1) audio.currentTime = w0;
    }
    move();
    follow();
    if (!audio.paused) frame = requestAnimationFrame(tick);
  };
  const route = () => {
    if (!gains) return;
    const only = model.channel;
    const [ul, ur, al, ar] = only === "user" ? [1, 1, 0, 0] : only === "agent" ? [0, 0, 1, 1] : [1, 0, 0, 1];
    [ul, ur, al, ar].forEach((value, i) => { gains[i].gain.value = value; });
  };
  const wire = () => {
    // Made at the first click: browsers refuse sound before the person has done something.
    if (context) return;
    context = new AudioContext();
    const source = context.createMediaElementSource(audio);
    const split = context.createChannelSplitter(2), merge = context.createChannelMerger(2);
    source.connect(split);
    gains = [[0, 0], [0, 1], [1, 0], [1, 1]].map(([from, to]) => {
      const gain = context.createGain();
      split.connect(gain, from);
      gain.connect(merge, 0, to);
      return gain;
    });
    merge.connect(context.destination);
    route();
  };
  const toggle = async () => {
    if (!model.src) return;
    if (!audio.paused) { audio.pause(); return; }
    wire();
    await context.resume();
    if (model.loop && model.window.length === 2) {
      const [w0, w1] = model.window;
      if (audio.currentTime < w0 || audio.currentTime >= w1) audio.currentTime = w0;
    }
    audio.playbackRate = model.speed;
    try { await audio.play(); } catch (error) { note.textContent = `cannot play: ${error.message}`; }
  };
  const seek = (t) => {
    audio.currentTime = Math.min(Math.max(t, 0), length());
    move();
    if (audio.paused) model.time = audio.currentTime;
  };

  audio.addEventListener("play", () => { play.textContent = "❚❚"; model.playing = true; cancelAnimationFrame(frame); tick(); });
  audio.addEventListener("pause", () => {
    play.textContent = "▶"; cancelAnimationFrame(frame); move();
    model.playing = false; model.time = audio.currentTime;
  });
  audio.addEventListener("loadedmetadata", () => { if (model.start > 0) audio.currentTime = model.start; move(); });
  audio.addEventListener("seeked", move);
  audio.addEventListener("error", () => { if (model.src) note.textContent = "the audio cannot be loaded"; });

  const load = () => {
    audio.pause();
    note.textContent = model.src ? "" : "no audio";
    for (const each of [play, back, on, loop]) each.disabled = !model.src;
    if (model.src) audio.src = model.src; else audio.removeAttribute("src");
    audio.playbackRate = model.speed;
    move();
  };
  const paint = () => {
    channel.value = model.channel; speed.value = String(model.speed);
    loop.classList.toggle("on", model.loop); loop.setAttribute("aria-pressed", String(model.loop));
    audio.playbackRate = model.speed;
    route();
  };

  let told = 0;
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
  const onToggle = () => { if (el.isConnected && el.getClientRects().length) toggle(); };
  window.addEventListener("wb-seek", onSeek);
  window.addEventListener("wb-toggle", onToggle);
  model.on("msg:custom", (message) => {
    const data = message.data ?? message;
    if (data.seek !== undefined) seek(data.seek);
    if (data.by !== undefined) seek(audio.currentTime + data.by);
    if (data.pause) audio.pause();
  });
  model.on("src", load);
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
