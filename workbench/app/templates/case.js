// Draws and plays one exported case. Everything it needs stands in the page; it asks nobody for anything but
// the audio file beside it, where there is one.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  if (matchMedia("(prefers-color-scheme: dark)").matches) root.dataset.theme = "dark";
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--wb-${name}`).trim();
  const peaks = data.peaks.map((text) => {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    return new Int8Array(bytes.buffer);
  });
  const whole = [0, data.duration];
  let view = [...whole], loop = false, frame = 0;
  const audio = new Audio();
  audio.preload = "auto";
  const apart = Boolean(data.audio.user);
  if (data.audio.both) audio.src = data.audio.both;

  const wave = $("wave"), map = $("map"), LEFT = 46, AXIS = 22;
  const size = (canvas) => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = Number(canvas.getAttribute("height"));
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    const tall = Math.round(height * ratio);
    if (canvas.dataset.tall !== String(tall)) { canvas.dataset.tall = String(tall); canvas.style.height = `${height}px`; }
    const to = canvas.getContext("2d");
    to.setTransform(ratio, 0, 0, canvas.height / height, 0, 0);
    to.clearRect(0, 0, width, height);
    return [to, width, height];
  };
  const lane = (to, channel, x, width, top, height, from, until) => {
    const values = peaks[channel];
    if (!values) return;
    to.fillStyle = colour(channel ? "agent" : "user");
    const count = values.length / 2, middle = top + height / 2, gain = data.gains[channel] * height / 2 / 127;
    for (let px = 0; px < width; px += 1) {
      const a = Math.max(0, Math.floor((from + (px / width) * (until - from)) / data.step));
      const b = Math.min(count, Math.max(a + 1, Math.ceil((from + ((px + 1) / width) * (until - from)) / data.step)));
      if (a >= count) break;
      let low = 127, high = -127;
      for (let i = a; i < b; i += 1) { if (values[2 * i] < low) low = values[2 * i]; if (values[2 * i + 1] > high) high = values[2 * i + 1]; }
      if (high >= low) to.fillRect(x + px, middle - high * gain, 1, Math.max(1, (high - low) * gain));
    }
  };
  const draw = () => {
    const [to, width, height] = size(wave), [from, until] = view, room = width - LEFT - 8;
    const at = (t) => LEFT + ((t - from) / (until - from)) * room;
    const tall = (height - AXIS - 20) / 2;
    const clip = () => { to.save(); to.beginPath(); to.rect(LEFT, 0, room, height); to.clip(); };
    to.font = "12px system-ui, sans-serif";
    clip();
    for (const [a, b] of data.windows) { to.globalAlpha = 0.45; to.fillStyle = colour("window"); to.fillRect(at(a), 0, at(b) - at(a), height - AXIS); to.globalAlpha = 1; }
    to.restore();
    ["user", "agent"].forEach((name, channel) => {
      const top = 14 + channel * tall, inner = tall - 26;
      to.fillStyle = colour("muted");
      to.fillText(name, 4, top + inner / 2 + 4);
      clip();
      lane(to, channel, LEFT, room, top, inner, from, until);
      for (const [a, b] of data.spans[channel] ?? []) { to.fillStyle = colour("muted"); to.fillRect(at(a), top + inner + 4, Math.max(1, at(b) - at(a)), 5); }
      to.restore();
    });
    clip();
    to.setLineDash([2, 3]); to.strokeStyle = colour("muted");
    for (const t of data.cues) { to.beginPath(); to.moveTo(at(t), 0); to.lineTo(at(t), height - AXIS); to.stroke(); }
    to.setLineDash([5, 4]);
    data.lines.forEach(([t, text, kind], i) => {
      if (t < from || t > until) return;
      to.strokeStyle = to.fillStyle = colour(kind);
      to.beginPath(); to.moveTo(at(t), 0); to.lineTo(at(t), height - AXIS); to.stroke();
      const long = to.measureText(text).width, left = at(t) + 4 + long > width - 8;
      to.fillText(text, left ? at(t) - 4 - long : at(t) + 4, 12 + 14 * (i % 3));
    });
    to.setLineDash([]);
    for (const [t, text] of data.moments) {
      to.strokeStyle = to.fillStyle = colour("moment");
      to.beginPath(); to.moveTo(at(t), 0); to.lineTo(at(t), height - AXIS); to.stroke();
      to.fillText(text, at(t) + 4, height - AXIS - 4);
    }
    const now = at(audio.currentTime || 0);
    to.fillStyle = colour("ink"); to.fillRect(now - 0.75, 0, 1.5, height - AXIS);
    to.restore();
    const step = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60].find((each) => (room / (until - from)) * each > 56) ?? 120;
    to.fillStyle = colour("muted");
    for (let t = Math.ceil(Math.max(0, from) / step) * step; t <= until; t += step) to.fillText(`${+t.toFixed(2)} s`, at(t) - 8, height - 6);
    const [small, wide, low] = size(map);
    lane(small, 0, LEFT, wide - LEFT - 8, 0, low / 2, 0, data.duration);
    lane(small, 1, LEFT, wide - LEFT - 8, low / 2, low / 2, 0, data.duration);
    small.globalAlpha = 0.16; small.fillStyle = colour("ink");
    const scale = (wide - LEFT - 8) / data.duration;
    small.fillRect(LEFT + from * scale, 0, Math.max(2, (until - from) * scale), low);
    small.globalAlpha = 1;
    $("clock").textContent = `${(audio.currentTime || 0).toFixed(2)} / ${data.duration.toFixed(2)} s`;
    root.dataset.time = (audio.currentTime || 0).toFixed(3);
  };
  let asked = false;
  const redraw = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };
  const look = (a, b) => {
    const long = Math.min(Math.max(b - a, 0.02), data.duration);
    const start = Math.min(Math.max(a, 0), data.duration - long);
    view = [start, start + long];
    redraw();
  };
  const time = (event) => view[0] + ((event.offsetX - LEFT) / (wave.clientWidth - LEFT - 8)) * (view[1] - view[0]);
  wave.addEventListener("wheel", (event) => {
    event.preventDefault();
    const by = Math.exp(event.deltaY * 0.0015), t = time(event);
    look(t - (t - view[0]) * by, t + (view[1] - t) * by);
  }, { passive: false });
  let held = null;
  wave.addEventListener("pointerdown", (event) => { held = { x: event.offsetX, view: [...view], moved: false }; wave.setPointerCapture(event.pointerId); });
  wave.addEventListener("pointermove", (event) => {
    if (!held) return;
    const by = ((held.x - event.offsetX) / (wave.clientWidth - LEFT - 8)) * (held.view[1] - held.view[0]);
    if (Math.abs(held.x - event.offsetX) > 3) held.moved = true;
    if (held.moved) look(held.view[0] + by, held.view[1] + by);
  });
  wave.addEventListener("pointerup", (event) => { if (held && !held.moved) seek(time(event)); held = null; });
  map.addEventListener("pointerdown", (event) => {
    const t = ((event.offsetX - LEFT) / (map.clientWidth - LEFT - 8)) * data.duration, half = (view[1] - view[0]) / 2;
    look(t - half, t + half);
  });

  const seek = (t) => { audio.currentTime = Math.min(Math.max(t, 0), audio.duration || data.duration); redraw(); };
  const [w0, w1] = data.windows[0] ?? whole;
  const tick = () => {
    if (loop && audio.currentTime >= w1) audio.currentTime = w0;
    if (audio.currentTime > view[1] && view[1] < data.duration) look(audio.currentTime, audio.currentTime + view[1] - view[0]);
    draw();
    if (!audio.paused) frame = requestAnimationFrame(tick);
  };
  let context = null, gains = null;
  const route = () => {
    if (!gains) return;
    const only = $("channel").value;
    const values = only === "user" ? [1, 1, 0, 0] : only === "agent" ? [0, 0, 1, 1] : [1, 0, 0, 1];
    values.forEach((value, i) => { gains[i].gain.value = value; });
  };
  const wire = () => {
    // Sound read from a file beside the page may not be taken apart by a script, so such pages have files a side.
    if (context || apart) return;
    context = new AudioContext();
    const source = context.createMediaElementSource(audio), split = context.createChannelSplitter(2), merge = context.createChannelMerger(2);
    source.connect(split);
    gains = [[0, 0], [0, 1], [1, 0], [1, 1]].map(([a, b]) => {
      const gain = context.createGain();
      split.connect(gain, a); gain.connect(merge, 0, b);
      return gain;
    });
    merge.connect(context.destination);
    route();
  };
  const start = async () => {
    wire();
    if (context) await context.resume();
    audio.playbackRate = Number($("speed").value);
    try { await audio.play(); } catch (error) { $("note").textContent = `cannot play: ${error.message}`; }
  };
  const toggle = () => {
    if (!data.audio.both) return;
    if (!audio.paused) { audio.pause(); return; }
    if (loop && (audio.currentTime < w0 || audio.currentTime >= w1)) audio.currentTime = w0;
    start();
  };
  $("channel").addEventListener("change", () => {
    if (!apart) { route(); return; }
    const t = audio.currentTime, going = !audio.paused;
    audio.src = data.audio[$("channel").value];
    audio.addEventListener("loadedmetadata", () => { audio.currentTime = t; if (going) start(); }, { once: true });
  });
  $("speed").addEventListener("change", () => { audio.playbackRate = Number($("speed").value); });
  audio.addEventListener("play", () => { $("play").textContent = "❚❚"; cancelAnimationFrame(frame); tick(); });
  audio.addEventListener("pause", () => { $("play").textContent = "▶"; redraw(); });
  audio.addEventListener("seeked", redraw);
  const loops = () => { loop = !loop; $("loop").setAttribute("aria-pressed", String(loop)); };
  const near = () => { const around = Math.max(0.6 * (w1 - w0), 0.5); look(w0 - around, w1 + around); };
  $("play").addEventListener("click", toggle);
  $("back").addEventListener("click", () => seek(audio.currentTime - 1));
  $("on").addEventListener("click", () => seek(audio.currentTime + 1));
  $("loop").addEventListener("click", loops);
  $("fit").addEventListener("click", () => look(...whole));
  $("window").addEventListener("click", near);
  $("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; draw(); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const act = { " ": event.target.tagName === "BUTTON" ? null : toggle, ArrowLeft: () => seek(audio.currentTime - 1), ArrowRight: () => seek(audio.currentTime + 1),
      f: () => look(...whole), w: near, l: loops }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  if (!data.audio.both) for (const id of ["play", "back", "on", "loop", "channel", "speed"]) $(id).disabled = true;
  new ResizeObserver(draw).observe(wave);
  draw();
})();
