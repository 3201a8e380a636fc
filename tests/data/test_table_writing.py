"""Output is tried before it is needed, and what was there before survives every failure."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pandas as pd
import pytest

from partbayes.data.table import require_writable, write_csv
from partbayes.errors import PartbayesError

FRAME = pd.DataFrame({"mean": [0.5, 1.0], "class": ["a,b", "c"]})


def test_writes_and_replaces_whole(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    require_writable(path)
    assert path.read_text() == "old"
    write_csv(FRAME, path)
    assert path.read_bytes() == b'mean,class\n0.5,"a,b"\n1.0,c\n'
    assert os.listdir(tmp_path) == ["out.csv"]


def test_standard_output(capsys):
    write_csv(FRAME, "-")
    assert capsys.readouterr().out == 'mean,class\n0.5,"a,b"\n1.0,c\n'


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    for path, words in [
        (tmp_path / "none" / "out.csv", r"There is no folder .*none to write out\.csv to: make it first"),
        (tmp_path / "file" / "out.csv", r"out\.csv cannot be written \(Not a directory\)|There is no folder"),
        (tmp_path, "is a folder: name a file in it"),
        (Path("/dev/null"), "is a device, not a file"),
        (tmp_path / ("x" * 300), r"cannot be written \(File name too long\)"),
    ]:
        with pytest.raises(PartbayesError, match=words):
            require_writable(path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_refuses(tmp_path, monkeypatch):
    """Permissions do not bind every user, so the refusal is played."""

    def refuse(self, *args, **keywords):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(PartbayesError, match=r"out\.csv cannot be written \(Permission denied\): choose another place"):
        require_writable(tmp_path / "out.csv")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PartbayesError, match=r"out\.csv cannot be written \(No space left on device\)"):
        write_csv(FRAME, path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_device_is_written_to_and_stays_one():
    require_writable("/dev/full", regular=False)
    with pytest.raises(PartbayesError, match=r"/dev/full cannot be written \(No space left on device\)"):
        write_csv(FRAME, "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    write_csv(FRAME, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
