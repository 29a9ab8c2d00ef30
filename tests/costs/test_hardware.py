"""attnledger.costs.hardware: numbers that hang together, and a source for each."""

from dataclasses import fields, replace

import pytest

from attnledger.costs import hardware
from attnledger.costs.hardware import A100_40, A100_80, GPUS, H100, H200, H800, L4, T4, Gpu


def test_every_named_card_is_in_the_list():
    assert list(GPUS) == [value for value in vars(hardware).values() if isinstance(value, Gpu)]


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_every_field_says_where_it_was_read(gpu):
    assert all(len(gpu.source(field.name)) > 10 for field in fields(gpu))


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
