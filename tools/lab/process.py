# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Child processes that never outlive the lab, and commands inside a Debian root.

Every child gets a session of its own, so a Ctrl-C reaches the lab alone and the lab ends its
children in order. Should the lab be killed outright, the kernel ends them (PR_SET_PDEATHSIG), and `unshare
--kill-child` hands that on to everything inside the child's PID namespace.
"""

import contextlib
import ctypes
import os
import signal
import subprocess

from errors import LabError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_children = set()

# Runs inside the new mount namespace: $1 is the root; "-" or the pairs of bind mounts follow, then
# "--" and the command. Nothing mounted here is visible outside or survives the command.
_ENTER_ROOT = r"""
set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  shift 2
done
shift
cwd=$1; shift
exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$cwd" "$@"
"""


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(argv, **kwargs):
    """Starts `argv` in its own session; it dies with the lab. Arguments as subprocess.Popen."""
    try:
        child = subprocess.Popen(
            argv, start_new_session=True, preexec_fn=_die_with_parent, **kwargs
        )
    except FileNotFoundError:
        raise LabError(f"{argv[0]}: no such program on this machine") from None
    _children.add(child)
    return child


def stop(child):
    """Ends `child` and everything in its PID namespace at once; it may already have ended."""
    if child.poll() is None:
        # unshare reaps the namespace's first process; were unshare killed, init would have to.
        for pid in _children_of(child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            child.wait(1)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    _children.discard(child)


def _children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            return [int(word) for word in stream.read().split()]
    except OSError:
        return []


def stop_all():
    """Ends every child that still runs. The lab calls it last, whatever happened before."""
    for child in list(_children):
        stop(child)


def isolated(argv):
    """`argv` in mount and PID namespaces of its own, with a matching /proc."""
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child=SIGKILL",
        "--mount-proc",
        "--",
        *argv,
    ]


def in_root(root, argv, binds=(), cwd="/"):
    """The command line that runs `argv` inside the Debian root `root`.

    `binds` are pairs (path outside, path inside), directories; they are mounted for this command
    only. The command is PID 1 of a PID namespace: it dies by SIGKILL, and everything it started
    dies with it.
    """
    pairs = [str(part) for pair in binds for part in pair]
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child=SIGKILL",
        "--",
        "/bin/sh",
        "-c",
        _ENTER_ROOT,
        "sh",
        str(root),
        *pairs,
        "--",
        cwd,
        *argv,
    ]


def root_env(extra=None):
    """A small, fixed environment for commands inside a Debian root; proxies are passed on."""
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in os.environ.items():
        if name.lower() in ("http_proxy", "https_proxy", "no_proxy", "term"):
            env[name] = value
    env.update(extra or {})
    return env


def check_namespaces():
    """Raises LabError when this machine forbids the namespaces the lab lives in."""
    probe = subprocess.run(
        isolated(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]), capture_output=True, text=True
    )
    if probe.returncode != 0:
        cause = probe.stderr.strip().splitlines()[-1:] or ["no message"]
        raise LabError(
            "this machine does not let root make mount and PID namespaces (" + cause[0] + ").\n"
            "In a container, start it with --privileged; the lab cannot run without them."
        )
