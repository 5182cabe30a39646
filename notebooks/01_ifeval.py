# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1. From scripts to scores
#
# IFEval asks whether a voice agent follows instructions about *when* to speak: wait through a pause, cut in at a red
# flag, read a number back, let itself be interrupted. Sometimes the prompt states the rule, sometimes a persona only
# implies it. This notebook walks one small slice of it through the whole chain:
#
# **script → spoken case → recorded episode → measurements → verdicts → tables**
#
# Only the step from recordings to measurements reads audio. Verdicts are arithmetic on stored numbers, which is why
# other thresholds cost nothing (notebook 2).
#
# The agents here are *reference agents*. `oracle` is told what each case expects and does it; `contrary` does the
# opposite; `eager` answers every pause; `silent` never speaks. They go through the same runner, speech detector and
# scorer as any other agent, so they test the test: if the oracle failed a case, the case or the scorer would be wrong.

# %%
import os

import pandas as pd

from workbench import pictures, practice
from workbench.pictures import notebook
from workbench.pictures.notebook import listen

pd.set_option("display.max_colwidth", None)
notebook.start()

# %% [markdown]
# Where the data lies, how many cases to build if nothing is there yet, and who is tested. The first time, the slice is
# built and run here, which takes about a minute; after that the notebook only reads. 96 cases are the 48 cells of the
# grid at two levels of prompting: L1 states the rule, L2 implies it.

# %% tags=["parameters"]
data = os.environ.get("WORKBENCH_NOTEBOOK_DATA", "practice")
cases = 96
agents = ["oracle", "contrary", "eager", "silent"]

# %% [markdown]
# ## The cases
#
# `practice` does for this slice what you would do for the whole grid with `wb.build("ifeval", folder)`,
# `wb.run(dataset, "oracle", folder)` and `wb.score(run)`, or with the commands of the same names.

# %%
runs = practice.runs(data, agents, cases)
dataset = practice.dataset(data)
labels = pd.DataFrame([case.tags for case in dataset.cases])
pd.crosstab(labels["action"], labels["level"], margins=True)

# %% [markdown]
# A case is data: what is played, under which prompt, what is expected. The user's lines are written with marks for
# designed silences and events; each becomes an exact stretch of the audio, so that the window in which the agent is
# judged is known from construction and not guessed from sound.

# %%
case = next(case for case in dataset.cases if case.tags["action"] == "BACKCHANNEL" and case.tags["level"] == "L1")
for part in case.prompt:
    print(f"[{part.name}] {part.text}\n")
for cue in case.cues:
    print(f"[user, {cue.id}] {cue.text}")

# %% [markdown]
# ## The recordings
#
# Two channels on one clock: the user above, the agent below, the bars under each what the detector took for speech,
# the shaded part the window that is judged. Play it; click into the picture to jump; listen to one side alone. Here
# the oracle gives a short sign of attention inside the window, and the contrary agent does not, or takes the floor.

# %%
listen(runs["oracle"], case.id)

# %%
listen(runs["contrary"], case.id)

# %% [markdown]
# ## From measurements to verdicts
#
# Measurements hold no threshold. For this case: how many stretches of agent speech touch the window, how long the
# longest is, whether the user goes on. The verdict adds the limits, and a sentence that you can check by ear.

# %%
columns = ["case", "action", "genuine_s", "touching", "longest_s", "user_goes_on", "overlap_s"]
pd.concat([run.measurements.loc[lambda rows: rows["case"] == case.id, columns] for run in runs.values()], keys=runs)

# %%
verdicts = pd.concat([run.verdicts() for run in runs.values()], keys=runs, names=["run", None]).reset_index("run")
verdicts.loc[verdicts["case"] == case.id, ["run", "verdict", "label", "limit", "limit_value", "reason"]]

# %% [markdown]
# The same recordings under a stricter ceiling for backchannels: no audio is read again.

# %%
strict_ceiling = runs["oracle"].verdicts({"backchannel_max_s": 0.2})
strict_ceiling.loc[strict_ceiling["case"] == case.id, ["verdict", "label", "limit_value", "reason"]]

# %% [markdown]
# ## Is the test calibrated?
#
# For every expected action: of the cases that could be measured, how many each reference agent passes. The oracle
# should pass all of them and contrary none. `eager` and `silent` show what a careless agent gets for free: silence
# passes every LISTEN case, which is why one action's rate should never be read alone.

# %%
table = pd.concat([run.tables()["ias_by_action"].assign(run=name) for name, run in runs.items()])
table["passes"] = table["passed"].astype(str) + " of " + table["measured"].astype(str)
table.pivot(index="action", columns="run", values="passes")[agents]

# %% [markdown]
# A barge-in needs somebody to barge into. When the agent never began to speak, nothing was tested, and the case is
# *not measurable*: it is counted beside the rate, with its reason, and never as a failure.

# %%
runs["silent"].tables()["unmeasurable"]

# %% [markdown]
# A subtler trap: YIELD only looks for an end of agent speech soon after the barge-in. An agent that happens to fall
# silent, or starts and stops, passes without having yielded anything. The last column counts passes without the floor;
# the strict variant of the score, kept beside the paper's, refuses them.

# %%
runs["eager"].tables()["floor"]

# %% [markdown]
# ## Scores with their uncertainty
#
# IAS is the share of measured cases that pass. Its interval goes by whole conversations, since the
# levels of one conversation share their audio and are no independent evidence. Where they are few, the table says so.

# %%
by_role = pd.concat([run.tables()["ias_by_role"].assign(run=name) for name, run in runs.items()])
roles = dict(zip(by_role["role"], by_role["role"] + " " + by_role["name"], strict=True))
notebook.show(
    pictures.rates_with_intervals(table, "action", value="ias", horizontal=True),
    pictures.rates_with_intervals(by_role, "role", value="ias", labels=roles, horizontal=True),
)

# %% [markdown]
# What must hold of any such slice, as numbers:

# %%
overall = {name: run.tables()["ias"].iloc[0] for name, run in runs.items()}
assert len(dataset.cases) == sum(len(frame) for _, frame in labels.groupby("action"))
assert overall["oracle"]["ias"] == 1.0 and overall["oracle"]["excluded"] == 0
assert overall["contrary"]["ias"] == 0.0
assert 0 < overall["eager"]["ias"] < 0.5
assert overall["silent"]["excluded"] == len(labels[labels["action"].isin(["YIELD", "CONTINUE", "ACCEPT_OVERLAP"])])
assert (strict_ceiling.loc[strict_ceiling["case"] == case.id, "verdict"] == "fail").all()

# %% [markdown]
# Your own agent takes the place of these with one line, `wb.run(dataset, "openai-realtime", "runs/mine", {...})` or
# `workbench run` on the command line. `docs/agents.md` lists what can be connected.
