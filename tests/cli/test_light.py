"""Commands that only read files start without the heavy libraries."""

import dataclasses
import json
import subprocess
import sys

from gtpo.records import GROUPS_FILE
from tests.runs.making import make_run, rows
from tests.test_records import GROUP

HEAVY = ("torch", "transformers", "trl", "datasets", "matplotlib")
SCRIPT = """
import sys
from gtpo.cli.main import main

heavy, folder = sys.argv[1].split(","), sys.argv[2]
for command in (["--help"], ["--version"], ["health"], ["report"], ["inspect"], ["compare"]):
    paths = [] if command[0].startswith("-") else [folder + "/a"]
    others = ["--vs", folder + "/b"] if command == ["compare"] else []
    try:
        code = main([*command, *paths, *others])
    except SystemExit as exit:
        code = exit.code
    loaded = [name for name in heavy if name in sys.modules]
    print(f"{command[0]} returned {code} and loaded {loaded}", file=sys.stderr)
"""


def test_commands_that_read_files_load_no_heavy_library(tmp_path):
    for name in ("a", "b"):
        folder = make_run(tmp_path / name, rows(12, accuracy=0.5, entropy=0.4))
        (folder / GROUPS_FILE).write_text(json.dumps(dataclasses.asdict(GROUP)) + "\n")
    arguments = [sys.executable, "-c", SCRIPT, ",".join(HEAVY), str(tmp_path)]
    lines = subprocess.run(arguments, capture_output=True, text=True, check=True).stderr.splitlines()
    commands = ("--help", "--version", "health", "report", "inspect", "compare")
    assert [line for line in lines if "returned" in line] == [
        f"{command} returned 0 and loaded []" for command in commands
    ]
