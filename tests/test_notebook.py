"""The notebook examples/quickstart.ipynb: it runs from top to bottom and shows its pages inline."""

import html
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell):
    """What a cell prints, and the page in its frame."""
    printed = "".join(output.get("text", "") for output in cell.outputs)
    texts = [output.data.get("text/plain", "") for output in cell.outputs if "data" in output]
    frames = [
        html.unescape(page)
        for output in cell.outputs
        if "data" in output
        for page in re.findall(r'srcdoc="([^"]*)"', output.data.get("text/html", ""))
    ]
    return printed + "".join(texts), frames


def test_its_outputs_are_cleared():
    cells = code_cells(nbformat.read(NOTEBOOK, as_version=4))
    assert cells
    assert [cell.outputs or cell.execution_count for cell in cells] == [None] * len(cells)


@pytest.mark.slow
def test_it_trains_twice_and_shows_the_verdicts_and_the_pages(tmp_path, monkeypatch):
    monkeypatch.setenv("QUICKSTART_STEPS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the cell of the real model downloads it where there is a GPU
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = list(map(shown, code_cells(notebook)))
    printed = "\n".join(text for text, _ in results)
    for run in ("plain", "gtpo"):
        assert re.search(rf"{run}, step 4: .*unknown", printed)  # a run is judged from step 10 on
    report, plain_tokens, gtpo_tokens, both = [page for _, frames in results for page in frames]
    assert "<svg" in report
    assert '"method":"grpo"' in plain_tokens
    assert '"method":"gtpo"' in gtpo_tokens
    assert "plain/inspect.html#step-2" in both
    assert "gtpo/inspect.html#step-2" in both
    assert not (tmp_path / "runs/qwen").exists()
