# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab bench tracing`: what the driver's tracepoints cost while nobody listens, and when one does.

The reference is the same driver compiled with NOTRACE, the kernel's own switch for a subsystem
without tracepoints (linux/tracepoint.h): each becomes an empty inline function. What stays of them
there are the core's calls of the ts_host_trace functions, which are then empty.

Without them all other code lies elsewhere too, and that has a price of its own: QEMU's emulation, for
one, chains only code that lies in the same page. So both are also compared with every function at the
beginning of a page.
"""

import artifacts
import bench
import build

_PROGRAM = "tests/bench/trapped_access"
_SECONDS = 0.7  # of one measurement
_TIMEOUT = 1800
_VARIANTS = {
    "notrace": "-DNOTRACE",
    "aligned": "-falign-functions=4096",
    "notrace-aligned": "-DNOTRACE -falign-functions=4096",
}


def run(lab, cache, builder):
    """Measures in one boot of L1 and prints a table; returns (status, report)."""
    with builder.busy():
        builder.configured("release", build.RELEASE_OPTIONS)
        # A build that began as a copy of an older one may not know of the program.
        builder.compile("release", ["build.ninja"])
        builder.compile("release", [_PROGRAM])
    put = {"/opt/turnstile/bench/trapped_access": builder.top / "out/release" / _PROGRAM}
    for name, flags in _VARIANTS.items():
        module = builder.driver_variant(name, flags)
        put[f"/opt/turnstile/modules/turnstile-{name}.ko"] = module
    devices = artifacts.device()
    status, results = bench.in_l1(
        lab, cache, builder, ["tracing"], devices, seconds=_SECONDS, timeout=_TIMEOUT, put=put
    )
    _print(results["tracing"])
    return status, results


def _print(results):
    """The medians in ns, and by how much tracepoints that are off make an operation slower."""
    times = ("compiled_out", "off", "on")
    ratios = ("off_to_compiled_out", "off_to_compiled_out_aligned", "compiled_out_to_itself")
    print("ns per operation  compiled out       off        on", end="")
    print("   off / compiled out    the same, aligned     chance")
    for name, found in results["operations"].items():
        ns = "".join(f"{found[f'{variant}_ns']:>10}" for variant in times)
        print(f"{name:<20}{ns}   {'   '.join(_spread(found[key]) for key in ratios)}")


def _spread(ratio):
    return f"{ratio['median']:.3f} ({ratio['min']:.3f}..{ratio['max']:.3f})"
