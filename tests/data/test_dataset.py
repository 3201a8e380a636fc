"""Tables: what the builder accepts and refuses, the split protocol, duplicates."""

from __future__ import annotations

import numpy as np
import pytest

from partbayes.data import deduplicate, make_dataset, select, split
from partbayes.errors import PartbayesError


def table(num_data: int, outputs: int = 1):
    """Every number occurs once, so rows can be told apart; y and weight are functions of the row number."""
    rows = np.arange(num_data, dtype=float)
    return make_dataset(
        np.column_stack([rows, rows + 0.25]), np.column_stack([rows + 0.5] * outputs), weight=rows + 1.0
    )


def test_float_targets_become_two_dimensional():
    dataset = make_dataset([[1, 2], [3, 4]], [0.5, 1.5])
    assert dataset.y.shape == (2, 1)
    assert dataset.x.dtype == np.float64
    np.testing.assert_array_equal(dataset.weight, [1.0, 1.0])
    assert dataset.feature_names == ("x0", "x1")
    assert dataset.target_names == ("y",)
    assert not dataset.is_classification
    assert dataset.num_data == 2


def test_integer_targets_stay_labels():
    for labels in (np.array([0, 2, 1], np.uint8), np.array([True, False, True]), [0, 1, 0]):
        dataset = make_dataset(np.zeros((3, 1)), labels)
        assert dataset.y.shape == (3,)
        assert dataset.y.dtype == np.int64
        assert dataset.is_classification


def test_float32_is_kept():
    dataset = make_dataset(np.zeros((3, 1), np.float32), np.zeros((3, 2), np.float32))
    assert dataset.x.dtype == dataset.y.dtype == np.float32
    assert dataset.target_names == ("y0", "y1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros(3), "y": np.zeros(3)}, r"x has shape \(3,\)"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, r"x has shape \(0, 2\)"),
        ({"x": [[np.nan], [1.0]], "y": [1.0, 2.0]}, "x holds nan or infinite"),
        ({"x": [[0.0], [1.0]], "y": [1.0, np.inf]}, "y holds nan or infinite"),
        ({"x": [["a"], ["b"]], "y": [1.0, 2.0]}, "not real numbers"),
        ({"x": [[1j], [2.0]], "y": [1.0, 2.0]}, "not real numbers"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(3)}, "x has 2 rows and y has 3"),
        ({"x": np.zeros((2, 1)), "y": np.zeros((2, 1, 1))}, r"y has shape \(2, 1, 1\)"),
        ({"x": np.zeros((2, 1)), "y": np.zeros((2, 1), int)}, "convert y to float"),
        ({"x": np.zeros((2, 1)), "y": np.array([-1, 1])}, "class label -1"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(2), "weight": np.ones((2, 1))}, "one number per row"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(2), "weight": [1.0, -1.0]}, "negative"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(2), "weight": [0.0, 0.0]}, "only zeros"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(2), "feature_names": ("a", "b")}, "feature_names"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(2), "feature_names": "abc"}, "feature_names"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(2), "target_names": ()}, "target_names"),
    ],
)
def test_bad_input_is_one_sentence(arguments, message):
    with pytest.raises(PartbayesError, match=message) as caught:
        make_dataset(**arguments)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")


@pytest.mark.parametrize("num_data", [10, 308, 1030, 4898])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_split_is_the_published_protocol(num_data, seed):
    dataset = table(num_data)
    a = np.column_stack([dataset.x, dataset.y, dataset.weight])
    a = a[np.random.default_rng(seed).permutation(len(a))]
    n, v = int(0.6 * len(a)), int(0.3 * len(a))
    expected = (a[:n], a[n : n + v], a[n + v :])
    for part, rows in zip(split(dataset, seed), expected, strict=True):
        np.testing.assert_array_equal(np.column_stack([part.x, part.y, part.weight]), rows)
        assert part.feature_names == dataset.feature_names


def test_split_parts_are_disjoint_and_complete():
    parts = split(table(101), seed=3, fractions=(0.5, 0.0, 0.5))
    assert parts.validation.num_data == 0
    rows = np.concatenate([part.x[:, 0] for part in parts])
    np.testing.assert_array_equal(np.sort(rows), np.arange(101))


def test_split_refuses_what_leaves_a_part_empty():
    with pytest.raises(PartbayesError, match="none for validation"):
        split(table(3), seed=0)
    with pytest.raises(PartbayesError, match="none for train"):
        split(table(3), seed=0, fractions=(0.0, 0.5, 0.5))


@pytest.mark.parametrize("fractions", [(0.6, 0.3, 0.2), (1.2, -0.3, 0.1), (0.6, 0.4)])
def test_split_refuses_bad_fractions(fractions):
    with pytest.raises(PartbayesError, match="sum to 1"):
        split(table(20), seed=0, fractions=fractions)


def test_select_keeps_rows_together():
    part = select(table(5, outputs=2), [3, 0])
    np.testing.assert_array_equal(part.x, [[3.0, 3.25], [0.0, 0.25]])
    np.testing.assert_array_equal(part.y, [[3.5, 3.5], [0.5, 0.5]])
    np.testing.assert_array_equal(part.weight, [4.0, 1.0])


def test_deduplicate_keeps_first_rows_in_order():
    x = np.array([[2.0], [1.0], [2.0], [2.0], [0.0], [1.0]])
    y = np.array([5.0, 6.0, 5.0, 7.0, 5.0, 6.0])
    dataset = deduplicate(make_dataset(x, y, weight=np.arange(1.0, 7.0)))
    # Row 3 stays: same input, another target.
    np.testing.assert_array_equal(dataset.weight, [1.0, 2.0, 4.0, 5.0])
    np.testing.assert_array_equal(dataset.x[:, 0], [2.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(dataset.y[:, 0], [5.0, 6.0, 7.0, 5.0])


def test_deduplicate_labels():
    dataset = deduplicate(make_dataset(np.zeros((4, 2)), [1, 0, 1, 1]))
    np.testing.assert_array_equal(dataset.y, [1, 0])
    assert dataset.is_classification
