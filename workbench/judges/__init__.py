"""Judges of content: one client, strict reading, cached, checked.

`registry` lists the judges; `base` says what one is; `batch.judge_run` judges a run, `summary` makes
tables of it, `check` asks whether the judge is any good, `compare` and `human` how far it agrees.
"""
