"""What a visit costs: bytes, requests, the whole site."""

import gzip
import json
import math
import os
import re

import nbformat
import pytest
from ipywidgets.embed import dependency_state

import pages
import weigh

SITE = pages.ROOT / "_build" / "html"


@pytest.mark.parametrize("name", pages.documents())
def test_page_weighs_little(name):
    size = len(gzip.compress((SITE / f"{name}.html").read_bytes()))
    assert size <= 300 * 1024, f"{size / 1024:.0f} KiB gzipped"


def test_site_weighs_little():
    assert sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file()) <= 15 * 2**20


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.short)
def test_first_visit_transfers_little(visit, address, page, report_visit):
    """HTML, styles, scripts, fonts and MathJax of a first visit, each gzipped as a server would send it.

    The times are reported at the end of the run and not asserted: they depend on the machine.
    """
    responses = []

    def watch(tab) -> None:
        tab.on("response", lambda response: responses.append(response) if response.url.startswith("http") else None)
        tab.add_init_script(weigh.WATCH % json.dumps(weigh.OURS))

    tab = visit(f"{address}/{page.name}.html", before=watch)
    tab.wait_for_timeout(300)
    seen = {response.url: len(gzip.compress(response.body())) for response in responses}
    ready = tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    report_visit(page.short, sum(seen.values()) / 1024, len(seen), ready, tab.evaluate("window.__usable"))
    assert sum(seen.values()) <= 700 * 1024, f"{sum(seen.values()) / 1024:.0f} KiB"
    assert len(seen) <= 30, "\n".join(seen)


@pytest.fixture(scope="module")
def slides() -> list[str]:
    """The saved sliders of one golden."""
    golden = nbformat.read(pages.Page("chapters/linear/linear-attention").golden, 4)
    outputs = [output for cell in golden.cells for output in cell.get("outputs", [])]
    texts = [output.get("data", {}).get("text/html", "") for output in outputs]
    return [text for text in texts if 'class="explore"' in text]


def test_the_plain_page_to_compare_with_has_the_same_sliders_and_frames(slides):
    """Every value of every slider is there, and moving it by its index would show the frame that we show."""
    for saved in slides:
        box = weigh.widget(saved)
        *sliders, stack = box.children
        assert [slider.description for slider in sliders] == re.findall(r"<span[^>]*>(.*?)</span> <input", saved)
        states = dependency_state([box]).values()
        links = [one["state"] for one in states if one["model_name"] == "LinkModel"]
        moves = {one["target"][0]: one["source"][0] for one in links}
        level = [stack]
        for slider in sliders:  # the first slider chooses among the outermost pictures
            assert {moves[f"IPY_MODEL_{each.model_id}"] for each in level} == {f"IPY_MODEL_{slider.model_id}"}
            assert all(len(each.children) == len(slider.options) for each in level)
            level = [child for each in level for child in each.children]
        frames = [picture.value for picture in level]
        assert frames == re.findall(r'<div class="frame"[^>]*>(.*?)</div>\n(?=<div class="frame"|<script)', saved, re.S)
        assert len(frames) == math.prod(len(slider.options) for slider in sliders) == saved.count('class="frame"')


def test_without_npm_or_network_the_comparison_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(weigh.shutil, "which", lambda name: None)
    assert weigh.main([]) == 1
    assert "npm is needed" in capsys.readouterr().err
    failing = tmp_path / ("npm.bat" if os.name == "nt" else "npm")
    failing.write_text("#!/bin/sh\necho no such host >&2\nexit 1\n", encoding="utf8")
    failing.chmod(0o755)
    monkeypatch.setattr(weigh.shutil, "which", lambda name: str(failing))
    if os.name != "nt":
        assert weigh.main([]) == 1
        assert "no network" in (said := capsys.readouterr().err) and "no such host" in said
