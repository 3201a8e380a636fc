"""`partbayes check`."""

from __future__ import annotations

from partbayes.cli.options import AsJson, Categorical, Data, Ignore, TargetColumn, TaskOption
from partbayes.cli.saying import say, say_json


def check(
    data: Data,
    target: TargetColumn,
    task: TaskOption = "auto",
    ignore: Ignore = None,
    categorical: Categorical = None,
    as_json: AsJson = False,
) -> None:
    """Look at a table before training.

    Says what `fit` would do with each column, and what looks wrong.

    Exit code 1 means that `fit` would refuse the table.

    \b
    Examples:
      partbayes check houses.csv --target price
      partbayes check wine.csv --target quality --task classification
      partbayes check houses.csv --target price --json
    """
    from partbayes.data.table import Schema, find_problems, plan_columns, read_table, with_target
    from partbayes.errors import PartbayesError
    from partbayes.report import describe_findings, describe_plan

    table = with_target(read_table(data, text=categorical or ()), target)
    plan = plan_columns(table, target, task=task, ignore=ignore or (), categorical=categorical or ())
    good = plan.target is not None and not plan.errors
    findings = find_problems(table, Schema(plan.columns, plan.target)) if good and plan.target else []
    if as_json:
        say_json(
            {
                "data": table.name,
                "rows": len(table.frame),
                "target": target,
                "task": plan.target.task if plan.target else None,
                "columns": [{"name": column.name, "treatment": column.treatment} for column in plan.columns],
                "errors": plan.errors,
                "findings": [{"column": finding.column, "finding": finding.sentence} for finding in findings],
                "notes": table.notes,
            }
        )
    else:
        say(describe_plan(table, plan.columns, plan.target))
        say(describe_findings(findings, plan.errors))
    if plan.errors:
        count = len(plan.errors)
        raise PartbayesError(plan.errors[0] if count == 1 else f"{count} columns stop `fit`; first: {plan.errors[0]}")
