"""Data sets of the user as `datasets` loads them: a repository of the hub, or a folder of the same form."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.problems.rows import Row

_NAME = re.compile(r"(?P<where>.+?)(?::(?P<config>[\w.-]+))?(?:@(?P<split>[\w.-]+))?")


def read_data_set(name: str, split: str) -> Iterator[tuple[str, Row]]:
    """Each row of LOCATION[:CONFIG][@SPLIT] with its place for errors. `split` is used if the name has none."""
    match = _NAME.fullmatch(name)
    if match is None or Path(name).is_dir():
        where, config, asked = name, None, None
    else:
        where, config, asked = match["where"], match["config"], match["split"]
    folder = Path(where).expanduser()
    if folder.is_file():
        raise DataError(f"{where} is not a .jsonl, .csv or .parquet file. Convert it, or rename it.")
    if not folder.is_dir() and (where.startswith((".", "/", "~")) or where.count("/") != 1):
        raise DataError(f"{where} does not exist. Pass a file or folder of rows, or a hub id such as user/name.")
    splits = _load(folder, where, config)
    if splits.keys() == {""}:  # a single data set that was saved without splits
        splits = {asked or split: splits[""]}
    chosen = asked or split
    if chosen not in splits:
        names = ", ".join(map(str, splits))
        such_as = next(iter(splits), split)
        raise DataError(f"{where} has no split {chosen!r}, only {names}. Choose one, such as {where}@{such_as}.")
    for number, row in enumerate(splits[chosen], start=1):
        yield f"{where}, split {chosen}, row {number}", row


def _load(folder: Path, where: str, config: str | None) -> dict[str, Any]:
    """The splits of a data set by name; one without a name for a folder that holds a single data set."""
    import datasets

    try:
        if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
            saved = datasets.load_from_disk(str(folder))
            return dict(saved) if isinstance(saved, dict) else {"": saved}  # pyright: ignore[reportReturnType]
        return dict(datasets.load_dataset(str(folder) if folder.is_dir() else where, config))  # pyright: ignore[reportReturnType, reportArgumentType, reportCallIssue]
    except Exception as error:  # `datasets` and the hub's client raise errors of many kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        is_here = (
            "" if folder.is_dir() else "There is no such folder, and the hub does not have it or is not reached. "
        )
        raise DataError(
            f"Cannot load the data set {where}: {reason}. {is_here}Check the name, or pass a .jsonl, .csv or .parquet "
            "file."
        ) from error
