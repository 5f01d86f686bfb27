"""Runs the notebooks and keeps what they show equal to what hangscope gives today.

    python tests/notebooks.py --write | --check

Each notebook runs in its own kernel, in the folder of notebooks. Texts and tables have to be equal; pictures only have
to be there, because their bytes depend on the fonts of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
TIMEOUT_S = 300

_TEXTS = ("text/plain", "text/html")
_ADDRESS = re.compile(r"0x[0-9a-f]{8,} ?|/tmp/ipykernel_\d+/\d+\.py")


def notebooks() -> list[Path]:
    """The notebooks, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:  # noqa: ANN401 (nbformat has no types)
    """A notebook as it is stored."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run(path: Path) -> Any:  # noqa: ANN401 (nbformat has no types)
    """The notebook with what its cells show today, and nothing that changes from run to run.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = read(path)
    with _package_on_path():
        NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": str(FOLDER)}}).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    return notebook


def write(notebook: Any, path: Path) -> None:  # noqa: ANN401 (nbformat has no types)
    """Stores it."""
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def shown(notebook: Any) -> list[list[tuple[str, str]]]:  # noqa: ANN401 (nbformat has no types)
    """What each cell of code shows: kind and text; of pictures only that there is one."""
    return [[part for output in cell.outputs for part in _parts(output)] for cell in _code(notebook)]


def _code(notebook: Any) -> Iterator[Any]:  # noqa: ANN401 (nbformat has no types)
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def _parts(output: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 (nbformat has no types)
    if output.output_type == "stream":
        yield output.name, _ADDRESS.sub("", output.text)
        return
    for kind, content in sorted(output.get("data", {}).items()):
        yield kind, _ADDRESS.sub("", content) if kind in _TEXTS else ""


@contextlib.contextmanager
def _package_on_path() -> Iterator[None]:
    """The kernel finds the package of this checkout, installed or not."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "analyzer"), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="store what they show today")
    what.add_argument("--check", action="store_true", help="fail when one shows something else than is stored")
    args = parser.parse_args(arguments)
    stale = []
    for path in notebooks():
        made = run(path)
        if args.write:
            write(made, path)
        elif shown(made) != shown(read(path)):
            stale.append(path.name)
    if stale:
        print(f"stale: {', '.join(stale)}; run: python tests/notebooks.py --write", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
