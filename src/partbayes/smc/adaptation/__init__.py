"""What finds a proposal's numbers: step size, diagonal mass, ChEES trajectory length. Pure functions."""

from partbayes.smc.adaptation.chees import chees_criterion, chees_gradient
from partbayes.smc.adaptation.mass import covariance_factor, diagonal_inverse_mass
from partbayes.smc.adaptation.step_size import least_variance_step_size

__all__ = [
    "chees_criterion",
    "chees_gradient",
    "covariance_factor",
    "diagonal_inverse_mass",
    "least_variance_step_size",
]
