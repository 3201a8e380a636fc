"""The six tables: contents, where they are looked for, checksums, conversion, and who may use the network."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import sys
import urllib.error
import urllib.request
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from partbayes.data import DATASETS, cache_folder, deduplicate, download, load
from partbayes.data.fetch import fetch_california, fetch_naval
from partbayes.errors import PartbayesError

BUNDLED = ("yacht", "concrete", "wine_red", "wine_white")
SHAPES = {
    "yacht": (308, 6),
    "concrete": (1030, 8),
    "wine_red": (1599, 11),
    "wine_white": (4898, 11),
    "naval": (11934, 17),
    "california": (20640, 8),
}
LOCAL_DATA = os.environ.get("PARTBAYES_DATA")


def local_file(name: str) -> Path:
    """The table's file in the folder PARTBAYES_DATA named when the tests began."""
    path = Path(LOCAL_DATA or "nowhere") / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"{name}.csv does not come with the package; set PARTBAYES_DATA to a folder that holds it")
    return path


@pytest.fixture(autouse=True)
def no_network_and_empty_cache(monkeypatch, tmp_path):
    """Any attempt to look up or connect to a host fails the test; no table but the packaged ones is at hand."""

    def refuse(*arguments, **keywords):
        pytest.fail(f"network access: {arguments}")

    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("PARTBAYES_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def serve(monkeypatch, content: bytes) -> list[str]:
    """Answer every request with `content`; returns the addresses asked for."""
    asked = []

    def urlopen(request, timeout):
        asked.append(request.full_url)
        return io.BytesIO(content)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as files:
        for name, content in members.items():
            files.writestr(name, content)
    return buffer.getvalue()


def as_original(naval_csv: str) -> bytes:
    """The layout of UCI's data.txt: three spaces before every number, no header."""
    rows = naval_csv.splitlines()[1:]
    return "".join("   " + "   ".join(row.split(",")) + "\n" for row in rows).encode()


def small_source(monkeypatch, name: str, csv: bytes):
    """The table's entry with the checksum of a small stand-in."""
    source = DATASETS[name]._replace(sha256=hashlib.sha256(csv).hexdigest())
    monkeypatch.setitem(DATASETS, name, source)
    return source


NAVAL_ROWS = [",".join(f"{value:.7e}" for value in np.arange(1, 19) / scale) for scale in (7.0, -3e4)]
SMALL_NAVAL = "".join(f"{row}\n" for row in (DATASETS["naval"].header, *NAVAL_ROWS))


def one_sentence(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize("name", DATASETS)
def test_loads_with_the_right_shape(name):
    folder = None if name in BUNDLED else local_file(name).parent
    dataset = load(name, data_dir=folder)
    source = DATASETS[name]
    assert dataset.x.shape == SHAPES[name] == (source.num_rows, source.num_features)
    assert dataset.y.shape == (source.num_rows, 1)
    assert dataset.x.dtype == dataset.y.dtype == np.float64
    assert dataset.feature_names == source.features
    assert dataset.target_names == source.targets


def test_first_rows():
    np.testing.assert_array_equal(load("yacht").x[1], [-2.3, 0.568, 4.78, 3.99, 3.17, 0.150])
    np.testing.assert_array_equal(load("yacht").y[1], [0.27])
    np.testing.assert_array_equal(load("concrete").y[1], [61.887365759999994])
    np.testing.assert_array_equal(load("wine_white").y[:3, 0], [6, 6, 6])


def test_naval_predicts_turbine_decay_from_seventeen_inputs():
    dataset = load("naval", data_dir=local_file("naval").parent)
    assert dataset.feature_names[-1] == "compressor_decay"
    np.testing.assert_array_equal(np.unique(dataset.x[:, -1]).round(3), np.round(np.linspace(0.95, 1.0, 51), 3))
    np.testing.assert_array_equal(np.unique(dataset.y).round(3), np.round(np.linspace(0.975, 1.0, 26), 3))


@pytest.mark.parametrize(("name", "repeats"), [("concrete", 25), ("wine_red", 240), ("wine_white", 937), ("yacht", 0)])
def test_known_number_of_repeated_rows(name, repeats):
    dataset = load(name)
    assert dataset.num_data - deduplicate(dataset).num_data == repeats


@pytest.mark.parametrize("name", BUNDLED)
def test_packaged_file_is_the_published_one(name):
    content = (resources.files("partbayes.data") / "files" / f"{name}.csv").read_bytes()
    assert hashlib.sha256(content).hexdigest() == DATASETS[name].sha256
    assert content.decode().splitlines()[0] == DATASETS[name].header


def test_only_redistributable_tables_are_packaged():
    files = {entry.name for entry in (resources.files("partbayes.data") / "files").iterdir()}
    assert {name for name in files if name.endswith(".csv")} == {f"{name}.csv" for name in BUNDLED}
    attribution = (resources.files("partbayes.data") / "files" / "ATTRIBUTION.md").read_text()
    for name in BUNDLED:
        assert DATASETS[name].doi in attribution
        assert DATASETS[name].file_name in attribution
        assert DATASETS[name].home in attribution


def test_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(PartbayesError) as caught:
        load("naval", data_dir=tmp_path / "here")
    text = one_sentence(caught)
    assert "partbayes data get naval" in text
    assert "PARTBAYES_DATA" in text
    assert str(tmp_path / "here") in text
    assert str(cache_folder()) in text


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(PartbayesError, match="yacht, concrete, wine_red, wine_white, naval, california"):
        load("boston")


def test_folders_are_searched_in_order(monkeypatch, tmp_path):
    small_source(monkeypatch, "naval", SMALL_NAVAL.encode())
    argument, variable = tmp_path / "argument", tmp_path / "variable"
    for folder in (argument, variable, cache_folder()):
        folder.mkdir(parents=True)
    monkeypatch.setenv("PARTBAYES_DATA", str(variable))
    # A damaged file is an error where it is the first one found, so what is reported shows where the search stopped.
    for folder in (cache_folder(), variable, argument):
        (folder / "naval.csv").write_text("damaged")
        with pytest.raises(PartbayesError, match="damaged") as caught:
            load("naval", data_dir=argument)
        assert str(folder / "naval.csv") in one_sentence(caught)
        (folder / "naval.csv").write_text(SMALL_NAVAL)
        assert load("naval", data_dir=argument).num_data == 2


def test_packaged_file_comes_after_the_variable_and_before_the_cache(monkeypatch, tmp_path):
    cache_folder().mkdir(parents=True)
    (cache_folder() / "yacht.csv").write_text("damaged")
    assert load("yacht").num_data == 308
    (tmp_path / "yacht.csv").write_text("damaged")
    monkeypatch.setenv("PARTBAYES_DATA", str(tmp_path))
    with pytest.raises(PartbayesError, match="sha256"):
        load("yacht")


def test_one_changed_byte_is_noticed(tmp_path):
    content = bytearray((resources.files("partbayes.data") / "files" / "yacht.csv").read_bytes())
    content[-2] ^= 1
    (tmp_path / "yacht.csv").write_bytes(content)
    with pytest.raises(PartbayesError, match="damaged") as caught:
        load("yacht", data_dir=tmp_path)
    assert "partbayes data get yacht" in one_sentence(caught)


def test_cache_folder_follows_the_xdg_rule(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == Path("/home/someone/.cache/partbayes")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert cache_folder() == Path("/var/cache/me/partbayes")


@pytest.mark.parametrize(
    "members",
    [
        lambda text: {"__MACOSX/UCI CBM Dataset/._data.txt": b"\xff", "UCI CBM Dataset/data.txt": text},
        lambda text: {"README": b"", "UCI CBM Dataset.zip": archive({"UCI CBM Dataset/data.txt": text})},
    ],
    ids=["plain", "nested"],
)
def test_naval_download(monkeypatch, tmp_path, members):
    small_source(monkeypatch, "naval", SMALL_NAVAL.encode())
    asked = serve(monkeypatch, archive(members(as_original(SMALL_NAVAL))))
    path = download("naval", data_dir=tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "naval.csv"
    assert path.read_bytes() == SMALL_NAVAL.encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["naval.csv"]
    assert asked == [
        "https://archive.ics.uci.edu/static/public/316/condition+based+maintenance+of+naval+propulsion+plants.zip"
    ]
    # The second time the right file is there, and nothing is asked for.
    assert download("naval", data_dir=tmp_path / "new" / "folder") == path
    assert len(asked) == 1


def test_naval_conversion_gives_the_published_file(monkeypatch):
    csv = local_file("naval").read_bytes()
    original = as_original(csv.decode())
    # sha256 of the data.txt in UCI's archive.
    published = "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6"
    assert hashlib.sha256(original).hexdigest() == published
    serve(monkeypatch, archive({"UCI CBM Dataset/data.txt": original}))
    assert fetch_naval(DATASETS["naval"]) == csv


def test_download_goes_to_the_cache_where_load_finds_it(monkeypatch):
    small_source(monkeypatch, "naval", SMALL_NAVAL.encode())
    serve(monkeypatch, archive({"data.txt": as_original(SMALL_NAVAL)}))
    assert download("naval") == cache_folder() / "naval.csv"
    assert load("naval").num_data == 2


def test_download_replaces_a_damaged_file(monkeypatch, tmp_path):
    small_source(monkeypatch, "naval", SMALL_NAVAL.encode())
    serve(monkeypatch, archive({"data.txt": as_original(SMALL_NAVAL)}))
    (tmp_path / "naval.csv").write_text("damaged")
    assert download("naval", data_dir=tmp_path).read_bytes() == SMALL_NAVAL.encode()


def test_bundled_table_is_copied_without_network(tmp_path):
    path = download("yacht", data_dir=tmp_path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DATASETS["yacht"].sha256


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>gone</html>", "did not return a zip archive"),
        (archive({"other.txt": b""}), "did not return a zip archive with data.txt"),
        (archive({"data.txt": as_original(SMALL_NAVAL)}), "no longer the published one"),
    ],
)
def test_wrong_download_leaves_nothing(monkeypatch, tmp_path, content, message):
    serve(monkeypatch, content)
    with pytest.raises(PartbayesError, match=message) as caught:
        download("naval", data_dir=tmp_path)
    one_sentence(caught)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_write_keeps_the_old_file(monkeypatch, tmp_path):
    small_source(monkeypatch, "naval", SMALL_NAVAL.encode())
    serve(monkeypatch, archive({"data.txt": as_original(SMALL_NAVAL)}))
    (tmp_path / "naval.csv").write_text("old")

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(PartbayesError, match="No space left") as caught:
        download("naval", data_dir=tmp_path)
    one_sentence(caught)
    assert [entry.name for entry in tmp_path.iterdir()] == ["naval.csv"]
    assert (tmp_path / "naval.csv").read_text() == "old"


@pytest.mark.parametrize("failure", [urllib.error.URLError("Name or service not known"), TimeoutError("timed out")])
def test_no_network_is_one_sentence(monkeypatch, tmp_path, failure):
    def unreachable(*arguments, **keywords):
        raise failure

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", unreachable)
    for name in ("naval", "california"):
        with pytest.raises(PartbayesError, match="check the network") as caught:
            download(name, data_dir=tmp_path)
        assert str(getattr(failure, "reason", failure)) in one_sentence(caught)
    assert list(tmp_path.iterdir()) == []


def test_california_download(monkeypatch, tmp_path):
    x = np.array(
        [
            [8.3252, 41.0, 880 / 126, 1 / 3, 322.0, 2.5555555555555554, 37.88, -122.23],
            [1e-7, 0.1 + 0.2, 0.0, 2.0, 1e22, 12345678.0, -0.5, 1 / 49 * 49],
        ]
    )
    y = np.array([4.526, 5.00001])
    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", lambda data_home, return_X_y: (x, y))
    csv = (
        "MedInc,HouseAge,AveRooms,AveBedrms,Population,AveOccup,Latitude,Longitude,MedHouseVal\n"
        "8.3252,41.0,6.984126984126984,0.3333333333333333,322.0,2.5555555555555554,37.88,-122.23,4.526\n"
        "1e-07,0.30000000000000004,0.0,2.0,1e+22,12345678.0,-0.5,0.9999999999999999,5.00001\n"
    )
    small_source(monkeypatch, "california", csv.encode())
    assert download("california", data_dir=tmp_path).read_bytes() == csv.encode()


def test_california_conversion_gives_the_published_file(monkeypatch):
    path = local_file("california")
    dataset = load("california", data_dir=path.parent)
    monkeypatch.setattr(
        sklearn.datasets, "fetch_california_housing", lambda data_home, return_X_y: (dataset.x, dataset.y[:, 0])
    )
    assert fetch_california(DATASETS["california"]) == path.read_bytes()


def test_california_without_scikit_learn(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(PartbayesError, match="pip install scikit-learn"):
        download("california", data_dir=tmp_path)
