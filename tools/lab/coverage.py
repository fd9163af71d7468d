# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab coverage`: the lines of mdev_driver/core that tests and the fuzzers' corpora run.

clang's source-based coverage. The tests are those of the suites unit and rig that link the driver's
core; corpora are the committed seeds and what `./lab fuzz` has found so far.
"""

import json
import re

import build
import cache as cache_module
import fuzz
import setup
from errors import LabError

_FLAGS = "-fprofile-instr-generate,-fcoverage-mapping"
_OPTIONS = [
    "-Doptimization=1", "-Ddebug=true", "-Db_lundef=false", "-Dbenchmarks=disabled",
    f"-Dcpp_args={_FLAGS}", "-Dcpp_link_args=-fprofile-instr-generate",
]  # fmt: skip
_TESTS = re.compile(r"^(mdev_|rig_|fuzz_)")
_OUT = "/turnstile/out/coverage"


def run(show_lines):
    """Builds, runs, prints a line per source file and the total; returns the exit status."""
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    with build.opened(lab, cache) as builder, builder.busy():
        builder.configured("coverage", _OPTIONS, {"CC": "clang", "CXX": "clang++"})
        text = builder.must(["meson", "introspect", _OUT, "--tests"], "coverage-list")
        tests = [t for t in json.loads(text[text.index("[") :]) if _TESTS.match(t["name"])]
        programs = [test["cmd"][0] for test in tests]
        builder.compile("coverage", [p[len(_OUT) + 1 :] for p in programs])
        profiles = builder.top / "out/coverage/profiles"
        cache_module.remove_tree(profiles)
        failed = _run_all(builder, cache.top / "fuzz", tests)
        _print(_export(builder, programs), builder, programs if show_lines else ())
    for name in failed:
        print(f"coverage: {name} failed: what it ran counts all the same")
    return 1 if failed else 0


def _run_all(builder, store, tests):
    """Runs each test once, fuzz targets on their corpus as well; returns who failed."""
    failed = []
    for test in tests:
        commands = [test["cmd"]]
        target = test["name"].removeprefix("fuzz_")
        if target in fuzz.targets() and (store / target).is_dir():
            commands.append([test["cmd"][0], f"/fuzz/{target}"])
        store.mkdir(exist_ok=True)
        env = {"LLVM_PROFILE_FILE": f"{_OUT}/profiles/{test['name']}-%m.profraw"}
        for command in commands:
            log = "coverage-run"
            if builder.in_toolbox(command, log, env=env, binds=[(store, "/fuzz")]) != 0:
                failed.append(test["name"])
    return failed


def _export(builder, programs):
    merge = f"llvm-profdata merge -sparse -o {_OUT}/merged {_OUT}/profiles/*.profraw"
    builder.must(["sh", "-c", merge], "coverage-merge")
    text = builder.must([*_cov("export", programs), "-summary-only"], "coverage-export")
    return json.loads(text[text.index("{") :])["data"][0]["files"]


def _cov(command, programs):
    objects = [part for program in programs[1:] for part in ("-object", program)]
    return ["llvm-cov", command, programs[0], *objects, f"-instr-profile={_OUT}/merged"]


def _print(files, builder, programs):
    total = covered = 0
    for file in files:
        name = file["filename"].partition("/src/")[2]
        if not name.startswith("mdev_driver/core/"):
            continue
        lines = file["summary"]["lines"]
        total += lines["count"]
        covered += lines["covered"]
        if lines["count"] != 0:
            print(f"{lines['covered']:5} of {lines['count']:5} {lines['percent']:6.1f} %  {name}")
    if total == 0:
        raise LabError("llvm-cov knows no line of mdev_driver/core")
    print(f"{covered:5} of {total:5} {100 * covered / total:6.1f} %  mdev_driver/core")
    if programs:
        argv = [*_cov("show", programs), "-sources", "/turnstile/src/mdev_driver/core"]
        text = builder.must(argv, "coverage-show")
        name = ""
        for line in text.splitlines():
            if line.startswith("/turnstile/src/"):
                name = line.partition("/src/")[2].rstrip(":")
            elif name.startswith("mdev_driver/core/") and re.match(r"\s*\d+\|\s*0\|", line):
                print(f"{name}: {line.strip()}")
