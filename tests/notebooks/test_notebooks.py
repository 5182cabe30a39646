"""The notebooks run top to bottom and stay in step with their scripts.

A plain `pytest` runs them through nbmake; `pytest --nbmake notebooks` does so on the full practice slice.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbmake.nb_run import NotebookRun

FOLDER = Path(__file__).parents[2] / "notebooks"
SCRIPTS = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
SHARED = ("01_ifeval", "02_threshold_sweep", "03_compare_and_listen")
"""Those that take their data from WORKBENCH_NOTEBOOK_DATA."""

TIMEOUT_S = 600
"""A cell's limit; generous, since the machine may be busy."""


@pytest.mark.parametrize("name", SHARED)
def test_it_runs(name, notebook_data):
    result = NotebookRun(FOLDER / f"{name}.ipynb", TIMEOUT_S).execute()
    assert result.error is None, f"cell {result.error.failing_cell_index}: {result.error.trace}"
    drawn = [
        output
        for cell in result.nb.cells
        for output in cell.get("outputs", [])
        if "application/vnd.bokehjs_exec.v0+json" in output.get("data", {})
    ]
    assert drawn, "no picture was drawn"
    # A CDN in an output would leave the notebook blank without a network.
    heavy = ["cdn.bokeh.org", "cdn.holoviz.org", "unpkg.com"]
    texts = [str(output) for cell in result.nb.cells for output in cell.get("outputs", [])]
    assert not [host for host in heavy for text in texts if f"https://{host}" in text]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_and_notebook_are_in_step(script):
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    expected = jupytext.read(script)

    def cells(of):
        return [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in of.cells]

    assert cells(notebook) == cells(expected), f"run: jupytext --update --to ipynb notebooks/{script.name}"
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(script):
    path = script.with_suffix(".ipynb")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert path.stat().st_size < 50_000


@pytest.mark.parametrize("name", SHARED)
def test_it_is_short_and_has_one_cell_of_parameters(name):
    notebook = jupytext.read(FOLDER / f"{name}.py")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.metadata.get("tags") for cell in code].count(["parameters"]) == 1
    assert any(line.startswith("assert ") for line in code[-1].source.splitlines())
