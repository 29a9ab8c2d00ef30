"""Bytes in words: binary units (KiB, MiB, GiB) as the book shows them, GB where a vendor or a source says so."""

from numbers import Real

from ._checks import choice, count, whole

BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def in_unit(size: int | float, unit: str) -> int | float:
    """`size` bytes counted in `unit` (KiB = 1024, KB = 1000, ...); an int where it comes out whole."""
    choice("unit", unit, (*BINARY, *DECIMAL))
    return whole(_size(size) / (BINARY | DECIMAL)[unit])


def format_bytes(size: int | float, *, digits: int = 4) -> str:
    """`size` bytes in the largest binary unit that leaves at least 1, to `digits` significant digits: ``"128 KiB"``."""
    units = list(BINARY)
    place = max((i for i, unit in enumerate(units) if _size(size) >= BINARY[unit]), default=0)
    value = float(f"{size / BINARY[units[place]]:.{count('digits', digits)}g}")
    if value >= 1024 and place + 1 < len(units):  # 1023.99 KiB rounds to the next unit's 1
        place, value = place + 1, value / 1024
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") + f" {units[place]}"


def _size(size: int | float) -> int | float:
    if isinstance(size, bool) or not isinstance(size, Real) or not 0 <= size < float("inf"):
        raise ValueError(f"size wants a finite number of bytes of at least 0, got {size!r}")
    return size
