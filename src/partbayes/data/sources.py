"""The six regression tables of the published comparison: columns, origin, licence and checksum."""

from __future__ import annotations

from typing import NamedTuple

from partbayes.errors import PartbayesError


class Source(NamedTuple):
    """Where a table comes from and what its CSV file holds: a header row, `features` and then `targets`."""

    name: str
    title: str
    num_rows: int
    features: tuple[str, ...]
    targets: tuple[str, ...]
    sha256: str
    """Of the CSV file, checked at every reading."""
    licence: str
    citation: str
    doi: str
    home: str
    address: str
    """Where the original is downloaded from."""
    bundled: bool
    """Whether the CSV comes with the package."""
    note: str

    @property
    def file_name(self) -> str:
        return f"{self.name}.csv"

    @property
    def num_features(self) -> int:
        return len(self.features)

    @property
    def header(self) -> str:
        return ",".join(self.features + self.targets)


_UCI_LICENCE = "CC BY 4.0 (as listed by the UCI Machine Learning Repository)"
_UCI = "https://archive.ics.uci.edu"
_WINE_FEATURES = (
    "fixed_acidity",
    "volatile_acidity",
    "citric_acid",
    "residual_sugar",
    "chlorides",
    "free_sulfur_dioxide",
    "total_sulfur_dioxide",
    "density",
    "pH",
    "sulphates",
    "alcohol",
)
_WINE_CITATION = (
    "P. Cortez, A. Cerdeira, F. Almeida, T. Matos, J. Reis: Modeling wine preferences by data mining from "
    "physicochemical properties. Decision Support Systems 47 (2009) 547-553."
)

YACHT = Source(
    name="yacht",
    title="Yacht Hydrodynamics",
    num_rows=308,
    features=(
        "longitudinal_position",
        "prismatic_coefficient",
        "length_displacement_ratio",
        "beam_draught_ratio",
        "length_beam_ratio",
        "froude_number",
    ),
    targets=("residuary_resistance",),
    sha256="0f076fe825b9df72135d8e84095523323e4347dac78045298f62d71b2d1442db",
    licence=_UCI_LICENCE,
    citation="J. Gerritsma, R. Onnink, A. Versluis: Yacht Hydrodynamics. UCI Machine Learning Repository (1981).",
    doi="10.24432/C5XG7R",
    home=f"{_UCI}/dataset/243/yacht+hydrodynamics",
    address=f"{_UCI}/static/public/243/yacht+hydrodynamics.zip",
    bundled=True,
    note="22 hulls x 14 Froude numbers; columns named here, the original has no header.",
)

CONCRETE = Source(
    name="concrete",
    title="Concrete Compressive Strength",
    num_rows=1030,
    features=(
        "cement",
        "blast_furnace_slag",
        "fly_ash",
        "water",
        "superplasticizer",
        "coarse_aggregate",
        "fine_aggregate",
        "age",
    ),
    targets=("compressive_strength",),
    sha256="f6cdf1b38b4f5dd5b7a7c265f9be620510f310bfe9a16474a441d8912bf44393",
    licence=_UCI_LICENCE,
    citation=(
        "I-Cheng Yeh: Modeling of strength of high-performance concrete using artificial neural networks. "
        "Cement and Concrete Research 28 (1998) 1797-1808."
    ),
    doi="10.24432/C5PK67",
    home=f"{_UCI}/dataset/165/concrete+compressive+strength",
    address=f"{_UCI}/static/public/165/concrete+compressive+strength.zip",
    bundled=True,
    note="Column names shortened, full-precision values of the original spreadsheet; 25 rows repeat an earlier row.",
)

WINE_RED = Source(
    name="wine_red",
    title="Wine Quality (red)",
    num_rows=1599,
    features=_WINE_FEATURES,
    targets=("quality",),
    sha256="228372b9c106bcbb50ce14bb616873495975bd761d2641cfd02900427f1ff8be",
    licence=_UCI_LICENCE,
    citation=_WINE_CITATION,
    doi="10.24432/C56S3T",
    home=f"{_UCI}/dataset/186/wine+quality",
    address=f"{_UCI}/static/public/186/wine+quality.zip",
    bundled=True,
    note="Separator and column names changed; 240 rows repeat an earlier row, so report it deduplicated too.",
)

WINE_WHITE = WINE_RED._replace(
    name="wine_white",
    title="Wine Quality (white)",
    num_rows=4898,
    sha256="0f9b72c6f593bd8b91edc4f5584f0939849e843c3584a4a2fa5b6f2e25be5277",
    note="Separator and column names changed; 937 rows repeat an earlier row, so report it deduplicated too.",
)

NAVAL = Source(
    name="naval",
    title="Condition Based Maintenance of Naval Propulsion Plants",
    num_rows=11934,
    features=(
        "lever_position",
        "ship_speed",
        "gt_shaft_torque",
        "gt_revolutions",
        "gg_revolutions",
        "starboard_propeller_torque",
        "port_propeller_torque",
        "hp_turbine_exit_temp",
        "gt_compressor_inlet_temp",
        "gt_compressor_outlet_temp",
        "hp_turbine_exit_pressure",
        "gt_compressor_inlet_pressure",
        "gt_compressor_outlet_pressure",
        "gt_exhaust_pressure",
        "turbine_injection_control",
        "fuel_flow",
        "compressor_decay",
    ),
    targets=("turbine_decay",),
    sha256="6b65db8d8d007323465120ccd54223c70019c9ff1d2067d0c0340e991773f9b7",
    licence=f"{_UCI_LICENCE}; the archive's own readme is reported to carry an older non-commercial notice",
    citation=(
        "A. Coraddu, L. Oneto, A. Ghio, S. Savio, D. Anguita, M. Figari: Machine learning approaches for improving "
        "condition-based maintenance of naval propulsion plants. Journal of Engineering for the Maritime Environment "
        "(2014)."
    ),
    doi="10.24432/C5K31K",
    home=f"{_UCI}/dataset/316/condition+based+maintenance+of+naval+propulsion+plants",
    address=f"{_UCI}/static/public/316/condition+based+maintenance+of+naval+propulsion+plants.zip",
    bundled=False,
    note=(
        "The compressor's decay is the 17th input, as in the published comparison; two columns are constant and the "
        "two propeller torques are equal."
    ),
)

CALIFORNIA = Source(
    name="california",
    title="California Housing",
    num_rows=20640,
    features=("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"),
    targets=("MedHouseVal",),
    sha256="94ef369b909f5c725340b512b7c9a05c1550a554b6592d29303990e3ba521a1f",
    licence="StatLib; no licence text known, cite the article",
    citation=(
        "R. Kelley Pace, Ronald Barry: Sparse spatial autoregressions. Statistics & Probability Letters 33 (1997) "
        "291-297."
    ),
    doi="10.1016/S0167-7152(96)00140-X",
    home="https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html",
    address="https://ndownloader.figshare.com/files/5976036",
    bundled=False,
    note="Columns and values of scikit-learn's fetch_california_housing; the target is capped at 5.00001 ($100,000).",
)

DATASETS: dict[str, Source] = {
    source.name: source for source in (YACHT, CONCRETE, WINE_RED, WINE_WHITE, NAVAL, CALIFORNIA)
}


def find_source(name: str) -> Source:
    """The entry of `DATASETS`, or the list of names."""
    if name not in DATASETS:
        raise PartbayesError(f"There is no data set {name!r}; choose one of {', '.join(DATASETS)}.")
    return DATASETS[name]
