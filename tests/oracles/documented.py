"""Code as the documents print it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def code_blocks(page: str) -> list[str]:
    """Every Python block of a page under docs/."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def documented(page: str, name: str, *changes: tuple[str, str]) -> Any:
    """The object `name` that a block of the page defines, with pieces of its text replaced: each must be there."""
    (code,) = [block for block in code_blocks(page) if f"def {name}(" in block]
    for old, new in changes:
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(code, page, "exec"), namespace)
    return namespace[name]
