# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab setup`: the Debian roots, the kernels, the disk image of L1 and the headers of QEMU.

Steps, each kept in the cache under a key made of its recipe, so that a second set-up does
nothing and a broken-off one goes on where it stopped:

  root      Debian 13 with QEMU: what L1, the KVM host, is made of; L0's QEMU runs from it as well
  toolbox   a copy of root with compilers, kernel headers and the kernel packages of L1, unpacked
  l1-image  root and the modules of both kernels as an ext4 image
  qemu      the headers of exactly the QEMU in root, for the device plugin
  l1-full   root with systemd, libvirt and mdevctl as an ext4 image; made when it is first needed
  l1-nova   the same with OpenStack's compute service; made when it is first needed
  l2-kernel the newest kernel that Debian has, for a guest of that L1; made with it
  cloud     root with OpenStack's control plane and its databases; made when it is first needed
  kernel-debug  a kernel that watches itself (debug_kernel.py); made when it is first needed
  package-box-N, package-host-N  what packages for Debian N are built in and installed on
                (package_box.py); made when they are first needed
"""

import ast
import functools
import os
import pathlib
import re
import subprocess

import cache as cache_module
import cloud_root
import debug_kernel
import full_image
import nova_image
import package_box
import process
from errors import LabError
from roots import Lab
from progress import Progress

_MIRROR = os.environ.get("TURNSTILE_MIRROR") or "http://deb.debian.org"
_SUITE = "trixie"

# Only what L1 or L0's QEMU needs at run time.
_ROOT_PACKAGES = (
    "busybox-static ca-certificates e2fsprogs eatmydata iproute2 kmod mount pciutils procps python3 "
    "qemu-system-x86 strace util-linux"
).split()

_TOOLBOX_PACKAGES = (
    "bc bison build-essential clang clang-format clang-tidy cpio dwarves file flex g++-12 gcc-12 "
    "libbenchmark-dev libcli11-dev libclang-rt-dev libdrm-dev libfdt-dev libfmt-dev libglib2.0-dev "
    "libgmock-dev libgtest-dev libpixman-1-dev libssl-dev lld llvm meson ninja-build nlohmann-json3-dev pkgconf "
    "python3-pycotap python3-venv shellcheck sparse xz-utils"
).split()

# The kernels L1 boots; the newest one Debian offers is built against, and booted by a guest.
L1_KERNELS = ("6.1", "6.12")

_QEMU_CONFIGURE = (
    "--target-list=x86_64-softmmu --without-default-features --enable-tcg --disable-install-blobs "
    "--disable-docs --disable-tools --disable-guest-agent"
)


def _sources():
    mirror, security = f"{_MIRROR}/debian", f"{_MIRROR}/debian-security"
    lines = []
    for kind in ("deb", "deb-src"):
        lines += [
            f"{kind} {mirror} {_SUITE} main",
            f"{kind} {mirror} {_SUITE}-updates main",
            f"{kind} {security} {_SUITE}-security main",
        ]
    lines += [
        f"deb {mirror} {_SUITE}-backports main",
        # Debian 12, for its 6.1 kernel; the pin keeps everything else of it out.
        f"deb {mirror} bookworm main",
        f"deb {security} bookworm-security main",
    ]
    return lines


def _release_sources(suite):
    mirror, security = f"{_MIRROR}/debian", f"{_MIRROR}/debian-security"
    return [
        f"deb {mirror} {suite} main",
        f"deb {mirror} {suite}-updates main",
        f"deb {security} {suite}-security main",
    ]


_APT_CONF = """\
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Sandbox::User "root";
"""

_APT_PREFERENCES = """\
Package: *
Pin: release n=bookworm*
Pin-Priority: 50
"""

_DPKG_CONF = """\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
"""


class _Steps:
    """Runs the steps; each `_make_*` fills a directory of the cache."""

    def __init__(self, cache, full, debug, nova, cloud, packages):
        self._cache = cache
        self._cloud = cloud
        self._packages = packages
        self._full = full
        self._debug = debug
        self._nova = nova
        self._progress = None
        source = pathlib.Path(__file__).read_text(encoding="utf-8")
        # A step's key holds the text of its own recipe and the key of the step it builds on.
        self._root_key = self._recipe_key(source, "_make_root", [*_sources(), *_ROOT_PACKAGES])
        self._toolbox_key = self._recipe_key(
            source, "_make_toolbox", [self._root_key, *_TOOLBOX_PACKAGES, *L1_KERNELS]
        )
        self._image_key = self._recipe_key(
            source, "_make_image", [self._toolbox_key, self._recipe_key(source, "_finish_image", [])]
        )
        self._qemu_key = self._recipe_key(
            source, "_make_qemu", [self._toolbox_key, _QEMU_CONFIGURE]
        )
        self._full_key = self._recipe_key(
            source, "_make_full_image", [self._image_key, *full_image.key_parts()]
        )
        nova_parts = [self._image_key, *full_image.key_parts(), *nova_image.key_parts()]
        self._nova_key = self._recipe_key(source, "_make_nova_image", nova_parts)
        self._debug_key = self._recipe_key(
            source, "_make_debug_kernel", [self._toolbox_key, *debug_kernel.key_parts()]
        )
        self._cloud_key = self._recipe_key(
            source, "_make_cloud_root", [self._root_key, *cloud_root.key_parts()]
        )
        self._guest_key = self._recipe_key(source, "_make_guest_kernel", [self._toolbox_key])
        release = [self._recipe_key(source, "_make_release", _release_sources("SUITE"))]
        release += [repr(each) for each in package_box.RELEASES.values()]
        self._box_key = self._recipe_key(
            source, "_make_package_box", [*release, *package_box.BOX_PACKAGES]
        )
        self._host_key = self._recipe_key(
            source,
            "_make_package_host",
            [*release, *package_box.HOST_PACKAGES, package_box.CLOUD_HEADERS],
        )

    def lab(self):
        """Where the results are, whether or not they exist."""
        return Lab(
            root=self._cache.path("root", self._root_key),
            toolbox=self._cache.path("toolbox", self._toolbox_key),
            l1_image=self._cache.path("l1-image", self._image_key) / "l1.ext4",
            qemu=self._cache.path("qemu", self._qemu_key),
            full_image=self._cache.path("l1-full", self._full_key) / "l1.ext4",
            nova_image=self._cache.path("l1-nova", self._nova_key) / "l1.ext4",
            debug_kernel=self._cache.path("kernel-debug", self._debug_key),
            guest_kernel=self._cache.path("l2-kernel", self._guest_key),
            cloud=self._cache.path("cloud", self._cloud_key),
            package_boxes={
                n: self._cache.path(f"package-box-{n}", self._box_key) for n in package_box.RELEASES
            },
            package_hosts={
                n: self._cache.path(f"package-host-{n}", self._host_key)
                for n in package_box.RELEASES
            },
        )

    def complete(self):
        """Whether nothing is left to do."""
        lab = self.lab()
        wanted = [lab.root, lab.toolbox, lab.l1_image, lab.qemu]
        wanted += [lab.full_image, lab.guest_kernel] if self._full else []
        wanted += [lab.debug_kernel] if self._debug else []
        wanted += [lab.cloud] if self._cloud else []
        wanted += [lab.nova_image] if self._nova else []
        for number in self._packages:
            wanted += [lab.package_boxes[number], lab.package_hosts[number]]
        return all(path.exists() for path in wanted)

    def run(self):
        """Makes what is missing."""
        steps = [
            ("root", self._root_key, self._make_root, "Debian 13 root with QEMU", 60),
            ("toolbox", self._toolbox_key, self._make_toolbox, "tool box and kernels", 110),
            ("l1-image", self._image_key, self._make_image, "disk image of the KVM host", 25),
            ("qemu", self._qemu_key, self._make_qemu, "QEMU headers", 45),
        ]
        if self._full:
            title = "disk image of the KVM host with libvirt"
            steps.append(("l1-full", self._full_key, self._make_full_image, title, 60))
            title = "newest kernel for a guest"
            steps.append(("l2-kernel", self._guest_key, self._fetch_guest_kernel, title, 30))
        if self._cloud:
            title = "OpenStack's control plane"
            steps.append(("cloud", self._cloud_key, self._make_cloud_root, title, 240))
        if self._nova:
            title = "disk image of the KVM host with OpenStack's compute service"
            steps.append(("l1-nova", self._nova_key, self._make_nova_image, title, 240))
        if self._debug:
            title = "debug kernel of the KVM host"
            steps.append(("kernel-debug", self._debug_key, self._make_debug_kernel, title, 1200))
        for number in self._packages:
            release = package_box.RELEASES[number]
            make = functools.partial(self._make_package_box, release)
            title = f"box for packages of Debian {number}"
            steps.append((f"package-box-{number}", self._box_key, make, title, 120))
            make = functools.partial(self._make_package_host, release)
            title = f"KVM host with Debian {number}"
            steps.append((f"package-host-{number}", self._host_key, make, title, 90))
        self._progress = Progress(sum(step[4] for step in steps))
        try:
            for name, key, build, title, weight in steps:
                self._progress.step(title, weight)
                cached = self._cache.path(name, key).is_dir()
                path = self._cache.make(name, key, build)
                self._progress.step_done("already there" if cached else "")
                self._cache.discard_old(name, path, days=14)
        finally:
            self._progress.close()

    @staticmethod
    def _recipe_key(source, function, parts):
        """Of what the function does, whatever its comments and line breaks, and of `parts`."""
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return cache_module.digest([ast.unparse(node), *parts])
        raise ValueError(f"no recipe {function}")

    # The steps.

    def _make_package_box(self, release, path):
        self._make_release(f"package-box-{release.number}", release, path, package_box.BOX_PACKAGES)

    def _make_package_host(self, release, path):
        packages = package_box.HOST_PACKAGES
        log = f"package-host-{release.number}"
        self._make_release(log, release, path, packages)
        # Its kernel without an initramfs: the lab starts it with its own.
        hook = "/usr/sbin/update-initramfs"
        self._in_root(log, path, ["dpkg-divert", "--local", "--rename", "--add", hook])
        (path / hook.lstrip("/")).symlink_to("/bin/true")
        kernels = ["linux-image-amd64", "linux-headers-amd64", package_box.CLOUD_HEADERS]
        self._apt(log, path, ["update"])
        self._apt(log, path, ["install", "-y", *kernels])
        self._apt(log, path, ["clean"])

    def _make_release(self, log, release, path, packages):
        """A root of a Debian release from its own archives only."""
        root = path / "mmdebstrap"
        argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--include=" + ",".join(packages)]
        argv += [f"--aptopt={line}" for line in _APT_CONF.splitlines()]
        argv += ["--dpkgopt=force-unsafe-io"]
        argv += [release.suite, str(root), *_release_sources(release.suite)]
        self._command(log, process.isolated(argv))
        policy = root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
        policy.chmod(0o755)
        for entry in list(root.iterdir()):
            entry.rename(path / entry.name)
        root.rmdir()
        path.chmod(0o755)
        self._network(path)

    def _make_root(self, path):
        root = path / "mmdebstrap"
        self._command(
            "root",
            process.isolated(
                [
                    "mmdebstrap",
                    "--mode=root",
                    "--variant=apt",
                    "--include=" + ",".join(_ROOT_PACKAGES),
                    *(f"--aptopt={line}" for line in _APT_CONF.splitlines()),
                    *(f"--dpkgopt={line}" for line in _DPKG_CONF.splitlines()),
                    '--setup-hook=mkdir -p "$1/etc/apt/preferences.d"; '
                    f"printf %s '{_APT_PREFERENCES}' >\"$1/etc/apt/preferences.d/bookworm\"",
                    _SUITE,
                    str(root),
                    *_sources(),
                ]
            ),
        )
        # Services must not start in a root that is never booted as such.
        policy = root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
        policy.chmod(0o755)
        for entry in list(root.iterdir()):
            entry.rename(path / entry.name)
        root.rmdir()
        path.chmod(0o755)

    def _make_toolbox(self, path):
        self._command("toolbox", ["cp", "-a", f"{self.lab().root}/.", str(path)])
        self._network(path)
        self._apt("toolbox", path, ["update"])
        kernels = self._resolve_kernels(path)
        # The header package of 6.12 wants its kernel, whose hooks would build an initramfs.
        self._in_root(
            "toolbox",
            path,
            ["dpkg-divert", "--local", "--rename", "--add", "/usr/sbin/update-initramfs"],
        )
        (path / "usr/sbin/update-initramfs").symlink_to("/bin/true")
        headers = [f"linux-headers-{kernel['release']}" for kernel in kernels.values()]
        self._apt("toolbox", path, ["install", "-y", *_TOOLBOX_PACKAGES, *headers])
        store = path / "opt/kernels"
        for series in L1_KERNELS:
            release, version = kernels[series]["release"], kernels[series]["version"]
            target = store / series
            target.mkdir(parents=True)
            inside = f"/opt/kernels/{series}"
            self._apt("toolbox", path, ["download", f"linux-image-{release}={version}"], inside)
            script = 'set -e; for d in *.deb; do dpkg-deb -x "$d" .; rm "$d"; done; '
            # Debian 12 ships /lib/modules, Debian 13 /usr/lib/modules.
            script += "if [ -d lib ]; then mkdir -p usr; mv lib usr/lib; fi; "
            script += f"depmod -b {inside}/usr {release} || depmod -b {inside} {release}"
            self._in_root("toolbox", path, ["sh", "-c", script], inside)
        cache_module.write_json(store / "kernels.json", kernels)
        self._apt("toolbox", path, ["clean"])

    def _make_image(self, path):
        lab = self.lab()
        stage = path / "stage"
        self._command("l1-image", ["cp", "-al", str(lab.root), str(stage)])
        self._finish_image("l1-image", path, L1_KERNELS)

    def _make_full_image(self, path):
        stage = path / "stage"
        self._command("l1-full", ["cp", "-a", str(self.lab().root), str(stage)])
        self._network(stage)
        self._apt("l1-full", stage, ["update"])
        self._apt("l1-full", stage, ["install", "-y", *full_image.PACKAGES])
        full_image.configure(stage)
        self._finish_image("l1-full", path, full_image.KERNELS)

    def _make_cloud_root(self, path):
        self._command("cloud", ["cp", "-a", f"{self.lab().root}/.", str(path)])
        self._network(path)
        self._apt("cloud", path, ["update"])
        # Bytecode is made by what imports it, not of each of 400 packages.
        compiler = "/usr/bin/py3compile"
        self._in_root("cloud", path, ["dpkg-divert", "--local", "--rename", "--add", compiler])
        (path / compiler.lstrip("/")).symlink_to("true")
        self._apt("cloud", path, ["install", "-y", *cloud_root.PACKAGES])
        self._apt("cloud", path, ["clean"])
        cache_module.remove_tree(path / "var/lib/apt/lists")
        script = ["sh", "-c", f"mkdir -p {cloud_root.STATE}; {cloud_root.script()}"]
        self._in_root("cloud", path, script)

    def _make_nova_image(self, path):
        stage = path / "stage"
        self._command("l1-nova", ["cp", "-a", str(self.lab().root), str(stage)])
        self._network(stage)
        self._apt("l1-nova", stage, ["update"])
        packages = [*full_image.PACKAGES, *nova_image.PACKAGES]
        self._apt("l1-nova", stage, ["install", "-y", *packages])
        full_image.configure(stage)
        nova_image.configure(stage)
        self._finish_image("l1-nova", path, full_image.KERNELS)

    def _fetch_guest_kernel(self, path):
        """_make_guest_kernel(), which only works as long as Debian's archives have this kernel."""
        try:
            self._make_guest_kernel(path)
        except LabError as error:
            release = self.lab().kernels()["newest"]["release"]
            raise LabError(
                f"{error}\nIf Debian has replaced kernel {release} since the tool box was made: "
                f"remove {self.lab().toolbox} and run this again"
            ) from None

    def _make_guest_kernel(self, path):
        """Unpacks the kernel that the tool box has headers of."""
        toolbox = self.lab().toolbox
        kernel = self.lab().kernels()["newest"]
        release = kernel["release"]
        version = kernel["version"]
        # Since 7.x the package of the image only names those that have its parts.
        script = (
            "set -e; cd /var/lab; apt-get update; "
            f"for p in $(apt-cache depends linux-image-{release} | "
            f"grep -o 'linux-[a-z]*-{release}$' | sort -u); do "
            f'apt-get download "$p={version}"; dpkg-deb -x ./*.deb .; rm ./*.deb; done; '
            "if [ -d lib ]; then mkdir -p usr; mv lib usr/lib; fi; mkdir -p boot; "
            f"test -e boot/vmlinuz-{release} || "
            f"mv usr/lib/modules/{release}/vmlinuz boot/vmlinuz-{release}; "
            f"depmod -b /var/lab/usr {release} || depmod -b /var/lab {release}"
        )
        self._network(toolbox)
        self._command(
            "l2-kernel",
            process.in_root(toolbox, ["sh", "-c", script], binds=[(path, "/var/lab")]),
        )

    def _finish_image(self, log, path, kernels):
        """Turns `path`/stage into `path`/l1.ext4, with the modules of `kernels`."""
        lab = self.lab()
        stage = path / "stage"
        modules = stage / "usr/lib/modules"
        modules.mkdir(parents=True, exist_ok=True)
        for series in kernels:
            source = lab.modules_dir(series)
            self._command(log, ["cp", "-a", str(source), str(modules / source.name)])
        for name in ("lab", "opt/turnstile"):
            (stage / name).mkdir(parents=True, exist_ok=True)
        # The image has no journal: every run starts from it and none is ever written back.
        argv = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-L", "turnstile-l1"]
        argv += ["-d", "/var/lab/stage", "/var/lab/l1.ext4", "6G"]
        self._command(log, process.in_root(lab.root, argv, binds=[(path, "/var/lab")]))
        cache_module.remove_tree(stage)

    def _make_qemu(self, path):
        toolbox = self.lab().toolbox
        script = (
            "set -e; cd /var/lab; apt-get update; "
            "apt-get source -q qemu=$(dpkg-query -W -f='${source:Version}' qemu-system-x86); "
            "mv qemu-*/ source; rm -f qemu_*; mkdir build; cd build; "
            f"../source/configure {_QEMU_CONFIGURE}; "
            "ninja $(ninja -t targets all | sed -n -E 's/^((qapi\\/[^:]*|config-[^:/]*)\\.h): .*/\\1/p'); "
            "cd ..; mkdir -p include/build; "
            "cp -r source/include include/qemu; cp -r source/linux-headers include/linux-headers; "
            "mkdir include/host; cp -r source/host/include/* include/host; "
            "find build -name '*.h' -not -path '*/meson-private/*' | while read -r h; do "
            'mkdir -p "include/$(dirname "$h")"; cp "$h" "include/$h"; done; '
            "qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version //p' >include/version; "
            "rm -rf source build"
        )
        self._network(toolbox)
        self._command(
            "qemu",
            process.in_root(toolbox, ["sh", "-c", script], binds=[(path, "/var/lab")]),
        )

    def _make_debug_kernel(self, path):
        lab = self.lab()
        script = debug_kernel.prepare(path, lab.kernels()[debug_kernel.SERIES]["version"])
        self._network(lab.toolbox)
        self._command(
            "kernel-debug",
            process.in_root(lab.toolbox, ["sh", "-c", script], binds=[(path, "/var/lab")]),
            steps=debug_kernel.BUILD_STEPS,
        )

    # Helpers.

    def _resolve_kernels(self, path):
        """Finds the newest release of each kernel series that has image and headers."""
        stanzas = {}
        for package in ("linux-image-amd64", "linux-headers-amd64"):
            text = self._output(path, ["apt-cache", "show", "--all-versions", package])
            for stanza in text.split("\n\n"):
                version = re.search(r"^Version: (\S+)", stanza, re.M)
                release = re.search(
                    r"linux-(?:image|headers)-(\S+-amd64)", stanza.split("Depends:")[-1]
                )
                if version and release:
                    stanzas.setdefault(version[1], {})[package] = release[1]
        complete = {v: s["linux-headers-amd64"] for v, s in stanzas.items() if len(s) == 2}

        def newest(prefix):
            versions = [version for version in complete if version.startswith(prefix)]
            if not versions:
                raise LabError(
                    f"Debian's archives at {_MIRROR} offer no kernel {prefix}*; found: "
                    + ", ".join(sorted(complete))
                )
            key = max(versions, key=lambda v: [int(n) for n in re.findall(r"\d+", v)])
            return {"release": complete[key], "version": key}

        kernels = {series: newest(series + ".") for series in L1_KERNELS}
        kernels["newest"] = newest("")
        return kernels

    @staticmethod
    def _network(root):
        """Lets commands in `root` resolve names as this machine does, through its apt proxy."""
        for name in ("resolv.conf", "hosts"):
            source = pathlib.Path("/etc") / name
            if source.exists():
                target = root / "etc" / name
                target.unlink(missing_ok=True)
                target.write_bytes(source.read_bytes())
        dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
        proxies = [
            line for line in dump.stdout.splitlines() if re.match(r"Acquire::https?::", line)
        ]
        (root / "etc/apt/apt.conf.d/90lab-proxy").write_text(
            "\n".join([*proxies, ""]), encoding="utf-8"
        )

    def _apt(self, log, root, arguments, cwd="/"):
        self._in_root(
            log, root, ["eatmydata", "apt-get", "-o", "APT::Status-Fd=2", *arguments], cwd
        )

    def _in_root(self, log, root, argv, cwd="/"):
        self._command(log, process.in_root(root, argv, cwd=cwd))

    @staticmethod
    def _output(root, argv):
        result = subprocess.run(
            process.in_root(root, argv),
            env=process.root_env(),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise LabError(f"{argv[0]} failed in the tool box:\n{result.stderr.strip()}")
        return result.stdout

    def _command(self, log, argv, steps=0):
        """Runs one command of a step; output goes to its log, apt's progress to the bar.

        `steps`: how many objects a kernel's build makes, if it is one; they go to the bar.
        """
        path = self._cache.top / "logs" / f"setup-{log}.log"
        child = process.start(
            argv,
            env=process.root_env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        tail = []
        made = 0
        with open(path, "a", encoding="utf-8") as stream:
            for line in child.stdout:
                if steps and re.match(r"  [A-Z]+ ", line):
                    made += 1
                    self._progress.part(made / steps)
                status = re.match(r"(dl|pm)status:[^:]*:([\d.]+):", line)
                if status:
                    # Download and installation are about half of the work each.
                    half = 0.0 if status[1] == "dl" else 0.5
                    self._progress.part(half + float(status[2]) / 200)
                    continue
                stream.write(line)
                tail = [*tail[-24:], line]
        status = child.wait()
        process.stop(child)
        if status != 0:
            raise LabError(_explain("".join(tail), status, path))


def _explain(tail, status, log):
    cause = ""
    if re.search(
        r"Temporary failure resolving|Could not resolve|Could not connect|timed out", tail
    ):
        cause = f"\nCause: {_MIRROR} cannot be reached. Check the network, or set TURNSTILE_MIRROR."
    elif "No space left on device" in tail:
        cause = "\nCause: the disk is full. Make room, or set TURNSTILE_CACHE to a larger one."
    elif re.search(r"NO_PUBKEY|not signed|EXPKEYSIG", tail):
        cause = (
            "\nCause: the archive's signature cannot be checked. Upgrade debian-archive-keyring."
        )
    return f"set-up failed (status {status}); the end of {log}:\n{tail.rstrip()}{cause}"


def ensure(cache, verbose=False, full=False, debug=False, nova=False, cloud=False, packages=()):
    """Returns the finished set-up, making what is missing.

    `verbose` also reports what is there; `full` asks for the image with libvirt as well, `debug`
    for the debug kernel, `nova` for the image with OpenStack's compute service, `cloud` for
    OpenStack's control plane, `packages` for the roots of these Debian releases ("12", "13").
    """
    steps = _Steps(cache, full, debug, nova, cloud, packages)
    if not steps.complete() or verbose:
        process.check_namespaces()
        cache.check_space()
        with cache.lock("setup"):
            steps.run()
    return steps.lab()
