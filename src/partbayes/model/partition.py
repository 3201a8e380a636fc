"""Split any parameter tree into θ (stochastic), ψ (deterministic) and what is not a parameter at all.

A predicate on `(path, leaf)` decides; `path` is a readable string such as `"network/layers/0/weight"`.
The three parts keep the tree's structure, with `None` where a leaf belongs to another part, so `combine` is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax

from partbayes.errors import PartbayesError
from partbayes.types import Tree

Predicate: TypeAlias = Callable[[str, Any], bool]
Stochastic: TypeAlias = str | Sequence[str] | Predicate


class Partition(NamedTuple):
    """The parts of a tree: parameters to sample, parameters to optimise, and everything else (ints, functions)."""

    theta: Tree
    psi: Tree
    static: Tree


def path_name(path: tuple[Any, ...]) -> str:
    """A key path as people write it: `layers/0/weight`."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def partition(params: Tree, predicate: Predicate) -> Partition:
    """θ is every floating-point leaf that `predicate(path, leaf)` picks, ψ every other floating-point leaf."""
    parameters, static = eqx.partition(params, eqx.is_inexact_array)
    chosen = jax.tree_util.tree_map_with_path(lambda path, leaf: bool(predicate(path_name(path), leaf)), parameters)
    theta, psi = eqx.partition(parameters, chosen)
    if not jax.tree.leaves(theta):
        names = ", ".join(paths(parameters)) or "none"
        raise PartbayesError(
            f"No parameter was selected as stochastic, but at least one is needed: choose among {names}."
        )
    return Partition(theta, psi, static)


def combine(theta: Tree, psi: Tree, static: Tree) -> Tree:
    """The whole tree again."""
    return eqx.combine(theta, psi, static)


def paths(tree: Tree) -> list[str]:
    """Names of all leaves, in tree order."""
    return [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]


def select(stochastic: Stochastic, params: Tree) -> Predicate:
    """The predicate behind `"first"`, `"last"`, `"all"`, one or more path prefixes, or a predicate as it is.

    A layer is a set of leaves with the same parent. Layers stand in tree order; mappings, which JAX sorts by key,
    are read in natural order (`Dense_2` before `Dense_10`). Where that is not the network's order, name the layer.
    """
    if callable(stochastic):
        return stochastic
    if stochastic == "all":
        return lambda path, leaf: True
    parameters = eqx.filter(params, eqx.is_inexact_array)
    if stochastic in ("first", "last"):
        layers = _layers(parameters)
        if not layers:
            raise PartbayesError("The network has no floating-point parameters, so there is nothing to train.")
        layer = layers[0] if stochastic == "first" else layers[-1]
        return lambda path, leaf: _parent(path) == layer
    prefixes = (stochastic,) if isinstance(stochastic, str) else tuple(stochastic)
    known = paths(parameters)
    for prefix in prefixes:
        if not any(_under(path, prefix) for path in known):
            raise PartbayesError(
                f"No parameter lies under {prefix!r}: use 'first', 'last', 'all', a predicate, or a prefix of one of "
                f"{', '.join(known)}."
            )
    return lambda path, leaf: any(_under(path, prefix) for prefix in prefixes)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def _layers(params: Tree) -> list[str]:
    entries = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    layers = list(dict.fromkeys(_parent(path_name(path)) for path in entries))
    ordered_by_definition = any(isinstance(entry, jax.tree_util.GetAttrKey) for path in entries for entry in path)
    return layers if ordered_by_definition else sorted(layers, key=_natural)


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
