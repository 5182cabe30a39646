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
# # 3. Comparing systems, and reading failures by ear
#
# Two systems met the same cases, so compare them case by case and not rate by rate: what both pass or both fail tells
# nothing about their difference. This notebook tests the difference, finds where it lies, and then leaves numbers
# behind and listens to the cases that decide it.

# %%
import os

import pandas as pd

import workbench as wb
from workbench import pictures, practice
from workbench.pictures import notebook
from workbench.pictures.notebook import listen
from workbench.statistics import minimum_detectable_difference

notebook.start()

# %% [markdown]
# The first system is the baseline. Name scored runs of your own in `mine`, or leave it empty for practice runs: the
# skill of `slow` is a little higher than that of `quick`, but it takes more than a second longer for everything.

# %% tags=["parameters"]
data = os.environ.get("WORKBENCH_NOTEBOOK_DATA", "practice")
cases = 96
agents = ["quick", "steady", "slow"]
mine = []

# %%
runs = {run.name: run for run in map(wb.load_run, mine)} or practice.runs(data, agents, cases)
base, other = next(iter(runs)), list(runs)[-1]
comparison = wb.compare(**runs)
print(f"{len(comparison.joined)} cases that every run has; {len(comparison.only_in)} that only some have")

# %% [markdown]
# ## Is there a difference?
#
# Wins are cases that a system passes and the baseline fails. The difference, in percentage points, has an interval
# from drawing conversations again; so has the first p value. McNemar's exact test counts every case as independent,
# which levels of one conversation are not: where the two disagree, believe the first. With several systems against
# one baseline both are corrected by Holm's method, and it is the corrected values that count.

# %%
tests = comparison.tests().set_index("system")
tests.T

# %% [markdown]
# No difference found is not the same as no difference. From the share of cases on which the two disagree follows the
# smallest difference that a run of this size would probably have found (power 80 %). Levels of a conversation mostly
# agree, so cases are taken here as worth half their number.

# %%
pair = tests.loc[other]
discordance = (pair["wins"] + pair["losses"]) / pair["pairs"]
detectable = minimum_detectable_difference(int(pair["pairs"]), discordance, design_effect=2.0)
print(
    f"they disagree on {discordance:.0%} of {pair['pairs']} cases; found {pair['difference_pp']:+.1f} points; ", end=""
)
print(detectable.reason or f"differences from {detectable.difference_pp:.1f} points on would probably be found")

# %% [markdown]
# ## Where does it lie?
#
# By expected action, level, role, probe, speaker or length of the case. Slices are small and many: take them as
# places to look, not as findings.

# %%
by_action = comparison.by("action")
by_action[["action", "cases", f"rate:{base}", f"rate:{other}", f"wins:{other}", f"losses:{other}"]]

# %%
table = pd.concat([run.tables()["ias_by_action"].assign(run=name) for name, run in runs.items()])
notebook.show(pictures.rates_with_intervals(table, "action", value="ias", horizontal=True))

# %% [markdown]
# ## What happened?
#
# The cases on which the first and the last system part, with the reason of each verdict side by side. A reason is
# evidence: it names the number and the limit.

# %%
lost = comparison.joined.query(f"`verdict:{base}` == 'pass' and `verdict:{other}` == 'fail'")
won = comparison.joined.query(f"`verdict:{base}` == 'fail' and `verdict:{other}` == 'pass'")
reasons = ["case", "action", f"reason:{base}", f"reason:{other}"]
lost[reasons].head(8).style.hide()

# %% [markdown]
# Now listen. Choose a case that was lost because of an onset that came too late, where there is one, and hear both
# systems in it: the shaded window, the limit as a dashed line, the bars what the detector heard. Three questions are
# worth asking of every failure. Is the verdict right by ear? Is the bar where you hear speech begin? And would a
# person have minded?

# %%
timed = lost[lost["action"].isin(["TAKE_TURN", "INTERRUPT", "YIELD"])]
chosen = pd.concat([timed, lost, comparison.joined])["case"].iloc[0]
listen(runs[base], chosen)

# %%
listen(runs[other], chosen)

# %% [markdown]
# A close look at the seconds around the window, exact to the sample:

# %%
w0 = runs[other].measurements.set_index("case")["w0_s"][chosen]
listen(runs[other], chosen, start_s=w0 - 2, end_s=w0 + 6, audio="flac")

# %% [markdown]
# The same as a picture without sound, for a paper or a slide:

# %%
listen(runs[base], chosen, audio=None)

# %% [markdown]
# And one that was won, for the other side of the story:

# %%
listen(runs[other], pd.concat([won, comparison.joined])["case"].iloc[0])

# %%
outcomes = {name: comparison.outcome(name) for name in runs}
assert pair["wins"] == len(won) and pair["losses"] == len(lost)
assert pair["wins"] + pair["losses"] + pair["ties"] == pair["pairs"]
assert abs(pair["difference_pp"] - 100 * (len(won) - len(lost)) / pair["pairs"]) < 1e-9
assert by_action[f"wins:{other}"].sum() == len(won) and by_action["cases"].sum() == len(comparison.joined)
assert pair["low_pp"] <= pair["difference_pp"] <= pair["high_pp"]
assert (tests["p_mcnemar_holm"] >= tests["p_mcnemar"]).all()
assert "data:audio/ogg" in listen(runs[other], chosen).html
if not mine:
    by = {name: run.verdicts() for name, run in runs.items()}
    assert len(lost) > 0 and all((frame["verdict"] != "unmeasurable").all() for frame in by.values())

# %% [markdown]
# To hand this to somebody else, export it to one HTML file that shows every picture and plays every recording without
# a network; `docs/notebooks.md` has the command. To go through many cases, use the inspector instead.
