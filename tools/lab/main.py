# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The lab's command line; `lab` in the root of the clone starts it."""

import argparse
import os
import shlex
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import host
import process
import setup
from cache import Cache
from errors import LabError


def _setup(_):
    lab = setup.ensure(Cache(), verbose=True)
    for series, kernel in lab.kernels().items():
        print(f"kernel {series}: {kernel['release']}")
    return 0


def _host(arguments):
    cache = Cache()
    lab = setup.ensure(cache)
    words = arguments.words
    request = host.Request(
        command=words[0] if len(words) == 1 else shlex.join(words),
        kernel=arguments.kernel,
        bare=arguments.bare,
        timeout=arguments.timeout,
    )
    outcome = host.run(lab, cache, request)
    print(f"boot {outcome.boot_s:.1f} wall {outcome.wall_s:.1f} {outcome.kernel_faults}", file=sys.stderr)
    open("/tmp/l1console","w").write(outcome.console)
    return outcome.status


def _parser():
    parser = argparse.ArgumentParser(prog="lab", description="Turnstile's lab.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("setup", help="build the lab's roots and images").set_defaults(run=_setup)
    h = commands.add_parser("host", help="run a command in L1")
    h.add_argument("--kernel", choices=setup.L1_KERNELS, default="6.12")
    h.add_argument("--bare", action="store_true")
    h.add_argument("--timeout", type=float, default=600)
    h.add_argument("words", nargs="+", metavar="COMMAND")
    h.set_defaults(run=_host)
    return parser


def _on_signal(number, _):
    raise SystemExit(128 + number)


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _on_signal)
    arguments = _parser().parse_args()
    try:
        return arguments.run(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.exit_status
    finally:
        process.stop_all()


if __name__ == "__main__":
    sys.exit(main())
