// Plays and zooms one recording that stands in a page: in an exported case or below a notebook's cell. Without it
// picture and sound are there all the same. It finds its block from where it stands, so that any number of them live in
// one page, and makes no element of its own but copies, so that nothing has to name SVG's address.
(() => {
  const root = document.currentScript.closest(".wb-recording");
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const find = (name) => root.querySelector(`.wb-${name}`), all = (name) => [...root.querySelectorAll(`.wb-${name}`)];
  const audio = root.querySelector("audio") ?? new Audio();
  audio.removeAttribute("controls");  // those below say more
  const picture = find("picture"), inside = find("inside"), heads = all("head"), seen = find("seen"), map = find("map");
  const { first, last, left, width, step } = data, keys = root.dataset.keys !== undefined;
  const peaks = data.peaks.map((text) => new Int8Array(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer));
  const state = { channel: "both", speed: 1, loop: false };
  let view = [first, last];

  const wave = (path, channel) => {
    const values = peaks[channel], [from, until] = view, columns = 900, count = values.length / 2;
    const { middle, scale } = path.dataset, highs = [], lows = [];
    for (let at = 0; at < columns; at += 1) {
      const t = from + (at / columns) * (until - from), a = Math.max(0, Math.floor((t - first) / step));
      const b = Math.min(count, Math.max(a + 1, Math.ceil((t - first + (until - from) / columns) / step)));
      if (a >= count) break;
      let low = 127, high = -127;
      for (let i = a; i < b; i += 1) { low = Math.min(low, values[2 * i]); high = Math.max(high, values[2 * i + 1]); }
      const x = t.toFixed(4);
      highs.push(`${x},${(middle - Math.max((high * scale) / 127, 0.25)).toFixed(1)}`);
      lows.push(`${x},${(middle - Math.min((low * scale) / 127, -0.25)).toFixed(1)}`);
    }
    if (highs.length) path.setAttribute("d", `M${highs.join("L")}L${lows.reverse().join("L")}Z`);
  };
  const x = (t) => left + ((t - view[0]) / (view[1] - view[0])) * width;
  const draw = () => {
    const [from, until] = view;
    inside.setAttribute("viewBox", `${from} 0 ${until - from} ${data.height}`);
    if (peaks.length) for (const path of all("wave")) wave(path, Number(path.dataset.channel));
    for (const label of all("at")) {
      const t = Number(label.dataset.t), right = left + width - x(t) < 7 * label.textContent.length;
      label.setAttribute("visibility", t < from || t > until ? "hidden" : "visible");
      label.setAttribute("x", x(t) + (right ? -5 : 5));
      label.setAttribute("text-anchor", right ? "end" : "start");
    }
    const every = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60].find((each) => (until - from) / each <= 14) ?? 120;
    const ticks = all("tick");
    let used = 0;
    for (let t = Math.ceil(from / every - 1e-9) * every; t <= until + 1e-9; t += every, used += 1) {
      const tick = ticks[used] ?? ticks[0].parentNode.appendChild(ticks[0].cloneNode(true));
      tick.textContent = `${+t.toFixed(2)} s`;
      tick.setAttribute("x", Math.min(x(t), left + width - 12));
      tick.setAttribute("visibility", "visible");
    }
    for (const tick of ticks.slice(used)) tick.setAttribute("visibility", "hidden");
    seen.setAttribute("x", from);
    seen.setAttribute("width", until - from);
  };
  let asked = false;
  const look = (a, b) => {
    const long = Math.min(Math.max(b - a, 0.02), last - first), start = Math.min(Math.max(a, first), last - long);
    view = [start, start + long];
    if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); }
  };
  const player = transport(audio, {
    moved: (t) => {
      for (const head of heads) { head.setAttribute("x1", first + t); head.setAttribute("x2", first + t); }
      bar.clock(first + t, last);
      root.dataset.time = (first + t).toFixed(3);
    },
    told: (text) => bar.note(text || data.note), state: (going) => bar.playing(going),
    view: () => (view[1] < last ? view.map((t) => t - first) : null), look: (a, b) => look(first + a, first + b),
  });
  const [w0, w1] = data.window ?? [first, last], around = Math.max(0.6 * (w1 - w0), 0.5);
  const act = {
    toggle: player.toggle, by: (seconds) => player.seek(player.now() + seconds),
    channel: (who) => { state.channel = who; player.hear(who); },
    speed: (value) => { state.speed = value; player.speed(value); },
    loop: () => { state.loop = !state.loop; player.loop(state.loop ? [w0 - first, w1 - first] : null); bar.paint(state); },
    more: [["fit", "fit (f)", () => look(first, last)], ["window", "zoom to the window (w)", () => look(w0 - around, w1 + around)]],
  };
  const bar = controls(find("controls"), act);
  const sound = data.audio.both || audio.getAttribute("src");
  bar.usable(Boolean(sound));
  bar.paint(state);
  if (data.audio.user) player.apart(data.audio);
  if (data.audio.both) player.load(data.audio.both);
  bar.note(data.note);

  const time = (event) => {
    const box = picture.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * (left + width + 6) - left;
    return view[0] + (at / width) * (view[1] - view[0]);
  };
  picture.addEventListener("wheel", (event) => {
    if (!keys && !event.ctrlKey) return;  // below a cell the wheel scrolls the notebook
    event.preventDefault();
    const by = Math.exp(event.deltaY * 0.0015), t = time(event);
    look(t - (t - view[0]) * by, t + (view[1] - t) * by);
  }, { passive: false });
  let held = null;
  picture.addEventListener("pointerdown", (event) => { held = { x: event.clientX, t: time(event), moved: false }; picture.setPointerCapture(event.pointerId); });
  picture.addEventListener("pointermove", (event) => {
    if (!held) return;
    held.moved ||= Math.abs(held.x - event.clientX) > 3;
    if (held.moved) { const by = held.t - time(event); look(view[0] + by, view[1] + by); }
  });
  picture.addEventListener("pointerup", (event) => { if (held && !held.moved) player.seek(time(event) - first); held = null; });
  map.addEventListener("pointerdown", (event) => {
    const box = map.getBoundingClientRect(), t = first + ((event.clientX - box.left) / box.width) * (last - first);
    look(t - (view[1] - view[0]) / 2, t + (view[1] - view[0]) / 2);
  });
  if (keys) document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const press = { " ": event.target.tagName === "BUTTON" ? null : act.toggle, ArrowLeft: () => act.by(-1), ArrowRight: () => act.by(1),
      f: act.more[0][2], w: act.more[1][2], l: act.loop }[event.key];
    if (press) { event.preventDefault(); press(); }
  });
  draw();
  player.place();
})();
