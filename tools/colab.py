"""make test-colab: every golden on a kernel with Colab's older stack, compared by the same runner.

Drawings are sanitised away (another matplotlib writes another SVG); texts, tables, ledgers, spoken numbers and the data
behind each figure are compared.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import ROOT

PYTHON = ROOT / ".venv-colab" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        spec = {
            "argv": [str(PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Colab's stack",
            "language": "python",
        }
        kernel = Path(folder) / "kernels" / "colab"
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf8")
        command = [sys.executable, "-m", "pytest", "notebooks", "--nbval", "--nbval-kernel-name", "colab"]
        command += ["--nbval-sanitize-with", "tests/colab.cfg", "-p", "no:mpl", "-o", "addopts="]
        paths = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        return subprocess.run(command, cwd=ROOT, env=os.environ | {"JUPYTER_PATH": paths}).returncode


if __name__ == "__main__":
    sys.exit(main())
