"""attnledger.costs.hardware: numbers that hang together, and a source for each."""

from dataclasses import fields, replace

import pytest

from attnledger.costs import hardware
from attnledger.costs.hardware import A100_40, A100_80, GPUS, H100, H200, H800, L4, T4, Gpu


def test_every_named_card_is_in_the_list():
    assert list(GPUS) == [value for value in vars(hardware).values() if isinstance(value, Gpu)]


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_every_field_says_where_it_was_read(gpu):
    sources = [gpu.source(field.name) for field in fields(gpu)]
    assert "not recorded" not in sources and min(map(len, sources)) > 10


# The same numbers again, as the sources print them: GB; MiB the driver offers; GB/s; dense TFLOP/s in fp16, bf16, fp8
# and fp32; SMs; KB of L1 and shared memory per SM, and of it shared at most; MB of L2.
PRINTED = {
    "A100 40 GB": (40, 42_405_855_232 / 2**20, 1555, 312, 312, None, 19.5, 108, 192, 164, 40),
    "A100 80 GB": (80, 85_100_068_864 / 2**20, 2039, 312, 312, None, 19.5, 108, 192, 164, 40),
    "H100 SXM": (80, 81_089, 3350, 989.4, 989.4, 1978.9, 67, 132, 256, 228, 50),
    "H800 SXM": (80, None, 3350, 989.4, 989.4, 1978.9, 67, 132, 256, 228, 50),
    "H200 SXM": (141, 143_156, 4800, 989.4, 989.4, 1978.9, 67, 132, 256, 228, 60),
    "T4": (16, 15_095, 320, 65, None, None, 8.1, 40, 96, 64, 4),
    "L4": (24, 23_612_293_120 / 2**20, 300, 121, 121, 242.5, 30.3, 58, 128, 100, 48),
}


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_the_numbers_are_those_printed(gpu):
    peaks = [value and value / 1e12 for value in (gpu.fp16, gpu.bf16, gpu.fp8, gpu.fp32)]
    sizes = (gpu.memory / 1e9, gpu.reported and gpu.reported / 2**20, gpu.bandwidth / 1e9)
    on_chip = (gpu.sms, gpu.sram_per_sm / 2**10, gpu.shared_per_sm / 2**10, gpu.l2 / 2**20)
    assert (*sizes, *peaks, *on_chip) == PRINTED[gpu.name]


def test_the_shared_part_of_an_sm_is_part_of_it():
    with pytest.raises(ValueError, match="^shared_per_sm wants at most .*got"):
        replace(T4, shared_per_sm=T4.sram_per_sm + 1)
    assert replace(T4, shared_per_sm=T4.sram_per_sm).shared_per_sm == T4.sram_per_sm


def test_a_card_cannot_be_written_to():
    with pytest.raises(AttributeError):
        T4.memory = 1
    with pytest.raises(TypeError):
        T4.provenance["memory"] = "a guess"


def test_provenance_is_neither_compared_nor_printed():
    bare = Gpu(**{f.name: getattr(T4, f.name) for f in fields(T4) if f.name != "provenance"})
    assert bare == T4 and hash(bare) == hash(T4) and "provenance" not in repr(T4)
    assert bare.source("memory") == "not recorded"
    assert T4.source("memory") == T4.provenance["*"]
    source = {"memory": "a datasheet"}
    copied = replace(T4, provenance=source)
    source["memory"] = "a guess"
    assert copied.source("memory") == "a datasheet"


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_the_driver_offers_less_than_the_binary_reading_of_the_print(gpu):
    if gpu.reported is not None:
        binary = gpu.memory // 10**9 * 2**30
        assert 0.9 * binary < gpu.reported <= binary


@pytest.mark.parametrize(
    ("gpu", "cores_per_sm", "clock_ghz"), [(A100_80, 64, 1.41), (H100, 128, 1.98), (T4, 64, 1.59), (L4, 128, 2.04)]
)
def test_fp32_peak_is_cores_times_clock_times_two(gpu, cores_per_sm, clock_ghz):
    assert 2 * gpu.sms * cores_per_sm * clock_ghz * 1e9 == pytest.approx(gpu.fp32, rel=0.01)


def test_on_chip_memory_of_the_flash_attention_paper():
    assert A100_40.sms * A100_40.sram_per_sm == 20.25 * 2**20  # 108 x 192 KB
    assert all(gpu.shared_per_sm < gpu.sram_per_sm for gpu in GPUS)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8", "fp32", "sms", "sram_per_sm", "shared_per_sm"])
def test_hopper_cards_differ_in_memory_only(name):
    assert getattr(H800, name) == getattr(H200, name) == getattr(H100, name)


def test_an_h100_needs_about_295_flop_per_byte():
    assert round(H100.ridge("bf16")) == 295


def test_wrong_questions_are_named():
    with pytest.raises(ValueError, match="^dtype wants .*got"):
        H100.peak("int4")
    with pytest.raises(ValueError, match="^dtype wants .*got 'bf16'"):
        T4.peak("bf16")
    with pytest.raises(ValueError, match="^name wants .*got"):
        T4.source("price")
    with pytest.raises(ValueError, match="^provenance wants .*got"):
        replace(T4, provenance={"price": "x"})


@pytest.mark.parametrize("name", ["memory", "bandwidth", "fp16", "fp32", "sms", "sram_per_sm", "shared_per_sm", "l2"])
@pytest.mark.parametrize("value", [0, 1.5, True, None])
def test_impossible_cards_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} wants .*got"):
        replace(T4, **{name: value})


@pytest.mark.parametrize("name", ["reported", "bf16", "fp8"])
def test_optional_numbers_are_none_or_positive(name):
    assert getattr(replace(T4, **{name: None}), name) is None
    with pytest.raises(ValueError, match=f"^{name} wants .*got"):
        replace(T4, **{name: -1})
