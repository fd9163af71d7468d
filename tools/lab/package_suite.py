# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The suite `package`: packages on hosts that never saw Turnstile, and a host that boots from them.

For each Debian release: Prometheus in the box where the packages were built; installation, upgrade,
removal and purge in a copy of the release's KVM host (tests/package/install_test.py); in between
that copy as the disk of an L1, where what the packages brought has to work (host_test.py).
"""

import dataclasses
import lzma
import pathlib
import subprocess

import artifacts
import build
import cache as cache_module
import full_image
import host
import initramfs
import kmod
import package
import process
import roots
from errors import LabError

_TESTS = build.REPO / "tests"
_IMAGE_SIZE = "8G"
_COMMAND_SECONDS = 3600


@dataclasses.dataclass(frozen=True)
class _HostLab(roots.Lab):
    """The lab, but L1's kernel is that of a release's KVM host."""

    release_root: pathlib.Path

    def kernels(self):
        (image,) = [
            path.name.removeprefix("vmlinuz-")
            for path in (self.release_root / "boot").glob("vmlinuz-*")
            if "cloud" not in path.name
        ]
        return {"6.1": {"release": image}, "6.12": {"release": image}}

    def kernel_dir(self, series):
        return self.release_root


class Host:
    """A copy of a release's KVM host, in which packages are installed."""

    def __init__(self, cache, lab, directory, packages, later):
        """`packages` and `later`: Packages, the second of a later version."""
        self._cache = cache
        self._lab = lab
        self._release = packages.release
        self._packages = packages
        self._later = later
        self._top = directory
        self.root = directory / "root"
        self._command(["cp", "-a", str(lab.package_hosts[self._release.number]), str(self.root)])
        for name in ("tests", "debs", "later"):
            (self.root / name).mkdir()

    def run(self, group):
        """Runs a group of install_test.py in it; returns its output."""
        argv = ["python3", "-B", "/tests/package/install_test.py"]
        argv += ["--kernel", self._release.number, "--group", group]
        binds = [
            (_TESTS, "/tests"),
            (self._packages.directory, "/debs"),
            (self._later.directory, "/later"),
        ]
        environment = {"VERSION": self._packages.version, "LATER": self._later.version}
        return _output(self.root, argv, binds, environment)

    def boot(self, commands, plugin, stream):
        """Boots L1 from it, with the GPU of the QEMU plugin `plugin`; returns the Outcome."""
        image = self._image()
        lab = _HostLab(
            **{f.name: getattr(self._lab, f.name) for f in dataclasses.fields(roots.Lab)}
            | {"full_image": image},
            release_root=self.root,
        )
        kernel = self._release.kernel
        request = host.Request(
            command=commands[0],
            after_reboot=list(commands[1:]),
            kernel=kernel,
            full=True,
            timeout=1800,
            devices=artifacts.device(),
            plugin=plugin,
            put={
                **artifacts.files(self._lab, None, "6.12"),
                **{f"/lab/tests/{p.name}": p for p in (_TESTS / "package").glob("*.py")},
                "/lab/tests/tap.py": _TESTS / "boot/tap.py",
            },
        )
        if kernel == "6.12":  # ts104.ko is not for older ones
            request.put |= self._guest(lab)
        return host.run(lab, self._cache, request, stream=stream)

    def _guest(self, lab):
        """A guest whose driver DKMS built, with the program of turnstile-tools."""
        (built,) = lab.modules_dir("6.12").glob("updates/dkms/ts104.ko*")
        module = self._top / "ts104.ko"
        data = built.read_bytes()
        module.write_bytes(lzma.decompress(data) if built.suffix == ".xz" else data)
        tree = self._top / "guest"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin/ts104-run").write_bytes((self.root / "usr/bin/ts104-run").read_bytes())
        (tree / "bin/ts104-run").chmod(0o755)
        image = initramfs.for_l2(
            lab, "6.12", kmod.depends_of(module), {"modules/ts104.ko": module}, tree
        )
        return {
            "/opt/turnstile/l2/initramfs": image,
            "/opt/turnstile/l2/vmlinuz": lab.vmlinuz("6.12"),
        }

    def _image(self):
        stage = self._top / "stage"
        self._command(["cp", "-al", str(self.root), str(stage)])
        full_image.configure(stage)
        # Compilers and headers are no part of what runs.
        for name in (
            "usr/src",
            "usr/lib/gcc",
            "usr/share/doc",
            "usr/share/locale",
            "debs",
            "later",
        ):
            cache_module.remove_tree(stage / name)
        for name in ("lab", "opt/turnstile"):
            (stage / name).mkdir(parents=True, exist_ok=True)
        argv = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-L", "turnstile-l1"]
        argv += ["-d", "/var/lab/stage", "/var/lab/l1.ext4", _IMAGE_SIZE]
        self._command(process.in_root(self._lab.root, argv, [(self._top, "/var/lab")]))
        cache_module.remove_tree(stage)
        return self._top / "l1.ext4"

    @staticmethod
    def _command(argv):
        result = subprocess.run(
            argv, env=process.root_env(), capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise LabError(f"{argv[0]} failed:\n{(result.stdout + result.stderr)[-2000:]}")


def plugin(lab, packages, directory):
    """The QEMU plugin of qemu-ts104, unpacked."""
    programs = _unpack(lab, packages, "qemu-ts104", directory / "plugin")
    return next(programs.glob("usr/lib/*/qemu-ts104/ts104.so"))


def prometheus(lab, packages, directory):
    """Runs prometheus_test.py in the packages' box; returns its output."""
    programs = _unpack(lab, packages, "turnstile-tools", directory / "programs")
    binds = [(programs, "/programs"), (_TESTS, "/tests"), (build.REPO / "docs", "/docs")]
    argv = ["python3", "-B", "/tests/package/prometheus_test.py"]
    argv += ["--kernel", packages.release.number, "--group", "box"]
    box = lab.package_boxes[packages.release.number]
    return _output(box, argv, binds, {"PROGRAMS": "/programs"})


def _unpack(lab, packages, name, target):
    target.mkdir()
    deb = packages.file(name)
    binds = [(packages.directory, "/debs"), (target, "/target")]
    box = lab.package_boxes[packages.release.number]
    text = _output(box, ["dpkg-deb", "-x", f"/debs/{deb.name}", "/target"], binds)
    if text:
        raise LabError(f"{deb.name} does not unpack:\n{text}")
    return target


def _output(root, argv, binds, environment=None):
    """The output of a command in a root, whatever its exit status."""
    child = process.start(
        process.in_root(root, argv, binds),
        env=process.root_env(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        text, _ = child.communicate(timeout=_COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        raise LabError(f"{argv[0]} does not end within {_COMMAND_SECONDS} s") from None
    finally:
        process.stop(child)
    return text
