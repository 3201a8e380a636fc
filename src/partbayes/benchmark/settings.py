"""The paper's protocol in one place, with the readings that its text leaves open as settings (see docs/results.md)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from partbayes.errors import PartbayesError

BATCH_SIZES = {"california": 100}
"""Batch 100 for California, 50 elsewhere."""

STANDARDISED_TARGETS = frozenset({"concrete", "yacht"})
"""The other targets stay as they are: $100,000, quality points, decay coefficient."""

FIRST_LAYER_WIDTHS = {
    "yacht": 350,
    "california": 450,
    "concrete": 450,
    "wine_red": 600,
    "wine_white": 600,
    "naval": 900,
}
"""The widths as printed. They equal (inputs + 1) × 50, the number of sampled parameters of a 50-unit layer."""


class PaperSettings(NamedTuple):
    """What a run of the preset `paper` is made of."""

    epochs: int = 100
    particles: int = 100
    learning_rate: float = 0.01
    width: int | Literal["literal"] = 50
    second_layer: int = 20
    kernel_scale: Literal["sd", "variance"] = "sd"
    """Whether 0.01 (random walk) and 1/N (Langevin) are step sizes or their squares."""
    target_scale: Literal["full", "batch"] = "full"
    denominator: Literal["cached", "same_batch"] = "cached"

    def first_layer(self, dataset: str) -> int:
        """Units of the sampled layer."""
        return FIRST_LAYER_WIDTHS[dataset] if self.width == "literal" else self.width

    def batch_size(self, dataset: str) -> int:
        """Rows per step."""
        return BATCH_SIZES.get(dataset, 50)

    def langevin_step(self, num_data: int) -> float:
        """ε = 1/N, or 1/√N where 1/N is read as a variance."""
        return 1 / num_data if self.kernel_scale == "sd" else 1 / math.sqrt(num_data)

    def random_walk_step(self) -> float:
        """σ = 0.01, or 0.1 where 0.01 is read as a variance (as the 2024 code does)."""
        return 0.01 if self.kernel_scale == "sd" else 0.1


def check_settings(settings: PaperSettings) -> PaperSettings:
    """Complain early about a setting that no run could use."""
    choices = {
        "kernel_scale": ("sd", "variance"),
        "target_scale": ("full", "batch"),
        "denominator": ("cached", "same_batch"),
    }
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise PartbayesError(f"{name} is {getattr(settings, name)!r}, but one of {', '.join(allowed)} is expected.")
    for name in ("epochs", "particles", "second_layer"):
        if getattr(settings, name) < 1:
            raise PartbayesError(f"{name} is {getattr(settings, name)}, but at least one is needed.")
    if settings.width != "literal" and (not isinstance(settings.width, int) or settings.width < 1):
        raise PartbayesError(f"width is {settings.width!r}, but 'literal' or a positive whole number is expected.")
    return settings
