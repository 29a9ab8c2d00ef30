"""make bench: the library's speed against its peers, as ratios taken inside interleaved rounds, with must and reach.

B = 1, H = 4, d = 128, fp32, two threads, which wait for work as they do wherever torch is installed, unless
OMP_WAIT_POLICY says otherwise (PASSIVE puts them to sleep at once, and waking costs the forms of many small products
most). Each measure runs in a process of its own: what earlier ones left behind in the allocator moves times by several
per cent, and the number of threads is read when torch starts. A ratio is the median over rounds, in which the
candidates take turns, with its quartiles; lower is better unless it says >=. What the machine can do at most stands
beside it: a square matrix product and a copy, in the same run. A row whose peer is not installed says so.
``--quick``: small sizes, which judge nothing; ``--only WORD``: rows whose measure has the word in its name. The table
is printed, and with environment and samples written to _build/bench.json. It is meant to take no more than five minutes
on two quiet cores.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import torch

from attnledger import timing
from attnledger.ops.delta import chunked_delta_rule, recurrent_delta_rule
from attnledger.ops.flash import flash_attention
from attnledger.ops.linear import chunked_linear_attention, identity
from attnledger.ops.msa import block_sparse_attention, select_blocks
from attnledger.ops.sparse import sliding_window_attention

OUTPUT = Path(__file__).resolve().parent.parent / "_build" / "bench.json"
SETTINGS = {"OMP_NUM_THREADS": "2"}
H, D = 4, 128
CHUNK = 32  # what delta_rule takes by itself
QUICK = {2048: 128, 4096: 192, 8192: 256, 16384: 384}


@dataclass
class Row:
    """One line of the table; ``must`` and ``reach`` are the most ``measured`` may be, or the least if ``floor``."""

    measure: str
    must: float | None
    reach: float | None
    floor: bool = False
    measured: float | None = None
    quartiles: tuple[float, float] | None = None
    rounds: int | None = None
    note: str = ""
    samples: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"

        def reached(bound: float) -> bool:
            return self.measured >= bound if self.floor else self.measured <= bound

        if self.reach is not None and reached(self.reach):
            return "reached"
        return "kept" if self.must is None or reached(self.must) else "MISSED"


# --- peers -----------------------------------------------------------------------------------------------------------


def fla_naive(operator: str):
    """fla-core's ``fla/ops/<operator>/naive.py``, read from its file: importing the package needs Triton."""
    package = find_spec("fla")
    if package is None:
        raise ModuleNotFoundError("No module named 'fla'", name="fla")
    file = Path(next(iter(package.submodule_search_locations))) / "ops" / operator / "naive.py"
    spec = spec_from_file_location(f"fla_naive_{operator}", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transformers_form(name: str) -> Callable:
    """A pure-torch fallback of transformers; imported here, for it takes seconds."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it is a fallback, and says so
    if name == "chunk_kimi_delta_attention":
        from transformers.models.kimi_linear import modeling_kimi_linear as module
    else:
        from transformers.models.qwen3_next import modeling_qwen3_next as module
    return getattr(module, name)


# --- inputs and counts -----------------------------------------------------------------------------------------------


def normal(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def delta_inputs(T: int, *, channel: bool = False) -> dict[str, torch.Tensor]:
    """q, k, v, beta, g; keys of length 1. The decays per channel reach from 0 to −100: any g <= 0 is allowed."""
    q, k, v = (normal(1, H, T, D, seed=seed) for seed in range(3))
    beta = normal(1, H, T, seed=3).sigmoid()
    g = -100 * normal(1, H, T, D, seed=4).sigmoid().pow(8) if channel else torch.nn.functional.logsigmoid(beta * 4)
    return {"q": q, "k": k / k.norm(dim=-1, keepdim=True), "v": v, "beta": beta, "g": g}


def kernel_layout(form: Callable, inputs: dict[str, torch.Tensor]) -> Callable:
    """``form`` on inputs laid out (B, T, H, d), copied beforehand."""
    q, k, v, beta, g = (x.transpose(1, 2).contiguous() for x in inputs.values())
    return lambda: form(q, k, v, g=g, beta=beta)[0]


def delta_flops(T: int, chunk: int = CHUNK) -> int:
    """FLOP that ``chunked_delta_rule`` runs with one decay per head, a multiply-add being 2.

    Its matrix products and its solve; per chunk: scores of keys and queries ``4 C² d``, both against the state
    ``4 C d²``, the solve ``C³``, what is written ``2 C² d``, what is read of it ``2 C² d``, and the state ``2 C d²``.
    """
    per_chunk = 8 * chunk**2 * D + 6 * chunk * D**2 + chunk**3
    return H * -(-T // chunk) * per_chunk


def ratio(row: Row, taken: timing.Comparison, over: str, under: str, factor: float = 1.0) -> Row:
    """Fill in ``factor`` times the time of ``over`` divided by that of ``under``, round by round."""
    pairs = zip(taken.timings[over].samples, taken.timings[under].samples, strict=True)
    rounds = timing.Samples(tuple(factor * a / b for a, b in pairs))
    row.measured, row.quartiles, row.rounds = rounds.median, (rounds.p25, rounds.p75), rounds.n
    row.samples |= {name: timing_.samples for name, timing_ in taken.timings.items()}
    row.note = "; ".join(filter(None, [row.note, "too uneven to quote" if rounds.flagged else ""]))
    return row


# --- the rows --------------------------------------------------------------------------------------------------------


class Bench:
    """Sizes and patience of a run; every other method yields rows."""

    def __init__(self, quick: bool):
        self.quick = quick
        self.compare = partial(timing.compare, warmup_ms=1 if quick else 500, run_ms=1 if quick else 1200)

    def size(self, T: int) -> int:
        return QUICK[T] if self.quick else T

    def gated_delta(self) -> Iterator[Row]:
        for T, must, reach in ((4096, 0.60, 0.45), (16384, 0.55, 0.40)):
            row = Row(f"chunked gated delta / transformers chunk, T={self.size(T)}", must, reach)
            yield row
            inputs = delta_inputs(self.size(T))
            peer = kernel_layout(transformers_form("torch_chunk_gated_delta_rule"), inputs)
            taken = self.compare({"here": partial(chunked_delta_rule, **inputs), "transformers": peer})
            ratio(row, taken, "here", "transformers")

    def gemm_share(self) -> Iterator[Row]:
        n = 256 if self.quick else 2048
        a, b, out = torch.ones(n, n), torch.ones(n, n), torch.empty(n, n)
        for T in (2048, 4096):
            row = Row(f"share of GEMM FLOP/s, chunked gated delta, T={self.size(T)}", 0.24, 0.45, floor=True)
            yield row
            work = {"here": partial(chunked_delta_rule, **delta_inputs(self.size(T)))}
            taken = self.compare(work | {"gemm": lambda: torch.mm(a, b, out=out)})
            ratio(row, taken, "gemm", "here", factor=delta_flops(self.size(T)) / (2 * n**3))

    def recurrence(self) -> Iterator[Row]:
        row = Row(f"recurrence / chunked gated delta, T={self.size(2048)}", 6.0, 10.0, floor=True)
        yield row
        inputs = delta_inputs(self.size(2048))
        both = {"chunked": partial(chunked_delta_rule, **inputs), "recurrent": partial(recurrent_delta_rule, **inputs)}
        ratio(row, self.compare(both), "recurrent", "chunked")

    def channel_delta(self) -> Iterator[Row]:
        for T, must in ((2048, 15.0), (4096, 20.0)):
            name = f"transformers chunk_kimi / chunked KDA, g from 0 to -100, T={self.size(T)}"
            row = Row(name, must, 30.0, floor=True)
            yield row
            inputs = delta_inputs(self.size(T), channel=True)
            peer = kernel_layout(transformers_form("chunk_kimi_delta_attention"), inputs)
            taken = self.compare({"here": partial(chunked_delta_rule, **inputs), "transformers": peer})
            ratio(row, taken, "transformers", "here")

    def window(self) -> Iterator[Row]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        window = 64 if self.quick else 512
        flex = flex_attention if self.quick else torch.compile(flex_attention, dynamic=False)
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        for T in (2048, 8192):
            row = Row(f"window {window} / FlexAttention, T={self.size(T)}", 1.0, 0.8)
            yield row
            q, k, v = (normal(1, H, self.size(T), D, seed=seed) for seed in range(3))
            T = self.size(T)
            mask = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < window), None, None, T, T, device="cpu")
            here = partial(sliding_window_attention, q, k, v, window=window)
            taken = self.compare({"here": here, "flex": partial(flex, q, k, v, block_mask=mask)})
            compiled = taken.timings["flex"].first / 1e3
            row.note = "FlexAttention not compiled" if self.quick else f"compiled apart, in {compiled:.0f} s"
            ratio(row, taken, "here", "flex")

    def block_sparse(self) -> Iterator[Row]:
        block, top_k = (16, 4) if self.quick else (128, 16)
        for T, must, reach in ((8192, 1.0, 0.8), (16384, 0.7, 0.5)):
            row = Row(f"block-sparse (k={top_k}, B={block}) / SDPA, T={self.size(T)}", must, reach)
            yield row
            T = self.size(T)
            q, k, v = (normal(1, heads, T, D, seed=seed) for seed, heads in enumerate((H, 1, 1)))
            iq, ik = normal(1, 1, T, D, seed=3), normal(1, 1, T, D, seed=4)
            start = time.perf_counter()
            blocks = select_blocks(iq, ik, block_size=block, top_k=top_k)
            row.note = f"one key head; selection apart, in {time.perf_counter() - start:.2f} s"
            wide = [x.expand(1, H, T, D).contiguous() for x in (k, v)]
            dense = partial(torch.nn.functional.scaled_dot_product_attention, q, *wide, is_causal=True)
            here = partial(block_sparse_attention, q, k, v, blocks, block_size=block)
            ratio(row, self.compare({"here": here, "sdpa": dense}), "here", "sdpa")

    def flash(self) -> Iterator[Row]:
        T = self.size(4096)
        row = Row(f"flash_attention / SDPA, T={T}", 3.0, 1.4)
        yield row
        q, k, v = (normal(1, H, T, D, seed=seed) for seed in range(3))
        blocks = (32, 64) if self.quick else (128, 256, 512)
        tried = {f"blocks of {n}": partial(flash_attention, q, k, v, block_q=n, block_k=n) for n in blocks}
        dense = partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=True)
        taken = self.compare(tried | {"sdpa": dense})
        best = min(tried, key=lambda name: taken.timings[name].median)
        row.note = f"the best of {len(tried)}: {best}"
        ratio(row, taken, best, "sdpa")

    def flash_memory(self) -> Iterator[Row]:
        """Grows as T: doubling T doubles it, where a score matrix would quadruple."""
        short, long = self.size(4096), self.size(8192)
        row = Row(f"flash_attention, extra memory at T={long} over T={short}", 2.5, None)
        yield row
        used = {T: self._fresh_memory(T) for T in (short, long)}
        if not all(used.values()):
            row.note = "too little to see, or this system does not tell"
            return
        row.measured = used[long] / used[short]
        row.samples = {f"bytes, T={T}": (float(n),) for T, n in used.items()}
        sizes = used[long] / 2**20, H * long * D * 4 / 2**20, H * long**2 * 4 / 2**20
        row.note = "{:.0f} MiB; q alone {:.1f}, a score matrix {:.0f}".format(*sizes)

    @staticmethod
    def _fresh_memory(T: int) -> int | None:
        """Growth of the resident peak in one call, in a process that has not held larger tensors before."""
        run = [sys.executable, __file__, "--memory", str(T)]
        told = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
        return int(told) if told != "None" else None

    def linear(self) -> Iterator[Row]:
        T = self.size(8192)
        row = Row(f"chunked linear attention / fla naive chunk, T={T}", 1.0, 0.7)
        yield row
        naive = fla_naive("linear_attn").naive_chunk_linear_attn
        q, k, v = (normal(1, H, T, D, seed=seed) for seed in range(3))
        q_, k_, v_ = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        here = partial(chunked_linear_attention, q, k, v, feature_map=identity, normalize=False)
        ratio(row, self.compare({"here": here, "fla": lambda: naive(q_, k_, v_, scale=1.0)}), "here", "fla")

    def errors(self) -> Iterator[Row]:
        """Largest error of fp32 against the recurrence in fp64, over the largest output, over all g."""
        T = 128 if self.quick else 512
        for name, must, beta, repeated in (
            ("beta <= 1", 3e-6, None, False),
            ("beta = 1, repeated keys", 3e-6, 1.0, True),
            ("beta = 2", 3e-6, 2.0, False),
            ("beta = 2, repeated keys", 5e-4, 2.0, True),
        ):
            row = Row(f"error of chunked delta, {name}, T={T}", must, None, note="scalar and per-channel g")
            yield row
            found = {}
            for g in (0.0, -0.01, -5.0, -100.0):
                for size in ((1, H, T), (1, H, T, D)):
                    inputs = delta_inputs(T) | {"g": torch.full(size, g)}
                    if beta is not None:
                        inputs["beta"] = torch.full_like(inputs["beta"], beta)
                    if repeated:
                        inputs["k"] = inputs["k"][..., :1, :].expand_as(inputs["k"])
                    truth = recurrent_delta_rule(**{key: x.double() for key, x in inputs.items()})
                    error = (chunked_delta_rule(**inputs) - truth).abs().max() / truth.abs().max()
                    found[f"g={g:g}, {'channel' if len(size) == 4 else 'scalar'}"] = (error.item(),)
            row.samples, row.measured = found, max(error for (error,) in found.values())

    measures = (
        gated_delta, gemm_share, recurrence, channel_delta, window, block_sparse, flash, flash_memory, linear, errors
    )  # fmt: skip

    def rows(self, measure: str) -> Iterator[Row]:
        """A measure's rows, each measured when asked for; without its peer, a row that says so."""
        row = None
        try:
            for following in getattr(self, measure)():
                if row:
                    yield row
                row = following
        except ModuleNotFoundError as missing:
            row.note = f"peer missing: no module {missing.name}"
        yield row


def rows_elsewhere(measure: str, quick: bool) -> Iterator[Row]:
    """A measure's rows, from a fresh process, as they come."""
    command = [sys.executable, __file__, "--measure", measure, *(["--quick"] if quick else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | SETTINGS) as process:
        for told in process.stdout:
            yield Row(**json.loads(told))
    if process.returncode:
        raise SystemExit(process.returncode)


# --- the table -------------------------------------------------------------------------------------------------------


def line(row: Row, judged: bool = True) -> str:
    """One line of the table."""
    sign = ">=" if row.floor else "<="
    must, reach = (f"{sign} {bound:g}" if bound is not None else "" for bound in (row.must, row.reach))
    measured = "" if row.measured is None else f"{row.measured:.3g}"
    quartiles = f"{row.quartiles[0]:.3g}-{row.quartiles[1]:.3g}" if row.quartiles else ""
    verdict = row.verdict if judged or row.measured is None else "not judged"
    cells = f"{row.measure:<66} {must:>9} {reach:>8} {measured:>9} {quartiles:>13} {row.rounds or '':>4}  {verdict:<12}"
    return f"{cells} {row.note}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; judges nothing")
    parser.add_argument("--only", default="", help=", ".join(measure.__name__ for measure in Bench.measures))
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        return subprocess.run([sys.executable, *sys.argv], env=os.environ | SETTINGS).returncode
    torch.set_num_threads(2)
    if options.measure:
        for row in Bench(options.quick).rows(options.measure):
            print(json.dumps(asdict(row)), flush=True)
        return 0
    if options.memory:
        q, k, v = (normal(1, H, options.memory, D, seed=seed) for seed in range(3))
        flash_attention(*(x[..., :64, :] for x in (q, k, v)))  # what torch loads on its first call is not the tiles'
        call = partial(flash_attention, q, k, v, block_q=256, block_k=256)
        print(timing.measure(call, warmup_ms=1, run_ms=1).memory_bytes)
        return 0

    begun, rows = time.perf_counter(), []
    small = {"gemm_size": 256, "copy_mib": 8, "warmup_ms": 1, "run_ms": 1} if options.quick else {}
    top = timing.ceilings("cpu", **small)
    about = timing.environment("cpu", dtype=torch.float32)
    about |= SETTINGS | {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "as torch's OpenMP does by itself")}
    about |= {"gemm_flop_per_second": top.flop_per_second, "copy_bytes_per_second": top.bytes_per_second}
    print("\n".join(f"{name}: {value}" for name, value in about.items() if value is not None))
    if hasattr(os, "getloadavg"):
        about["load_before"] = os.getloadavg()[0]
        print(f"load before: {about['load_before']:.2f} (above 1 the ratios hold, the times do not)")
    head = f"{'measure':<66} {'must':>9} {'reach':>8} {'measured':>9} {'p25-p75':>13} {'n':>4}  verdict"
    print("\n" + head, flush=True)
    for measure in Bench.measures:
        for row in rows_elsewhere(measure.__name__, options.quick) if options.only in measure.__name__ else ():
            rows.append(row)
            print(line(row, judged=not options.quick), flush=True)
    about["seconds"] = round(time.perf_counter() - begun, 1)
    print(f"\n{about['seconds']:.0f} s")
    ceilings = {"gemm": top.gemm.samples, "copy": top.copy.samples}
    found = [asdict(row) | {"verdict": None if options.quick else row.verdict} for row in rows]
    OUTPUT.parent.mkdir(exist_ok=True)
    report = {"quick": options.quick, "environment": about, "ceilings_ms": ceilings, "rows": found}
    OUTPUT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
