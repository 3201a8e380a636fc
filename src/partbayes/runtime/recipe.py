r"""The default training: a warm-started ensemble of islands, whose stochastic part is then sampled by GOHSMC.

1. **Warm start.** Each island climbs to its own (θ, ψ) by Adam on mini-batches (a deep ensemble); all keep the state of
   the epoch in which their mixture had the best validation score. Where the noise may differ between rows, half of the
   epochs come first with one noise level for all of them (the **level start**).
2. **Adaptation.** ψ stays. Each island's particles set out from its θ and move by Hamiltonian trajectories on the full
   data, while the step size is steered to its target acceptance.
3. **Sampling.** The same with the step size frozen; the particles of several iterations are pooled.
4. **Refinement.** The islands' shares and the shape and level of the noise, given the particles (`runtime.refinement`).

Where numbers are sampled, half as many islands again are trained with them and not sampled: they keep the warm start's
last state, whatever the validation rows say, and get the part of the mixture that these rows give them
(`runtime.overtraining`), if they are enough to tell.

Each island's warm start stays in it beside the samples, with the share that the validation rows give it. Larger tables
get more islands in place of sampling (`SAMPLED_UP_TO`). The warm start alone, not refined, is a deep ensemble.
"""

from __future__ import annotations

import time
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from partbayes import smc
from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Posterior
from partbayes.baselines import map_estimate
from partbayes.data.batching import steps_per_epoch
from partbayes.errors import PartbayesError
from partbayes.model import Model, tempered
from partbayes.runtime.compiling import lightly
from partbayes.runtime.level import let_go, with_level, without_level
from partbayes.runtime.overtraining import parted, select_by
from partbayes.runtime.refinement import enough, refine
from partbayes.runtime.resumable import Checkpoint, check_folder
from partbayes.runtime.stages import Stages, Trained, from_point, outline_of_points
from partbayes.training import gohsmc, pooled
from partbayes.types import Batch, Key

Effort = Literal["quick", "standard", "thorough"]
LEVEL_START, WARM_START, ADAPTATION, SAMPLING = "level start", "warm start", "adaptation", "sampling"
REFINEMENT = "refinement"


class Recipe(NamedTuple):
    """Plain numbers, so that a recipe can be written down and compared."""

    islands: int = 80
    particles: int = 1
    """Per island and iteration."""
    epochs: int = 300
    """Of the warm start."""
    overtrained: int = 0
    """Islands beside those, which are trained to the end and not sampled (`runtime.overtraining`). Where numbers are
    sampled, `recipe_for` has half as many as islands, unless told otherwise."""
    batch_size: int = 64
    learning_rate: float = 0.01
    """Adam's, at the start; it falls to zero along a cosine."""
    leapfrog_steps: int = 20
    """Of one move; none makes a random walk of it."""
    adaptation_steps: int = 100
    sampling_steps: int = 100
    keep: int = 10
    """Iterations that are pooled, evenly apart, the last ones where there would be more."""
    target_acceptance: float = 0.8
    weights: Literal["metropolis", "forward"] = "metropolis"
    """Moves that are accepted or rejected, with equal weights (the asymptotic L-kernel), or always made and weighed
    (the forward-proposal L-kernel)."""
    temperature: float = 1.0
    """Of the moves' target (`model.tempered`). Without a word about it, classes are sampled at `OF_CLASSES`."""
    move_rows: int = 100_000
    """Rows that one move sees: all, or a fresh batch of so many where there are more, which makes the samples too wide
    (docs/recipe.md)."""
    refine: bool = True
    noise_shape: bool = True
    """Whether the refinement may give the noise another shape than the normal (`runtime.refinement`)."""
    light: bool = False
    """Programs that compile sooner and run slower, for short trainings (`runtime.compiling`)."""


class Shrinking(NamedTuple):
    """A count that is full up to so many training rows, and beyond falls with a power of them, not below `least`."""

    full_up_to: int
    least: int
    power: float

    def __call__(self, full: int, num_data: int) -> int:
        share = min(1.0, (self.full_up_to / num_data) ** self.power)
        return min(full, max(self.least, round(share * full)))


SHRINKING = {
    "islands": Shrinking(3000, 20, 0.5),
    "leapfrog_steps": Shrinking(1000, 10, 0.5),
    "adaptation_steps": Shrinking(600, 20, 1.0),
    "sampling_steps": Shrinking(600, 20, 1.0),
}
"""What is made less of on larger tables, where one step of one island costs in proportion to the rows. Sampling gains
most where rows are few; where they are many, an island's posterior is narrow, and another island gains more."""


SAMPLED_UP_TO = 2_400
"""Training rows up to which sampling gains more than what takes as long, twice the islands. Beyond, islands alone are
trained, unless the effort is thorough or something about sampling is asked for."""

OF_CLASSES = 0.1
"""The temperature at which classes are sampled: at one, samples of few rows doubt what all other evidence supports
(docs/recipe.md)."""

SWITCHES = ("refine", "noise_shape", "light")

ABOUT_SAMPLING = frozenset(Recipe._fields) - {
    "islands",
    "overtrained",
    "epochs",
    "batch_size",
    "learning_rate",
    *SWITCHES,
}


def recipe_for(
    effort: str,
    num_data: int,
    *,
    classes: bool = False,
    islands: int | None = None,
    particles: int | None = None,
    **changes: Any,
) -> Recipe:
    """The recipe of an effort for so many training rows of numbers or `classes`; any field may be changed by name."""
    if effort not in get_args(Effort):
        raise PartbayesError(f"The effort is {effort!r}, but one of {', '.join(get_args(Effort))} is expected.")
    recipe = {
        "quick": Recipe(islands=12, adaptation_steps=30, sampling_steps=20),
        "standard": Recipe(),
        "thorough": Recipe(islands=120, particles=2, epochs=400, adaptation_steps=200, sampling_steps=200, keep=20),
    }[effort]
    # Beyond some hundred thousand steps a larger table is better served by fewer passes in larger batches.
    batch_size = changes.get("batch_size") or max(recipe.batch_size, min(1024, num_data // 1000))
    epochs = max(3, min(recipe.epochs, 100_000 // steps_per_epoch(num_data, batch_size)))
    given = {"islands": islands, "particles": particles, **changes}
    fitted: dict[str, Any] = {name: shrink(getattr(recipe, name), num_data) for name, shrink in SHRINKING.items()}
    fitted["temperature"] = OF_CLASSES if classes else recipe.temperature
    given = {name: value for name, value in given.items() if value is not None}
    if num_data > SAMPLED_UP_TO and effort != "thorough" and not ABOUT_SAMPLING & set(given):
        fitted |= {"sampling_steps": 0, "islands": 2 * fitted["islands"]}
    light = effort == "quick" and num_data <= SAMPLED_UP_TO  # beyond, running takes longer than compiling
    recipe = _check(recipe._replace(batch_size=batch_size, epochs=epochs, light=light, **fitted)._replace(**given))
    # A class has no noise to be too sure of, and its networks' best epoch is mostly the last one anyway.
    if "overtrained" in given or classes or recipe.sampling_steps == 0:
        return recipe
    return recipe._replace(overtrained=recipe.islands // 2)


def train(
    key: Key,
    model: Model,
    data: Batch,
    validation: Batch | None,
    recipe: Recipe,
    *,
    max_time: float | None = None,
    progress: bool | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Run the stages. `max_time` (seconds) cuts each stage at its share (the refinement, some seconds, comes on top);
    the result then depends on the machine."""
    if max_time is not None and not max_time > 0:
        raise PartbayesError(f"max_time is {max_time}, but a positive number of seconds is expected.")
    check_folder(checkpoint, [LEVEL_START, WARM_START, SAMPLING])
    with lightly(recipe.light), Stages(data, validation, max_time, progress, checkpoint) as stages:
        return _run_stages(key, model, stages, recipe, validation)


def _run_stages(key: Key, model: Model, stages: Stages, recipe: Recipe, validation: Batch | None) -> Trained:
    key_level, key_warm, key_sample = jax.random.split(key, 3)
    # Whoever was trained to the end gets a part by the validation rows, or none.
    islands, beside = recipe.islands, recipe.overtrained if recipe.refine and enough(validation) else 0
    climb: dict[str, Any] = {
        "batch_size": recipe.batch_size,
        "islands": islands + beside,
        # The best epoch by validation is kept, and none is left out: a rate that falls to zero gains most at the end.
        "select": select_by(islands, beside),
    }
    # Climbing may overfit and is judged on the validation rows; moves sample what they sample.
    moves: dict[str, Any] = {"batch_size": min(recipe.move_rows, stages.num_data), "validate": False}
    if recipe.sampling_steps > 0:
        points = {"params": outline_of_points(model, recipe.islands), "islands": recipe.islands}
        stages.ahead(ADAPTATION, key_sample, sampler_for(model, stages.num_data, recipe), model, **moves | points)
    # The moves that follow take most of the time there is.
    level_share, warm_share = (0.15, 0.3) if recipe.sampling_steps > 0 else (0.5, 1.0)
    if model.level_log_likelihood is None:
        climber = _climber(model, stages.num_data, recipe, recipe.epochs)
        found = stages.run(WARM_START, key_warm, climber, model, recipe.epochs, share=warm_share, **climb)
    else:
        levelled, epochs = with_level(model), -(-recipe.epochs // 2)
        climber = _climber(levelled, stages.num_data, recipe, epochs)
        found = stages.run(LEVEL_START, key_level, climber, levelled, epochs, share=level_share, **climb)
        islands, beside = (0 if part is None else len(part.log_weights) for part in parted(found, islands))
        climb |= from_point(let_go(found.posterior)) | {"select": select_by(islands, beside)}
        found = stages.run(WARM_START, key_warm, climber, levelled, epochs, share=warm_share, **climb)
        found = found._replace(posterior=without_level(found.posterior))
    warm, overtrained = parted(found, islands)
    begun, posterior = None, warm
    if recipe.sampling_steps > 0:
        begun, posterior = _sample(key_sample, model, stages, warm, recipe, moves)
    if validation is None or not recipe.refine:
        return stages.finish(posterior)
    started = time.perf_counter()
    refined = refine(model, posterior, validation, begun, overtrained, noise_shape=recipe.noise_shape)
    stages.record(REFINEMENT, 0, started, model, refined.posterior, refined.score)
    return stages.finish(refined.posterior, refined.note())


def _sample(
    key: Key, model: Model, stages: Stages, warm: Posterior, recipe: Recipe, moves: dict[str, Any]
) -> tuple[Posterior, Posterior]:
    """Adaptation and sampling: where the islands that came through set out from, and their samples."""
    moves = {**moves, "folder": SAMPLING, **from_point(warm)}
    sampler = sampler_for(model, stages.num_data, recipe)
    per_epoch = steps_per_epoch(stages.num_data, moves["batch_size"])
    adapting = -(-recipe.adaptation_steps // per_epoch)
    total = adapting + -(-recipe.sampling_steps // per_epoch)
    adapted = stages.run(ADAPTATION, key, sampler, model, adapting, share=0.7, **moves)
    behind = min(adapting, int(adapted.run.step) // per_epoch)  # a restored run may be further on
    sampled = stages.run(SAMPLING, key, sampler, model, total, after=behind, resume=adapted.run, **moves)
    return _without(warm, np.asarray(sampled.run.alive)), sampled.posterior


def _without(posterior: Posterior, alive: np.ndarray) -> Posterior:
    """The islands that are still there."""
    return posterior if alive.all() else tm.gather(posterior, jnp.asarray(np.flatnonzero(alive)))


# The same objects for the same settings, so that a second training compiles nothing.


@lru_cache(maxsize=64)
def _climber(model: Model, num_data: int, recipe: Recipe, epochs: int) -> Algorithm:
    num_steps = epochs * steps_per_epoch(num_data, recipe.batch_size)
    schedule = optax.cosine_decay_schedule(recipe.learning_rate, num_steps)
    return map_estimate(model, num_data, optimiser=optax.adam(schedule))


@lru_cache(maxsize=32)
def sampler_for(model: Model, num_data: int, recipe: Recipe) -> Algorithm:
    sampler = gohsmc(
        tempered(model, recipe.temperature),
        num_data,
        num_particles=recipe.particles,
        proposal=smc.hmc(recipe.leapfrog_steps) if recipe.leapfrog_steps else smc.random_walk(),
        lkernel=smc.asymptotic() if recipe.weights == "metropolis" else smc.forward_proposal(),
        denominator="same_batch",
        # Two particles have an effective size of at least one, so a threshold of one half would never be met.
        resampler=smc.adaptive(smc.systematic(), fraction=0.75),
        hold_psi=True,
        start="given",
        warmup_steps=recipe.adaptation_steps,
        target_acceptance=recipe.target_acceptance,
    )
    every = max(1, recipe.sampling_steps // recipe.keep)  # spread over all of them
    return pooled(sampler, burn_in=recipe.adaptation_steps, every=every, keep=recipe.keep)


def _check(recipe: Recipe) -> Recipe:
    if recipe.weights not in ("metropolis", "forward"):
        raise PartbayesError(f"The recipe's weights are {recipe.weights!r}, but metropolis or forward is expected.")
    if recipe.weights == "forward" and recipe.particles < 2:
        raise PartbayesError("The recipe's weights are 'forward', but one particle cannot be weighed: use two or more.")
    for name in SWITCHES:
        if not isinstance(getattr(recipe, name), bool):
            raise PartbayesError(f"The recipe's {name} is {getattr(recipe, name)!r}, but True or False is expected.")
    for name, value in recipe._asdict().items():
        if name in ("weights", *SWITCHES):
            continue
        whole = isinstance(Recipe._field_defaults[name], int)
        if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
            raise PartbayesError(f"The recipe's {name} is {value!r}, but a {'whole ' * whole}number is expected.")
        if value < 0 or (value == 0 and name not in ("sampling_steps", "leapfrog_steps", "overtrained")):
            raise PartbayesError(f"The recipe's {name} is {value}, but a positive number is needed.")
    if not 0 < recipe.target_acceptance < 1:
        raise PartbayesError(
            f"The recipe's target_acceptance is {recipe.target_acceptance}, but a number between 0 and 1 is expected."
        )
    return recipe
