"""The book's data files, and a record of which ones a page has opened (its golden's hash covers them)."""

import json
from importlib import resources
from typing import Any

import yaml

OPENED: set[str] = set()
_FOLDER = resources.files("attnledger") / "data"


def read(name: str) -> Any:
    """The content of the data file `name` (.yaml or .json)."""
    OPENED.add(name)
    text = (_FOLDER / name).read_text(encoding="utf8")
    return json.loads(text) if name.endswith(".json") else yaml.load(text, Loader=_Loader)


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
