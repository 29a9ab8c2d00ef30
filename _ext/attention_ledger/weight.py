"""A light site: what no page can load is pruned, and icons come as a few glyphs instead of a library.

The theme draws its icons with a script of 1.5 MB although its style sheet knows them as well; without the script they
come from web fonts, which are cut down here to the icons that the site shows.
"""

import re
import shutil
from pathlib import Path

from fontTools import subset

# what a page with TeX input and HTML output loads of MathJax
MATHJAX = ("mathjax/tex-chtml.js", "mathjax/output/chtml/fonts/woff-v2/")
_SHEET = re.compile(r'<link\b[^>]*\brel="stylesheet"[^>]*>\s*')
_HREF = re.compile(r'href="((?:\.\./)*)_static/([^"?]+)')
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_GLYPH = re.compile(r'"\\([0-9a-f]{2,5})\s*"')


# linked by every page, needed by none
UNUSED = (
    "fontawesome.js",
    "sphinx-thebe.css",
    "sphinx-design.min.css",
    "design-tabs.js",
)


def is_dead_weight(script) -> bool:
    """Thebe's scripts (they load from another host and are not used) and the icon script."""
    body = getattr(script, "attributes", {}).get("body") or ""
    text = f"{getattr(script, 'filename', '') or ''}{body}".lower()
    return "thebe" in text or "fontawesome" in text


def drop_scripts(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    scripts = context.get("script_files", [])
    context["script_files"] = [script for script in scripts if not is_dead_weight(script)]


def prune(site: Path) -> None:
    """Delete the files that no page loads, and cut the icon fonts down."""
    static = site / "_static"
    for file in [*static.rglob("*.map"), *static.glob("*macros.html"), *(static / "mathjax").rglob("*")]:
        if file.is_file() and not file.relative_to(static).as_posix().startswith(MATHJAX):
            file.unlink()
    shutil.rmtree(static / "locales", ignore_errors=True)  # translations that the theme has already used
    bundle(site)
    for name in UNUSED:
        for file in static.rglob(f"{name}*"):
            file.unlink()
    glyphs = used_glyphs(static / "styles" / "site.css", named_icons(site))
    for file in (static / "vendor" / "fontawesome").rglob("*"):
        if file.name in ("fa-solid-900.woff2", "fa-brands-400.woff2"):
            cut(file, glyphs)
        elif file.is_file() and file.name != "LICENSE.txt":
            file.unlink()


def bundle(site: Path) -> None:
    """One style sheet instead of a dozen, and no link to what is not needed: a first visit asks for less."""
    static = site / "_static"
    sheets: dict[str, None] = {"basic.css": None}  # which theme.css imports
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf8")
        for name in UNUSED:
            text = re.sub(rf"<(?:script|link)\b[^>]*{re.escape(name)}[^>]*>(?:</script>)?\s*", "", text)
        found = [_HREF.search(link).groups() for link in _SHEET.findall(text)]
        if found:
            sheets |= dict.fromkeys(name for _, name in found)
            one = f'<link rel="stylesheet" href="{found[0][0]}_static/styles/site.css">\n'
            page.write_text(_SHEET.sub(lambda _, once=iter([one]): next(once, ""), text), encoding="utf8")
    parts = []
    for name in sheets:
        content = (static / name).read_text(encoding="utf8")
        if "/" not in name:  # the bundle stands in styles/, one folder deeper
            content = re.sub(r"""url\((['"]?)(?![a-z]+:|#)""", r"url(\1../", content)
        parts.append(re.sub(r'@charset "[^"]*";|@import [^;]*;', "", content))
        (static / name).unlink()
    (static / "styles" / "site.css").write_text("\n".join(parts), encoding="utf8")


def named_icons(site: Path) -> set[str]:
    """The icon classes that a page or a script of the site names."""
    static = site / "_static"
    files = [*site.rglob("*.html"), *(file for file in static.rglob("*.js") if "mathjax" not in file.parts)]
    return set(re.findall(r"\bfa-[a-z0-9-]+", "\n".join(file.read_text(encoding="utf8") for file in files)))


def used_glyphs(sheet: Path, named: set[str]) -> set[int]:
    """Code points of the icons that are named, or that the style sheet always draws; the other rules are dropped."""
    glyphs: set[int] = set()

    def keep(rule: re.Match) -> str:
        selector, body = rule.groups()
        classes = set(re.findall(r"\.(fa-[a-z0-9-]+)", selector))
        drawn = {int(code, 16) for code in _GLYPH.findall(body)}
        drawn |= {ord(letter) for letter in body if "\ue000" <= letter <= "\uf8ff"}  # written out
        if classes and not classes & named and drawn:
            return ""
        glyphs.update(drawn)
        return rule[0]

    sheet.write_text(_RULE.sub(keep, sheet.read_text(encoding="utf8")), encoding="utf8")
    return glyphs


def cut(font: Path, glyphs: set[int]) -> None:
    """Keep only `glyphs` of a font."""
    options = subset.Options(flavor="woff2", layout_features=[], hinting=False, notdef_outline=True)
    loaded = subset.load_font(str(font), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=glyphs)
    cutter.subset(loaded)
    subset.save_font(loaded, str(font), options)
