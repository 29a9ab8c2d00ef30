"""The look of the drawings: legible in both themes, the same whatever the caller has set, data rounded first."""

import math

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb, to_rgba

from attnledger import style

# rounding


@pytest.mark.parametrize(
    "value, rounded",
    [
        (0, 0.0),
        (-0.0, 0.0),
        (1234.5, 1230.0),
        (-1234.5, -1230.0),
        (0.00098765, 0.000988),
        (99.96, 100.0),
        (-99.96, -100.0),
        (9.995e-5, 1e-4),
        (1.7e308, 1.7e308),
        (1.2345e-310, 1.23e-310),
        (5e-324, 5e-324),
        (float("inf"), float("inf")),
        (float("-inf"), float("-inf")),
        (True, 1.0),
        (np.float32(0.1), 0.1),
        (torch.tensor(12345), 12300.0),
    ],
)
def test_a_number_is_rounded_to_three_significant_digits(value, rounded):
    got = style.rounded(value)
    assert got == rounded and isinstance(got, float)


def test_nan_stays():
    assert math.isnan(style.rounded(float("nan")))


def test_no_warning_on_awkward_numbers(recwarn):
    style.rounded([0.0, 5e-324, 1.7e308, np.nan, np.inf])
    assert not recwarn.list


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (1, 2, 2)])
def test_arrays_keep_their_shape(shape):
    values = np.linspace(0.12345, 98765.4, math.prod(shape)).reshape(shape)
    got = style.rounded(values)
    assert got.shape == shape and got.dtype == np.float64
    assert np.allclose(got, values, rtol=5e-3, atol=0)


def test_lists_and_tensors_become_arrays():
    assert style.rounded([1.2345, [0.001][0]]).tolist() == [1.23, 0.001]
    assert style.rounded(torch.tensor([[1.2345]])).tolist() == [[1.23]]


def test_other_digits_may_be_asked_for():
    assert style.rounded(1234.56, 5) == 1234.6
    assert style.rounded(1234.56, 1) == 1000.0


def test_rounding_again_changes_nothing():
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-50, 50).repeat(10)
    once = style.rounded(values)
    assert np.array_equal(style.rounded(once), once)


def test_the_last_bits_of_another_cpu_do_not_reach_a_drawing():
    values = np.random.default_rng(0).normal(size=1000)
    assert np.array_equal(style.rounded(values), style.rounded(values * (1 + 4 * np.finfo(float).eps)))


# colours


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""

    def luminance(color: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_measured_as_wcag_does():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("background", ["#ffffff", "#121212"])
@pytest.mark.parametrize("name", style.COLORS)
def test_every_colour_stands_out_on_light_and_on_dark(name, background):
    assert contrast(style.COLORS[name], background) >= 3


def test_no_two_mechanisms_share_a_colour():
    assert len(set(style.COLORS.values())) == len(style.COLORS)


def test_a_matrix_lies_on_the_pages_own_background():
    """The least value is transparent, not white; the greatest has the colour itself."""
    colors = style.colormap(style.COLORS["delta"])
    assert colors(0.0)[3] == 0
    assert colors(1.0) == pytest.approx(to_rgba(style.COLORS["delta"]), abs=1e-2)


# settings


def test_axes_and_words_have_the_ink_that_follows_the_theme():
    drawn, axes = style.subplots()
    axes.set(title="title", xlabel="x")
    axes.plot([0, 1], [0, 1])
    drawn.canvas.draw()
    assert axes.title.get_color() == axes.xaxis.label.get_color() == style.INK
    assert all(label.get_color() == style.INK for label in axes.get_xticklabels())
    assert axes.spines["left"].get_edgecolor() == to_rgba(style.INK)
    assert drawn.get_facecolor()[3] == axes.get_facecolor()[3] == 0, "the background is the page's"


def test_the_look_ends_with_its_block():
    before = matplotlib.rcParams.copy()
    with pytest.raises(RuntimeError), style.look():
        assert matplotlib.rcParams["svg.fonttype"] == "none"
        raise RuntimeError
    assert matplotlib.rcParams == before


def test_the_callers_settings_do_not_reach_the_look():
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "lines.dashed_pattern": [9, 9]}):
        with style.look():
            assert matplotlib.rcParams["font.size"] == 10.0
            assert not matplotlib.rcParams["axes.grid"]
        assert matplotlib.rcParams["font.size"] == 30


def test_no_text_is_too_small_for_a_phone():
    """Five inches on 340 pixels: nine points come to 8.5 pixels."""
    sizes = [value for key, value in style.RC.items() if key.endswith("size") and key != "lines.markersize"]
    assert sizes and min(sizes) >= 9


# drawing


def test_subplots_gives_one_axes_or_an_array_of_them():
    drawn, axes = style.subplots()
    assert drawn.get_size_inches().tolist() == [5.0, 3.0] and drawn.axes == [axes]
    drawn, axes = style.subplots(2, 3, width=4, height=2, sharex=True)
    assert axes.shape == (2, 3) and drawn.get_size_inches().tolist() == [4.0, 2.0]


def test_figures_stay_outside_pyplot():
    """A figure that pyplot knew would be shown a second time by a notebook."""
    before = matplotlib._pylab_helpers.Gcf.figs.copy()
    style.subplots()
    assert matplotlib._pylab_helpers.Gcf.figs == before


def test_a_direct_label_stands_beside_its_line_in_its_colour():
    _, axes = style.subplots()
    style.direct_label(axes, 3, 4, "linear", style.COLORS["linear"], fontsize=10)
    (label,) = axes.texts
    assert (label.get_text(), label.xy, label.get_color()) == ("linear", (3, 4), style.COLORS["linear"])
    assert label.get_fontsize() == 10 and label.get_horizontalalignment() == "left"


def test_a_matrix_shows_every_number_in_its_square():
    _, axes = style.subplots()
    style.matrix(axes, torch.tensor([[1.23456, -0.0], [-2.0, 1000.0]]))
    words = {text.get_position(): text.get_text() for text in axes.texts}
    assert words == {(0, 0): "1.23", (1, 0): "0", (0, 1): "-2", (1, 1): "1e+03"}
    (image,) = axes.images
    assert image.get_array().tolist() == [[1.23, 0.0], [2.0, 1000.0]], "the shade is the size, without the sign"


def test_a_matrix_may_be_shown_without_numbers_and_on_a_common_scale():
    _, axes = style.subplots()
    style.matrix(axes, [[1.0, 2.0]], text=False, vmax=10)
    assert not axes.texts and axes.images[0].get_clim() == (0, 16)


def test_a_matrix_of_zeros_is_drawn():
    _, axes = style.subplots()
    style.matrix(axes, np.zeros((2, 2)))
    assert [text.get_text() for text in axes.texts] == ["0"] * 4
