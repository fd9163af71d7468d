// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "doctor.h"

#include <gtest/gtest.h>

#include <string>

#include "tree.h"

namespace turnstile_smi {
namespace {

constexpr char kRelease[] = "6.12.1-amd64";
constexpr char kDevice[] = "/sys/bus/pci/devices/0000:00:10.0";
constexpr char kUuid[] = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a09";

// A host on which nothing is wrong.
class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    tree_.Unpack("first.tree");
    tree_.Write("/dev/vfio/vfio", "");
    tree_.Write("/usr/bin/mdevctl", "");
    tree_.Write(std::string("/etc/mdevctl.d/0000:00:10.0/") + kUuid,
                R"({"mdev_type": "turnstile-ts104_v8", "start": "manual", "attrs": []})");
    tree_.Link("/etc/systemd/system/multi-user.target.wants/turnstile-autostart.service",
               "/usr/lib/systemd/system/turnstile-autostart.service");
    tree_.Write("/usr/sbin/libvirtd", "");
    tree_.Write("/run/libvirt/libvirt-sock", "");
    tree_.Write("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_nodedev.so",
                "");
  }
  std::vector<Finding> Findings(const char* release = kRelease) const {
    return Examine(Files(tree_.root()), release);
  }
  // The only finding that is not well.
  Finding Problem(const char* release = kRelease) const {
    Finding problem;
    int count = 0;
    for (const Finding& finding : Findings(release)) {
      if (finding.verdict == Verdict::kOk) continue;
      problem = finding;
      ++count;
    }
    EXPECT_EQ(count, 1) << ToText(Findings(release));
    return problem;
  }

  Tree tree_;
};

TEST_F(DoctorTest, HostThatIsWellHasNoProblem) {
  for (const Finding& finding : Findings()) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.text;
    EXPECT_EQ(finding.mend, "");
  }
  EXPECT_TRUE(ToText(Findings()).ends_with("0 wrong, 0 warnings\n"));
}

TEST_F(DoctorTest, CloudKernelHasNoMediatedDevices) {
  tree_.Remove("/sys/class/mdev_bus");
  const Finding problem = Problem("6.12.1-cloud-amd64");
  EXPECT_EQ(problem.verdict, Verdict::kWrong);
  EXPECT_EQ(problem.text,
            "6.12.1-cloud-amd64: this kernel has no mediated devices (CONFIG_VFIO_MDEV)");
  EXPECT_EQ(problem.mend, "apt install linux-image-amd64, and boot it: cloud kernels have none");
}

TEST_F(DoctorTest, MdevIsThereAndNotLoaded) {
  tree_.Remove("/sys/class/mdev_bus");
  tree_.Write("/lib/modules/6.12.1-amd64/kernel/drivers/vfio/mdev/mdev.ko.xz", "");
  EXPECT_EQ(Problem().mend, "modprobe mdev");
}

TEST_F(DoctorTest, ModuleIsInstalledAndNotLoaded) {
  tree_.Remove("/sys/module/turnstile");
  tree_.Write("/lib/modules/6.12.1-amd64/updates/turnstile.ko", "");
  const Finding problem = Problem();
  EXPECT_EQ(problem.text, "turnstile is installed and not loaded");
  EXPECT_EQ(problem.mend, "modprobe turnstile");
}

TEST_F(DoctorTest, ModuleIsNotInstalledForThisKernel) {
  tree_.Remove("/sys/module/turnstile");
  tree_.Write("/lib/modules/6.12.0-amd64/updates/turnstile.ko", "");
  EXPECT_EQ(Problem().text, "turnstile is not installed for kernel 6.12.1-amd64");
}

TEST_F(DoctorTest, GpuIsBoundToAnother) {
  tree_.Link(std::string(kDevice) + "/driver", "../../../bus/pci/drivers/vfio-pci");
  const Finding problem = Problem();
  EXPECT_EQ(problem.text, "0000:00:10.0 is bound to vfio-pci");
  EXPECT_EQ(problem.mend,
            "echo 0000:00:10.0 > /sys/bus/pci/devices/0000:00:10.0/driver/unbind; "
            "echo turnstile > /sys/bus/pci/devices/0000:00:10.0/driver_override; "
            "echo 0000:00:10.0 > /sys/bus/pci/drivers_probe");
}

TEST_F(DoctorTest, MachineHasNoGpu) {
  tree_.Write(std::string(kDevice) + "/device", "0x7511\n");
  EXPECT_EQ(Problem().text, "this machine has no TS104 (lspci -d 1234:7510)");
}

TEST_F(DoctorTest, TypeLacksAnAttribute) {
  tree_.Remove(std::string(kDevice) + "/mdev_supported_types/turnstile-ts104_v8/device_api");
  EXPECT_EQ(Problem().text, "0000:00:10.0: turnstile-ts104_v8/device_api cannot be read");
}

TEST_F(DoctorTest, VfioIsNotLoaded) {
  tree_.Remove("/dev/vfio");
  EXPECT_EQ(Problem().mend, "modprobe vfio_iommu_type1 vfio");
}

TEST_F(DoctorTest, DefinedVgpuThatShouldHaveStarted) {
  tree_.Write(std::string("/etc/mdevctl.d/0000:00:10.0/") + kUuid,
              R"({"mdev_type": "turnstile-ts104_v8", "start": "auto", "attrs": []})");
  const Finding problem = Problem();
  EXPECT_EQ(problem.verdict, Verdict::kWarning);
  EXPECT_EQ(problem.mend, "systemctl restart turnstile-autostart@0000:00:10.0");
}

TEST_F(DoctorTest, DefinitionIsNoJson) {
  tree_.Write(std::string("/etc/mdevctl.d/0000:00:10.0/") + kUuid, "{");
  EXPECT_EQ(Problem().mend, std::string("mdevctl undefine --uuid ") + kUuid);
}

TEST_F(DoctorTest, AutostartIsNotEnabled) {
  tree_.Remove("/etc/systemd");
  EXPECT_EQ(Problem().mend, "systemctl enable turnstile-autostart.service");
}

TEST_F(DoctorTest, LibvirtDoesNotListen) {
  tree_.Remove("/run/libvirt");
  EXPECT_EQ(Problem().mend, "systemctl start libvirtd.socket");
}

TEST_F(DoctorTest, LibvirtSeesNoNodeDevices) {
  tree_.Remove("/usr/lib/x86_64-linux-gnu/libvirt");
  EXPECT_EQ(Problem().mend, "apt install libvirt-daemon-driver-nodedev, and restart libvirtd");
}

// Of the tree, process 198 is the VM alpha.
TEST_F(DoctorTest, VmMayLockTooLittle) {
  tree_.Write("/proc/198/limits",
              "Limit                     Soft Limit           Hard Limit           Units\n"
              "Max locked memory         67108864             67108864             bytes\n");
  tree_.Write("/proc/198/status", "Name:\tqemu\nVmLck:\t    1024 kB\nCapEff:\t000001ffffffbfff\n");
  const Finding problem = Problem();
  EXPECT_EQ(problem.verdict, Verdict::kWarning);
  EXPECT_EQ(problem.text,
            "alpha (process 198) may lock 64 MiB and has locked 1 MiB: its guest will see faults");
}

TEST_F(DoctorTest, VmThatMayLockEnoughIsWell) {
  tree_.Write("/proc/198/limits", "Max locked memory         68157440   68157440   bytes\n");
  tree_.Write("/proc/198/status", "Name:\tqemu\nVmLck:\t    1024 kB\n");
  EXPECT_TRUE(ToText(Findings()).ends_with("0 wrong, 0 warnings\n"));
}

// Capability 14, CAP_IPC_LOCK: root's processes are not held to the limit.
TEST_F(DoctorTest, LimitSaysNothingOfWhoMayLockEverything) {
  tree_.Write("/proc/198/limits", "Max locked memory         8388608   8388608   bytes\n");
  tree_.Write("/proc/198/status", "Name:\tqemu\nVmLck:\t 0 kB\nCapEff:\t0000000000004000\n");
  EXPECT_TRUE(ToText(Findings()).ends_with("0 wrong, 0 warnings\n"));
}

TEST_F(DoctorTest, VersionsAreThoseOfInstalledPackages) {
  tree_.Write("/var/lib/dpkg/status",
              "Package: mdevctl\nStatus: install ok installed\nVersion: 1.4.0-1\n\n"
              "Package: qemu-system-x86\nStatus: deinstall ok config-files\nVersion: 1:9\n\n");
  EXPECT_NE(ToText(Findings()).find("versions     mdevctl 1.4.0-1\n"), std::string::npos);
}

}  // namespace
}  // namespace turnstile_smi
