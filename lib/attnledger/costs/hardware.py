"""GPUs as the accounting sees them: memory, bandwidth, peaks and on-chip memories, each with its source.

Vendors print memory in GB. `memory` takes the print at its word, 80 GB = 80 * 10**9 bytes. `reported` is what the
driver offers, and that is near 80 * 2**30: the print is a binary number in decimal clothes, minus what error correction
and the driver keep. Which of the two is taken can decide whether one more request fits; `requests_per_card` asks.
Peaks are dense (no structured sparsity), in FLOP/s, a multiply-add counted as 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ._checks import choice, count, sources

GB = 10**9
TERA = 10**12
KIB, MIB = 2**10, 2**20
DTYPES = ("bf16", "fp16", "fp32", "fp8")


@dataclass(frozen=True)
class Gpu:
    """One card. Bytes, bytes per second, FLOP per second; None where the card has no such unit or no value was found.

    memory: the vendor's GB as 10**9 bytes; reported: bytes the driver offers.
    bf16, fp8: None without such tensor cores. sram_per_sm: L1 and shared memory together; shared_per_sm: what of it can
    be shared memory. provenance: field -> source, ``"*"`` for all others.
    Errors: ValueError names a field that is not a whole number above 0.
    """

    name: str
    memory: int
    reported: int | None
    bandwidth: int
    fp16: int
    bf16: int | None
    fp8: int | None
    fp32: int
    sms: int
    sram_per_sm: int
    shared_per_sm: int
    l2: int
    provenance: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self):
        for name in ("memory", "bandwidth", "fp16", "fp32", "sms", "sram_per_sm", "shared_per_sm", "l2"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        for name in ("reported", "bf16", "fp8"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, count(name, getattr(self, name)))
        if self.shared_per_sm > self.sram_per_sm:
            raise ValueError(f"shared_per_sm wants at most sram_per_sm={self.sram_per_sm}, got {self.shared_per_sm}")
        object.__setattr__(self, "provenance", sources(self))

    def peak(self, dtype: str) -> int:
        """Dense peak in FLOP/s for ``"bf16"``, ``"fp16"``, ``"fp32"`` or ``"fp8"``; ValueError without one."""
        value = getattr(self, choice("dtype", dtype, DTYPES))
        if value is None:
            raise ValueError(f"dtype wants a type with a peak on {self.name}, got {dtype!r}")
        return value

    def ridge(self, dtype: str) -> float:
        """FLOP per byte from which on the peak, and not the bandwidth, sets the pace."""
        return self.peak(dtype) / self.bandwidth

    def source(self, name: str) -> str:
        """Where the value of field `name` was read."""
        if name not in {f.name for f in fields(self)}:
            raise ValueError(f"name wants a field of Gpu, got {name!r}")
        return self.provenance.get(name, self.provenance.get("*", "not recorded"))


_GUIDE = "NVIDIA CUDA C++ Programming Guide, section 20, Compute Capabilities; its KB are KiB"
_A100 = {
    "*": "NVIDIA A100 datasheet as quoted on glennklockwood.com/garden/processors/A100 (SXM parts)",
    "sram_per_sm": f"{_GUIDE} (compute capability 8.0): 192 KB",
    "shared_per_sm": f"{_GUIDE} (compute capability 8.0): 164 KB",
    "l2": "deviceQuery printed by the PC2 documentation: 41943040 bytes",
}
_HOPPER = {
    "*": "NVIDIA H100 / H200 datasheet as quoted on glennklockwood.com/garden/processors/h100 (SXM parts, dense)",
    "fp32": "datasheet: 67 TFLOP/s (66.9 on the page above)",
    "sram_per_sm": f"{_GUIDE} (compute capability 9.0): 256 KB",
    "shared_per_sm": f"{_GUIDE} (compute capability 9.0): 228 KB",
    "l2": "torch.cuda.get_device_properties quoted in the Stanford CS336 lectures: 50MB",
}

A100_40 = Gpu(
    "A100 40 GB",
    memory=40 * GB,
    reported=42_405_855_232,
    bandwidth=1555 * GB,
    fp16=312 * TERA,
    bf16=312 * TERA,
    fp8=None,
    fp32=19_500 * GB,
    sms=108,
    sram_per_sm=192 * KIB,
    shared_per_sm=164 * KIB,
    l2=40 * MIB,
    provenance=_A100 | {"reported": "deviceQuery printed by the PC2 documentation: 42405855232 bytes"},
)
A100_80 = Gpu(
    "A100 80 GB",
    memory=80 * GB,
    reported=85_100_068_864,
    bandwidth=2039 * GB,
    fp16=312 * TERA,
    bf16=312 * TERA,
    fp8=None,
    fp32=19_500 * GB,
    sms=108,
    sram_per_sm=192 * KIB,
    shared_per_sm=164 * KIB,
    l2=40 * MIB,
    provenance=_A100
    | {"reported": "deviceQuery in a public log, driver 12.5: 85100068864 bytes (driver 12.2 elsewhere: 84987740160)"},
)
H100 = Gpu(
    "H100 SXM",
    memory=80 * GB,
    reported=81_089 * MIB,
    bandwidth=3350 * GB,
    fp16=989_400 * GB,
    bf16=989_400 * GB,
    fp8=1_978_900 * GB,
    fp32=67 * TERA,
    sms=132,
    sram_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    l2=50 * MIB,
    provenance=_HOPPER | {"reported": "torch.cuda.get_device_properties in stas00/ml-engineering: 81089MB (MiB)"},
)
H800 = Gpu(
    "H800 SXM",
    memory=80 * GB,
    reported=None,
    bandwidth=3350 * GB,
    fp16=989_400 * GB,
    bf16=989_400 * GB,
    fp8=1_978_900 * GB,
    fp32=67 * TERA,
    sms=132,
    sram_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    l2=50 * MIB,
    provenance={
        "*": "no datasheet found; philisun.com and aiwiki.ai: the H100's silicon, memory, 16-bit and 8-bit peaks, cut "
        "in NVLink (400 GB/s) and FP64 only, neither of which is a field here",
    },
)
H200 = Gpu(
    "H200 SXM",
    memory=141 * GB,
    reported=143_156 * MIB,
    bandwidth=4800 * GB,
    fp16=989_400 * GB,
    bf16=989_400 * GB,
    fp8=1_978_900 * GB,
    fp32=67 * TERA,
    sms=132,
    sram_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    l2=60 * MIB,
    provenance=_HOPPER
    | {
        "memory": "datasheet as quoted on itkb.uw.cz: 141 GB",
        "bandwidth": "datasheet as quoted on itkb.uw.cz: 4.8 TB/s",
        "reported": "torch.cuda.get_device_properties in a public log: 143156MB (MiB)",
        "l2": "torch.cuda.get_device_properties in a public log: 60MB",
    },
)
T4 = Gpu(
    "T4",
    memory=16 * GB,
    reported=15_095 * MIB,
    bandwidth=320 * GB,
    fp16=65 * TERA,
    bf16=None,
    fp8=None,
    fp32=8_100 * GB,
    sms=40,
    sram_per_sm=96 * KIB,
    shared_per_sm=64 * KIB,
    l2=4 * MIB,
    provenance={
        "*": "hmc-tech.com and pcpartcomparison.com: 16 GB, 320 GB/s, 65 and 8.1 TFLOP/s, as in the datasheet",
        "reported": "torch.cuda.get_device_properties in a public course: 15095MB (MiB); 14930 to 15109 elsewhere",
        "sms": "the same: 40",
        "l2": "the same: 4MB",
        "sram_per_sm": f"{_GUIDE} (compute capability 7.5): 96 KB",
        "shared_per_sm": f"{_GUIDE} (compute capability 7.5): 64 KB",
        "bf16": "compute capability 7.5 has no bf16 tensor cores",
    },
)
L4 = Gpu(
    "L4",
    memory=24 * GB,
    reported=23_612_293_120,
    bandwidth=300 * GB,
    fp16=121 * TERA,
    bf16=121 * TERA,
    fp8=242_500 * GB,
    fp32=30_300 * GB,
    sms=58,
    sram_per_sm=128 * KIB,
    shared_per_sm=100 * KIB,
    l2=48 * MIB,
    provenance={
        "*": "NVIDIA L4 datasheet from general knowledge, half of its sparse 242 and 485 TFLOP/s; the 7424 cores and "
        "30.29 TFLOP/s of pcpartcomparison.com agree, hmc-tech.com prints the full die's 7680 cores and 31.33",
        "reported": "deviceQuery in a public log: 23612293120 bytes (nvidia-smi beside it: 23034MiB)",
        "sms": "the same log: 58",
        "l2": "the same log: 50331648 bytes",
        "sram_per_sm": f"{_GUIDE} (compute capability 8.9): 128 KB",
        "shared_per_sm": f"{_GUIDE} (compute capability 8.9): 100 KB",
    },
)

GPUS: tuple[Gpu, ...] = (A100_40, A100_80, H100, H800, H200, T4, L4)
