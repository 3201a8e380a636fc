"""Saving while something goes wrong: an interrupt in the middle of a write, a full disk, a damaged file."""

from __future__ import annotations

import errno

import jax
import pytest
from problems import small_network, trees_equal

from partbayes.errors import PartbayesError
from partbayes.runtime import resumable
from partbayes.runtime.checkpoint import save_checkpoint
from partbayes.runtime.resumable import Checkpoint, fit_resumable
from partbayes.training import gohsmc

MODEL, DATA = small_network()
ALGORITHM = gohsmc(MODEL, DATA.x.shape[0], num_particles=4, step_size=0.01)


def run(checkpoint, epochs=4):
    return fit_resumable(checkpoint, jax.random.key(0), ALGORITHM, MODEL, DATA, num_epochs=epochs, batch_size=8).run


@pytest.mark.parametrize("when", ["before it is there", "when it is there"])
def test_an_interrupt_during_a_write_loses_nothing(tmp_path, monkeypatch, when):
    saves = []

    def interrupted(folder, state, description):
        saves.append(int(state.step))
        if len(saves) > 1 or when == "when it is there":
            save_checkpoint(folder, state, description)
        if len(saves) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(resumable, "save_checkpoint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(Checkpoint(tmp_path, every_seconds=0.0))
    assert saves == [saves[0]] * 2  # the same epoch again
    monkeypatch.undo()
    assert trees_equal(run(Checkpoint(tmp_path, resume=True)), run(None))


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    import orbax.checkpoint as ocp

    def full(self, *args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ocp.CheckpointManager, "save", full)
    with pytest.raises(PartbayesError, match="No space left on device"):
        run(Checkpoint(tmp_path))


@pytest.mark.parametrize("damage", ["description", "run"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_serves(tmp_path, damage):
    run(Checkpoint(tmp_path), epochs=2)
    run(Checkpoint(tmp_path, resume=True), epochs=4)
    newest = max((tmp_path / "train").iterdir(), key=lambda path: int(path.name))
    for file in (newest / damage).rglob("*"):
        if file.is_file():
            file.write_bytes(b"\x00garbage")
    with pytest.raises(PartbayesError, match="folder"):
        run(Checkpoint(tmp_path, resume=True))
    for file in sorted(newest.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    newest.rmdir()
    assert trees_equal(run(Checkpoint(tmp_path, resume=True)), run(None))


def test_another_version_of_the_package_does_not_go_on(tmp_path, monkeypatch):
    run(Checkpoint(tmp_path), epochs=2)
    monkeypatch.setattr("partbayes.runtime.checkpoint.__version__", "0.0.1")
    with pytest.raises(PartbayesError, match="partbayes version"):
        run(Checkpoint(tmp_path, resume=True))
