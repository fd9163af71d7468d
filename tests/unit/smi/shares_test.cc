// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "shares.h"

#include <gtest/gtest.h>

namespace turnstile_smi {
namespace {

Vgpu Active(uint64_t weight, uint64_t cap = 100, const std::string& type = "turnstile-ts104_v4") {
  Vgpu vgpu;
  vgpu.uuid = std::to_string(weight);
  vgpu.type = type;
  vgpu.weight = weight;
  vgpu.cap_percent = cap;
  vgpu.state = State::kActive;
  return vgpu;
}

Gpu MakeGpu(const std::string& policy, std::vector<Vgpu> vgpus) {
  Gpu gpu;
  gpu.policy = policy;
  gpu.types.resize(2);
  gpu.types[0].id = "turnstile-ts104_v4";
  gpu.types[0].max_instances = 4;
  gpu.types[1].id = "turnstile-ts104_v16";
  gpu.types[1].max_instances = 16;
  gpu.vgpus = std::move(vgpus);
  return gpu;
}

std::vector<double> Ordered(Gpu gpu) {
  SetShares(gpu);
  std::vector<double> shares;
  for (const Vgpu& vgpu : gpu.vgpus) shares.push_back(vgpu.share_ordered.value_or(-1));
  return shares;
}

TEST(ShareOrdered, BestEffortOrdersNone) {
  EXPECT_EQ(Ordered(MakeGpu("best_effort", {Active(100), Active(300)})),
            (std::vector<double>{-1, -1}));
}

TEST(ShareOrdered, EqualShareIsOneOverTheirNumber) {
  EXPECT_EQ(Ordered(MakeGpu("equal_share", {Active(100), Active(300)})),
            (std::vector<double>{0.5, 0.5}));
}

TEST(ShareOrdered, FixedShareIsTheTypes) {
  EXPECT_EQ(Ordered(MakeGpu("fixed_share", {Active(1), Active(1, 100, "turnstile-ts104_v16")})),
            (std::vector<double>{0.25, 0.0625}));
}

TEST(ShareOrdered, WeightedIsByWeight) {
  EXPECT_EQ(Ordered(MakeGpu("weighted", {Active(100), Active(300)})),
            (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(Ordered(MakeGpu("latency", {Active(100), Active(300)})),
            (std::vector<double>{0.25, 0.75}));
}

TEST(ShareOrdered, WhatACapLeavesGoesToTheOthers) {
  EXPECT_EQ(Ordered(MakeGpu("weighted", {Active(100), Active(200, 50), Active(100)})),
            (std::vector<double>{0.25, 0.5, 0.25}));
  EXPECT_EQ(Ordered(MakeGpu("weighted", {Active(100), Active(600, 50), Active(100)})),
            (std::vector<double>{0.25, 0.5, 0.25}));
}

TEST(ShareOrdered, CapsOfAllLeaveTheGpuIdle) {
  EXPECT_EQ(Ordered(MakeGpu("weighted", {Active(100, 25), Active(100, 25)})),
            (std::vector<double>{0.25, 0.25}));
}

TEST(ShareOrdered, WhoIsNotActiveTakesNoPart) {
  Vgpu open = Active(100);
  open.state = State::kOpen;
  Vgpu unused = Active(100);
  unused.state = State::kUnused;
  EXPECT_EQ(Ordered(MakeGpu("weighted", {Active(100), open, unused})),
            (std::vector<double>{1, -1, -1}));
}

TEST(ShareOrdered, WhoMayBeActiveTakesPart) {
  Vgpu unknown = Active(100);
  unknown.state = State::kUnknown;
  Vgpu in_use = Active(100);
  in_use.state = State::kInUse;
  EXPECT_EQ(Ordered(MakeGpu("equal_share", {unknown, in_use})), (std::vector<double>{0.5, 0.5}));
}

TEST(ShareMeasured, IsOfWhatAllHad) {
  Gpu gpu = MakeGpu("weighted", {Active(1), Active(2)});
  gpu.vgpus[0].accounts[kGr].run_ns = 30;
  gpu.vgpus[1].accounts[kGr].run_ns = 10;
  SetShares(gpu);
  EXPECT_EQ(gpu.vgpus[0].share_measured, 0.75);
  EXPECT_EQ(gpu.vgpus[1].share_measured, 0.25);
}

TEST(ShareMeasured, IsNoneBeforeAnybodyRan) {
  Gpu gpu = MakeGpu("weighted", {Active(1)});
  SetShares(gpu);
  EXPECT_FALSE(gpu.vgpus[0].share_measured);
}

class UsageTest : public testing::Test {
 protected:
  UsageTest() {
    before_.time_ns = 1000;
    before_.gpus = {MakeGpu("weighted", {Active(1), Active(2)})};
    before_.gpus[0].vgpus[0].accounts[kGr].run_ns = 100;
    now_ = before_;
    now_.time_ns = 2000;
  }
  Vgpu& vgpu(size_t index) { return now_.gpus[0].vgpus[index]; }

  Host before_;
  Host now_;
};

TEST_F(UsageTest, IsWhatRanOfTheTimeBetween) {
  vgpu(0).accounts[kGr].run_ns = 700;
  vgpu(1).accounts[kGr].run_ns = 200;
  vgpu(1).accounts[2].run_ns = 500;
  SetUsage(before_, now_);
  EXPECT_DOUBLE_EQ(vgpu(0).usage->engines[kGr], 0.6);
  EXPECT_DOUBLE_EQ(*vgpu(0).usage->share, 0.75);
  EXPECT_DOUBLE_EQ(vgpu(1).usage->engines[2], 0.5);
  EXPECT_DOUBLE_EQ(vgpu(1).usage->seconds, 1e-6);
  EXPECT_DOUBLE_EQ(*Utilisation(now_.gpus[0], kGr), 0.8);
}

TEST_F(UsageTest, HasNoShareWhenNobodyRan) {
  SetUsage(before_, now_);
  EXPECT_EQ(vgpu(0).usage->engines[kGr], 0);
  EXPECT_FALSE(vgpu(0).usage->share);
}

TEST_F(UsageTest, OfAVgpuThatIsNewIsNotKnown) {
  before_.gpus[0].vgpus.pop_back();
  SetUsage(before_, now_);
  EXPECT_TRUE(vgpu(0).usage);
  EXPECT_FALSE(vgpu(1).usage);
}

TEST_F(UsageTest, OfAUuidMadeAnewBeginsAtZero) {
  vgpu(0).accounts[kGr].run_ns = 50;
  SetUsage(before_, now_);
  EXPECT_DOUBLE_EQ(vgpu(0).usage->engines[kGr], 0.05);
}

TEST_F(UsageTest, IsNeverMoreThanAll) {
  vgpu(0).accounts[kGr].run_ns = 1300;
  vgpu(1).accounts[kGr].run_ns = 400;
  SetUsage(before_, now_);
  EXPECT_EQ(vgpu(0).usage->engines[kGr], 1);
  EXPECT_EQ(*Utilisation(now_.gpus[0], kGr), 1);
}

TEST_F(UsageTest, OfAGpuWithoutVgpusIsZero) {
  EXPECT_FALSE(Utilisation(now_.gpus[0], kGr));
  now_.gpus[0].vgpus.clear();
  SetUsage(before_, now_);
  EXPECT_EQ(Utilisation(now_.gpus[0], kGr), 0.0);
}

}  // namespace
}  // namespace turnstile_smi
