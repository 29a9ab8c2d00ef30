"""``python -m attnledger.timing record --suite decode``: run a suite and write its recording.

``python -m attnledger.timing agree`` times the same work with other timers and prints the ratios.
"""

import argparse
import sys
from pathlib import Path

from .agreement import agreement
from .recording import dumps, loads
from .suites import DTYPES, SUITES, file_name, place, record

EIGHT = 7.5  # minutes for all suites together, start and ceilings included


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m attnledger.timing", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="run a suite and write one JSON with all samples")
    what = recorder.add_mutually_exclusive_group(required=True)
    what.add_argument("--suite", choices=SUITES, help="the suite to run")
    what.add_argument("--all", action="store_true", help="all suites, one file each, within eight minutes")
    what.add_argument("--list", action="store_true", help="say what the suites are")
    recorder.add_argument("--device", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    recorder.add_argument(
        "--dtype", choices=DTYPES, help="default: fp32 on a CPU, bf16 on a card that has it, else fp16"
    )
    recorder.add_argument("--minutes", type=float, help="at most so many for a suite (default: 5; with --all 1.5)")
    recorder.add_argument("--output", type=Path, help="file, or folder (with --all always a folder); default: here")
    agree = commands.add_parser("agree", help="time the same work with torch's and, on a card, triton's timer")
    agree.add_argument("--device", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    options = parser.parse_args(arguments)
    if options.command == "agree":
        for row in agreement(place(options.device)):
            work, ms, overhead = (row.pop(key) for key in ("work", "ms", "overhead"))
            ratios = ", ".join(f"{ratio:.3f} of {name}" for name, ratio in row.items())
            print(f"{work}: {ms:.4g} ms, {ratios}; own overhead {1e3 * overhead:.2g} µs", flush=True)
        return 0
    if options.list:
        print("\n".join(f"{suite.name:13} {suite.about}" for suite in SUITES.values()))
        return 0
    minutes = options.minutes or (EIGHT / len(SUITES) if options.all else 5.0)
    dtype = options.dtype and DTYPES[options.dtype]
    for name in SUITES if options.all else [options.suite]:
        try:
            data = record(name, device=options.device, dtype=dtype, minutes=minutes)
            file = _file(options.output or Path(), file_name(data), folder=options.all)
            text = dumps(data)
            file.write_text(text, encoding="utf8", newline="\n")
        except (RuntimeError, ValueError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"{name}: interrupted before anything was measured", file=sys.stderr)
            return 130
        print(f"{file}: {loads(text).place}; {data['seconds']:.0f} s", flush=True)
        if data["interrupted"]:
            return 130
    return 0


def _file(output: Path, name: str, *, folder: bool) -> Path:
    if folder or output.is_dir():
        output.mkdir(parents=True, exist_ok=True)
        return output / name
    return output


if __name__ == "__main__":
    sys.exit(main())
