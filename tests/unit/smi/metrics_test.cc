// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text.h"

namespace turnstile_smi {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// One vGPU on one GPU.
Host OneVgpu() {
  Host host;
  Gpu gpu;
  gpu.address = "0000:00:10.0";
  gpu.pci_id = "1234:7510";
  gpu.policy = "weighted";
  gpu.vram_bytes = 1 << 30;
  Vgpu vgpu;
  vgpu.uuid = "u";
  vgpu.type = "turnstile-ts104_v4";
  vgpu.state = State::kActive;
  vgpu.user = User{7, "qemu", "alpha", ""};
  vgpu.accounts[kGr].run_ns = 1500000001;
  vgpu.pages_pinned = 3;
  gpu.vgpus = {vgpu};
  host.gpus = {gpu};
  return host;
}

TEST(EscapeLabel, QuotesAndBackslashesAndNewlines) {
  EXPECT_EQ(EscapeLabel("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
}

TEST(Metrics, ACounterHasItsTypeUnitHelpAndSample) {
  EXPECT_THAT(
      OpenMetrics(HostMetrics(OneVgpu())),
      HasSubstr("# TYPE turnstile_vgpu_engine_run_seconds counter\n"
                "# UNIT turnstile_vgpu_engine_run_seconds seconds\n"
                "# HELP turnstile_vgpu_engine_run_seconds Time that the vGPU ran on the engine.\n"
                "turnstile_vgpu_engine_run_seconds_total{pci_bus_id=\"0000:00:10.0\","
                "mdev_uuid=\"u\",mdev_type=\"turnstile-ts104_v4\",vm_name=\"alpha\","
                "engine=\"gr\"} 1.500000001\n"));
}

TEST(Metrics, PagesAreBytes) {
  EXPECT_THAT(OpenMetrics(HostMetrics(OneVgpu())), HasSubstr("vm_name=\"alpha\"} 12288\n"));
}

TEST(Metrics, EndsAsOpenMetricsDoes) {
  EXPECT_THAT(OpenMetrics(HostMetrics(OneVgpu())), EndsWith("# EOF\n"));
}

TEST(Metrics, WhatIsNotKnownHasNoSample) {
  Host host = OneVgpu();
  host.gpus[0].vgpus[0].user.reset();
  host.gpus[0].vgpus[0].state = State::kUnknown;
  EXPECT_THAT(OpenMetrics(HostMetrics(host)), Not(HasSubstr("turnstile_vgpu_open{")));
  EXPECT_THAT(OpenMetrics(HostMetrics(host)),
              Not(HasSubstr("turnstile_vgpu_share_ordered_ratio{")));
}

TEST(Printable, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(Printable("a\x1B[2Jb\n\x7F\xC3\xA4"), "a?[2Jb??\xC3\xA4");
}

}  // namespace
}  // namespace turnstile_smi
