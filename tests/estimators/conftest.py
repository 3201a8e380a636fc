"""Tables with known answers, and one fitted estimator of each kind for the whole session: compiling is what costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor


class Table(NamedTuple):
    x: np.ndarray
    y: np.ndarray


@pytest.fixture(scope="session")
def curve() -> Table:
    """y = 1000 + 50 x₀² + noise that grows with x₁, in units far from standard; the third column is constant."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (160, 3)) * [1.0, 100.0, 0.0] + [0.0, 0.0, 7.0]
    noise = 2 + 8 * (x[:, 1] > 0)
    return Table(x, 1000 + 50 * x[:, 0] ** 2 + noise * random.standard_normal(160))


@pytest.fixture(scope="session")
def blobs() -> Table:
    """Three named classes around three corners."""
    random = np.random.default_rng(1)
    number = np.arange(120) % 3
    corners = np.array([[0, 0], [4, 0], [0, 4]])
    return Table(corners[number] + random.standard_normal((120, 2)), np.array(["ash", "oak", "yew"])[number])


@pytest.fixture(scope="session")
def regressor(curve: Table) -> PartialBNNRegressor:
    """Trained by the default recipe."""
    return PartialBNNRegressor(
        effort="quick", hidden=(16,), islands=3, particles=2, epochs=60, learning_rate=0.03, random_state=0
    ).fit(*curve)


@pytest.fixture(scope="session")
def classifier(blobs: Table) -> PartialBNNClassifier:
    return PartialBNNClassifier(
        effort="quick", hidden=(16,), islands=3, particles=2, epochs=60, learning_rate=0.03, random_state=0
    ).fit(*blobs)


@pytest.fixture
def quickest() -> dict:
    """Parameters for a fit in no time."""
    return {"method": "map", "hidden": (8,), "islands": 2, "epochs": 5, "random_state": 0}
