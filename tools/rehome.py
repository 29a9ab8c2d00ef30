"""Move the book to another address: python tools/rehome.py https://github.com/OWNER/NAME

The address stands in _config.yml (repository.url, and html.baseurl for the site); README.md and CITATION.cff repeat it,
and all three are rewritten here. The notebooks' links follow with ``make notebooks``, which executes nothing for it.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from urllib.parse import urlsplit

import yaml

from pages import ROOT, BookError

CONFIG = "_config.yml"
REPEATING = ("README.md", "CITATION.cff")


@dataclass(frozen=True)
class Home:
    """The repository's address and the site's."""

    url: str
    site: str

    @property
    def slug(self) -> str:
        """``OWNER/NAME``, as Colab's and Binder's links have it."""
        return urlsplit(self.url).path.strip("/")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rewrite the repository's address wherever it stands.")
    parser.add_argument("url", nargs="?", help="the new address, such as https://github.com/OWNER/NAME")
    parser.add_argument("--site", help="the site's address (default for GitHub: https://OWNER.github.io/NAME)")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where the places disagree")
    options = parser.parse_args(arguments)
    if bool(options.url) == options.check:
        parser.error("give either the new address or --check")
    try:
        if options.check:
            found = disagreements()
            print("\n".join(found) or "every place has the same address", file=sys.stderr if found else sys.stdout)
            return bool(found)
        new = home(options.url, options.site)
        for name in move(new):
            print(f"rewrote {name}")
        print(f"the book is at {new.url}, its site at {new.site}; now run make notebooks")
    except BookError as error:
        print(f"rehome: {error}", file=sys.stderr)
        return 1
    return 0


def home(url: str, site: str | None = None) -> Home:
    """The home at `url`; BookError, saying what is wanted, for anything but an address with an owner and a name."""
    wanted = "an address such as https://github.com/OWNER/NAME"
    url = _address(url, wanted).removesuffix(".git")
    parts = urlsplit(url)
    steps = parts.path.strip("/").split("/")
    on_github = parts.netloc.lower() in ("github.com", "www.github.com")
    if len(steps) < 2 or (on_github and len(steps) != 2):
        raise BookError(f"{url} does not name an owner and a repository; {wanted} is")
    if site:
        return Home(url, _address(site, "a site's address such as https://OWNER.github.io/NAME"))
    if not on_github:
        raise BookError(f"where is the site of {url}? Say --site https://...; only GitHub's can be derived")
    owner, name = steps
    own_page = name.lower() == f"{owner}.github.io".lower()
    return Home(url, f"https://{name}" if own_page else f"https://{owner}.github.io/{name}")


def _address(text: str, wanted: str) -> str:
    if not re.fullmatch(r"https://[\w.-]+\.\w+(?::\d+)?(?:/[\w.-]+)*/?", text):
        raise BookError(f"{text!r} is not {wanted}")
    return text.rstrip("/")


def present() -> Home:
    """The home that _config.yml names."""
    settings = yaml.safe_load((ROOT / CONFIG).read_text(encoding="utf8"))
    return Home(settings["repository"]["url"].rstrip("/"), settings["html"]["baseurl"].rstrip("/"))


def move(new: Home) -> list[str]:
    """Rewrite every occurrence of the present home by `new`; the names of the files that changed."""
    old = present()
    by = {old.slug: new.slug, old.site: new.site, old.url: new.url}
    # in one pass, so that nothing new is rewritten again; the longest first
    first = sorted(by, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, first))})(?![\w-])")
    changed = []
    for name in (CONFIG, *REPEATING):
        file = ROOT / name
        if not file.exists():
            continue
        text = file.read_text(encoding="utf8")
        moved = pattern.sub(lambda match: by[match[0]], text)
        if moved != text:
            file.write_text(moved, encoding="utf8", newline="\n")
            changed.append(name)
    return changed


def disagreements() -> list[str]:
    """What differs from _config.yml in the places that repeat its addresses, one sentence each."""
    here, found = present(), []
    name = re.escape(here.slug.rpartition("/")[2])
    repositories = re.compile(rf"(?:github\.com[/:]|/github/(?:[\w-]+/)?|/gh/)([\w.-]+/{name})(?![\w-])")
    sites = re.compile(rf"https?://[\w-]+\.github\.io/{name}(?![\w-])")
    for place in REPEATING:
        if not (ROOT / place).exists():
            continue
        text = (ROOT / place).read_text(encoding="utf8")
        for what, address in (("repository", here.url), ("site", here.site)):
            if not re.search(rf"{re.escape(address)}(?![\w-])", text):
                found.append(f"{place} does not name the {what}, {address}")
        others = {slug for slug in repositories.findall(text) if slug != here.slug}
        others |= {site for site in sites.findall(text) if site != here.site}
        found += [f"{place} has {other}; _config.yml says {here.url} and {here.site}" for other in sorted(others)]
    return found


if __name__ == "__main__":
    sys.exit(main())
