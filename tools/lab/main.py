# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The lab's command line; `lab` in the root of the clone starts it."""

import argparse
import os
import pathlib
import shlex
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import accel
import artifacts
import bench
import build
import cloud_lab
import coverage
import debug_kernel
import demo
import full_image
import fuzz
import package
import package_box
import suites
import cache as cache_module
import host
import process
import setup
from errors import LabError


def _setup(_):
    cache = cache_module.Cache()
    lab = setup.ensure(cache, verbose=True)
    for series, kernel in lab.kernels().items():
        print(f"kernel {series}: {kernel['release']}")
    print("QEMU:", (lab.qemu / "include/version").read_text(encoding="utf-8").strip())
    kind, reason = accel.choose(lab, cache)
    print(f"L1 runs under {kind}: {reason}")
    # So that the first demo does not have to.
    with build.opened(lab, cache) as builder:
        builder.parts(build.PARTS, setup.L1_KERNELS)
    return 0


def _build(arguments):
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    with build.opened(lab, cache) as builder:
        product = builder.parts(arguments.parts)
        print(product.top / "product")
    return 0


def _pairs(values, option):
    """["A:B"] as [(A, B)]; neither side may be empty."""
    pairs = []
    for value in values:
        left, _, right = value.partition(":")
        if not left or not right:
            raise LabError(f"{option} {value}: write it as FROM:TO")
        pairs.append((left, right))
    return pairs


def _run_l1(arguments, request):
    cache = cache_module.Cache()
    lab = setup.ensure(
        cache,
        full=request.full and not request.nova,
        debug=request.kernel == debug_kernel.NAME,
        nova=request.nova,
    )
    with build.opened(lab, cache) as builder:
        parts = [p for p in arguments.parts if not (request.bare and p == "driver")]
        product = builder.parts(parts, [request.kernel])
        installed = request.full and not request.bare
        files = artifacts.files(lab, product, request.kernel, installed)
        request.put = {**files, **request.put}
        if "plugin" in parts:
            request.plugin = product.plugin
            request.devices += artifacts.device(**dict(_properties(arguments.device)))
        return host.run(lab, cache, request)


def _properties(text):
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if not value:
            raise LabError(f"--device {text}: write it as NAME=VALUE,…")
        yield name, value


def _host(arguments):
    words = arguments.words
    request = host.Request(
        command=words[0] if len(words) == 1 else shlex.join(words),
        kernel=arguments.kernel,
        bare=arguments.bare,
        full=arguments.full or arguments.nova,
        nova=arguments.nova,
        after_reboot=arguments.after_reboot,
        cpus=arguments.cpus,
        timeout=arguments.timeout,
        put={},
    )
    if request.full and request.kernel not in (*full_image.KERNELS, debug_kernel.NAME):
        kernels = " or ".join([*full_image.KERNELS, debug_kernel.NAME])
        raise LabError(f"--full goes with --kernel {kernels}")
    if request.after_reboot and not request.full:
        raise LabError("--after-reboot goes with --full")
    for local, remote in _pairs(arguments.put, "--put"):
        if not pathlib.Path(local).exists():
            raise LabError(f"--put {local}: no such file")
        request.put[remote] = pathlib.Path(local).resolve()
    request.get = {remote: local for remote, local in _pairs(arguments.get, "--get")}
    for path in [*request.put, *request.get]:
        if not path.startswith("/") or set(path) & set(" \t\n'\"\\*?["):
            raise LabError(f"{path}: a path in L1 must be absolute, without blanks or wildcards")
    outcome = _run_l1(arguments, request)
    if request.full:
        print(f"lab: L1 was up after {outcome.boot_s:.1f} s", file=sys.stderr)
    if arguments.console:
        pathlib.Path(arguments.console).write_text(outcome.console, encoding="utf-8")
    return _verdict(outcome)


def _verdict(outcome):
    """The lab's exit status for a finished run; says what L1's kernel complained of."""
    if not outcome.kernel_faults:
        return outcome.status
    print("lab: L1's kernel complains:", file=sys.stderr)
    for line in outcome.kernel_faults:
        print(f"  {line}", file=sys.stderr)
    return outcome.status or host.EXIT_KERNEL_FAULT


def _shell(arguments):
    if not sys.stdin.isatty():
        raise LabError("shell needs a terminal; use ./lab host -- COMMAND instead")
    request = host.Request(
        command="", kernel=arguments.kernel, bare=arguments.bare, shell=True, timeout=86400
    )
    print("lab: booting L1; leave its shell with Ctrl-D", file=sys.stderr)
    return _verdict(_run_l1(arguments, request))


def _demo(arguments):
    return demo.run(arguments.guests, arguments.json)


def _cloud(arguments):
    return cloud_lab.run(arguments.words, arguments.control_only)


def _test(arguments):
    unknown = set(arguments.suites) - set(suites.NAMES)
    if unknown:
        raise LabError(
            f"no suite {', '.join(sorted(unknown))}; there are: {', '.join(suites.NAMES)}"
        )
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    with build.opened(lab, cache) as builder:
        chaos = suites.Chaos(arguments.minutes, arguments.seed, arguments.json)
        runner = suites.Runner(lab, cache, builder, arguments.only, arguments.full_counts, chaos)
        return runner.run(arguments.suites or suites.ORDER)


def _fuzz(arguments):
    return fuzz.run(arguments.target, arguments.minutes, arguments.jobs, arguments.replay)


def _coverage(arguments):
    return coverage.run(arguments.missing, arguments.json)


def _bench(arguments):
    return bench.run(arguments.names, arguments.json)


def _package(arguments):
    return package.run(arguments.debian or list(package_box.RELEASES), arguments.out)


# What `clean` keeps without --all.
_ROOTS = ("root", "toolbox", "l1", "l2", "qemu", "fuzz", "kernel", "cloud", "package")


def _clean(arguments):
    cache = cache_module.Cache()
    with cache.lock("setup"), cache.lock("build"):
        for path in cache.top.iterdir():
            is_root = path.name.split("-")[0] in _ROOTS
            if (
                path.is_dir()
                and path.name not in ("locks", "run")
                and (arguments.all or not is_root)
            ):
                cache_module.remove_tree(path)
    return 0


def _part_list(text):
    parts = text.split(",")
    unknown = set(parts) - set(build.PARTS)
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown part {', '.join(sorted(unknown))}; known: {', '.join(build.PARTS)}"
        )
    return parts


def _add_l1_options(parser):
    parser.add_argument(
        "--kernel",
        choices=(*setup.L1_KERNELS, debug_kernel.NAME),
        default="6.12",
        help="L1's kernel (default: %(default)s)",
    )
    parser.add_argument("--bare", action="store_true", help="do not load the host driver")
    parser.add_argument(
        "--device", default="", metavar="NAME=VALUE,…", help="properties of the TS104, as vram=2G"
    )
    _add_parts(parser)


def _add_parts(parser):
    parser.add_argument(
        "--parts",
        type=_part_list,
        default=list(build.PARTS),
        metavar="PART,…",
        help=f"what to build and bring along, of {','.join(build.PARTS)} (default: all)",
    )


def _parser():
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Builds a KVM host with the TS104 GPU and runs Turnstile in it.",
        epilog="Cache: ${TURNSTILE_CACHE:-/var/cache/turnstile}. More: docs/testing.md",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    command(
        "setup",
        _setup,
        "make the Debian roots and images and build everything; what is there stays",
    )
    _add_parts(command("build", _build, "compile everything in the tool box; prints where it is"))

    sub = command("host", _host, "boot L1 with the GPU and the driver, run COMMAND in it as root")
    _add_l1_options(sub)
    sub.add_argument(
        "--put", action="append", default=[], metavar="LOCAL:REMOTE", help="bring a file along"
    )
    sub.add_argument(
        "--get", action="append", default=[], metavar="REMOTE:LOCAL", help="bring a file back"
    )
    sub.add_argument(
        "--timeout",
        type=float,
        default=600,
        metavar="S",
        help="for boot and command (default: 600)",
    )
    sub.add_argument("--console", metavar="FILE", help="keep L1's kernel log")
    sub.add_argument("--full", action="store_true", help="an L1 with systemd, libvirt and mdevctl")
    sub.add_argument("--nova", action="store_true", help="a full L1 with Nova's compute service")
    sub.add_argument(
        "--after-reboot",
        action="append",
        default=[],
        metavar="COMMAND",
        help="with --full: reboot L1 when COMMAND is done, and run this one",
    )
    sub.add_argument(
        "--cpus",
        type=int,
        default=0,
        metavar="N",
        help="of L1 (default: 2 under KVM, 1 under TCG, whose nested guests need it so)",
    )
    sub.add_argument("words", nargs="+", metavar="COMMAND")

    _add_l1_options(command("shell", _shell, "boot L1 and give a shell in it"))

    sub = command("demo", _demo, "guests share the GPU and compute; their results are verified")
    sub.add_argument("--guests", type=int, default=2, metavar="N", help="1 to 16 (default: 2)")
    sub.add_argument("--json", metavar="FILE", help="write the figures there")

    sub = command(
        "cloud", _cloud, "a small OpenStack with two GPUs; runs until Ctrl-C, or COMMAND in it"
    )
    sub.add_argument(
        "--control-only", action="store_true", help="only the services, without a compute host"
    )
    sub.add_argument("words", nargs="*", metavar="COMMAND", help="for a shell; may use openstack")

    sub = command("test", _test, "run suites; the last line is the count")
    sub.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(suites.NAMES))
    sub.add_argument("--only", default="", metavar="REGEX", help="of the tests inside L1, these")
    sub.add_argument(
        "--full-counts",
        action="store_true",
        help="suites libvirt and debug: thousands of repetitions; hours",
    )
    sub.add_argument(
        "--minutes", type=float, default=15, metavar="N", help="suite chaos (default: %(default)s)"
    )
    sub.add_argument("--seed", type=int, metavar="S", help="suite chaos: which events come")
    sub.add_argument("--json", default="", metavar="FILE", help="suite chaos: write its record")

    sub = command("fuzz", _fuzz, "fuzz one target of tests/fuzz; its corpus grows in the cache")
    sub.add_argument("target", metavar="TARGET", help=", ".join(fuzz.targets()))
    sub.add_argument(
        "--minutes", type=float, default=5, metavar="N", help="how long (default: %(default)s)"
    )
    sub.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    sub.add_argument("--replay", metavar="FILE", help="run this one input instead")

    sub = command(
        "coverage", _coverage, "lines of mdev_driver/core that the tests reach; 1 below the goal"
    )
    sub.add_argument("--missing", action="store_true", help="show the lines that none reaches")
    sub.add_argument("--json", metavar="FILE", help="write the figures there as well")

    sub = command("bench", _bench, "measure; prints JSON")
    sub.add_argument("names", nargs="*", metavar="NAME", help=", ".join(bench.ORDER))
    sub.add_argument("--json", metavar="FILE", help="write the figures there as well")

    sub = command("package", _package, "Debian packages; prints where they are, and what lintian says")
    sub.add_argument(
        "--debian",
        action="append",
        choices=list(package_box.RELEASES),
        help="for this release; again for more (default: all)",
    )
    sub.add_argument(
        "--out", default="build-packages", metavar="DIR", help="where to (default: %(default)s)"
    )

    sub = command("clean", _clean, "remove builds from the cache, with --all everything in it")
    sub.add_argument("--all", action="store_true")
    return parser


def _on_signal(number, _):
    raise SystemExit(128 + number)


def main():
    """Parses the command line, runs the command, ends all children; returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _on_signal)
    arguments = _parser().parse_args()
    try:
        return arguments.run(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    finally:
        process.stop_all()


if __name__ == "__main__":
    sys.exit(main())
