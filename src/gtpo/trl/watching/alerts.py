"""Alerts through the trackers that a run reports to: `wandb.alert` and `trackio.alert`."""

import shlex
import sys
from typing import Any

from gtpo.trl.watching.guard import Guard

TRACKERS = ("wandb", "trackio")


class Alerts:
    """Sends alerts to the trackers in `args.report_to`. A tracker that fails gets no more of them."""

    def __init__(self) -> None:
        self._guards = {name: Guard(f"{name}.alert") for name in TRACKERS}

    def send(self, args: Any, title: str, text: str, level: str) -> None:
        """`level` is WARN or ERROR. The text ends with the commands that show more."""
        report_to = getattr(args, "report_to", None) or ()
        folder = shlex.quote(str(args.output_dir))
        text = f"{text} Details: gtpo health {folder}; completions: gtpo inspect {folder}"
        for name, guard in self._guards.items():
            tracker: Any = sys.modules.get(name)  # its callback has imported it
            if name in report_to and tracker is not None:
                guard.run(_alert, tracker, title, text, level)


def _alert(tracker: Any, title: str, text: str, level: str) -> None:
    tracker.alert(title=title, text=text, level=tracker.AlertLevel[level])
