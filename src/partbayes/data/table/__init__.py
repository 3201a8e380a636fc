"""Tables of the user's own: read, understood column by column, checked, and turned into features.

`Schema` holds what was decided on the training table; it is kept with the model as JSON and encodes new tables.
"""

from partbayes.data.table.check import Finding, find_problems
from partbayes.data.table.encoding import Encoded, encode, encode_target
from partbayes.data.table.infer import Plan, infer_schema, plan_columns, require_column, with_target
from partbayes.data.table.reading import Table, read_table
from partbayes.data.table.schema import Column, Schema, Target
from partbayes.data.table.writing import require_writable, write_csv

__all__ = [
    "Column",
    "Encoded",
    "Finding",
    "Plan",
    "Schema",
    "Table",
    "Target",
    "encode",
    "encode_target",
    "find_problems",
    "infer_schema",
    "plan_columns",
    "read_table",
    "require_column",
    "require_writable",
    "with_target",
    "write_csv",
]
