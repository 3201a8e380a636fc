"""Several devices: the same numbers as one, shares where they should lie, and only the exchanges that are meant."""

from __future__ import annotations

import jax
import pytest
import several_devices
from problems import small_network

from partbayes.errors import PartbayesError
from partbayes.runtime import device_mesh, fit
from partbayes.training import gohsmc


@pytest.mark.parametrize(
    ("islands", "particles", "block", "share"),
    [
        (8, 1, 0, [1, 16]),  # islands only
        (1, 8, 0, [1, 2]),  # one population on all devices
        # Both, with islands that do not fill the four groups (kept everywhere, worked on in shares) and blocks that do
        # not divide a device's share.
        (3, 2, 3, [3, 8]),
    ],
)
def test_eight_devices_give_the_numbers_of_one(islands, particles, block, share):
    found = several_devices.run("compare", islands, particles, block)
    assert found["devices"] == 8 and found["share"] == share
    assert found["resampled"] > 0, "resampling is the exchange that could go wrong"
    # 12 steps of float64: rounding of 1e-16 each, amplified by some orders along a trajectory, but far from 1e-9.
    for what in ("posterior", "state", "moved"):
        assert found[what] < 1e-9, found


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.slow), 8])
def test_a_step_exchanges_what_the_cost_model_says(devices):
    """docs/scaling.md: whatever the number of devices, and of blocks, a step gathers survivors and adds up thrice."""
    divided = several_devices.run("collectives", 1, devices, devices=devices)
    num_particles, theta, psi = 16, 3 * 5 + 5, 5 * 4 + 4 + 4 + 1 + 1  # one noise level in ψ
    assert divided["step"] == {"all-gather": 4, "all-reduce": 3}
    # All-gather: θ, weight and cached target of every particle. All-reduce: the ψ-gradient and seven numbers (two
    # maxima, two normalisers, acceptance, fraction lost, log-likelihood).
    assert divided["bytes"] == {"all-gather": 4 * num_particles * (theta + 2), "all-reduce": 4 * (psi + 7)}
    alone = several_devices.run("collectives", devices, 1, devices=devices)
    assert alone["step"] == {}, "islands exchange nothing while they train"


@pytest.mark.parametrize("islands", [4, 5], ids=["shared evenly", "not evenly"])
def test_what_was_prepared_is_what_training_calls(islands):
    ahead, later = several_devices.run("prepared", islands, devices=2)
    assert ahead > 0 and later == 0


def test_devices_that_cannot_be_grouped_are_refused():
    with pytest.raises(PartbayesError, match="1 devices cannot be grouped by 3"):
        device_mesh(particles=3, devices=jax.devices()[:1])


def test_a_mesh_of_other_axes_is_refused():
    model, data = small_network()
    algorithm = gohsmc(model, 24, num_particles=2, step_size=0.01)
    with pytest.raises(PartbayesError, match="device_mesh"):
        fit(jax.random.key(0), algorithm, model, data, num_epochs=1, batch_size=8, mesh=jax.make_mesh((1,), ("batch",)))
