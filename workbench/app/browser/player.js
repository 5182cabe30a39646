// One of several recordings that share a picture, or the only one: transport.js plays, and this moves Bokeh's spans and
// tells Python only what Python needs: where playback stands when it stops, what part is in view, whose audio sounds.
// Choosing another system keeps the moment and goes on playing. `lead` is what its clock shows where the picture has 0.

const bokehModel = (name) => {
  for (const doc of window.Bokeh?.documents ?? []) {
    const found = doc.get_model_by_name(name);
    if (found) return found;
  }
  return null;
};

export function render({ model, el }) {
  let heads = [], range = null, unwatch = null, told = 0, updates = 0, from = null;
  const chosen = () => model.systems[model.heard] ?? { src: "", lead: 0, length_s: 0 };
  const bar = controls(el, {
    toggle: () => player.toggle(), by: (seconds) => player.seek(player.now() + seconds),
    channel: (who) => { model.channel = who; }, speed: (value) => { model.speed = value; }, loop: () => { model.loop = !model.loop; },
  });
  const player = transport(new Audio(), {
    moved: (t) => {
      if (heads.length < model.heads.length) heads = model.heads.map(bokehModel).filter(Boolean);
      for (const head of heads) head.setv({ location: t - chosen().lead }, { sync: false });
      updates += 1;
      el.dataset.updates = String(updates);
      el.dataset.time = t.toFixed(3);
      bar.clock(t, player.length() || chosen().length_s);
    },
    told: bar.note,
    state: (going) => { bar.playing(going); model.playing = going; if (!going) model.time = player.now(); },
    view: () => range && [range.start + chosen().lead, range.end + chosen().lead],
    look: (start, end) => range.setv({ start: start - chosen().lead, end: end - chosen().lead }),
  });
  const seek = (t) => { player.seek(t); if (!player.going()) model.time = player.now(); };

  const load = () => {
    const next = chosen();
    bar.hear.replaceChildren();
    if (model.systems.length > 1) model.systems.forEach(({ name, src }, place) => {
      const made = bar.button(`${place + 1} ${name}`, src ? `hear ${name} (${place + 1})` : `${name} has no audio here`, () => { model.heard = place; }, bar.hear);
      made.setAttribute("role", "radio");
      made.setAttribute("aria-checked", String(place === model.heard));
      made.classList.toggle("wb-on", place === model.heard);
      made.disabled = !src;
    });
    bar.usable(Boolean(next.src));
    // Of the same case: keep what the picture shows. Of another: start anew.
    const same = from !== null && from.group === next.group, before = from;
    from = next;
    if (before === null || before.src !== next.src) {
      player.load(next.src, same ? Math.max(0, player.now() - before.lead + next.lead) : model.start, same && player.going());
    } else player.place();
    paint();
  };
  const paint = () => {
    const { lead } = chosen(), [w0, w1] = model.window;
    bar.paint(model);
    player.hear(model.channel);
    player.speed(model.speed);
    player.loop(model.loop && model.window.length === 2 ? [w0 + lead, w1 + lead] : null);
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
    player.place();
  };

  const onSeek = (event) => { if (event.detail.id === model.range) seek(event.detail.t + chosen().lead); };
  const onToggle = () => { if (el.isConnected && el.getClientRects().length) player.toggle(); else player.pause(); };
  window.addEventListener("wb-seek", onSeek);
  window.addEventListener("wb-toggle", onToggle);
  model.on("msg:custom", (message) => {
    const data = message.data ?? message;
    if (data.seek !== undefined) seek(data.seek);
    if (data.by !== undefined) seek(player.now() + data.by);
    if (data.pause) player.pause();
  });
  for (const name of ["systems", "heard"]) model.on(name, load);
  for (const name of ["channel", "speed", "loop", "window"]) model.on(name, paint);
  model.on("remove", () => {
    player.close();
    if (unwatch) unwatch();
    window.removeEventListener("wb-seek", onSeek);
    window.removeEventListener("wb-toggle", onToggle);
  });
  load();
  watchRange();
}
