# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Four guests on one GPU while one after the other is killed, reset, unplugged …: runs inside L1.

What happens to whom comes from CHAOS_SEED alone, so the order of events can be had again; how many
there are in CHAOS_MINUTES depends on the machine. Whoever nothing was done to is judged all the
time: its results are right and go on, and it has its share.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import dmesg
import vgpu
from tap import Failure, expect, expect_equal, figure, main, test, wait_for
from tenant import BOOT_S, Tenant

# A slow SM: kernels take long on the GPU and little of the machine, so that the model keeps up.
GROUPS = [
    {"name": "chaos", "device": {"engine_mhz": 3, "sms": 1}},
]

TENANTS = [
    ("alpha", "turnstile-ts104_v2", 8),
    ("beta", "turnstile-ts104_v4", 4),
    ("gamma", "turnstile-ts104_v8", 2),
    ("delta", "turnstile-ts104_v8", 2),
]
POLICIES = ["best_effort", "equal_share", "fixed_share", "weighted", "latency"]
WEIGHTS = [50, 100, 200, 300]

WINDOW_S = 6
# What the rig promises is half a percent (docs/scheduling.md). Here slices end when an emulated
# host, busy with guests that boot, comes to it: tens of milliseconds late.
TOLERANCE = 0.2
# A tenant is promised a share while it has work; this part of the window it had.
BUSY = 0.9
# For a survivor's next verified result. The machine may have other work.
RESULT_S = 240


def say(text):
    """A line for who watches."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _reset_of(victim):
    """What is done inside resets its vGPU; returns when it has."""
    resets = victim.resets()
    yield
    wait_for(lambda: victim.resets() > resets, BOOT_S, "the vGPU is not reset")


class Watcher:
    """Takes in what the guests say while others wait, so that the times of results are known."""

    def __init__(self, tenants):
        self._tenants = tenants
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.2):
            for tenant in self._tenants:
                tenant.poll()

    def stop(self):
        """Ends it."""
        self._stop.set()
        self._thread.join()


class Chaos:
    """The tenants, the events that are done to them, and the record."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tenants = [Tenant(*arguments) for arguments in TENANTS]
        self.events = []
        # Not best effort, which promises nothing: shares are judged from the first event on.
        self.policy = self.random.choice(POLICIES[1:])
        self.kinds = {
            "kill": self._kill,
            "renew": self._renew,
            "system_reset": self._system_reset,
            "flr": self._flr,
            "unplug": self._unplug,
            "policy": self._policy,
            "weight": self._weight,
            "pause": self._pause,
            "fault": self._fault,
            "hog": self._hog,
            "flood": self._flood,
        }
        self._deck = []

    def start(self):
        """Boots all guests; returns when all work."""
        for tenant in self.tenants:
            tenant.start()
        self._wait_until_steady(
            lambda: all(t.steady() for t in self.tenants), BOOT_S, "a guest does not compute"
        )

    def _wait_until_steady(self, condition, seconds, message):
        """wait_for() that says where the guests are that keep it waiting. Raises Failure."""
        try:
            wait_for(condition, seconds, message)
        except Failure:
            for tenant in self.tenants:
                if not tenant.steady():
                    say(tenant.describe())
            raise

    def next_event(self):
        """One event and what the survivors make of it. Raises Failure."""
        kind = self._draw()
        victim = self.tenants[self.random.randrange(len(self.tenants))]
        chance = self.random.random()
        others = [tenant for tenant in self.tenants if tenant is not victim]
        say(f"{self._clock():6.0f} s  {kind} of {victim.name}: waits until enough work")
        self._wait_until_steady(
            lambda: victim.steady() and sum(t.steady() for t in others) >= 2,
            2 * BOOT_S,
            f"before {kind} of {victim.name}: guests do not come back",
        )
        survivors = [tenant for tenant in others if tenant.steady()]
        record = {"at_s": round(self._clock(), 1), "kind": kind}
        record |= {"victim": victim.name, "survivors": [tenant.name for tenant in survivors]}
        begin = time.monotonic()
        record["what"] = self.kinds[kind](victim, chance)
        if not victim.disturbed:
            survivors.append(victim)
        record["policy"] = self.policy
        record["shares"] = self._window(survivors)
        record["longest_s"] = round(self._longest_wait(survivors, begin), 1)
        record["took_s"] = round(time.monotonic() - begin, 1)
        self.events.append(record)
        say(f"{self._clock():6.0f} s  {record['what']}: {json.dumps(record['shares'])}")
        self._judge(record)

    def _draw(self):
        """The next kind. Each comes once before one comes again: a short run has seen them all."""
        if not self._deck:
            self._deck = list(self.kinds)
            self.random.shuffle(self._deck)
        return self._deck.pop()

    def run(self, seconds):
        """Events until the time is over."""
        self._begin = time.monotonic()
        while self._clock() < seconds:
            self.next_event()

    def _clock(self):
        return time.monotonic() - self._begin

    # The survivors.

    def _window(self, survivors):
        """[{name, run_ms, error_percent}] of a window; the error of who had work all the time."""
        begin = time.monotonic_ns()
        before = [tenant.account() for tenant in survivors]
        time.sleep(WINDOW_S)
        after = [tenant.account() for tenant in survivors]
        elapsed = time.monotonic_ns() - begin
        shares, busy = [], []
        for tenant, old, new in zip(survivors, before, after):
            run = new["run_ns"] - old["run_ns"]
            had_work = (run + new["wait_ns"] - old["wait_ns"]) / elapsed
            shares.append({"name": tenant.name, "run_ms": round(run / 1e6)})
            shares[-1]["had_work"] = round(had_work, 3)
            ordered = self._ordered(tenant)
            if ordered and had_work >= BUSY:
                busy.append((shares[-1], run, ordered))
        total_run = sum(run for _, run, _ in busy)
        total_ordered = sum(ordered for _, _, ordered in busy)
        for share, run, ordered in busy if len(busy) > 1 and total_run else []:
            error = run / total_run / (ordered / total_ordered) - 1
            share["error_percent"] = round(100 * error, 1)
        return shares

    def _ordered(self, tenant):
        """Its part as the policy promises it; None: no promise."""
        return {
            "best_effort": None,
            "equal_share": 1,
            "fixed_share": tenant.units,
            "weighted": tenant.weight,
            "latency": tenant.weight,
        }[self.policy]

    @staticmethod
    def _longest_wait(survivors, begin):
        """The longest time from `begin` or a result on until a survivor's next verified result."""

        def since(tenant):
            return [at for at in tenant.results if at >= begin]

        wait_for(
            lambda: all(since(tenant) for tenant in survivors), RESULT_S,
            f"no verified result from each of {[tenant.name for tenant in survivors]}",
        )  # fmt: skip
        longest = 0
        for tenant in survivors:
            times = [begin, *since(tenant)]
            longest = max(longest, *(b - a for a, b in zip(times, times[1:])))
        return longest

    def _judge(self, record):
        text = json.dumps(record)
        for tenant in self.tenants:
            expect(not tenant.bad, f"{tenant.name}: {tenant.bad}, after {text}")
            faults = tenant.kernel_faults()
            expect(not faults, f"{tenant.name}'s kernel: {faults} after {text}")
        for share in record["shares"]:
            expect(share["run_ms"] > 0, f"{share['name']} did not run: {text}")
            error = abs(share.get("error_percent", 0))
            expect(error <= 100 * TOLERANCE, f"{share['name']} has not its share: {text}")
        log = subprocess.run(["dmesg"], stdout=subprocess.PIPE, check=True).stdout
        faults = dmesg.bad_lines(log.decode(errors="replace"))
        expect(not faults, f"the host's kernel log: {faults} after {text}")

    # Events. Each returns what it was, in words.

    @staticmethod
    def _kill(victim, _):
        victim.kill()
        victim.expect_gone()
        victim.start()
        return "QEMU killed"

    @staticmethod
    def _renew(victim, _):
        victim.kill()
        victim.expect_gone()
        victim.renew()
        victim.start()
        return "QEMU killed, vGPU removed and another made"

    @staticmethod
    def _system_reset(victim, _):
        with _reset_of(victim):
            victim.disturb()
            victim.ask_qemu("system_reset")
        return "machine reset"

    @staticmethod
    def _flr(victim, _):
        with _reset_of(victim):
            victim.disturb()
            victim.order("reset", answered=False)
        return "FLR by the guest, under load"

    @staticmethod
    def _unplug(victim, _):
        victim.unplug()
        victim.expect_gone()
        victim.plug()
        return "vGPU unplugged and plugged, under load"

    def _policy(self, _, chance):
        others = [name for name in POLICIES if name != self.policy]
        self.policy = others[int(chance * len(others))]
        vgpu.set_gpu("policy", self.policy)
        return self.policy

    @staticmethod
    def _weight(victim, chance):
        victim.set_weight(WEIGHTS[int(chance * len(WEIGHTS))])
        return f"weight {victim.weight}"

    @staticmethod
    def _pause(victim, chance):
        seconds = 2 + 4 * chance
        victim.ask_qemu("stop")
        time.sleep(seconds)
        victim.ask_qemu("cont")
        return f"paused for {seconds:.1f} s"

    @staticmethod
    def _fault(victim, _):
        victim.order("fault")
        return "a wild store in another process"

    @staticmethod
    def _hog(victim, _):
        victim.order("hog")
        return "a program without end, killed after 4 s"

    @staticmethod
    def _flood(victim, chance):
        with _reset_of(victim):
            victim.flood(int(chance * 1e6))
        return "registers, doorbells and VRAM flooded for 4 s, then machine reset"


@test("chaos")
def survivors_compute_rightly_and_keep_their_shares():
    seed = int(os.environ["CHAOS_SEED"])
    chaos = Chaos(seed)
    watcher = Watcher(chaos.tenants)
    report = {"seed": seed, "kinds": list(chaos.kinds)}
    try:
        vgpu.set_gpu("policy", chaos.policy)
        # A slow host ends slices late: what a window begins and ends with should be little.
        vgpu.set_gpu("averaging_factor", 4)
        vgpu.set_gpu("timeslice_us", 8000)
        chaos.start()
        chaos.run(60 * float(os.environ["CHAOS_MINUTES"]))
        report["judged_shares"] = judged = sum(
            "error_percent" in share for event in chaos.events for share in event["shares"]
        )
        expect(judged > 0, "no share was judged: nobody had work all the time")
    finally:
        report["events"] = chaos.events
        report["results"] = sum(len(tenant.results) for tenant in chaos.tenants)
        print("lab-chaos: " + json.dumps(report), flush=True)
        watcher.stop()
        for tenant in chaos.tenants:
            tenant.end()
    figure(f"seed {seed}, {len(chaos.events)} events, {judged} shares judged")
    for _, type_id, _ in TENANTS:
        expect_equal(vgpu.available(type_id), int(type_id.rpartition("v")[2]))


if __name__ == "__main__":
    main()
