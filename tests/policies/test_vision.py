"""The vision net: shapes, channel order, what it is equivariant to, its messages, and that it learns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.networks import seeded
from marl.policies.vision import ConvEncoder, default_filters, image_encoder, sides_after

BYTES = spaces.Box(0, 255, (42, 42, 3), np.uint8)


def encoder(shape: tuple[int, ...], filters: Any = None, **keys: Any) -> ConvEncoder:
    return ConvEncoder(shape, filters, keys.pop("activation", "relu"), seeded(keys.pop("seed", 0)), **keys)


def rows(images: Any) -> torch.Tensor:
    """Images ``[N, H, W, C]`` as the flat rows in which observations are stored."""
    return torch.as_tensor(np.asarray(images, np.float32)).flatten(1)


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_one_filter_equals_the_convolution_worked_out_by_hand() -> None:
    net = encoder((3, 3), [(1, 2, 1)])
    with torch.no_grad():
        net.weights[0].copy_(torch.tensor([[[[1.0, 0.0], [0.0, -2.0]]]]))
        net.biases[0].fill_(0.5)
    image = [[[1, 2, 3], [4, 5, 0], [7, 1, 9]]]
    # upper left - 2 * lower right + 0.5, cut at 0: 1 - 10, 2 - 0, 4 - 2, 5 - 18
    assert net(rows(image)).tolist() == [[0.0, 2.5, 2.5, 0.0]]


def test_channels_are_the_last_axis_of_the_observation() -> None:
    net = encoder((2, 2, 3), [(1, 1, 1)])
    with torch.no_grad():
        net.weights[0].copy_(torch.tensor([1.0, 10.0, 100.0]).view(1, 3, 1, 1))
    image = np.arange(12).reshape(1, 2, 2, 3)  # pixel (y, x) is (3i, 3i + 1, 3i + 2) with i = 2y + x
    assert net(rows(image)).tolist() == [[210.0, 543.0, 876.0, 1209.0]]


def test_moving_the_picture_by_one_stride_moves_the_features_by_one_place() -> None:
    net = encoder((12, 12, 2), [(4, 4, 2)])
    image = np.zeros((1, 12, 12, 2), np.float32)
    image[:, 2:7, 2:7] = np.random.default_rng(0).normal(size=(1, 5, 5, 2))
    moved = np.roll(image, (2, 2), axis=(1, 2))
    before, after = (net(rows(x)).view(4, 5, 5) for x in (image, moved))
    assert torch.allclose(after, before.roll((1, 1), dims=(1, 2)), atol=1e-6)
    assert not torch.allclose(after, before, atol=1e-3)


def test_permuting_the_images_of_a_batch_permutes_the_features() -> None:
    net, order = encoder((16, 16, 3)), torch.tensor([3, 0, 4, 2, 1])
    images = torch.rand(5, 16 * 16 * 3)
    assert torch.allclose(net(images)[order], net(images[order]), atol=1e-6)


def test_smaller_images_are_means_of_areas_and_larger_ones_are_interpolated() -> None:
    image = [[[0, 2, 4, 4], [2, 4, 4, 4], [1, 1, 0, 0], [1, 1, 0, 8]]]
    small = encoder((4, 4), [(1, 1, 1)], dim=2).prepare(rows(image))
    assert small.tolist() == [[[[2.0, 4.0], [1.0, 2.0]]]]
    large = encoder((2, 2), [(1, 1, 1)], dim=4).prepare(rows([[[0, 4], [0, 4]]]))
    assert large[0, 0, 0].tolist() == [0.0, 1.0, 3.0, 4.0]


def test_grayscale_takes_the_mean_over_the_colours_of_each_frame() -> None:
    image = np.array([[[[1, 2, 3, 10, 20, 30]]]])  # two frames of one pixel
    assert encoder((1, 1, 6), [(1, 1, 1)], grayscale=True).prepare(rows(image)).flatten().tolist() == [2.0, 20.0]


def test_zero_mean_puts_pixels_between_minus_one_and_one() -> None:
    image = [[[0.0, 0.5, 1.0]]]
    assert encoder((1, 3), [(1, 1, 1)], zero_mean=True).prepare(rows(image)).flatten().tolist() == [-1.0, 0.0, 1.0]


def test_zero_mean_is_for_pixels_of_zero_to_one() -> None:
    model = ModelConfig(zero_mean=True, conv_filters=[(2, 2, 1)])
    for fits in (spaces.Box(0, 1, (4, 4, 1)), spaces.Box(0, 255, (4, 4, 1), np.uint8)):
        assert image_encoder(fits, model, seeded(0)) is not None
    for other in (spaces.Box(0, 2, (4, 4, 1)), spaces.Box(-1, 1, (4, 4, 1))):
        with pytest.raises(ConfigError, match="zero_mean shifts pixels"):
            image_encoder(other, model, seeded(0))


# -- sizes and seeds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "filters", "last"),
    [
        ((84, 84, 4), [(32, 8, 4), (64, 4, 2), (64, 3, 1)], (7, 7)),
        ((42, 42, 3), [(32, 4, 2), (64, 4, 2), (64, 3, 1)], (7, 7)),
        ((10, 10, 1), [(32, 3, 1)], (8, 8)),
        ((10, 10), [(32, 3, 1)], (8, 8)),
        ((210, 160, 3), [(32, 8, 4), (64, 8, 4), (64, 4, 2)], (4, 3)),
        ((8, 200, 1), [(32, 8, 4), (64, (1, 8), 4), (64, (1, 4), 2)], (1, 4)),
    ],
)
def test_default_layers_follow_the_size_of_the_image(shape: Any, filters: Any, last: Any) -> None:
    assert default_filters(shape) == filters
    assert sides_after(shape, filters)[-1] == last
    net = encoder(shape)
    assert net.size == last[0] * last[1] * filters[-1][0]
    assert net(torch.rand(2, int(np.prod(shape)))).shape == (2, net.size)
    assert net(torch.rand(0, int(np.prod(shape)))).shape == (0, net.size)


@pytest.mark.parametrize("height", [8, 9, 11, 17, 33, 48, 49, 64, 100, 300])
@pytest.mark.parametrize("width", [8, 21, 50, 96, 257])
def test_default_layers_fit_every_size_and_leave_a_modest_number_of_features(height: int, width: int) -> None:
    filters = default_filters((height, width, 3))
    rest = sides_after((height, width, 3), filters)[-1]
    assert 1 <= min(rest) <= max(rest) <= 10
    assert rest[0] * rest[1] * filters[-1][0] <= 5_000


def test_the_seed_decides_the_first_weights() -> None:
    first, again, other = (encoder((12, 12, 3), seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["weights.0"], other["weights.0"])


def test_every_layer_gets_a_gradient_that_agrees_with_finite_differences() -> None:
    net = encoder((9, 9, 2), [(3, 4, 2), (2, 2, 1)], activation="tanh").double()
    images = torch.rand(2, 162, dtype=torch.float64)
    net(images).square().sum().backward()
    for parameter in net.parameters():
        assert parameter.grad is not None
        slope, step = parameter.grad.view(-1)[0].item(), 1e-6
        heights = []
        for move in (step, -2 * step):
            with torch.no_grad():
                parameter.view(-1)[0] += move
                heights.append(net(images).square().sum().item())
        with torch.no_grad():
            parameter.view(-1)[0] += step
        assert (heights[0] - heights[1]) / (2 * step) == pytest.approx(slope, rel=1e-5)


# -- which observations are images -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (BYTES, True),
        (spaces.Box(0, 1, (8, 8, 1), np.float32), True),
        (spaces.Box(0, 255, (10, 10), np.uint8), True),
        (spaces.Box(-1, 1, (10, 10), np.float32), False),  # a table of numbers
        (spaces.Box(0, 1, (6, 7, 2), np.int8), False),  # a board
        (spaces.Box(0, 255, (64,), np.uint8), False),
        (spaces.Discrete(5), False),
        (spaces.Tuple([BYTES, spaces.Discrete(2)]), False),
    ],
)
def test_boxes_with_two_large_sides_are_images(space: Any, image: bool) -> None:
    assert (image_encoder(space, ModelConfig(), seeded(0)) is not None) == image


def test_conv_filters_make_an_image_of_a_board_and_an_empty_list_makes_none() -> None:
    board = spaces.Box(0, 1, (6, 7, 2), np.int8)
    net = image_encoder(board, ModelConfig(conv_filters=[[16, 3, 1], [8, [2, 3], 1]]), seeded(0))
    assert net is not None
    assert net.size == 3 * 3 * 8  # 6 x 7 -> 4 x 5 -> 3 x 3
    assert image_encoder(BYTES, ModelConfig(conv_filters=[]), seeded(0)) is None


def test_all_keys_of_the_model_reach_the_net() -> None:
    model = ModelConfig(conv_filters=[[4, 3, 2]], conv_activation="tanh", dim=21, grayscale=True, zero_mean=True)
    net = image_encoder(BYTES, model, seeded(0))
    assert net is not None
    assert (net.dim, net.zero_mean, net.weights[0].shape, net.size) == (21, True, (4, 1, 3, 3), 10 * 10 * 4)
    assert net.activation == "tanh"


@pytest.mark.parametrize(
    ("space", "keys", "says"),
    [
        (
            spaces.Box(0, 255, (10, 10, 3), np.uint8),
            {"conv_filters": [[16, 4, 2], [32, 8, 4]]},
            "10 x 10, [16, 4, 2] gives 4 x 4, but [32, 8, 4] needs 8 x 8",
        ),
        (spaces.Box(0, 255, (3, 84, 84), np.uint8), {"conv_filters": [[16, 8, 4]]}, "Channels have to come last"),
        (spaces.Box(-1, 1, (4,), np.float32), {"conv_filters": [[16, 4, 2]]}, "which is no image"),
        (spaces.Box(-1, 1, (4,), np.float32), {"dim": 84}, "dim given"),
        (spaces.Box(0, 255, (10, 10, 4), np.uint8), {"grayscale": True}, "images have 4 channels"),
        (spaces.Box(-1, 1, (10, 10, 3), np.float32), {"zero_mean": True}, "zero_mean shifts pixels of 0..1"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_sizes(space: Any, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        image_encoder(space, ModelConfig(**keys), seeded(0))


# -- learning --------------------------------------------------------------------------------------------------------


def test_it_learns_where_a_picture_shows_a_bright_spot() -> None:
    """Four quarters; a spot of 3 x 3 pixels anywhere in one of them, in noise. The test pictures are new ones."""
    rng = np.random.default_rng(0)

    def pictures(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        images = rng.uniform(0, 0.6, (count, 12, 12, 1)).astype(np.float32)
        at = rng.integers(0, 4, (count, 2)) + 6 * rng.integers(0, 2, (count, 2))
        for image, (y, x) in zip(images, at, strict=True):
            image[y : y + 3, x : x + 3] += 0.4
        return rows(images), torch.from_numpy((at[:, 0] >= 6) * 2 + (at[:, 1] >= 6))

    net = encoder((12, 12, 1), zero_mean=True)
    head = torch.nn.Linear(net.size, 4)
    torch.nn.init.zeros_(head.weight)
    optimiser = torch.optim.Adam([*net.parameters(), *head.parameters()], 3e-3)
    for _ in range(150):
        images, quarter = pictures(64)
        loss = torch.nn.functional.cross_entropy(head(net(images)), quarter.long())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    images, quarter = pictures(500)
    assert (head(net(images)).argmax(1) == quarter).float().mean() > 0.95


def by_hand(image: Any, weight: Any, stride: int, out: int) -> Any:
    """One padded layer of one channel, pixel by pixel, as TensorFlow's SAME is defined."""
    side, kernel = len(image), len(weight)
    missing = max(0, (out - 1) * stride + kernel - side)
    before = missing // 2
    found = np.zeros((out, out))
    for y in range(out):
        for x in range(out):
            for i in range(kernel):
                for j in range(kernel):
                    row, column = y * stride + i - before, x * stride + j - before
                    if 0 <= row < side and 0 <= column < side:
                        found[y, x] += image[row, column] * weight[i, j]
    return found


@pytest.mark.parametrize(("side", "kernel", "stride"), [(7, 4, 2), (8, 4, 2), (9, 3, 1), (10, 2, 3)])
def test_padding_equals_a_slow_loop(side: int, kernel: int, stride: int) -> None:
    left = -(-side // stride)
    net = ConvEncoder((side, side, 1), [(1, kernel, stride), (1, left, 1)], "relu", seeded(0), padding="same")
    assert net.sides == [(side, side), (left, left), (1, 1)]
    image = np.random.default_rng(0).random((side, side))
    first, second = (weight.detach().numpy()[0, 0] for weight in net.weights)
    middle = np.maximum(by_hand(image, first, stride, left), 0)
    expected = max(0.0, float((middle * second).sum()))
    found = net(torch.from_numpy(image.astype(np.float32)).reshape(1, -1)).detach()
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_filters_written_for_padding_get_it_and_those_that_fit_stay_as_they_were() -> None:
    written = [(16, (8, 8), 4), (32, (4, 4), 2), (256, (11, 11), 1)]  # for 84 x 84
    assert ConvEncoder((84, 84, 4), written, "relu", seeded(0)).sides[-1] == (1, 1)
    fitting = [(16, 4, 2), (32, 4, 2)]
    assert ConvEncoder((42, 42, 3), fitting, "relu", seeded(0)).sides == [(42, 42), (20, 20), (9, 9)]
    assert ConvEncoder((42, 42, 3), fitting, "relu", seeded(0), padding="same").sides == [(42, 42), (21, 21), (9, 9)]
    for filters, padding in ((written, "valid"), ([(16, 8, 4), (32, 40, 1)], "auto")):
        with pytest.raises(ConfigError, match="conv_filters do not fit"):
            ConvEncoder((84, 84, 4), filters, "relu", seeded(0), padding=padding)
