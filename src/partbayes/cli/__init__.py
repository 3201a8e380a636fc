"""The command line: parsing only. Each command hands its options to a few functions of the library.

Imports of the library stand inside the commands: `partbayes --help` should not wait for JAX.
"""

from partbayes.cli.root import app, main

__all__ = ["app", "main"]
