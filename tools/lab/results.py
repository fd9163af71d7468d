# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What came of tests: results, where they are read from, and the tables they are printed as."""

import dataclasses
import json


@dataclasses.dataclass
class Result:
    """One test: "passed", "failed" or "skipped" (the machine lacks something), and why."""

    name: str
    outcome: str
    seconds: float = 0.0
    text: str = ""
    figure: str = ""


def print_figures(results):
    """The table of what was measured: id, figure, result."""
    rows = [(r.name.split("/")[-1], r.figure, r.outcome) for r in results if r.figure]
    width = max((len(row[0]) for row in rows), default=0)
    print("-- figures")
    for name, figure, outcome in rows:
        print(f"{name:{width}}  {figure}  {outcome}", flush=True)


def print_table(results):
    """One row per behaviour: result, seconds, name, what was measured."""
    print("-- result, time, behaviour")
    for result in results:
        figure = f" [{result.figure}]" if result.figure else ""
        name = result.name.split("/")[-1]
        print(f"{result.outcome:7} {result.seconds:6.1f} s  {name}{figure}", flush=True)


def print_chaos(report):
    """A table of the events by kind: how many, the longest that a survivor waited for a result."""
    longest = {kind: [] for kind in report["kinds"]}
    for event in report["events"]:
        longest[event["kind"]].append(event["longest_s"])
    errors = [
        abs(share["error_percent"])
        for event in report["events"]
        for share in event["shares"]
        if "error_percent" in share
    ]
    print(f"-- chaos, seed {report['seed']}\n{'event':14} count  longest wait for a result")
    for kind in sorted(longest):
        wait = f"{max(longest[kind]):.1f} s" if longest[kind] else "not reached"
        print(f"{kind:14} {len(longest[kind]):5}  {wait}")
    if errors:
        print(f"{len(errors)} shares judged, largest error {max(errors):.1f} %", flush=True)


def meson_result(suite, record):
    """A line of meson's testlog.json as a Result."""
    outcomes = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}
    outcome = outcomes.get(record["result"], "failed")
    lines = (record.get("stdout", "") + record.get("stderr", "")).splitlines()
    name = f"{suite}/{record['name'].split(' / ')[-1]}"
    return Result(name, outcome, record["duration"], "\n".join(lines[-40:]))


def parse_record(line):
    """The record of tap.py in a line of output; None: it is something else."""
    if not line.startswith("lab-test: "):
        return None
    try:
        return json.loads(line[len("lab-test: ") :])
    except ValueError:
        return None
