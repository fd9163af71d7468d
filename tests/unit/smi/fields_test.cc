// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fields.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace turnstile_smi {
namespace {

// As debugfs and the tracepoint print it.
constexpr char kSlice[] =
    "runlist=0 time_ns=3000 run_ns=900 target_ns=1000 function=2 preemptions=4 start_ns=2000 "
    "total_run_ns=12345";

TEST(Fields, AreWhatStandsAroundTheFirstEqualsSign) {
  const Fields fields("access=read offset=0x30 odd==1 lone  size=4");
  EXPECT_EQ(fields.Text("access"), "read");
  EXPECT_EQ(fields.Text("odd"), "=1");
  EXPECT_EQ(fields.Text("lone"), "");
  EXPECT_EQ(fields.all().size(), 4u);
}

TEST(Fields, NumbersAreDecimalOrHexadecimal) {
  const Fields fields("a=17 b=0x1F c=0x d=0xfg e=-1 f=");
  EXPECT_EQ(fields.Number("a"), 17u);
  EXPECT_EQ(fields.Number("b"), 31u);
  for (const char* name : {"c", "d", "e", "f", "g"}) {
    EXPECT_EQ(fields.Number(name), std::nullopt) << name;
  }
}

TEST(ParseSlice, ReadsWhatTheDriverPrints) {
  const auto slice = ParseSlice(Fields(kSlice));
  ASSERT_TRUE(slice);
  EXPECT_EQ(slice->runlist, 0u);
  EXPECT_EQ(slice->function, 2u);
  EXPECT_EQ(slice->start_ns, 2000u);
  EXPECT_EQ(slice->end_ns, 3000u);
  EXPECT_EQ(slice->run_ns, 900u);
  EXPECT_EQ(slice->target_ns, 1000u);
  EXPECT_EQ(slice->total_run_ns, 12345u);
}

TEST(ParseSlice, IsNothingWithoutOneOfItsFields) {
  for (const std::string name :
       {"runlist", "time_ns", "run_ns", "target_ns", "function", "start_ns", "total_run_ns"}) {
    std::string line = std::string(" ") + kSlice;
    line.replace(line.find(" " + name + "="), name.size() + 1, " x");
    EXPECT_FALSE(ParseSlice(Fields(line))) << line;
  }
}

TEST(ParseSlice, IsNothingOnAnUnknownRunlistOrBackwardsInTime) {
  std::string line = kSlice;
  line.replace(line.find("runlist=0"), 9, "runlist=3");
  EXPECT_FALSE(ParseSlice(Fields(line)));
  line = kSlice;
  line.replace(line.find("time_ns=3000"), 12, "time_ns=1999");
  EXPECT_FALSE(ParseSlice(Fields(line)));
}

TEST(ParseSlices, LeavesOutWhatIsNone) {
  EXPECT_EQ(ParseSlices(std::string(kSlice) + "\n\nrunlist=0\n" + kSlice).size(), 2u);
}

// A text of tracefs: one CPU, 3 of 5 events kept.
constexpr char kTrace[] =
    "# tracer: nop\n"
    "#\n"
    "# entries-in-buffer/entries-written: 3/5   #P:1\n"
    "#\n"
    "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
    "            bash-12      [000] .....    33.000001: turnstile_vgpu_open: vgpu=u-1 error=0\n"
    "  CPU 0/TCG: x-4711      [001] d..1.  1234.567890: turnstile_wake: gpu=0000:00:10.0 vgpu=u-1 "
    "function=1 by=doorbell\n"
    "            bash-12      [000] .....    35.5: turnstile_wake: vgpu=u-1\n"
    "            bash-12      [000] .....    36.000000: sched_wakeup: comm=turnstile_\n";

TEST(ParseTrace, ReadsEventsOfTheDriver) {
  const TraceText trace = ParseTrace(kTrace);
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].name, "vgpu_open");
  EXPECT_EQ(trace.events[0].time_ns, 33'000'001'000u);
  EXPECT_EQ(trace.events[0].fields.Text("vgpu"), "u-1");
  EXPECT_EQ(trace.events[1].name, "wake");
  EXPECT_EQ(trace.events[1].time_ns, 1'234'567'890'000u);
  EXPECT_EQ(trace.events[1].fields.Text("by"), "doorbell");
}

TEST(ParseTrace, CountsWhatWasOverwritten) { EXPECT_EQ(ParseTrace(kTrace).lost, 2u); }

}  // namespace
}  // namespace turnstile_smi
