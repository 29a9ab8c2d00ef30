"""make book: the site in _build/html, every warning an error. Quiet unless something is wrong."""

import re
import subprocess
import sys
import time

from pages import ROOT

# jupyter_book has no __main__, and the script beside Python would not survive a moved environment
RUN = "from jupyter_book.cli.main import main; main()"


def main() -> int:
    begin = time.monotonic()
    command = [sys.executable, "-c", RUN, "build", ".", "-W", "-n", "--keep-going", "-q"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf8")
    if result.returncode:
        print(report(result.stdout + result.stderr), file=sys.stderr)
        return 1
    print(f"the book stands in _build/html ({time.monotonic() - begin:.1f} s): open _build/html/index.html")
    return 0


def report(output: str) -> str:
    """What went wrong, without colours and without the traceback of the tools in between."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    if "Extension error" in output:
        lines = output[output.index("Extension error") :].partition("Traceback")[0].splitlines()[1:]
    else:
        lines = [line for line in output.splitlines() if "WARNING" in line or "ERROR" in line]
    return "\n".join(["make book stopped:", *(lines or output.splitlines()[-30:])])


if __name__ == "__main__":
    sys.exit(main())
