# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The debug kernel of L1: Debian's source of 6.12 with everything on that finds mistakes.

`setup.py` builds it when `--kernel debug` or the suite `debug` first needs it: about a quarter of an
hour on two cores. debug_kernel.config says what it consists of, debug_kernel.patch is applied.

  kernel/    as an unpacked image package: boot/vmlinuz-RELEASE, usr/lib/modules/RELEASE
  headers/   what modules are built against
"""

import ast
import pathlib

NAME = "debug"
# Whose source it is; the same version as Debian's own kernel of the series.
SERIES = "6.12"

# Where a build finds the headers in the tool box.
HEADERS = "/opt/debug-kernel"

# Lines `CC …` and the like of a build: for the progress bar only.
BUILD_STEPS = 1950

_HERE = pathlib.Path(__file__).parent
_CONFIG = _HERE / "debug_kernel.config"
_PATCH = _HERE / "debug_kernel.patch"

_SCRIPT = """
set -e
cd /var/lab
export KBUILD_BUILD_USER=lab KBUILD_BUILD_HOST=turnstile
apt-get -q update
apt-get -q download linux-source-{series}={version} libelf-dev
for package in *.deb; do dpkg-deb -x "$package" deb; done
tar -xf deb/usr/src/linux-source-{series}.tar.xz
mv linux-source-{series} source
patch -p1 -d source <patch
# objtool's headers are not in the tool box; the library is.
kbuild() {{
	nice -n 5 make -C source O=/var/lab/build -j"$(nproc)" \\
		LIBELF_FLAGS=-I/var/lab/deb/usr/include LIBELF_LIBS=-l:libelf.so.1 "$@"
}}
kbuild KCONFIG_ALLCONFIG=/var/lab/config allnoconfig
grep '^CONFIG' config | while read -r line; do
	grep -qxF "$line" build/.config || echo "debug_kernel.config: the kernel does not take $line"
done >refused
if [ -s refused ]; then cat refused; exit 1; fi
kbuild bzImage modules
release=$(cat build/include/config/kernel.release)
mkdir -p kernel/boot
cp build/arch/x86/boot/bzImage "kernel/boot/vmlinuz-$release"
cp build/System.map "kernel/boot/System.map-$release"
cp build/.config "kernel/boot/config-$release"
kbuild INSTALL_MOD_PATH=/var/lab/kernel/usr modules_install
rm -f "kernel/usr/lib/modules/$release/build"
install='$(srctree)/scripts/package/install-extmod-build'
kbuild KBUILD_RUN_COMMAND="$install /var/lab/headers" run-command
rm -r source build deb *.deb patch config refused
printf '{{"release": "%s", "version": "%s"}}\\n' "$release" {version} >kernel.json
"""


def key_parts():
    """What the kernel depends on besides the tool box: this file, the options, the patch."""
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    return [ast.unparse(ast.parse(source)), *_options(), _PATCH]


def _options():
    lines = _CONFIG.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("CONFIG_")]


def prepare(directory, version):
    """Writes the build's inputs to `directory` (/var/lab inside); returns its script (shell).

    `version`: of Debian's package linux-source-6.12. The script names each option that the kernel
    does not take and fails then.
    """
    (directory / "patch").write_bytes(_PATCH.read_bytes())
    (directory / "config").write_text("\n".join(_options()) + "\n", encoding="utf-8")
    return _SCRIPT.format(series=SERIES, version=version)
