# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab coverage`: which lines of mdev_driver/core the tests in user space reach.

Clang counts (source-based coverage, without sanitizers); the tests are those of the suites `unit`
and `rig`, which replay the committed seeds of every fuzzer. A line that llvm-cov counts is one
with code.
"""

import json
import re

import build
import cache as cache_module
import setup
from errors import LabError

GOAL_PERCENT = 95.0
CORE = "mdev_driver/core"

_BUILD = "coverage"
_FLAGS = "-fprofile-instr-generate -fcoverage-mapping"
OPTIONS = [
    *build.TEST_OPTIONS,
    *(f"-D{language}_{kind}={_FLAGS}" for language in ("c", "cpp") for kind in ("args", "link_args")),
]  # fmt: skip
_PROFILES = f"out/{_BUILD}/profiles"


def run(missing, report_file):
    """Builds, runs the tests and prints the table; returns 1 below the goal.

    `missing`: with the lines that no test reaches. `report_file`: where to write JSON, or None.
    """
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    with build.opened(lab, cache) as builder, builder.busy():
        files = _measure(builder)
    count = sum(len(lines) for lines in files.values())
    reached = sum(hits > 0 for lines in files.values() for hits in lines.values())
    percent = 100 * reached / count
    for name, lines in sorted(files.items()):
        _print_file(name, lines, missing)
    print(f"{percent:5.1f} %  {reached:5} of {count:5}  {CORE}")
    if report_file:
        report = {
            "goal_percent": GOAL_PERCENT,
            "percent": round(percent, 2),
            "lines": count,
            "reached": reached,
            "files": {name: _report(lines) for name, lines in sorted(files.items())},
        }
        with open(report_file, "w", encoding="utf-8") as stream:
            json.dump(report, stream, indent=2)
            stream.write("\n")
    if percent >= GOAL_PERCENT:
        return 0
    print(f"coverage: below {GOAL_PERCENT:g} %")
    return 1


def _measure(builder):
    """{file: {line: how often it ran}} of the core after all tests."""
    inside = builder.configured(_BUILD, OPTIONS, build.CLANG)
    builder.compile(_BUILD, ["build.ninja"])
    tests = builder.tests(inside, ("unit", "rig"))
    programs = sorted({t["cmd"][0] for t in tests if t["cmd"][0].startswith(f"{inside}/")})
    builder.compile(_BUILD, [program[len(inside) + 1 :] for program in programs])
    cache_module.remove_tree(builder.top / _PROFILES)
    log = f"test-{_BUILD}"
    (builder.top / f"{log}.log").unlink(missing_ok=True)
    env = {"LLVM_PROFILE_FILE": f"/turnstile/{_PROFILES}/%m-%p.profraw"}
    status = builder.run_tests(inside, tests, log, env)
    if status != 0:
        raise LabError(f"a test fails: {builder.top / log}.log")
    # The list of files is long: it goes through a file.
    profiles = sorted((builder.top / _PROFILES).iterdir())
    names = "".join(f"/turnstile/{_PROFILES}/{path.name}\n" for path in profiles)
    (builder.top / f"out/{_BUILD}/profiles.list").write_text(names, encoding="utf-8")
    data = f"{inside}/tests.profdata"
    builder.must(
        ["llvm-profdata", "merge", "-sparse", "-o", data, f"--input-files={inside}/profiles.list"],
        f"{_BUILD}-merge",
    )
    objects = [option for program in programs[1:] for option in ("-object", program)]
    path = builder.top / f"out/{_BUILD}/core.lcov"
    with open(path, "wb") as stream:
        status = builder.in_toolbox(
            ["llvm-cov", "export", "-format=lcov", f"-instr-profile={data}", programs[0], *objects,
             f"/turnstile/src/{CORE}"],
            f"{_BUILD}-export",
            stdout=stream,
        )  # fmt: skip
    if status != 0:
        raise LabError(f"llvm-cov: status {status}: {path.read_text(errors='replace')[-500:]}")
    return _parse(path.read_text(encoding="utf-8", errors="replace"))


def _parse(lcov):
    """{file: {line: count}} of an lcov trace, files relative to the core."""
    files = {}
    lines = None
    for record in lcov.splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            match = re.fullmatch(rf".*/{CORE}/(.*)", value)
            lines = files.setdefault(match[1], {}) if match else None
        elif kind == "DA" and lines is not None:
            number, hits = value.split(",")[:2]
            lines[int(number)] = lines.get(int(number), 0) + int(hits)
    if not files:
        raise LabError(f"llvm-cov knows no line of {CORE}")
    return files


def _report(lines):
    return {
        "lines": len(lines),
        "reached": sum(hits > 0 for hits in lines.values()),
        "missing": [number for number, hits in sorted(lines.items()) if hits == 0],
    }


def _print_file(name, lines, missing):
    reached = sum(hits > 0 for hits in lines.values())
    print(f"{100 * reached / len(lines):5.1f} %  {reached:5} of {len(lines):5}  {name}")
    if missing and reached < len(lines):
        print(f"{'':25}lines {_ranges(n for n, hits in sorted(lines.items()) if hits == 0)}")


def _ranges(numbers):
    """Ascending numbers as "1-3, 7"."""
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
