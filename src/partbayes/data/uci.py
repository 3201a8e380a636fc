"""The six public tables as data sets, read from local files: only `download`, called by name, reaches the network."""

from __future__ import annotations

import io
import os

import numpy as np

from partbayes.data.dataset import Dataset, make_dataset
from partbayes.data.fetch import download
from partbayes.data.sources import DATASETS, Source, find_source
from partbayes.data.store import cache_folder, read

__all__ = ["DATASETS", "Source", "cache_folder", "download", "load"]


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """The whole table in file order: float64 inputs `[N, features]` and targets `[N, 1]`.

    Looks in `data_dir`, `$PARTBAYES_DATA`, the package and the user's cache folder, in this order; checks the sha256.
    """
    source = find_source(name)
    table = np.loadtxt(io.BytesIO(read(source, data_dir)), delimiter=",", skiprows=1, ndmin=2)
    inputs = source.num_features
    return make_dataset(
        table[:, :inputs], table[:, inputs:], feature_names=source.features, target_names=source.targets
    )
