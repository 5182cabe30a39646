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
# # 2. Does the ranking survive another threshold?
#
# Every verdict rests on a limit that somebody chose: how long is too long a wait, how short must a backchannel be. A
# ranking of systems that turns over when a limit moves by a fifth of a second is no finding. This notebook decides the
# same recordings under 180 settings, and then asks two questions that a sweep alone does not answer: is the detector a
# hidden threshold, and is the ranking larger than the noise of the sample?
#
# The systems have a known truth. Three of them do what a case expects with a fixed probability, one when the prompt
# states the rule and a lower one when it only implies it; the difference is their true *Entailment Gap*. They also
# dawdle, each by a random delay of known mean, so that limits matter. `eager` ignores its prompt and has no gap at all.

# %%
import os

import holoviews as hv
import pandas as pd

import workbench as wb
from workbench import pictures, practice
from workbench.pictures import notebook

notebook.start()

# %% [markdown]
# Name runs of your own in `mine` (folders that `workbench run` and `workbench score` have written, all on the same
# dataset) to ask the questions of them; left empty, practice runs are made, in about a minute the first time.

# %% tags=["parameters"]
data = os.environ.get("WORKBENCH_NOTEBOOK_DATA", "practice")
cases = 96
agents = ["quick", "steady", "slow", "eager"]
mine = []

# %%
runs = {run.name: run for run in map(wb.load_run, mine)} or practice.runs(data, agents, cases)
tables = {name: run.tables() for name, run in runs.items()}
gaps = pd.concat([table["entailment_gap"].query("role == 'all'").assign(run=name) for name, table in tables.items()])
known = next(iter(runs.values())).benchmark.practice.systems
pd.DataFrame({name: known[name][1] for name in runs if name in known}).T.dropna()

# %% [markdown]
# ## 180 settings in one call
#
# The grid is the paper's: 3 waits x 5 yield latencies x 3 interrupt latencies x 4 backchannel ceilings. Kendall's tau
# says how far the ranking under a setting agrees with the ranking under the defaults: 1 is the same order, 0 no
# relation, -1 the reverse. It is tau-b, which allows for ties. The shares say how often the first place, the first two
# as a set, and the whole order are the default's.

# %%
sweep = wb.sweep(runs)
summary = sweep.summary()
pd.Series(summary)

# %%
frame = sweep.frame()
one_each = frame.drop_duplicates(list(sweep.settings))
notebook.show(pictures.tau_histogram(one_each["tau"]))

# %% [markdown]
# Where in the grid do scores move? Each cell is a mean over the two thresholds that are not on the axes. The lower
# chart follows the ranking from one end of the yield latency to the other, the rest at their defaults.

# %%
slowest = "slow" if "slow" in runs else next(iter(runs))
at = sweep.curve("yield_latency_ms").rename(columns={"yield_latency_ms": "at", "system": "run"})
notebook.show(
    pictures.sweep_heatmap(frame.query("system == @slowest"), "max_wait_s", "yield_latency_ms", "ias", what=slowest),
    pictures.slope_chart(at, value="entailment_gap", name="Entailment Gap"),
)

# %% [markdown]
# ## One limit at a time
#
# A sweep over few values can miss a cliff between them. Curves may be as fine as you like, since a setting costs
# microseconds. A system whose curve still rises at the default is one that the limit, and not the behaviour, fails.

# %%
fine = wb.sweep(runs, {"max_wait_s": [0.1 * step for step in range(2, 41)]})
notebook.show(pictures.threshold_curves(fine.curve("max_wait_s"), "max_wait_s", "ias", run="system", default=2.0))

# %% [markdown]
# The whole grid is a tidy frame, so any explorer of yours takes it. With HoloViews every system is a curve and every
# wait a chart of its own, the other two limits as the runs were scored. (`groupby` without `layout` would give menus,
# which need a network for their styles.)

# %%
hv.extension("bokeh", inline=True)
grid = hv.Dataset(frame, kdims=[*sweep.settings, "system"], vdims=["ias", "entailment_gap"])
held = sweep.settings.iloc[sweep.default][["interrupt_latency_ms", "backchannel_max_s"]].to_dict()
curves = grid.select(**held).to(hv.Curve, "yield_latency_ms", "ias", groupby=["max_wait_s", "system"])
charts = curves.overlay("system").layout("max_wait_s").opts(hv.opts.Curve(width=330, height=300))
notebook.show(hv.render(charts.cols(3)))

# %% [markdown]
# Better than a grid: the exact nearest value on either side at which the *ranking* changes. Only values at which some
# case turns can matter, so exactly those are tried. An empty field means that no value of this limit alone does it.

# %%
flips = pd.DataFrame([vars(wb.ranking_flips(runs, threshold)) for threshold in sweep.settings])
flips

# %% [markdown]
# And the same for single cases: the verdicts that hang by a thread, with the value at which they would turn.

# %%
near = runs[slowest].flips()
near.query("threshold != 'readback_coverage'").head(6)

# %% [markdown]
# ## The detector is a threshold too
#
# The same recordings under other settings of the speech detector, and under a second detector that knows nothing but
# energy. Onsets move by tens of milliseconds; the column to read is how many *verdicts* change. Practice speech is
# clean and synthetic, the easiest there is: expect more changes where there is noise, breath or a hesitant voice.
# Speech probabilities are computed once a run and kept, so that a further setting costs next to nothing.

# %%
sensitivity = wb.sensitivity(runs[slowest])
shown = ["setting", "passed", "measured", "changed", "pass_to_fail", "fail_to_pass", "onset_shift_abs_p90_ms"]
sensitivity[shown]

# %% [markdown]
# ## Stable is not the same as certain
#
# All of the above moves the limits over the *same* cases. Other cases would have given other numbers: the bars show
# the gap with its interval over conversations. Where intervals overlap widely, a ranking that
# survives all 180 settings is a stable statement about this sample, and says little about the next one. With practice
# runs you can see it: compare the gaps with the truth in the table above (`stated` less `implied`).

# %%
notebook.show(pictures.gap_bars(gaps, "run"))

# %%
changed = sensitivity.set_index("setting")["changed"]
assert len(sweep.settings) == 180 and len(frame) == 180 * len(runs)
assert sweep.tau[sweep.default] == 1.0 and -1 <= summary["tau_min"] <= summary["tau_median"] <= 1
assert 0 < summary["order_kept"] <= summary["top1_kept"] <= 1
assert changed["default"] == 0 and changed.max() <= sensitivity["measured"].max()
for threshold in sweep.settings:  # at the default the curve passes through the default scores
    here = sweep.curve(threshold).query(f"{threshold} == {runs[slowest].limits()[threshold]}")
    assert list(here["entailment_gap"].round(9)) == list(gaps["gap"].round(9))
if not mine:
    assert gaps.set_index("run")["gap"]["eager"] == 0.0
    wait = fine.curve("max_wait_s").query("system == 'slow'")["ias"]
    assert wait.is_monotonic_increasing and wait.iloc[-1] > wait.iloc[0]
