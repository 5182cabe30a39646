# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Duplex-MPE: several humans, one assistant
#
# Three or four people talk near an assistant called Aria. It should answer the one request that is put to
# it, stay silent otherwise, and stop when somebody else has answered. Every scenario has two versions: in
# the explicit one the request names Aria, in the implicit one a cue from the context carries the address.
#
# This notebook builds two scenario pairs, runs the reference agents on them (no key, no network), scores
# them, and shows each analysis of the benchmark. It takes a few minutes. Two pairs are no result: the
# figures here show how things work. `workbench build duplex-mpe --out datasets/mpe` builds all pairs.

# %%
import tempfile
from pathlib import Path

import pandas as pd

import workbench as wb
from workbench import contract
from workbench.benchmarks.duplexmpe import cases, check
from workbench.benchmarks.duplexmpe.tables import presence_and_onset
from workbench.brought import decide
from workbench.judges.ask import OfflineJudge
from workbench.judges.base import judge_of
from workbench.judges.batch import judge_run
from workbench.judges.summary import summarise

pd.set_option("display.width", 160, "display.max_columns", 20)
folder = Path(tempfile.mkdtemp(prefix="duplex-mpe-"))
mpe = contract.get("duplex-mpe")

# %% [markdown]
# ## Scenarios
#
# The shipped pairs are text in `data/duplexmpe/`. Every rule of the benchmark is checked; a pair that
# breaks one is refused by name.

# %%
shipped = cases.load().scenarios
assert mpe.validate_authored() == []
assert len(shipped) == check.PAIRS >= 60

scenario = shipped["moving_couch_stairs"]
for index, turn in enumerate(scenario.turns):
    print(f"{index:2} {turn.label:5} {turn.speaker:5} {turn.words('implicit')}")
print("gold:", scenario.gold)

broken = scenario.model_copy(update={"bucket": 1})
print(check.scenario_faults(broken))
assert "bucket" in check.scenario_faults(broken)[0]

# %% [markdown]
# ## Build
#
# Each turn is spoken alone, in a voice that its speaker always has; turns that both versions share are one
# clip. A spoken duty preamble comes first. Gaps are silence; between an N4 question and its resolution
# there are 3 s; after the request the stream waits for the answer.

# %%
dataset = wb.build("duplex-mpe", folder / "set", limit=4)
assert mpe.validate(dataset, False) == []
assert [case.tags["condition"] for case in dataset.cases] == ["explicit", "implicit"] * 2

explicit, implicit = dataset.cases[:2]
apart = [a.id for a, b in zip(explicit.cues, implicit.cues, strict=True) if a.text != b.text]
print("cues that differ between the versions:", apart)
assert 1 <= len(apart) <= 2
for cue in explicit.cues[:4]:
    print(cue.id, cue.label, cue.speaker, f"{cue.duration_s:.1f} s", cue.start)

# %% [markdown]
# ## Run the reference agents
#
# `oracle` does what the case expects and `contrary` the opposite; `babble` never stops talking; the
# `name-spotter` answers every turn in which its name is said; the `text-reference` reads each turn as it
# ends and decides, here by rules (give `model` and `base_url` for a language model).

# %%
AGENTS = ("oracle", "contrary", "silent", "babble", "name-spotter", "text-reference")
runs = {}
for name in AGENTS:
    runs[name] = wb.run(dataset, name, folder / name, concurrency=2)
    assert len(runs[name].recorded()) == 4
    wb.score(runs[name])

# %% [markdown]
# ## The metrics
#
# Each has a denominator of its own. `fresh_onset` is strict: a new onset within 5 s after the request and
# no speech active as it ends. `response_presence` counts any speech in the response window, so an agent
# that never stops talking is always present.

# %%
tables = {name: run.tables() for name, run in runs.items()}
by_metric = {name: table["metrics"].set_index(["metric", "version"]) for name, table in tables.items()}
rates = pd.DataFrame({name: table["rate"] for name, table in by_metric.items()})
print(rates.round(3).to_string())

for metric in ("fresh_onset", "silence", "yield"):
    assert rates.loc[(metric, "both"), "oracle"] >= 0.98
    assert rates.loc[(metric, "both"), "contrary"] <= 0.02
assert rates.loc[("response_presence", "both"), "babble"] == 1.0
assert rates.loc[("fresh_onset", "both"), "babble"] == 0.0

# %% [markdown]
# ## Explicit against implicit
#
# The same event in both versions is a pair: an exact McNemar test, and the difference in percentage points
# with an interval that goes by scenarios. The name-spotter shows what the benchmark exists to show.

# %%
pairs = tables["name-spotter"]["pairs"].set_index("metric")
print(pairs[["pairs", "both", "only_explicit", "only_implicit", "neither", "difference_pp", "p_mcnemar"]].to_string())
assert pairs.loc["fresh_onset", "difference_pp"] == 100.0
assert rates.loc[("fresh_onset", "explicit"), "name-spotter"] == 1.0
assert rates.loc[("fresh_onset", "implicit"), "name-spotter"] == 0.0
assert pairs.loc["silence", "difference_pp"] == 0.0

# %% [markdown]
# ## Yield, step by step
#
# An event counts for yield only if the agent was silent during the question, began to speak in the 3 s gap
# and was still speaking when a human resolved it. The chain shows where each event left the denominator.

# %%
chain = pd.concat({name: table["yield_chain"] for name, table in tables.items()}, names=["agent"])
chain = chain[chain["version"] == "both"].droplevel(1).drop(columns="version")
print(chain.to_string())
assert chain.loc["oracle", "eligible"] == chain.loc["oracle", "yielded"] == chain.loc["oracle", "events"]
assert chain.loc["contrary", "eligible"] == chain.loc["contrary", "events"] and chain.loc["contrary", "yielded"] == 0
assert chain.loc["silent", "started_in_gap"] == 0 and chain.loc["babble", "silent_during_question"] == 0

# %% [markdown]
# ## Rankings
#
# Under presence and under fresh onset; and the silence ranking under several brief-speech thresholds. All
# of it is decided again from the stored measurements: no audio is read.

# %%
silence = wb.sweep(runs, {"brief_s": (0.0, 0.5, 1.0, 2.0)}, ranking="silence")
order = presence_and_onset(silence).set_index("system")
print(order.round(3).to_string())
assert order.loc["babble", "response_presence_rank"] == 1 and order.loc["babble", "moves"] >= 3

silence = silence.frame()
print(silence.pivot(index="brief_s", columns="system", values="silence").round(3).to_string())
assert (silence.query("system == 'oracle'")["silence"] == 1.0).all()
assert silence.query("system == 'name-spotter'")["silence"].is_monotonic_increasing

# %% [markdown]
# ## Judges
#
# `mpe_answer` decides whether an answer is right, among requests with any spoken response; `mpe_brief`
# whether speech in a silence window is a brief acknowledgement. Here the lexical baseline speaks; a model
# is named with `workbench judge RUN --judge mpe_answer --model MODEL --base-url URL`.

# %%
accuracy = {}
for name in ("oracle", "contrary"):
    result = await judge_run(runs[name], judge_of(mpe, "mpe_answer"), OfflineJudge())
    summary = summarise(runs[name], result.folder)
    accuracy[name] = summary.tables["accuracy"].set_index("version").loc["both"]
    print(
        name,
        f"{int(accuracy[name].passed)} of {int(accuracy[name].measured)} answers are right ({summary.record.spoke})",
    )
assert accuracy["oracle"].rate >= 0.98 and accuracy["contrary"].rate <= 0.02

# %% [markdown]
# ## Segments of your own
#
# With your own detector and your own annotations, no audio is needed: `workbench decide duplex-mpe FILE.json`.

# %%
item = {
    "id": "mine",
    "turns": [
        {"label": "N2", "start_s": 0.0, "end_s": 3.0},
        {"label": "T", "start_s": 4.0, "end_s": 6.5},
        {"label": "N3", "start_s": 14.0, "end_s": 16.0},
        {"label": "N4_Q", "start_s": 17.0, "end_s": 19.0},
        {"label": "N4_R", "start_s": 22.0, "end_s": 25.0},
    ],
    "model_spans": [[7.3, 10.0], [19.8, 23.6]],
    "end_s": 30.0,
}
verdicts, problems = decide(mpe, [item])
assert not problems and all(row["verdict"] == "pass" for row in verdicts)
for row in verdicts:
    print(row["turn"], row["metric"], row["verdict"], "-", row["reason"])
