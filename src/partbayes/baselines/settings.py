"""What the baselines' builders share: complaints about impossible settings, and epochs counted in steps."""

from __future__ import annotations

import math

from partbayes.data.batching import steps_per_epoch
from partbayes.errors import PartbayesError
from partbayes.types import Batch


def check_count(name: str, value: int, least: int = 1) -> None:
    """Complain unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PartbayesError(f"{name} is {value!r}, but a whole number of at least {least} is needed.")


def check_positive(name: str, value: float) -> None:
    """Complain unless `value` is a positive, finite number."""
    if not 0 < value < math.inf:
        raise PartbayesError(f"{name} is {value}, but a positive number is needed.")


def check_not_negative(name: str, value: float) -> None:
    """Complain unless `value` is zero or a positive, finite number."""
    if not 0 <= value < math.inf:
        raise PartbayesError(f"{name} is {value}, but zero or a positive number is needed.")


def steps_in(epochs: float, num_data: int, batch: Batch) -> int:
    """Training steps in so many epochs (a fraction is allowed), for batches of this one's size."""
    return round(epochs * steps_per_epoch(num_data, batch.x.shape[0]))
