"""`partbayes fit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from partbayes.cli.cores import use_cores
from partbayes.cli.options import AsJson, Categorical, Cores, Data, Ignore, Seed, Silent, TargetColumn, TaskOption
from partbayes.cli.processes import check_same_request, together
from partbayes.cli.saved import Saved, fingerprint, save_fitted
from partbayes.cli.saying import note, say, say_json
from partbayes.errors import PartbayesError

Output = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write.")]
Effort = Annotated[
    Literal["quick", "standard", "thorough"], typer.Option(help="How long to train: better results take longer.")
]
MaxTime = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Cut each stage of training at its share of this time.")
]
Method = Annotated[
    str,
    typer.Option(
        help="'default' (a deep ensemble whose first layer is then sampled), or ensemble, gohsmc, ohsmc, sgsmc, "
        "smc_pbnn, vi, sghmc, swag, svgd, map."
    ),
]
Noise = Annotated[
    str | None,
    typer.Option(
        help="Regression: 'heteroscedastic' (differs from row to row, the default), 'learned' (the same for all rows), "
        "'sampled' (the same, sampled by every method), or its standard deviation as a number in the target's units."
    ),
]
CheckpointDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Save the training to this folder as it goes, so that it can resume.")
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on from --checkpoint-dir, to the same result bit by bit (on as many cores)."),
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="Share the islands with other processes, each started with the same command. Slurm and Open MPI say who "
        "they are; elsewhere the three options below do. The first process writes and prints.",
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", envvar="JAX_COORDINATOR_ADDRESS", help="Where the first process can be reached."),
]
NumProcesses = Annotated[int | None, typer.Option(envvar="JAX_NUM_PROCESSES", help="How many processes take part.")]
ProcessId = Annotated[int | None, typer.Option(envvar="JAX_PROCESS_ID", help="This one's number, from 0.")]


def fit(
    data: Data,
    target: TargetColumn,
    output: Output,
    task: TaskOption = "auto",
    effort: Effort = "standard",
    max_time: MaxTime = None,
    method: Method = "default",
    noise: Noise = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    seed: Seed = 0,
    cores: Cores = None,
    checkpoint_dir: CheckpointDir = None,
    resume: Resume = False,
    distributed: Distributed = False,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    quiet: Silent = False,
    as_json: AsJson = False,
) -> None:
    """Train on a table and write a model.

    Text columns become one-hot categories, missing numbers the median plus an indicator, and columns of no use are
    ignored; what was done to which column is printed. `partbayes check` shows it without training.

    Exit codes: 0 done, 1 the request cannot be met (one sentence says why), 130 interrupted.

    \b
    Examples:
      partbayes fit houses.csv --target price -o houses.model
      partbayes fit iris.csv --target species -o iris.model --effort quick
      partbayes fit wine.csv --target quality --task classification -o wine.model
      partbayes fit big.parquet --target y -o big.model --checkpoint-dir ck
      partbayes fit big.parquet --target y -o big.model --checkpoint-dir ck --resume
      partbayes fit big.csv --target y -o big.model --distributed --coordinator a:1234 --num-processes 2 --process-id 0
      zcat log.csv.gz | partbayes fit - --target load --ignore id -o load.model
    """
    if resume and checkpoint_dir is None:
        raise PartbayesError("--resume was given without --checkpoint-dir: say which folder to go on from.")
    if not distributed or cores is not None:
        use_cores(cores)
    with together(distributed, coordinator, num_processes, process_id) as speaks:
        settings = (task, method, effort, max_time, noise, seed, ignore or (), categorical or ())
        _fit(data, target, output, settings, checkpoint_dir, resume, speaks and not quiet, as_json, speaks)


def _fit(
    data: str,
    target: str,
    output: Path,
    settings: tuple[Any, ...],
    checkpoint_dir: Path | None,
    resume: bool,
    talk: bool,
    as_json: bool,
    speaks: bool,
) -> None:
    from partbayes.data.table import (
        encode,
        encode_target,
        find_problems,
        infer_schema,
        read_table,
        require_writable,
        with_target,
    )
    from partbayes.report import describe_grave, describe_plan, describe_training

    task, method, effort, max_time, noise, seed, ignore, categorical = settings
    if speaks:
        require_writable(output)
    table = with_target(read_table(data, text=categorical), target)
    schema = infer_schema(table, target, task=task, ignore=ignore, categorical=categorical)
    estimator = _estimator(schema.target.task, method, effort, max_time, noise, seed, not talk or as_json)
    findings = find_problems(table, schema)
    if talk and not as_json:
        say(describe_plan(table, schema.columns, schema.target))
        note(describe_grave(findings))
    x, y = encode(schema, table).x, encode_target(schema.target, table)
    check_same_request(data=fingerprint(x, y), target=target, settings=settings, resume=resume)
    labels = schema.target.labels
    _train(estimator, x, [labels[code] for code in y] if labels else y, checkpoint_dir, resume, speaks)
    if not speaks:
        return
    save_fitted(output, Saved(estimator, schema, fingerprint(x, y)))
    if as_json:
        say_json(
            {
                "model": str(output),
                "data": table.name,
                "rows": len(x),
                "target": target,
                "task": schema.target.task,
                "classes": labels,
                "columns": [{"name": column.name, "treatment": column.treatment} for column in schema.columns],
                "seconds": estimator.training_seconds_,
                "stages": [stage._asdict() for stage in estimator.stages_],
                "notes": [*table.notes, *describe_grave(findings), *estimator.notes_],
            }
        )
    elif talk:
        note(estimator.notes_)
        say(describe_training(estimator.stages_, estimator.training_seconds_))
        say([f"Model written to {output}"])


def _estimator(
    task: str, method: str, effort: str, max_time: float | None, noise: str | None, seed: int, silent: bool
) -> Any:
    from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor

    if not 0 <= seed < 2**32:
        raise PartbayesError(f"--seed is {seed}, but a whole number from 0 to 4294967295 is expected.")
    settings: dict[str, Any] = {
        "method": method,
        "effort": effort,
        "max_time": max_time,
        "random_state": seed,
        "verbose": False if silent else None,
    }
    if task == "classification":
        if noise is not None:
            raise PartbayesError("--noise was given, but the target has classes, which have none: leave it out.")
        return PartialBNNClassifier(**settings)
    if noise is not None:
        settings["noise"] = _number_or_name(noise)
    return PartialBNNRegressor(**settings)


def _number_or_name(noise: str) -> float | str:
    try:
        return float(noise)
    except ValueError:
        return noise


def _train(estimator: Any, x: Any, y: Any, folder: Path | None, resume: bool, speaks: bool) -> None:
    """Fit; when interrupted, say how to go on and leave with 130."""
    from partbayes.runtime.resumable import Checkpoint

    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PartbayesError(
                f"The checkpoint folder {folder} cannot be made ({error.strerror}): choose another."
            ) from error
        if resume and speaks and not any(folder.iterdir()):
            note([f"there is nothing in {folder} to go on from, so training begins anew"])
    try:
        estimator.fit(x, y, checkpoint=None if folder is None else Checkpoint(folder, resume))
    except KeyboardInterrupt:
        typer.echo(f"partbayes: interrupted; {_how_to_resume(folder)}.", err=True)
        raise typer.Exit(130) from None


def _how_to_resume(folder: Path | None) -> str:
    if folder is None:
        return "nothing was kept, --checkpoint-dir DIR would have made it possible to go on"
    if not any(folder.iterdir()):
        return f"nothing was saved to {folder} yet, so start anew"
    return f"to go on, repeat the command with --checkpoint-dir {shlex.quote(str(folder))} --resume"
