"""Bytes in words: binary units (KiB, MiB, GiB) as the book shows them, GB where a vendor or a source says so."""

from decimal import Decimal

from ._checks import amount, choice, count, whole

BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def in_unit(size: int | float, unit: str) -> int | float:
    """`size` bytes counted in `unit` (KiB = 1024, KB = 1000, ...); an int where it comes out whole.

    ValueError: a size that is not a finite number of at least 0, or an unknown unit.
    """
    choice("unit", unit, (*BINARY, *DECIMAL))
    return whole(amount("size", size, least=0) / (BINARY | DECIMAL)[unit])


def format_bytes(size: int | float, *, digits: int = 4) -> str:
    """`size` bytes in the largest binary unit that leaves at least 1, to `digits` significant digits: ``"128 KiB"``.

    ValueError: a size that is not a finite number of at least 0, or fewer than one digit.
    """
    size, digits = amount("size", size, least=0), count("digits", digits)
    units = list(BINARY)
    place = max((i for i, unit in enumerate(units) if size >= BINARY[unit]), default=0)
    value = Decimal(f"{float(size / BINARY[units[place]]):.{digits}g}")
    if value >= 1024 and place + 1 < len(units):  # 1023.99 KiB rounds to the next unit's 1
        place, value = place + 1, value / 1024
    return f"{value:,f} {units[place]}"
