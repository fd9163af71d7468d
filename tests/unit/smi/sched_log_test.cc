// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sched_log.h"

#include <gtest/gtest.h>

#include <string>

#include "orphans.h"
#include "reader.h"
#include "tree.h"

namespace turnstile_smi {
namespace {

constexpr char kSlices[] = "/sys/kernel/debug/turnstile/0000:00:10.0/slices";
constexpr char kUuid[] = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a02";

// The tree's host: function 1 is alpha's, function 2 that of ts104-run.
class LogTest : public testing::Test {
 protected:
  LogTest() { tree_.Unpack("first.tree"); }
  Host Read() const { return ReadHost(Files(tree_.root())); }
  std::vector<SliceLog> Logs() const {
    return {ReadSliceLog(Files(tree_.root()), Read().gpus.at(0))};
  }

  Tree tree_;
};

TEST_F(LogTest, TurnsCountBackFromTheLastOfTheirRunlist) {
  tree_.Write(kSlices,
              "runlist=0 time_ns=5000000 run_ns=900000 target_ns=1000000 function=2 "
              "preemptions=0 start_ns=4000000 total_run_ns=1\n"
              "runlist=0 time_ns=7500000 run_ns=0 target_ns=2000000 function=7 preemptions=0 "
              "start_ns=5000000 total_run_ns=1\n");
  EXPECT_EQ(
      ToText(Logs(), Read()),
      "GPU 0000:00:10.0\n"
      "      began  engine  vGPU                                  VM               turn   planned"
      "       ran\n"
      "  -3.500 ms  gr      6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a02  (ts104-run)  1.000 ms  1.000 ms"
      "  0.900 ms\n"
      "  -2.500 ms  gr      function 7, gone                      -            2.500 ms  2.000 ms"
      "  0.000 ms\n");
}

TEST_F(LogTest, DocumentHasTheTurnsAsTheyAre) {
  tree_.Write(kSlices,
              "runlist=1 time_ns=5000000 run_ns=900000 target_ns=1000000 function=2 "
              "preemptions=0 start_ns=4000000 total_run_ns=1\n");
  const Json slice = ToJson(Logs(), Read())["gpus"][0]["slices"][0];
  EXPECT_EQ(slice["engine"], "ce2");
  EXPECT_EQ(slice["mdev_uuid"], kUuid);
  EXPECT_EQ(slice["start_ns"], 4000000);
  EXPECT_EQ(slice["end_ns"], 5000000);
}

TEST_F(LogTest, NoTurnYetIsSaid) {
  tree_.Write(kSlices, "");
  EXPECT_EQ(ToText(Logs(), Read()), "GPU 0000:00:10.0\n  no turn has ended yet\n");
}

TEST_F(LogTest, OpenVgpusAreNoOrphans) {
  EXPECT_TRUE(FindOrphans(Files(tree_.root()), Read()).empty());
}

TEST_F(LogTest, VgpuThatNobodyHasOpenIsAnOrphan) {
  tree_.Remove("/proc/199");
  const Files files(tree_.root());
  const auto orphans = FindOrphans(files, Read());
  ASSERT_EQ(orphans.size(), 1u);
  EXPECT_EQ(orphans[0].uuid, kUuid);
  EXPECT_EQ(orphans[0].gpu, "0000:00:10.0");
  EXPECT_EQ(orphans[0].vram_bytes, 128ull << 20);
  EXPECT_EQ(orphans[0].start, "");
}

TEST_F(LogTest, OrphanSaysHowMdevctlStartsIt) {
  tree_.Remove("/proc/199");
  const std::string path = std::string("/etc/mdevctl.d/0000:00:10.0/") + kUuid;
  const Files files(tree_.root());
  tree_.Write(path, R"({"start": "auto"})");
  EXPECT_EQ(FindOrphans(files, Read()).at(0).start, "auto");
  tree_.Write(path, R"({"start": "manual"})");
  EXPECT_EQ(FindOrphans(files, Read()).at(0).start, "manual");
}

TEST_F(LogTest, WhoseUserIsNotKnownIsNoOrphan) {
  tree_.Remove("/proc");
  EXPECT_TRUE(FindOrphans(Files(tree_.root()), Read()).empty());
}

}  // namespace
}  // namespace turnstile_smi
