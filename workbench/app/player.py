"""The player of the Case view and of Compare; its script is shared with exported pages and notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import param
from panel.custom import JSComponent

from workbench.app.look import css
from workbench.pictures import standalone

SPEEDS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


class Player(JSComponent):
    """Plays one of `systems` and is the clock of the picture: moves the spans named in `heads`.

    systems : dicts with name, src (address of the audio, '' for none), lead (s, what its clock shows where the
    picture has 0), length_s and group (of the same case: a change keeps the moment). range : name of the Bokeh
    range that is watched. viewport : what that range shows, told 40 ms after it came to rest. time : where
    playback stands when it is not playing. window : what `loop` repeats.
    """

    systems = param.List([])
    heard = param.Integer(0, doc="the system that sounds")
    start = param.Number(0.0, doc="where a newly loaded file stands")
    heads = param.List([])
    range = param.String("")
    channel = param.Selector(default="both", objects=["both", "user", "agent"])
    speed = param.Number(1.0, bounds=(0.5, 2.0))
    loop = param.Boolean(False)
    window = param.List([])
    viewport = param.List([])
    time = param.Number(0.0)
    playing = param.Boolean(False)

    _esm = standalone.player_script() + (Path(__file__).parent / "browser" / "player.js").read_text(encoding="utf-8")
    _stylesheets = [css("controls"), standalone.controls_style()]

    def seek(self, seconds: float) -> None:
        self._send_msg({"seek": float(seconds)})

    def pause(self) -> None:
        self._send_msg({"pause": True})

    def press(self, key: str) -> None:
        """Answer a key that every player knows: l, [, ], and the arrows."""
        match key:
            case "l":
                self.loop = not self.loop
            case "[" | "]":
                at = SPEEDS.index(self.speed) if self.speed in SPEEDS else 2
                self.speed = SPEEDS[min(max(at + (1 if key == "]" else -1), 0), len(SPEEDS) - 1)]
            case "ArrowLeft" | "ArrowRight":
                self._send_msg({"by": -1.0 if key == "ArrowLeft" else 1.0})


def system(name: str, detail: Any, src: str, lead_s: float = 0.0) -> dict[str, Any]:
    """One entry of `Player.systems`. src : address of the audio."""
    return {"name": name, "src": src, "lead": lead_s, "length_s": detail.duration_s, "group": " ".join(detail.key[1:])}
