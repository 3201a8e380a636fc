r"""A posterior at another temperature: $\pi(\theta \mid \psi)^{1/T}$, the likelihood and the prior divided by T alike.

Below one it is *cold*: narrower around the same peaks. Class labels of curated tables are far less noisy than a softmax
makes them out to be (an unclear row was decided by somebody, or left out), so their likelihood says too little, and
the posterior at temperature one is too wide (Wenzel et al. 2020; Aitchison 2021).
"""

from __future__ import annotations

from partbayes.errors import PartbayesError
from partbayes.model.bnn import Model
from partbayes.types import Array, Batch, Tree


def tempered(model: Model, temperature: float) -> Model:
    """The model with both parts of its target divided by `temperature`; what it predicts, and the ψ-gradient, stay.

    Draws from the prior are still those of T = 1, so weights that start from them would be wrong: set out from given
    points.
    """
    if not temperature > 0:
        raise PartbayesError(f"The temperature is {temperature}, but a positive number is expected, such as 1.0.")
    if temperature == 1:
        return model

    def log_likelihood(theta: Tree, psi: Tree, batch: Batch) -> Array:
        return model.log_likelihood(theta, psi, batch) / temperature

    def log_prior(theta: Tree) -> Array:
        return model.log_prior(theta) / temperature

    return model._replace(
        log_likelihood=log_likelihood,
        log_prior=log_prior,
        level_log_likelihood=None,
        temperature=temperature * model.temperature,
    )
