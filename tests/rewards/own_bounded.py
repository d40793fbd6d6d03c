"""Bounded rewards as users write them. Each does to some completions what the name says."""

import ctypes
import json
import os
import subprocess
import time
from pathlib import Path

from gtpo.rewards import bounded


@bounded(seconds=2, num_workers=1)
def misbehaving(completions, extra=None, **columns):
    (completion,) = completions
    if completion == "sleeps":
        time.sleep(600)
    if completion == "loops":
        while True:
            pass
    if completion == "exits":
        os._exit(0)
    if completion == "faults":
        ctypes.string_at(0)
    if completion == "grows":
        bytearray(64 * 2**30)
    if completion == "misuses a library":
        json.loads(completion)
    if completion == "raises":
        raise ValueError("no such thing")
    if completion == "forgets":
        return []
    return [float(len(completion) + (extra or [0])[0])]


@bounded(seconds=1, num_workers=2)
def never(completions, **columns):
    os._exit(1)


@bounded(seconds=20, num_workers=1)
def writing(completions, path, **columns):
    if completions == ["raises"]:
        raise ValueError("no such thing")
    Path(path[0]).touch()
    return [1.0]


def doubled(function):
    return lambda completions, **columns: [2 * score for score in function(completions, **columns)]


@doubled
@bounded(seconds=20, num_workers=1)
def length(completions, **columns):
    """The outer decorator does not use functools.wraps."""
    return [float(len(completions[0]))]


@bounded(seconds=20, num_workers=1)
def process_id(completions, **columns):
    return [os.getpid()]


@bounded(seconds=20, num_workers=1)
def calling(completions, **columns):
    """Calls another bounded function."""
    return [float(process_id(completions) == [os.getpid()])]


@bounded(seconds=600, num_workers=1)
def spawning(completions, path, **columns):
    """Starts a process of its own, writes both ids to a file, and hangs."""
    child = subprocess.Popen(["sleep", "600"])
    with open(path[0], "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
        file.flush()
    time.sleep(600)
