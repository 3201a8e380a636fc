r"""An asymmetric, non-Gaussian target with exact draws and exact moments, for the samplers' correctness table.

$\theta = A z$ with independent $z_i = \log(G_i / H_i)$, $G_i \sim \Gamma(a)$, $H_i \sim \Gamma(b)$: the logistic-beta
distribution, skewed whenever a ≠ b, with exponential tails and curvature bounded by (a + b)/4. A is a fixed lower
triangular matrix with ones on its diagonal, so that the coordinates depend on each other and the density needs no
constant. Cumulants of z: polygamma(k, a) ± polygamma(k, b).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special


class LogisticTarget(NamedTuple):
    dim: int
    a: float
    b: float

    @property
    def shear(self) -> np.ndarray:
        return np.eye(self.dim) + 0.2 * np.eye(self.dim, k=-1)

    def whiten(self, theta):
        return jnp.linalg.solve(self.shear, theta[..., None])[..., 0]

    def log_density(self, theta, shared=None):
        z = jnp.asarray(np.linalg.inv(self.shear), theta["w"].dtype) @ theta["w"]
        constant = special.betaln(self.a, self.b)
        return jnp.sum(self.a * z - (self.a + self.b) * jax.nn.softplus(z) - constant)

    def draw(self, key, num):
        key_g, key_h = jax.random.split(key)
        g = jax.random.loggamma(key_g, self.a, (num, self.dim))
        h = jax.random.loggamma(key_h, self.b, (num, self.dim))
        return {"w": (g - h) @ jnp.asarray(self.shear.T, g.dtype)}

    @property
    def moments(self) -> np.ndarray:
        """E z, E z², E z³."""
        mean = special.digamma(self.a) - special.digamma(self.b)
        variance = special.polygamma(1, self.a) + special.polygamma(1, self.b)
        third = special.polygamma(2, self.a) - special.polygamma(2, self.b)
        return np.array([mean, variance + mean**2, third + 3 * mean * variance + mean**3])

    def scores(self, theta, log_weights) -> dict[str, float]:
        """Standard errors between the weighted and the exact value, for E[w] and the moments (coordinates averaged)."""
        weights = np.exp(np.asarray(log_weights, np.float64))
        z = np.asarray(self.whiten(theta["w"]), np.float64)
        found = {"E[w]": _score(weights, 1.0)}
        for order, exact in enumerate(self.moments, start=1):
            found[f"E[w z^{order}]"] = _score(weights * np.mean(z**order, axis=1), exact)
        return found


def _score(values: np.ndarray, exact: float) -> float:
    spread = np.std(values, ddof=1)
    error = np.mean(values) - exact
    # Weights that are all exactly one have no spread; rounding is then all there can be.
    return float(error / max(spread / np.sqrt(values.size), 1e-6))
