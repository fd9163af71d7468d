// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "control.h"

#include <gtest/gtest.h>

#include "tree.h"

namespace turnstile_smi {
namespace {

const Target kGpu = {"0000:00:10.0", ""};
const Target kVgpu = {"", "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01"};

std::string ProblemOf(const std::string& text, const Target& target) {
  std::string problem;
  ParseSetting(text, target, problem);
  return problem;
}

TEST(ParseSetting, SplitsAtTheFirstEquals) {
  std::string problem;
  const Setting setting = ParseSetting("weight=200", kVgpu, problem);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(setting.name, "weight");
  EXPECT_EQ(setting.value, "200");
}

TEST(ParseSetting, NamesWhatThereIs) {
  EXPECT_EQ(ProblemOf("policy=weighted", kVgpu),
            "policy: a vGPU has no such setting; it has weight, cap_percent, latency_us");
  EXPECT_EQ(ProblemOf("weight=1", kGpu),
            "weight: a GPU has no such setting; it has policy, arr, frequency_hz, "
            "averaging_factor, timeslice_us, hold_us, ctxsw_timeout_ms, strict");
  EXPECT_EQ(ProblemOf("weight", kVgpu), "weight: write it as NAME=VALUE");
  EXPECT_EQ(ProblemOf("weight=", kVgpu), "weight=: write it as NAME=VALUE");
}

TEST(Apply, WritesTheAttribute) {
  Tree tree;
  const Files files(tree.root());
  tree.Write("/sys/bus/mdev/devices/" + kVgpu.uuid + "/turnstile/weight", "100\n");
  EXPECT_EQ(Apply(files, kVgpu, {"weight", "200"}), "");
  EXPECT_EQ(Current(files, kVgpu, "weight"), "200");
  tree.Write("/sys/bus/pci/devices/0000:00:10.0/turnstile/policy", "best_effort\n");
  EXPECT_EQ(Apply(files, kGpu, {"policy", "equal_share"}), "");
  EXPECT_EQ(Current(files, kGpu, "policy"), "equal_share");
}

// A file of this machine's kernel that takes numbers up to 1000 stands in for the attribute.
TEST(Apply, SaysWhatIsLegalWhenTheKernelRefuses) {
  Tree tree;
  tree.Link("/sys/bus/mdev/devices/" + kVgpu.uuid + "/turnstile/weight",
            "/proc/self/oom_score_adj");
  EXPECT_EQ(Apply(Files(tree.root()), kVgpu, {"weight", "20000"}),
            "vGPU 6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01: weight=20000 was refused: not legal: 1 to "
            "10000");
}

TEST(Apply, SaysThatTheVgpuIsGone) {
  Tree tree;
  EXPECT_EQ(
      Apply(Files(tree.root()), kVgpu, {"weight", "200"}),
      "vGPU 6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01: weight=200 was refused: it is not there any "
      "more");
}

}  // namespace
}  // namespace turnstile_smi
