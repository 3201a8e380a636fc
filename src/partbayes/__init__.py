"""Partial Bayesian neural networks trained with sequential Monte Carlo.

Some parameters of a network are random (θ), the rest are fitted (ψ): any subset of any JAX parameter tree may be
random. Training ends in weighted particles of θ with the ψ that belongs to them.
"""

from partbayes._version import __version__

__all__ = ["__version__"]
