"""A release's notebooks install and link to its tag: the release workflow's own commands, on a copy of the book."""

import json
import os
import re
import subprocess
import tomllib

import pytest
import yaml

import pages

WORKFLOWS = sorted((pages.ROOT / ".github" / "workflows").glob("*.yml"))


def commands(workflow: str, step: str) -> str:
    """The shell lines of a step."""
    jobs = yaml.safe_load((pages.ROOT / ".github" / "workflows" / workflow).read_text(encoding="utf8"))["jobs"]
    return next(one["run"] for job in jobs.values() for one in job["steps"] if one.get("name") == step)


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
def test_a_release_installs_and_links_to_its_own_tag(sample):
    lines = commands("release.yml", "Let the notebooks name the tag").splitlines()
    assert lines[1:] == ["make notebooks", "make test", "make site-archive"]
    subprocess.run(["bash", "-ec", lines[0]], cwd=sample.root, env=os.environ | {"TAG": "v1.2.3"}, check=True)
    made = sample.run("tools/notebooks.py")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("up to date") == 2, "only links and the set-up cell change: nothing is executed"
    url = pages.repository()[0]
    golden = json.loads((sample.root / "notebooks" / "part" / "page.ipynb").read_text(encoding="utf8"))
    text = "\n".join("".join(cell["source"]) for cell in golden["cells"])
    assert re.findall(rf"git\+{re.escape(url)}@([^\"\s]+)", text) == ["v1.2.3"]
    assert sample.run("tools/build.py").returncode == 0
    slug = url.removeprefix("https://github.com/")
    for name in ("intro", "part/page"):
        page = sample.root / "_build" / "html" / ("" if name == "intro" else "chapters") / f"{name}.html"
        links = re.findall(rf"colab\.research\.google\.com/github/{slug}/blob/([^\"]+)", page.read_text("utf8"))
        assert links == [f"v1.2.3/notebooks/{name}.ipynb"]
    for notebook in (sample.root / "notebooks").rglob("*.ipynb"):
        text = notebook.read_text(encoding="utf8")
        assert not re.search(rf"{re.escape(slug)}(?:/blob/|/tree/|@)main", text)


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
def test_a_release_refuses_a_tag_that_is_not_the_version(tmp_path):
    """The step that guards the tag, in a repository whose remote has one release already."""
    lines = commands("release.yml", "The tag is the version, and new")
    version = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]["version"]
    (tmp_path / "pyproject.toml").write_bytes((pages.ROOT / "pyproject.toml").read_bytes())
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["remote", "add", "origin", "."]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)

    def guard(tag: str) -> int:
        env = os.environ | {"TAG": tag}
        return subprocess.run(["bash", "-ec", lines], cwd=tmp_path, env=env, capture_output=True).returncode

    assert guard(f"v{version}") == 0
    assert guard(f"v{version}.1") == guard(version) == guard("") == 1
    subprocess.run([*git, "tag", f"v{version}"], cwd=tmp_path, check=True)
    assert guard(f"v{version}") == 1


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_no_more_rights_than_it_needs(file):
    workflow = yaml.safe_load(file.read_text(encoding="utf8"))
    assert workflow["permissions"] == {"contents": "write" if file.name == "release.yml" else "read"}
    for job in workflow["jobs"].values():
        assert not set(job.get("permissions", {})) - {"pages", "id-token"}
        assert job.get("timeout-minutes", 0) > 0 or "permissions" in job


def test_binder_gets_a_pytorch_for_cpus():
    """Its wheels come from PyTorch's own index, at the version of the book's pins."""
    asked = (pages.ROOT / ".binder" / "requirements.txt").read_text(encoding="utf8").splitlines()
    pins = (pages.ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    assert asked[0] == "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert asked[1] in [re.sub(r"\+cpu$", "", pin) for pin in pins] and asked[1].startswith("torch==")
    assert asked[-1] == ".", "the book itself"
