"""The address stands in _config.yml; README.md and CITATION.cff repeat it, and tools/rehome.py moves all three."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import pages
import rehome

ROOT = Path(__file__).resolve().parent.parent
OLD = "https://github.com/first-owner/the-book"
OLD_SITE = "https://first-owner.github.io/the-book"
README = f"""\
# The book

Read it at <{OLD_SITE}/intro.html>, or clone {OLD}.git and say `pip install "lib @ git+{OLD}@main"`.
[![Colab](badge)](https://colab.research.google.com/github/first-owner/the-book/blob/main/notebooks/intro.ipynb)
[![Binder](badge)](https://mybinder.org/v2/gh/first-owner/the-book/main)
Not this book: {OLD}-slides, {OLD_SITE}-slides, https://github.com/other/thing,
not-first-owner/the-book and first-owner/the-book-2.
"""


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the places, at an address of its own."""
    config = (ROOT / "_config.yml").read_text(encoding="utf8")
    here = rehome.present()
    (tmp_path / "_config.yml").write_text(
        config.replace(here.url, OLD).replace(here.site, OLD_SITE), encoding="utf8", newline="\n"
    )
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf8")
    (tmp_path / "CITATION.cff").write_text(
        citation.replace(here.url, OLD).replace(here.site, OLD_SITE), encoding="utf8"
    )
    (tmp_path / "README.md").write_text(README, encoding="utf8")
    monkeypatch.setattr(rehome, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    return tmp_path


# the book itself


def test_every_place_has_the_same_address():
    assert rehome.disagreements() == []


def test_the_addresses_are_ones_that_rehome_would_write():
    here = rehome.present()
    assert rehome.home(here.url, here.site) == here


def test_the_address_stands_in_no_other_place():
    here = rehome.present()
    places = {rehome.CONFIG, *rehome.REPEATING}
    ours = [path for path in ROOT.iterdir() if path.name not in {*places, "_build", "notebooks"}]
    ours = [path for path in ours if not path.name.startswith(".") and not path.name.endswith(".egg-info")]
    files = [file for path in ours for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf8", errors="ignore") for file in files}
    others = [name for name, text in texts.items() if here.url in text or here.site in text]
    assert not others


def test_the_citation_names_the_addresses_the_version_and_the_licenses():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    here = rehome.present()
    assert (citation["repository-code"], citation["url"]) == (here.url, here.site)
    assert citation["version"] == project["version"]
    assert citation["title"] == pages.config()["title"]
    assert citation["license"] == [project["license"], "CC-BY-4.0"]


def test_the_licenses_are_there_in_full():
    code = (ROOT / "LICENSE").read_text(encoding="utf8")
    text = (ROOT / "LICENSE-text").read_text(encoding="utf8")
    owner = "(c) 2026 The Attention Ledger contributors"
    assert code.startswith("MIT License") and "WITHOUT WARRANTY OF ANY KIND" in code and owner in code
    assert owner in text and all(f"Section {i} -- " in text for i in range(1, 9))


# moving


def test_moving_rewrites_every_occurrence_and_nothing_else(copy):
    assert rehome.main(["https://github.com/New-Owner/new.book"]) == 0
    url, site = "https://github.com/New-Owner/new.book", "https://New-Owner.github.io/new.book"
    assert (copy / "README.md").read_text(encoding="utf8") == (
        README.replace(f"{OLD_SITE}/", f"{site}/")
        .replace(f"{OLD}.git", f"{url}.git")
        .replace(f"{OLD}@", f"{url}@")
        .replace("/first-owner/the-book/", "/New-Owner/new.book/")
    )
    citation = yaml.safe_load((copy / "CITATION.cff").read_text(encoding="utf8"))
    assert (citation["repository-code"], citation["url"]) == (url, site)
    assert pages.repository()[0] == url and pages.address("intro") == f"{site}/intro.html"


def test_moving_keeps_the_comments_of_the_configuration(copy):
    before = (copy / "_config.yml").read_text(encoding="utf8").splitlines()
    rehome.main(["https://github.com/a/b"])
    after = (copy / "_config.yml").read_text(encoding="utf8").splitlines()
    changed = [line.strip() for line, old in zip(after, before, strict=True) if line != old]
    assert changed == ["url: https://github.com/a/b", "baseurl: https://a.github.io/b"]


def test_moving_there_and_back_changes_nothing(copy):
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert rehome.main(["https://github.com/a/b"]) == rehome.main([OLD]) == 0
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before


def test_after_moving_the_places_agree(copy, capsys):
    assert rehome.main(["--check"]) == 0
    rehome.main(["https://github.com/a/b"])
    assert rehome.main(["--check"]) == 0
    assert "now run make notebooks" in capsys.readouterr().out


def test_a_missing_readme_is_skipped(copy):
    (copy / "README.md").unlink()
    assert rehome.main(["https://github.com/a/b"]) == 0
    assert rehome.main(["--check"]) == 0
    assert not (copy / "README.md").exists()


def test_an_address_that_contains_the_old_one_is_not_rewritten_twice(copy):
    rehome.main([f"{OLD}-and-more"])
    assert rehome.present().url == f"{OLD}-and-more"
    assert f"git+{OLD}-and-more@main" in (copy / "README.md").read_text(encoding="utf8")


# addresses


@pytest.mark.parametrize(
    "url, site, home",
    [
        ("https://github.com/a/b", None, ("https://github.com/a/b", "https://a.github.io/b")),
        ("https://github.com/a/b/", None, ("https://github.com/a/b", "https://a.github.io/b")),
        ("https://github.com/a/b.git", None, ("https://github.com/a/b", "https://a.github.io/b")),
        ("https://github.com/a/a.github.io", None, ("https://github.com/a/a.github.io", "https://a.github.io")),
        ("https://github.com/a/b", "https://book.org/", ("https://github.com/a/b", "https://book.org")),
        ("https://gitlab.com/g/sub/b", "https://g.io/b", ("https://gitlab.com/g/sub/b", "https://g.io/b")),
    ],
)
def test_the_site_is_derived_for_github_and_given_elsewhere(url, site, home):
    assert rehome.home(url, site) == rehome.Home(*home)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["github.com/a/b"], "'github.com/a/b' is not an address such as https://github.com/OWNER/NAME"),
        (["git@github.com:a/b.git"], "is not an address such as"),
        (["http://github.com/a/b"], "is not an address such as"),
        (["https://github.com/a b/c"], "is not an address such as"),
        (["https://github.com/a/b?tab=readme"], "is not an address such as"),
        (["https://localhost/a/b"], "is not an address such as"),
        (["https://github.com"], "does not name an owner and a repository"),
        (["https://github.com/a"], "does not name an owner and a repository"),
        (["https://github.com/a/b/tree/main"], "does not name an owner and a repository"),
        (["https://gitlab.com/a/b"], "Say --site"),
        (["https://github.com/a/b", "--site", "book.org"], "'book.org' is not a site's address"),
    ],
)
def test_a_bad_address_is_refused_and_changes_nothing(copy, capsys, arguments, message):
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert rehome.main(arguments) == 1
    assert message in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before


@pytest.mark.parametrize("arguments", [[], [OLD, "--check"]])
def test_one_address_or_check_is_wanted(arguments, capsys):
    with pytest.raises(SystemExit):
        rehome.main(arguments)
    assert "give either the new address or --check" in capsys.readouterr().err


# disagreement


@pytest.mark.parametrize(
    "place, old, new, message",
    [
        ("_config.yml", OLD, "https://github.com/second/the-book", "README.md does not name the repository"),
        ("_config.yml", OLD_SITE, "https://book.org", "CITATION.cff does not name the site, https://book.org"),
        ("CITATION.cff", OLD, "https://github.com/second/book", "CITATION.cff does not name the repository"),
        ("CITATION.cff", OLD, f"{OLD}-2", "CITATION.cff does not name the repository"),
        ("README.md", OLD_SITE, "https://second.github.io/the-book", "README.md does not name the site"),
        ("README.md", "/gh/first-owner", "/gh/second", "README.md has second/the-book"),
        ("README.md", "Not this book", "https://second.github.io/the-book", "README.md has https://second.github.io"),
    ],
)
def test_places_that_disagree_are_named(copy, capsys, place, old, new, message):
    text = (copy / place).read_text(encoding="utf8")
    assert old in text
    (copy / place).write_text(text.replace(old, new), encoding="utf8")
    assert rehome.main(["--check"]) == 1
    assert message in capsys.readouterr().err


def test_it_runs_as_a_command_on_its_own_book(copy):
    (copy / "tools").mkdir()
    for name in ("rehome.py", "pages.py"):
        shutil.copy(ROOT / "tools" / name, copy / "tools" / name)
    run = [sys.executable, str(copy / "tools" / "rehome.py")]
    moved = subprocess.run([*run, "https://github.com/a/b"], capture_output=True, text=True)
    assert moved.returncode == 0 and "rewrote README.md" in moved.stdout, moved.stderr
    assert rehome.present().url == "https://github.com/a/b"
