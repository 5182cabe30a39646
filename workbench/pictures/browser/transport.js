// The one player behind every recording: owns the audio element, which is the clock, and says on every animation
// frame where it stands. `moved(t)` is told then; `view` and `look`, where given, are what is on screen, so that the
// page is turned when the playhead runs out of it; `told` gets what went wrong. Inlined before the script that uses it.
const transport = (audio, { moved, told = () => {}, state = () => {}, view = null, look = null }) => {
  let context = null, gains = null, frame = 0, channel = "both", rate = 1, loop = null, resume = null, sides = null;
  audio.preload = "auto";
  const length = () => (Number.isFinite(audio.duration) ? audio.duration : 0);
  const place = () => moved(audio.currentTime);
  const tick = () => {
    if (loop && audio.currentTime >= loop[1]) audio.currentTime = loop[0];
    place();
    const seen = view && !audio.paused && view(), t = audio.currentTime;
    if (seen && t > seen[1] && t < length()) look(t, t + seen[1] - seen[0]);
    if (!audio.paused) frame = requestAnimationFrame(tick);
  };
  const route = () => {
    // Web Audio is set up when somebody first wants one side: until then the plain element plays. Sound read from a
    // file beside a page may not be taken apart by a script, so such pages have a file a side.
    if (sides || (channel === "both" && !gains)) return;
    if (!gains) {
      context = new AudioContext();
      const source = context.createMediaElementSource(audio);
      const split = context.createChannelSplitter(2), merge = context.createChannelMerger(2);
      source.connect(split);
      // To either ear a gain from each side, so that one side alone is heard in both ears.
      gains = [0, 1].map((side) => [0, 1].map((ear) => {
        const gain = context.createGain();
        split.connect(gain, side);
        gain.connect(merge, 0, ear);
        return gain;
      }));
      merge.connect(context.destination);
      context.resume();
    }
    gains.forEach((ears, side) => ears.forEach((gain, ear) => {
      gain.gain.value = Number(channel === "both" ? side === ear : channel === ["user", "agent"][side]);
    }));
  };
  const start = async () => {
    audio.playbackRate = rate;
    try { await audio.play(); } catch (error) { told(`cannot play: ${error.message}`); }
  };
  const seek = (t) => { audio.currentTime = Math.max(0, length() ? Math.min(t, length()) : t); place(); };
  const load = (src, at = 0, going = false) => {
    resume = { at, going };
    audio.pause();
    if (src) audio.src = src; else audio.removeAttribute("src");
    told(src ? "" : "no audio");
    place();
  };
  audio.addEventListener("loadedmetadata", () => {
    const { at, going } = resume ?? { at: 0 };
    resume = null;
    if (at > 0) audio.currentTime = Math.min(at, length());
    place();
    if (going) start();
  });
  audio.addEventListener("play", () => { context?.resume(); state(true); cancelAnimationFrame(frame); tick(); });
  audio.addEventListener("pause", () => { cancelAnimationFrame(frame); place(); state(false); });
  audio.addEventListener("seeked", place);
  audio.addEventListener("error", () => { if (audio.getAttribute("src")) told("the audio cannot be loaded"); });
  return {
    seek, load, place, length,
    now: () => resume?.at || audio.currentTime,
    going: () => resume?.going || !audio.paused,
    pause: () => audio.pause(),
    toggle: () => {
      if (!audio.getAttribute("src")) return;
      if (!audio.paused) { audio.pause(); return; }
      if (loop && (audio.currentTime < loop[0] || audio.currentTime >= loop[1])) audio.currentTime = loop[0];
      start();
    },
    apart: (files) => { sides = files; },
    hear: (who) => {
      const changed = channel !== who;
      channel = who;
      if (sides && changed) load(sides[who], audio.currentTime, !audio.paused); else route();
    },
    speed: (value) => { rate = audio.playbackRate = value; },
    loop: (span) => { loop = span; },
    close: () => {
      audio.pause(); audio.removeAttribute("src"); audio.load();
      cancelAnimationFrame(frame);
      if (context) context.close();
    },
  };
};

// The buttons of a player, built into `into`. `act` says what they do; `paint` shows the state they stand for.
const controls = (into, act) => {
  const bar = document.createElement("div");
  bar.className = "wb-bar";
  into.append(bar);
  const button = (label, title, press, to = bar) => {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", textContent: label, title });
    made.setAttribute("aria-label", title);
    made.addEventListener("click", press);
    to.append(made);
    return made;
  };
  const select = (title, options, press) => {
    const made = document.createElement("select");
    made.title = title;
    made.setAttribute("aria-label", title);
    for (const [value, label] of options) made.append(new Option(label, value));
    made.addEventListener("change", () => { press(made.value); made.blur(); });
    bar.append(made);
    return made;
  };
  const output = (tag, name) => {
    const made = document.createElement(tag);
    made.className = name;
    bar.append(made);
    return made;
  };
  const play = button("▶", "play or pause (space)", act.toggle);
  const back = button("−1 s", "back one second (left arrow)", () => act.by(-1));
  const on = button("+1 s", "on one second (right arrow)", () => act.by(1));
  const clock = output("output", "wb-clock");
  const hear = output("span", "wb-hear");
  const channel = select("channels to hear", [["both", "both (user left, agent right)"], ["user", "user only"], ["agent", "agent only"]], act.channel);
  const speed = select("speed", [0.5, 0.75, 1, 1.25, 1.5, 2].map((each) => [String(each), `${each}×`]), (each) => act.speed(Number(each)));
  const loop = button("loop window", "loop the window (l)", act.loop);
  for (const [label, title, press] of act.more ?? []) button(label, title, press);
  const note = output("span", "wb-note");
  return {
    button, hear,
    clock: (t, length) => { clock.textContent = `${t.toFixed(2)} / ${length.toFixed(2)} s`; },
    note: (text) => { note.textContent = text; },
    playing: (going) => { play.textContent = going ? "❚❚" : "▶"; },
    paint: (state) => {
      channel.value = state.channel; speed.value = String(state.speed);
      loop.classList.toggle("wb-on", state.loop); loop.setAttribute("aria-pressed", String(state.loop));
    },
    usable: (there) => { for (const each of [play, back, on, loop, channel, speed]) each.disabled = !there; },
  };
};
