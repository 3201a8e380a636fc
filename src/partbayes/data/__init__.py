"""Files to arrays: tables, splits, standardisation, batches, the six public tables and problems with known answers."""

from partbayes.data.batching import as_batch, batch_indices, epoch_order, steps_per_epoch, take
from partbayes.data.dataset import Dataset, Splits, deduplicate, make_dataset, select, split
from partbayes.data.scaler import Scaler, fit_scaler, identity_scaler, standardise
from partbayes.data.stream import RowSource, open_parquet, open_rows
from partbayes.data.synthetic import (
    ExactPosterior,
    LinearGaussian,
    exact_linear_gaussian,
    linear_gaussian,
    wiggle,
    wiggle_moments,
)
from partbayes.data.uci import DATASETS, Source, cache_folder, download, load

__all__ = [
    "DATASETS",
    "Dataset",
    "ExactPosterior",
    "LinearGaussian",
    "RowSource",
    "Scaler",
    "Source",
    "Splits",
    "as_batch",
    "batch_indices",
    "cache_folder",
    "deduplicate",
    "download",
    "epoch_order",
    "exact_linear_gaussian",
    "fit_scaler",
    "identity_scaler",
    "linear_gaussian",
    "load",
    "make_dataset",
    "open_parquet",
    "open_rows",
    "select",
    "split",
    "standardise",
    "steps_per_epoch",
    "take",
    "wiggle",
    "wiggle_moments",
]
