// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// On what was read in the lab: a v4 open in a QEMU named alpha, a v8 on which ts104-run computes.
#include "reader.h"

#include <gtest/gtest.h>

#include "shares.h"
#include "tree.h"

namespace turnstile_smi {
namespace {

constexpr char kUuidVm[] = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01";
constexpr char kUuidRun[] = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a02";
constexpr char kGpu[] = "/sys/devices/pci0000:00/0000:00:10.0";

class ReaderTest : public testing::Test {
 protected:
  ReaderTest() { tree_.Unpack("first.tree"); }
  Host Read() { return ReadHost(Files(tree_.root())); }

  Tree tree_;
};

TEST_F(ReaderTest, FindsTheGpu) {
  const Host host = Read();
  EXPECT_TRUE(host.driver_loaded);
  EXPECT_TRUE(host.notes.empty());
  ASSERT_EQ(host.gpus.size(), 1u);
  const Gpu& gpu = host.gpus[0];
  EXPECT_EQ(gpu.address, "0000:00:10.0");
  EXPECT_EQ(gpu.pci_id, "1234:7510");
  EXPECT_FALSE(gpu.lost);
  EXPECT_EQ(gpu.vram_bytes, 1073741824u);
  EXPECT_EQ(gpu.policy, "weighted");
  const std::vector<std::pair<std::string, uint64_t>> numbers = {
      {"arr", 1},          {"frequency_hz", 0}, {"averaging_factor", 33},
      {"timeslice_us", 0}, {"hold_us", 150},    {"ctxsw_timeout_ms", 500},
      {"strict", 0}};
  EXPECT_EQ(gpu.numbers, numbers);
}

TEST_F(ReaderTest, ListsTypesFromTheLargestOn) {
  const Host host = Read();
  const std::vector<VgpuType>& types = host.gpus[0].types;
  ASSERT_EQ(types.size(), 5u);
  EXPECT_EQ(types[0].id, "turnstile-ts104_v1");
  EXPECT_EQ(types[0].available, 0u);
  EXPECT_EQ(types[2].id, "turnstile-ts104_v4");
  EXPECT_EQ(types[2].name, "Turnstile TS104-4");
  EXPECT_EQ(types[2].vram_bytes, 268435456u);
  EXPECT_EQ(types[2].max_instances, 4u);
  EXPECT_EQ(types[2].channels, 1024u);
  EXPECT_EQ(types[2].available, 2u);
  EXPECT_EQ(types[4].id, "turnstile-ts104_v16");
  EXPECT_EQ(types[4].available, 10u);
}

TEST_F(ReaderTest, KnowsAVgpuAndTheVmThatHasItOpen) {
  const Host host = Read();
  ASSERT_EQ(host.gpus[0].vgpus.size(), 2u);
  const Vgpu& vgpu = host.gpus[0].vgpus[0];
  EXPECT_EQ(vgpu.uuid, kUuidVm);
  EXPECT_EQ(vgpu.type, "turnstile-ts104_v4");
  EXPECT_EQ(vgpu.vram_bytes, 268435456u);
  EXPECT_EQ(vgpu.weight, 100u);
  EXPECT_EQ(vgpu.cap_percent, 100u);
  EXPECT_EQ(vgpu.latency_us, 0u);
  EXPECT_EQ(vgpu.accounts[kGr].run_ns, 0u);
  EXPECT_EQ(vgpu.state, State::kOpen);
  ASSERT_TRUE(vgpu.user);
  EXPECT_EQ(vgpu.user->command, "qemu-system-x86_64");
  EXPECT_EQ(vgpu.user->vm_name, "alpha");
  EXPECT_EQ(vgpu.user->vm_uuid, "11111111-2222-3333-4444-555555555555");
  EXPECT_FALSE(vgpu.share_ordered);
  EXPECT_EQ(vgpu.share_measured, 0.0);
}

TEST_F(ReaderTest, KnowsWhoComputes) {
  const Host host = Read();
  const Vgpu& vgpu = host.gpus[0].vgpus[1];
  EXPECT_EQ(vgpu.uuid, kUuidRun);
  EXPECT_EQ(vgpu.weight, 300u);
  EXPECT_EQ(vgpu.state, State::kActive);
  ASSERT_TRUE(vgpu.user);
  EXPECT_EQ(vgpu.user->command, "ts104-run");
  EXPECT_EQ(vgpu.user->vm_name, "");
  EXPECT_EQ(vgpu.share_ordered, 1.0);
  EXPECT_EQ(vgpu.share_measured, 1.0);
}

TEST_F(ReaderTest, ReadsWhatTheDriverCounts) {
  const Host host = Read();
  const Vgpu& vgpu = host.gpus[0].vgpus[1];
  EXPECT_EQ(vgpu.function, 2u);
  EXPECT_EQ(vgpu.iommu_group, "8");
  EXPECT_EQ(vgpu.vfio_device, "vfio1");
  EXPECT_EQ(vgpu.accounts[kGr].run_ns, 10729923460u);
  EXPECT_EQ(vgpu.accounts[1].run_ns, 0u);
  EXPECT_EQ(vgpu.gpu_time_ns, 10723325540u);
  EXPECT_EQ(vgpu.submissions, 1u);
  EXPECT_EQ(vgpu.csr_exits_total, 345u);
  EXPECT_EQ(vgpu.interrupts_injected, 201u);
  EXPECT_EQ(vgpu.faults_forwarded, 0u);
  EXPECT_EQ(vgpu.pages_pinned, 0u);
  EXPECT_EQ(vgpu.memory_bytes, 51464u);
  ASSERT_EQ(vgpu.counters.size(), 19u);
  EXPECT_EQ(vgpu.counters.front().first, "csr_exits_total");
  EXPECT_EQ(vgpu.counters.front().second, 348u);
  EXPECT_EQ(vgpu.counters.back().first, "channels");
  EXPECT_EQ(vgpu.counters.back().second, 1u);
}

TEST_F(ReaderTest, TwoReadingsGiveUtilisation) {
  Host first = Read();
  tree_.Unpack("second.tree");
  Host second = Read();
  first.time_ns = 0;
  second.time_ns = 2750218554;
  SetUsage(first, second);
  EXPECT_EQ(second.gpus[0].vgpus[0].usage->engines[kGr], 0);
  EXPECT_NEAR(second.gpus[0].vgpus[1].usage->engines[kGr], 0.929363, 1e-6);
  EXPECT_EQ(second.gpus[0].vgpus[1].usage->share, 1.0);
}

TEST_F(ReaderTest, WithoutDebugfsAVgpuIsInUse) {
  tree_.Remove("/sys/kernel/debug");
  const Host host = Read();
  EXPECT_EQ(host.gpus[0].vgpus[0].state, State::kInUse);
  EXPECT_TRUE(host.gpus[0].vgpus[0].counters.empty());
  ASSERT_EQ(host.notes.size(), 1u);
  EXPECT_EQ(host.notes[0],
            "counters of debugfs and whether a guest has channels: /sys/kernel/debug/turnstile: No "
            "such file or directory");
}

TEST_F(ReaderTest, AGpuWhoseAttributesFailIsLost) {
  tree_.Remove(std::string(kGpu) + "/turnstile");
  const Host host = Read();
  EXPECT_TRUE(host.gpus[0].lost);
  ASSERT_EQ(host.notes.size(), 1u);
  EXPECT_EQ(
      host.notes[0],
      "GPU 0000:00:10.0 is gone or was reset (No such file or directory): bind its driver anew");
}

TEST_F(ReaderTest, AVgpuThatGoesWhileItIsReadIsLeftOut) {
  tree_.Remove(std::string(kGpu) + "/" + kUuidVm);
  const Host host = Read();
  ASSERT_EQ(host.gpus[0].vgpus.size(), 1u);
  EXPECT_EQ(host.gpus[0].vgpus[0].uuid, kUuidRun);
  EXPECT_TRUE(host.notes.empty());
}

TEST_F(ReaderTest, AnAttributeThatIsMissingIsNamed) {
  tree_.Remove(std::string(kGpu) + "/" + kUuidVm + "/turnstile/latency_us");
  const Host host = Read();
  EXPECT_EQ(host.gpus[0].vgpus.size(), 1u);
  ASSERT_EQ(host.notes.size(), 1u);
  EXPECT_EQ(
      host.notes[0],
      "vGPU 6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01: turnstile/latency_us cannot be read: is the "
      "driver another version?");
}

TEST_F(ReaderTest, AVgpuOfAnotherDriverIsNotShown) {
  tree_.Link("/sys/bus/mdev/devices/6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7aff",
             "../../../devices/virtual/mtty/mtty/6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7aff");
  EXPECT_EQ(Read().gpus[0].vgpus.size(), 2u);
}

TEST(ReadHost, WithoutTheDriverThereIsNothing) {
  Tree tree;
  const Host host = ReadHost(Files(tree.root()));
  EXPECT_FALSE(host.driver_loaded);
  EXPECT_TRUE(host.gpus.empty());
  EXPECT_TRUE(host.notes.empty());
}

}  // namespace
}  // namespace turnstile_smi
