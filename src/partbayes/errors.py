"""The one exception users meet: a single sentence saying what came, what was expected and what to do."""

from __future__ import annotations


class PartbayesError(ValueError):
    """Bad input or an impossible request. The command line prints its text and exits with 1, never a traceback."""
