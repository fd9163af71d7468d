# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A small test runner for Python inside L1; the lab reads its records from the output.

    @test("driver")
    def offers_five_types():
        expect_equal(len(vgpu.types()), 5)

    main()        # --group NAME --kernel SERIES [--boot N] [--only REGEX] [--full-counts]

On the debug kernel a last test asks kmemleak what the others left behind.

A test fails by raising; all of a group run, each with a record of its own. What a test measured it
reports by figure(); the lab prints it beside the result.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time
import traceback

_TESTS = []
_figures = []
arguments = None

_KMEMLEAK = pathlib.Path("/sys/kernel/debug/kmemleak")
# It reports what is older than 5 s and was the same in two scans.
_LEAK_AGE_SECONDS = 6
# The debug kernel, with KASAN and lockdep, is so much slower.
_DEBUG_PATIENCE = 6


class Failure(AssertionError):
    """What a test expected and did not find."""


def test(group, kernels=("6.1", "6.12", "debug"), boot=1):
    """Marks a function as a test of `group`, to be run on L1 kernels `kernels`, in L1's boot `boot`."""

    def mark(function):
        _TESTS.append((group, kernels, boot, function))
        return function

    return mark


def figure(text):
    """Adds to what the test measured, as "p99 12 ms over 1000"."""
    _figures.append(text)


def count(usual, full):
    """How often to do something: `full` times with --full-counts, else `usual` times."""
    return full if arguments.full_counts else usual


def on_debug_kernel():
    """Whether L1's kernel is the one that watches itself, and so is slow and keeps memory back."""
    return arguments is not None and arguments.kernel == "debug"


def patience():
    """By what to multiply times that another kernel than the debug one keeps."""
    return _DEBUG_PATIENCE if on_debug_kernel() else 1


def expect(condition, message):
    """Fails with `message` unless `condition` holds."""
    if not condition:
        raise Failure(message)


def expect_equal(got, want):
    """Fails unless `got` equals `want`."""
    if got != want:
        raise Failure(f"got {got!r}, expected {want!r}")


def wait_for(condition, seconds, message):
    """Waits until `condition()` holds, for at most `seconds`; longer on the debug kernel."""
    seconds *= patience()
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{message} within {seconds} s")
        time.sleep(0.05)


def run(command, timeout=120, status=0):
    """Runs shell text; returns stdout and stderr together. Fails unless it exits with `status`.

    A `status` of None takes any status but 0.
    """
    result = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout * patience(),
    )
    text = result.stdout.decode(errors="replace")
    right = result.returncode != 0 if status is None else result.returncode == status
    if not right:
        wanted = "not 0" if status is None else status
        raise Failure(f"{command}\nexit status {result.returncode}, expected {wanted}\n{text}")
    return text


def main():
    """Runs the tests of --group for --kernel and ends the process."""
    global arguments
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--boot", type=int, default=1)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--full-counts", action="store_true")
    arguments = parser.parse_args()
    chosen = [
        function
        for group, kernels, boot, function in _TESTS
        if (group, boot) == (arguments.group, arguments.boot)
        and arguments.kernel in kernels
        and re.search(arguments.only, function.__name__)
    ]
    if arguments.kernel == "debug" and chosen:
        chosen.append(nothing_is_leaked)
    passed = [_run_test(function) for function in chosen]
    _record(end=True)
    sys.exit(0 if all(passed) else 1)


def nothing_is_leaked():
    """Fails with kmemleak's report if there is one: memory of the kernel that nothing points to."""
    for _ in range(2):
        time.sleep(_LEAK_AGE_SECONDS)
        _KMEMLEAK.write_text("scan")
    expect_equal(_KMEMLEAK.read_text(), "")


def _run_test(function):
    """Runs and records one test; returns whether it passed."""
    begin = time.monotonic()
    _figures.clear()
    outcome, text = "passed", ""
    try:
        function()
    except Failure as failure:
        where = traceback.extract_tb(failure.__traceback__)
        line = next(f.lineno for f in reversed(where) if f.name == function.__code__.co_name)
        outcome, text = "failed", f"line {line}: {failure}"
    except Exception:  # whatever a test stumbles over is its result
        outcome, text = "failed", traceback.format_exc()
    seconds = time.monotonic() - begin
    # For who watches a long run: the records are shown when L1 is off.
    print(f"{outcome:7} {function.__name__} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    _record(
        name=function.__name__,
        outcome=outcome,
        seconds=seconds,
        text=text[-4000:],
        figure=", ".join(_figures),
    )
    return outcome == "passed"


def _record(**fields):
    print("lab-test: " + json.dumps(fields), flush=True)
