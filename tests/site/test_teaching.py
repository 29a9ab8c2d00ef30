"""The teaching page leads where it says: sliders stand as it sets them, and pages say what it quotes."""

import html
import re

import pytest

import pages

SITE = pages.ROOT / "_build" / "html"
FILE = SITE / "chapters" / "appendix" / "teaching.html"


def rows(label: str) -> list[list[str]]:
    """The cells of the table with that label, row by row."""
    table = re.search(rf'aria-label="{label}">(.*?)</table>', FILE.read_text(encoding="utf8"), re.S)[1]
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in table.split("<tr>")]
    return [[html.unescape(cell) for cell in cells] for cells in found if cells]


SETTINGS, ANSWERS = rows("settings to show"), rows("misconceptions")


def test_there_are_settings_and_answers():
    assert len(SETTINGS) >= 10 and len(ANSWERS) >= 15


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row[0])
def test_a_setting_shows_what_the_teaching_page_says(visit, address, row):
    link, words, _ = re.search(r'href="(.*?)">(.*?)(</a>)', row[1]).groups()
    tab = visit(f"{address}/chapters/appendix/{link}")
    box = tab.locator(f"[id='{link.partition('#')[2].partition('=')[0]}']")
    for value in box.locator("output").all_inner_texts():
        assert value in words
    frames = [frame.locator(".reading").inner_text() for frame in box.locator(".frame").all() if frame.is_visible()]
    assert frames == [row[2]]


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row[0])
def test_the_numbers_of_an_answer_stand_on_the_page_it_names(row):
    link = re.search(r'href="(.*?)"', row[2])[1]
    text = (FILE.parent / link).resolve().read_text(encoding="utf8")
    said = html.unescape(re.sub(r"<[^>]+>", " ", text))
    for number in re.findall(r"-?\d[\d,.^]*-?\d*", row[1]):
        assert number.strip(".,") in said, number
