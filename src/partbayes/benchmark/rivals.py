"""What a practitioner might use instead, each with ordinary settings: mean and standard deviation for the test rows.

NGBoost and CatBoost come with the extra `rivals`. The validation part is used where the library can stop early on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from partbayes.data import Splits
from partbayes.errors import PartbayesError

MOST_GP_ROWS = 3000
"""An exact Gaussian process costs the cube of its rows: larger tables are thinned to so many."""

Prediction = tuple[np.ndarray, np.ndarray]


def ngboost(splits: Splits, seed: int) -> Prediction:
    """Natural gradient boosting of a normal distribution, early stopping on the validation part."""
    library = _extra("ngboost")
    model = library.NGBRegressor(n_estimators=1000, verbose=False, random_state=seed)
    train, validation = splits.train, splits.validation
    model.fit(train.x, train.y[:, 0], X_val=validation.x, Y_val=validation.y[:, 0], early_stopping_rounds=50)
    found = model.pred_dist(splits.test.x, max_iter=model.best_val_loss_itr).params
    return found["loc"], found["scale"]


def catboost(splits: Splits, seed: int) -> Prediction:
    """Gradient boosting of mean and variance (RMSEWithUncertainty), early stopping on the validation part."""
    library = _extra("catboost")
    model = library.CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        iterations=2000,
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
    )
    train, validation = splits.train, splits.validation
    model.fit(train.x, train.y[:, 0], eval_set=(validation.x, validation.y[:, 0]), early_stopping_rounds=100)
    found = model.predict(splits.test.x)
    return found[:, 0], np.sqrt(found[:, 1])


def gaussian_process(splits: Splits, seed: int) -> Prediction:
    """Scikit-learn's exact process with one length scale per input and learned noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    x, y = splits.train.x[:MOST_GP_ROWS], splits.train.y[:MOST_GP_ROWS, 0]
    scales: Any = np.ones(x.shape[1])
    kernel = ConstantKernel(1.0) * RBF(scales, (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(kernel, random_state=seed).fit(x, y)
    found: Any = model.predict(splits.test.x, return_std=True)
    return found


def hist_gradient_boosting(splits: Splits, seed: int) -> Prediction:
    """Scikit-learn's boosted trees; their one standard deviation is that of the validation errors."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    options: Any = {"max_iter": 1000, "n_iter_no_change": 50, "early_stopping": True}
    model = HistGradientBoostingRegressor(random_state=seed, **options)
    validation = splits.validation
    model.fit(splits.train.x, splits.train.y[:, 0], X_val=validation.x, y_val=validation.y[:, 0])
    errors = validation.y[:, 0] - model.predict(validation.x)
    mean = model.predict(splits.test.x)
    return mean, np.full(len(mean), np.sqrt(np.mean(errors**2)))


RIVALS: dict[str, Callable[[Splits, int], Prediction]] = {
    "ngboost": ngboost,
    "catboost": catboost,
    "gaussian_process": gaussian_process,
    "hist_gradient_boosting": hist_gradient_boosting,
}


def _extra(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PartbayesError(f"{name} is not installed: pip install 'partbayes[rivals]', or leave it out.") from error
