# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Shares of three real guests on one GPU while guests come, go and idle: runs inside L1.

Times are the GPU's own (FUNCTION_TIME, which the driver accounts), so a slow machine changes how
much is computed and never how it is shared.
"""

import sys
import threading
import time

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import l2
import vgpu
from tap import expect, expect_equal, figure, main, test, wait_for

# A slow SM: kernels take long on the GPU and little of the machine, so that the model keeps up.
GROUPS = [
    {"name": "shares", "device": {"engine_mhz": 3, "sms": 1}},
]

WINDOW_S = 10
TOLERANCE = 0.03
BOOT_S = 400
# So much GPU time after its start a guest has submissions waiting all the time.
SETTLED_NS = 500_000_000

# 32 submissions are in flight all the time. A stopped process keeps its channel, so its guest is
# idle, not gone.
GUEST = """
stty -echo </dev/ttyS1
ts104-run --json --timeout-ms 600000 --matrix 32 --seconds 3600 bench gpu &
load=$!
echo "@@ started"
while read -r order; do
	case $order in
	idle) kill -STOP $load ;;
	work) kill -CONT $load ;;
	reboot) reboot -f ;;
	esac
done </dev/ttyS1
"""

# (type, sixteenths of the GPU, weight): fixed share is 2:1:1, weighted 1:3:2.
TENANTS = [
    ("turnstile-ts104_v2", 8, 100),
    ("turnstile-ts104_v4", 4, 300),
    ("turnstile-ts104_v4", 4, 200),
]


_tenants = []


class Tenant(vgpu.Tenant):
    """A vGPU and the guest on it."""

    def __init__(self, index):
        type_id, self.units, self.weight = TENANTS[index]
        super().__init__(type_id)
        self.name = f"tenant{index}"
        vgpu.set_vgpu(self.uuid, "weight", self.weight)
        self.boots = 0
        self.ran = 0

    def start(self):
        """Boots its guest; computes() tells when its load is there."""
        self.guest = l2.Guest(self.name, GUEST, l2.mdev(self.uuid), memory_mib=256, reboots=True)
        self.boots = 1
        self.ran = self.account()["run_ns"]

    def reboot(self):
        """The guest reboots; returns when it has left the GPU. computes() tells when it is back."""
        resets = self.resets()
        self.guest.say("reboot")
        wait_for(lambda: self.resets() > resets, BOOT_S, f"{self.name} did not reset its vGPU")
        self.boots += 1
        self.ran = self.account()["run_ns"]

    def computes(self):
        """Whether the load of its last boot is on the GPU."""
        if self.guest.process.poll() is not None:
            raise l2.GuestError(f"{self.name}: QEMU ended")
        started = self.guest.output().count(b"@@ started") >= self.boots
        return started and self.account()["run_ns"] > self.ran + SETTLED_NS

    def idle(self):
        """The guest submits nothing any more; returns when what it had submitted is done."""
        self.guest.say("idle")

        def still():
            before = self.account()["run_ns"]
            time.sleep(1)
            return self.account()["run_ns"] == before

        wait_for(still, BOOT_S, f"{self.name} does not stop")


def running_tenants():
    """All tenants, whose guests compute; what does not run is started. Guests outlive a test."""
    if not _tenants:
        _tenants.extend(Tenant(index) for index in range(len(TENANTS)))
    for tenant in _tenants:
        if tenant.guest is None or tenant.guest.process.poll() is not None:
            tenant.start()
    wait_until_computing(*_tenants)
    return _tenants


def wait_until_computing(*tenants):
    """Until the loads of all guests are on the GPU."""
    wait_for(lambda: all(t.computes() for t in tenants), BOOT_S, "a guest does not compute")


def measure(tenants):
    """What the account of each of `tenants` grew by in a window."""
    before = [tenant.account() for tenant in tenants]
    time.sleep(WINDOW_S)
    after = [tenant.account() for tenant in tenants]
    return [{key: new[key] - old[key] for key in old} for old, new in zip(before, after)]


def expect_shares(what, tenants, order, idle=()):
    """In a window, GPU times of `tenants` are in proportion to their `order` ("units", "weight").

    Returns the accounts of `idle`, who did not run.
    """
    accounts = measure([*tenants, *idle])
    times = [account["run_ns"] for account in accounts[: len(tenants)]]
    ordered = [getattr(tenant, order) for tenant in tenants]
    for tenant, got, part in zip(tenants, times, ordered):
        expect(got > 0, f"{what}: {tenant.name} did not run")
        error = got / sum(times) / (part / sum(ordered)) - 1
        figure(f"{what}: {tenant.name} {got / 1e6:.0f} ms {100 * error:+.2f} %")
        expect(abs(error) <= TOLERANCE, f"{what}: GPU times {times}, ordered {ordered}")
    for account in accounts[len(tenants) :]:
        expect_equal(account["run_ns"], 0)
    return accounts


def keeps_shares(policy, order, idle_slices):
    """Who goes on keeps its share while one idles, one reboots, one is killed; who is back too.

    `idle_slices(idle, busy)`: whether an idle vGPU got as many slices as the policy says.
    """
    one, two, three = tenants = running_tenants()
    vgpu.set_gpu("policy", policy)
    try:
        three.idle()
        *_, busy, idle = expect_shares("one idles", [one, two], order, idle=[three])
        expect(idle_slices(idle["slices"], busy["slices"]), f"idle {idle}, busy {busy}")
        three.guest.say("work")

        two.reboot()
        expect_shares("one reboots", [one, three], order)
        wait_until_computing(two)
        expect_shares("it is back", tenants, order)

        killer = threading.Timer(WINDOW_S / 2, three.guest.process.kill)
        killer.start()
        expect_shares("one is killed", [one, two], order)
        killer.join()
        for tenant in tenants:
            expect_equal(tenant.guest.kernel_faults(), [])
    except BaseException:
        # Whatever state they are in, the next test boots them anew.
        for tenant in tenants:
            tenant.end()
        raise
    finally:
        vgpu.set_gpu("policy", "best_effort")


@test("shares")
def fixed_shares_are_kept_while_guests_idle_reboot_and_are_killed():
    # A slow host ends slices late: what a window begins and ends with should be little.
    vgpu.set_gpu("averaging_factor", 4)
    # The slots of an idle vGPU stay its own.
    keeps_shares("fixed_share", "units", lambda idle, busy: idle > 0.8 * busy)


@test("shares")
def weights_are_kept_while_guests_idle_reboot_and_are_killed():
    vgpu.set_gpu("timeslice_us", 8000)
    # An idle vGPU is not asked again before it has work.
    keeps_shares("weighted", "weight", lambda idle, busy: idle <= 1 < busy)


if __name__ == "__main__":
    try:
        main()
    finally:
        for left in _tenants:
            left.end()
            vgpu.remove(left.uuid)
