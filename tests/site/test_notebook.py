"""Saved sliders and filters in VS Code: its renderer puts the HTML into a box and runs the scripts beside it."""

import pytest

from attnledger.book import all_claims, explore

# what VS Code's built-in renderer does with text/html (extensions/notebook-renderers/src/index.ts, domEval)
SHOW = """
html => {
  const box = document.createElement("div");
  box.innerHTML = html;
  document.body.append(box);
  for (const node of [...box.getElementsByTagName("script")]) {
    const script = document.createElement("script");
    script.text = node.innerText;
    box.append(script);
    script.remove();
  }
}
"""


@pytest.fixture
def notebook(chromium):
    page = chromium.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content("<body></body>")
    yield page
    page.close()
    assert not errors


def test_saved_sliders_move_in_vs_code(notebook):
    for tokens in ([4096, 32_768], [131_072, 1_048_576]):
        notebook.evaluate(SHOW, explore("front.bills", tokens=tokens).saved())
    for i, (first, last) in enumerate((("4,096", "32,768"), ("131,072", "1,048,576"))):
        box = notebook.locator(".explore").nth(i)
        assert box.locator("output").inner_text() == first
        box.locator("input").focus()
        notebook.keyboard.press("End")
        assert box.locator("output").inner_text() == last
        assert [frame.is_visible() for frame in box.locator(".frame").all()] == [False, True]


def test_the_table_of_claims_filters_in_vs_code(notebook):
    notebook.evaluate(SHOW, all_claims()._repr_html_())
    rows = notebook.locator("tbody tr:visible")
    everything = rows.count()
    notebook.locator(".all-claims input").fill("delta")
    assert 0 < rows.count() < everything
