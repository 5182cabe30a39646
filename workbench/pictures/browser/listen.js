// Moves the playhead, seeks where the picture is clicked, and lets one side be heard alone. It finds its own block
// from where it stands, so that any number of blocks live in one page.
(() => {
  const root = document.currentScript.parentElement, audio = root.querySelector("audio");
  if (!audio) return;
  const svg = root.querySelector("svg"), head = root.querySelector(".wb-playhead");
  const [from, to, left, width] = ["from", "to", "left", "width"].map((name) => Number(root.dataset[name]));
  const right = width - 6, length = to - from;
  const place = () => {
    const x = left + Math.min(audio.currentTime / length, 1) * (right - left);
    head.setAttribute("x1", x);
    head.setAttribute("x2", x);
  };
  const follow = () => { place(); if (!audio.paused) requestAnimationFrame(follow); };
  audio.addEventListener("play", follow);
  for (const event of ["seeked", "timeupdate", "pause"]) audio.addEventListener(event, place);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * width;
    audio.currentTime = Math.max(0, Math.min(1, (x - left) / (right - left))) * length;
  });
  root.querySelector("select").addEventListener("change", (event) => { audio.playbackRate = Number(event.target.value); });
  for (const button of root.querySelectorAll("[data-jump]")) {
    button.addEventListener("click", () => { audio.currentTime = Number(button.dataset.jump); audio.play(); });
  }
  // Web Audio is set up when somebody first wants one side: until then the plain element plays.
  let gains = null;
  const split = () => {
    const context = new AudioContext(), source = context.createMediaElementSource(audio);
    const splitter = context.createChannelSplitter(2), merger = context.createChannelMerger(2);
    source.connect(splitter);
    // To either ear a gain from each side, so that one side alone is heard in both ears.
    gains = [0, 1].map((side) => [0, 1].map((ear) => {
      const gain = context.createGain();
      splitter.connect(gain, side);
      gain.connect(merger, 0, ear);
      return gain;
    }));
    merger.connect(context.destination);
    audio.addEventListener("play", () => context.resume());
    context.resume();
  };
  const buttons = [...root.querySelectorAll("[data-hear]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      if (!gains) split();
      const who = button.dataset.hear;
      gains.forEach((ears, side) => ears.forEach((gain, ear) => {
        gain.gain.value = who === "both" ? Number(side === ear) : Number(who === ["user", "agent"][side]);
      }));
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
    });
  }
})();
