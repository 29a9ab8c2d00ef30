"""make site-archive: the site as one zip, the same bytes for the same site, with its SHA-256 beside it.

``make site-archive EDITION=class`` packs the class edition, site and notebooks.
"""

import argparse
import hashlib
import sys
import zipfile
from pathlib import Path

from pages import CLASS, ROOT

SITE = ROOT / "_build" / "html"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pack the built site.")
    parser.add_argument("--edition", choices=["class"], help="the edition without solutions")
    if parser.parse_args(arguments).edition:
        pack(CLASS, "the-attention-ledger-class")
    else:
        pack(SITE, "the-attention-ledger")
    return 0


def pack(folder: Path, name: str) -> None:
    """The files of `folder` in ``_build/name.zip``, and its checksum."""
    out = ROOT / "_build" / f"{name}.zip"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}", (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    out.with_suffix(".zip.sha256").write_text(f"{digest}  {out.name}\n", encoding="utf8")
    print(f"{out.relative_to(ROOT)}: {out.stat().st_size / 2**20:.1f} MiB, sha256 {digest}")


if __name__ == "__main__":
    sys.exit(main())
