"""Positions against their formulas, written as plain loops over plain floats."""

import math

import pytest
import torch
from comparison import assert_close

from lab_transformer.positional import add_positions, rotate, shift_matrix, sinusoidal_positions


@pytest.fixture
def double_precision():
    """The tables come in the default dtype: make it double for a while."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (7, 10), (50, 64), (0, 4)])
def test_sinusoids_equal_a_direct_double_loop(length, d_model, double_precision):
    expected = torch.zeros(length, d_model)
    for position in range(length):
        for pair in range(d_model // 2):
            angle = position / 10000 ** (2 * pair / d_model)
            expected[position, 2 * pair] = math.sin(angle)
            expected[position, 2 * pair + 1] = math.cos(angle)
    assert_close(sinusoidal_positions(length, d_model), expected)


def test_sinusoids_of_far_positions_keep_their_digits():
    position, d_model = 100_000, 8
    row = sinusoidal_positions(position + 1, d_model)[-1]
    angles = [position / 10000 ** (2 * pair / d_model) for pair in range(d_model // 2)]
    expected = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
    assert row.dtype == torch.float32
    assert row.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("offset", [0, 1, 5, 13, -4])
def test_one_matrix_moves_every_position_by_the_same_offset(offset, double_precision):
    table = sinusoidal_positions(40, 10)
    start = table[4:20]
    assert_close(start @ shift_matrix(offset, 10), table[4 + offset : 20 + offset])


def test_shifts_add_up_and_turn_back(double_precision):
    assert_close(shift_matrix(3, 10) @ shift_matrix(4, 10), shift_matrix(7, 10))
    assert_close(shift_matrix(3, 10) @ shift_matrix(-3, 10), torch.eye(10))


def test_embeddings_are_scaled_before_positions_are_added(draw):
    embeddings, positions = draw(2, 5, 16), draw(9, 16)
    expected = torch.stack([4 * embeddings[:, t] + positions[t] for t in range(5)], dim=1)
    assert_close(add_positions(embeddings, positions), expected)


def test_rotation_equals_multiplication_of_complex_numbers(draw, device, dtype):
    x, positions = draw(2, 3, 5, 8), torch.tensor([0, 3, 1, 40, 7], device=device)
    expected = torch.empty(2, 3, 5, 8, dtype=dtype)
    for t, position in enumerate(positions.tolist()):
        for pair in range(4):
            turn = complex(math.cos(angle := position * 10000 ** (-2 * pair / 8)), math.sin(angle))
            a, b = x[..., t, 2 * pair].cpu(), x[..., t, 2 * pair + 1].cpu()
            expected[..., t, 2 * pair] = a * turn.real - b * turn.imag
            expected[..., t, 2 * pair + 1] = a * turn.imag + b * turn.real
    assert_close(rotate(x, positions).cpu(), expected)


@pytest.mark.parametrize("moved", [1, 11, 100])
def test_scores_of_rotated_vectors_depend_on_the_distance_only(moved, draw, device, dtype):
    q, k = draw(2, 5, 8), draw(2, 5, 8)
    positions = torch.tensor([2, 0, 9, 4, 5], device=device)
    scores = rotate(q, positions) @ rotate(k, positions).mT
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(
        rotate(q, positions + moved) @ rotate(k, positions + moved).mT,
        scores,
        rtol=tolerance,
        atol=tolerance,
    )


def test_rotation_keeps_lengths_and_leaves_position_zero_alone(draw, device):
    x = draw(2, 5, 8)
    rotated = rotate(x, torch.arange(5, device=device))
    assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[:, 0], x[:, 0])
