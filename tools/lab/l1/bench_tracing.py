# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The lab's part of `./lab bench tracing`: traps of a vGPU, without a guest.

Variants of the driver take turns: tracepoints `compiled_out`, `off`, all of them `on`, and the first
two with functions that are `aligned` (tools/lab/bench_tracing.py says why). Each turn begins with
loading the driver, and the order is reversed from round to round, so that none is always the one with
a warm machine or a busy neighbour.
"""

import contextlib
import json
import pathlib
import statistics

ROUNDS = 7
OPERATIONS = ("read", "write", "interrupt")  # of the program (tests/bench/trapped_access.cc)

_MODULES = {
    "compiled_out": "turnstile-notrace",
    "off": "turnstile",
    "on": "turnstile",
    "compiled_out_aligned": "turnstile-notrace-aligned",
    "off_aligned": "turnstile-aligned",
}
_PROGRAM = "/opt/turnstile/bench/trapped_access"
_TRACING = pathlib.Path("/sys/kernel/tracing")
_ENABLE = _TRACING / "events/turnstile/enable"


def measure(seconds, vgpu_of, shell, say):
    """Measures each operation for `seconds` per variant and round.

    `vgpu_of(module)` is a context with that driver and the UUID of a vGPU, `shell(command)` runs a
    command and returns its output, `say(text)` tells of progress.
    """
    rounds = []
    for number in range(ROUNDS):
        found = {}
        for variant in list(_MODULES)[:: -1 if number % 2 else 1]:
            say(f"round {number + 1} of {ROUNDS}: {variant}")
            with vgpu_of(_MODULES[variant]) as uuid, _listening(variant == "on"):
                found[variant] = {
                    name: _one(shell, name, uuid, seconds, variant) for name in OPERATIONS
                }
        rounds.append(found)
    return {"rounds": ROUNDS, "operations": {name: _summary(rounds, name) for name in OPERATIONS}}


def _one(shell, name, uuid, seconds, variant):
    """One measurement: (ns per operation, events per operation)."""
    before = _events()
    report = json.loads(shell(f"{_PROGRAM} {uuid} {name} {seconds}"))
    events, operations = _events() - before, report["operations"]
    if (events > 0) != (variant == "on"):
        raise RuntimeError(f"{events} events in {operations} of {name} with tracepoints {variant}")
    return report["ns"], events / operations


def _summary(rounds, name):
    """Medians over the rounds; the ratio is taken within each, where the machine was the same.

    The same ratio of the reference to itself, one round before, tells how much of it is chance.
    """
    ns = {variant: [found[variant][name][0] for found in rounds] for variant in _MODULES}
    events = statistics.median(found["on"][name][1] for found in rounds)
    return {
        **{f"{variant}_ns": round(statistics.median(values), 1) for variant, values in ns.items()},
        "off_to_compiled_out": _ratio(ns["off"], ns["compiled_out"]),
        "off_to_compiled_out_aligned": _ratio(ns["off_aligned"], ns["compiled_out_aligned"]),
        "compiled_out_to_itself": _ratio(ns["compiled_out"][1:], ns["compiled_out"]),
        "events_per_operation": round(events, 2),
    }


def _ratio(values, references):
    ratios = [value / reference for value, reference in zip(values, references)]
    figures = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    return {name: round(figure, 4) for name, figure in figures.items()}


@contextlib.contextmanager
def _listening(on):
    """All of the driver's tracepoints are on meanwhile, if `on`."""
    if on:
        _ENABLE.write_text("1")
    try:
        yield
    finally:
        if on:
            _ENABLE.write_text("0")


def _events():
    """How many events were recorded since L1 came up, those that were written over included."""
    count = 0
    for path in (_TRACING / "per_cpu").glob("cpu*/stats"):
        figures = dict(line.split(": ", 1) for line in path.read_text().splitlines())
        count += int(figures["entries"]) + int(figures["overrun"])
    return count
