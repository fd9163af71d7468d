# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab fuzz TARGET`: libFuzzer on tests/fuzz, with AddressSanitizer and UBSan.

The corpus grows in the cache, fuzz/TARGET; it starts from the seeds in tests/fuzz/corpus/TARGET,
and what is worth keeping for ever goes there by hand. A crash is a file in fuzz/crashes.
"""

import os
import re
import resource
import shutil
import time

import build
import cache as cache_module
import setup
from errors import LabError

_CORPORA = build.REPO / "tests/fuzz/corpus"
_IGNORED = "/turnstile/src/tests/fuzz/coverage_ignore.txt"
OPTIONS = [
    *build.TEST_OPTIONS, "-Doptimization=2", "-Db_sanitize=address,undefined", "-Dfuzz=true",
    f"-Dcpp_args=-fsanitize=fuzzer-no-link -fsanitize-coverage-ignorelist={_IGNORED}",
]  # fmt: skip
_LONGEST_INPUT = 4096
# libFuzzer counts wall time: beside other work an input of 17 CPU seconds takes minutes. What a guest
# may cost at most is the bounded_work tests' business, in steps and not in seconds.
_SECONDS_PER_INPUT = 300


def targets():
    """The names that tests/fuzz has seeds for."""
    return sorted(path.name for path in _CORPORA.iterdir() if path.is_dir())


def run(target, minutes, jobs, replay):
    """Fuzzes for `minutes` with `jobs` processes, or runs one input; returns the exit status."""
    if target not in targets():
        raise LabError(f"no target {target}; there are: {', '.join(targets())}")
    if minutes <= 0 or not 1 <= jobs <= 64:
        raise LabError(f"--minutes {minutes:g} --jobs {jobs}: minutes above 0, jobs 1 to 64")
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    store = cache.top / "fuzz"
    corpus = store / target
    for path in (corpus, store / "crashes"):
        path.mkdir(parents=True, exist_ok=True)
    for seed in (_CORPORA / target).iterdir():
        shutil.copyfile(seed, corpus / seed.name)
    with build.opened(lab, cache) as builder:
        with builder.busy():
            inside = builder.configured("fuzz", OPTIONS, build.CLANG)
            builder.compile("fuzz", [f"tests/fuzz/fuzz_{target}"])
        program = f"{inside}/tests/fuzz/fuzz_{target}"
        if replay:
            return _replay(builder, store, program, replay)
        return _fuzz(builder, store, program, target, minutes, jobs)


def _replay(builder, store, program, path):
    """Runs one input, its output on the terminal."""
    if not os.path.isfile(path):
        raise LabError(f"--replay {path}: no such file")
    copied = store / "replay"
    shutil.copyfile(path, copied)
    return builder.in_toolbox(
        [program, "/fuzz/replay"], "fuzz-replay", env=build.SANITIZER_ENV, binds=[(store, "/fuzz")], stdout=1
    )


def _fuzz(builder, store, program, target, minutes, jobs):
    log = f"fuzz-{target}"
    (builder.top / f"{log}.log").unlink(missing_ok=True)
    argv = [
        program, f"/fuzz/{target}", f"-max_total_time={round(minutes * 60)}", "-reload=1",
        f"-max_len={_LONGEST_INPUT}", f"-timeout={_SECONDS_PER_INPUT}",
        f"-report_slow_units={_SECONDS_PER_INPUT}", "-rss_limit_mb=4096",
        f"-artifact_prefix=/fuzz/crashes/{target}-", "-print_final_stats=1",
    ]  # fmt: skip
    if jobs > 1:
        argv += [f"-fork={jobs}"]
    print(f"fuzz: {target} for {minutes:g} minutes, log {builder.top / log}.log", flush=True)
    begin, cpu_s = time.time(), _cpu_seconds()
    status = builder.in_toolbox(argv, log, env=build.SANITIZER_ENV, binds=[(store, "/fuzz")])
    cpu_s = _cpu_seconds() - cpu_s
    text = (builder.top / f"{log}.log").read_text(errors="replace")
    runs = _number(r"number_of_executed_units: (\d+)", text) or _number(r"^#(\d+)", text)
    edges = _number(r"cov: (\d+)", text)
    inputs = len(list((store / target).iterdir()))
    print(
        f"fuzz: {target}: {runs} executions in {cpu_s:.0f} CPU s, {edges} edges, "
        f"{inputs} inputs in the corpus"
    )
    crashes = [p for p in (store / "crashes").glob(f"{target}-*") if p.stat().st_mtime >= begin]
    for crash in crashes:
        print(f"fuzz: {_reason(text)}\n  ./lab fuzz {target} --replay {crash}")
    return 1 if status != 0 or crashes else 0


def _cpu_seconds():
    """What the processes that were waited for have used; wall time says little beside other work."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _number(pattern, text):
    found = re.findall(pattern, text, re.M)
    return int(found[-1]) if found else 0


def _reason(text):
    """The line that says what went wrong."""
    match = re.search(r"^(\S*tests/fuzz/.*: .*|SUMMARY: .*|.*runtime error: .*)$", text, re.M)
    return match[1] if match else "a crash"
