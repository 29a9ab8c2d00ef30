"""make site-archive: the site as one zip, the same bytes for the same site, with its SHA-256 beside it."""

import hashlib
import sys
import zipfile

from pages import ROOT

SITE = ROOT / "_build" / "html"
OUT = ROOT / "_build" / "the-attention-ledger.zip"


def main() -> int:
    with zipfile.ZipFile(OUT, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(path for path in SITE.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"the-attention-ledger/{file.relative_to(SITE).as_posix()}", (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(OUT.read_bytes()).hexdigest()
    OUT.with_suffix(".zip.sha256").write_text(f"{digest}  {OUT.name}\n", encoding="utf8")
    print(f"{OUT.relative_to(ROOT)}: {OUT.stat().st_size / 2**20:.1f} MiB, sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
