// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "users.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tree.h"

namespace turnstile_smi {
namespace {

using std::string_literals::operator""s;
using Arguments = std::vector<std::string>;

TEST(SplitCommandLine, EndsEachArgumentAtItsZero) {
  EXPECT_EQ(SplitCommandLine("qemu\0-S\0\0-m\0"s), (Arguments{"qemu", "-S", "", "-m"}));
  EXPECT_EQ(SplitCommandLine(""), Arguments{});
}

TEST(VmName, IsWhatLibvirtCallsGuest) {
  EXPECT_EQ(VmName({"qemu", "-name", "guest=alpha,debug-threads=on", "-S"}), "alpha");
}

TEST(VmName, IsTheFirstItemWithoutAKey) {
  EXPECT_EQ(VmName({"qemu", "-name", "beta,process=x"}), "beta");
  EXPECT_EQ(VmName({"qemu", "--name", "beta"}), "beta");
}

TEST(VmName, HasACommaWhereTheCommandLineHasTwo) {
  EXPECT_EQ(VmName({"qemu", "-name", "guest=a,,b,,,debug-threads=on"}), "a,b,");
}

TEST(VmName, IsEmptyWhenNothingNamesIt) {
  EXPECT_EQ(VmName({"qemu", "-S"}), "");
  EXPECT_EQ(VmName({"qemu", "-name", "debug-threads=on"}), "");
  EXPECT_EQ(VmName({"qemu", "-name"}), "");
}

// A host with one vGPU of group 7 and node vfio3.
class FindUsersTest : public testing::Test {
 protected:
  FindUsersTest() {
    host_.gpus.emplace_back();
    host_.gpus[0].vgpus.emplace_back();
    vgpu().iommu_group = "7";
    vgpu().vfio_device = "vfio3";
    tree_.Write("/proc/1/cmdline", "init\0"s);
    tree_.Link("/proc/1/fd/0", "/dev/null");
  }
  Vgpu& vgpu() { return host_.gpus[0].vgpus[0]; }
  void Find() { FindUsers(Files(tree_.root()), host_); }

  Tree tree_;
  Host host_;
};

TEST_F(FindUsersTest, NobodyHasItOpen) {
  Find();
  EXPECT_FALSE(vgpu().user);
  EXPECT_EQ(vgpu().state, State::kUnused);
  EXPECT_TRUE(host_.notes.empty());
}

TEST_F(FindUsersTest, AProcessWithItsGroupIsItsUser) {
  tree_.Write("/proc/42/cmdline", "/usr/bin/qemu-system-x86_64\0-uuid\0u-1\0-name\0guest=alpha\0"s);
  tree_.Link("/proc/42/fd/11", "/dev/vfio/7");
  Find();
  ASSERT_TRUE(vgpu().user);
  EXPECT_EQ(vgpu().user->pid, 42);
  EXPECT_EQ(vgpu().user->command, "qemu-system-x86_64");
  EXPECT_EQ(vgpu().user->vm_name, "alpha");
  EXPECT_EQ(vgpu().user->vm_uuid, "u-1");
  EXPECT_EQ(vgpu().state, State::kInUse);
}

TEST_F(FindUsersTest, AProcessWithItsOwnNodeIsItsUser) {
  tree_.Write("/proc/42/cmdline", "qemu");
  tree_.Link("/proc/42/fd/11", "/dev/vfio/devices/vfio3");
  Find();
  ASSERT_TRUE(vgpu().user);
  EXPECT_EQ(vgpu().user->pid, 42);
}

TEST_F(FindUsersTest, AnotherGroupIsAnothers) {
  tree_.Link("/proc/42/fd/11", "/dev/vfio/77");
  tree_.Link("/proc/42/fd/12", "/dev/vfio/vfio");
  Find();
  EXPECT_FALSE(vgpu().user);
}

TEST_F(FindUsersTest, WhatIsNoQemuHasNoVmName) {
  tree_.Write("/proc/42/cmdline", "ts104-run\0-name\0x\0"s);
  tree_.Link("/proc/42/fd/5", "/dev/vfio/7");
  Find();
  EXPECT_EQ(vgpu().user->command, "ts104-run");
  EXPECT_EQ(vgpu().user->vm_name, "");
}

TEST_F(FindUsersTest, ChannelsMakeItActive) {
  tree_.Link("/proc/42/fd/5", "/dev/vfio/7");
  vgpu().counters = {{"channels", 2}};
  Find();
  EXPECT_EQ(vgpu().state, State::kActive);
  vgpu().counters = {{"channels", 0}};
  Find();
  EXPECT_EQ(vgpu().state, State::kOpen);
}

TEST_F(FindUsersTest, WhoMayNotLookAtProcessesDoesNotKnow) {
  tree_.Remove("/proc/1");
  Find();
  EXPECT_EQ(vgpu().state, State::kUnknown);
  ASSERT_EQ(host_.notes.size(), 1u);
  EXPECT_EQ(host_.notes[0],
            "VM and state of 1 vGPUs: only root may look at the processes of others");
}

TEST_F(FindUsersTest, BytesThatAreNoTextAreReplaced) {
  tree_.Write("/proc/42/cmdline", "qemu\0-name\0a\xFFz\0"s);
  tree_.Link("/proc/42/fd/5", "/dev/vfio/7");
  Find();
  EXPECT_EQ(vgpu().user->vm_name, "a\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace turnstile_smi
