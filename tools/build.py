"""make book: the site in _build/html, every warning an error. Quiet unless something is wrong.

``make book EDITION=class`` builds the book without solutions into _build/class: docs/ is the site, notebooks/ are the
notebooks. With COURSE=https://github.com/OWNER/NAME their links lead to that repository, which is to hold both folders.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pages import CLASS, ROOT, BookError
from rehome import home

# jupyter_book has no __main__, and the script beside Python would not survive a moved environment
RUN = "from jupyter_book.cli.main import main; main()"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the site from the committed goldens.")
    parser.add_argument("--edition", help="class: without any solution, into _build/class")
    parser.add_argument(
        "--course", help="the repository that will hold the class edition, https://github.com/OWNER/NAME"
    )
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    try:
        if options.edition or options.course:
            where = class_edition(options.edition, options.course)
        else:
            sphinx()
            where = "the book stands in _build/html ({}): open _build/html/index.html"
    except BookError as error:
        print(f"make book stopped:\n{error}", file=sys.stderr)
        return 1
    print(where.format(f"{time.monotonic() - begin:.1f} s"))
    return 0


def sphinx(*options: str, **environment: str) -> None:
    """Run the build; BookError with what was wrong."""
    command = [sys.executable, "-c", RUN, "build", ".", "-W", "-n", "--keep-going", "-q", *options]
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, encoding="utf8"
    )
    if result.returncode:
        raise BookError(report(result.stdout + result.stderr))


def class_edition(edition: str | None, course: str | None) -> str:
    """The book without solutions: built beside the ordinary one, then put together as a course's repository has it."""
    if edition != "class":
        raise BookError(f"there is no edition {edition!r}; EDITION=class is the only one" if edition else NO_EDITION)
    names = {"ATTNLEDGER_EDITION": "class"}
    if course:
        if not course.startswith("https://github.com/"):
            raise BookError(f"{course}: Colab opens notebooks from GitHub; COURSE=https://github.com/OWNER/NAME")
        there = home(course)
        names["ATTNLEDGER_COURSE"] = f"{there.url} {there.site}"
    work = ROOT / "_build" / ".class"
    for folder in (CLASS, work):
        shutil.rmtree(folder, ignore_errors=True)
    sphinx("--path-output", str(work), **names)
    shutil.copytree(work / "_build" / "html", CLASS / "docs")
    (CLASS / "docs" / ".nojekyll").touch()  # or GitHub leaves out _static
    for made in (CLASS / "docs" / "_sources").rglob("*.ipynb"):
        name = made.relative_to(CLASS / "docs" / "_sources").as_posix().removeprefix("chapters/")
        target = CLASS / "notebooks" / Path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, target)
    links = (
        f"its links lead to {course}" if course else "it has no link to Colab (COURSE=https://github.com/OWNER/NAME)"
    )
    return f"the class edition stands in _build/class ({{}}): docs/ is the site, notebooks/ its notebooks; {links}"


NO_EDITION = "COURSE belongs to EDITION=class"


def report(output: str) -> str:
    """What went wrong, without colours and without the traceback of the tools in between."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    if "Extension error" in output:
        lines = output[output.index("Extension error") :].partition("Traceback")[0].splitlines()[1:]
    else:
        lines = [line for line in output.splitlines() if "WARNING" in line or "ERROR" in line]
    return "\n".join(lines or output.splitlines()[-30:])


if __name__ == "__main__":
    sys.exit(main())
