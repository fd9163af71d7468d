// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "trace_json.h"

namespace turnstile_smi {
namespace {

constexpr char kGpu[] = "0000:00:10.0";

// A GPU with the vGPUs u-1, of the VM alpha, and u-2, which has no VM; functions 1 and 2.
class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    host_.gpus.emplace_back();
    host_.gpus[0].address = kGpu;
    for (const uint64_t number : {1, 2}) {
      Vgpu& vgpu = host_.gpus[0].vgpus.emplace_back();
      vgpu.uuid = fmt::format("u-{}", number);
      vgpu.function = number;
    }
    host_.gpus[0].vgpus[0].user = User{42, "qemu", "alpha", ""};
  }

  void Event(uint64_t time_ns, const char* name, const std::string& fields) {
    trace_.events.push_back({time_ns, name, Fields(fields)});
  }
  void Turn(uint64_t function, uint64_t start_ns, uint64_t end_ns, uint64_t runlist = 0) {
    Event(end_ns, "slice",
          fmt::format("gpu={} vgpu={} runlist={} function={} start_ns={} time_ns={} run_ns={} "
                      "target_ns=1000 total_run_ns=1 overshoot_ns=0 preemptions=0",
                      kGpu, function ? fmt::format("u-{}", function) : "-", runlist, function,
                      start_ns, end_ns, end_ns - start_ns));
  }
  Timeline Make() const { return MakeTimeline(host_, trace_); }
  static const Lane* Find(const Timeline& timeline, const std::string& owner,
                          const std::string& name) {
    for (const Lane& lane : timeline.lanes) {
      if (lane.owner == owner && lane.name == name) return &lane;
    }
    return nullptr;
  }
  // "NAME BEGIN-END" of each span.
  static std::vector<std::string> Spans(const Timeline& timeline, const std::string& owner,
                                        const std::string& name) {
    std::vector<std::string> spans;
    if (const Lane* lane = Find(timeline, owner, name)) {
      for (const Span& span : lane->spans) {
        spans.push_back(fmt::format("{} {}-{}", span.name, span.begin_ns, span.end_ns));
      }
    }
    return spans;
  }

  Host host_;
  TraceText trace_;
};

using Lines = std::vector<std::string>;

TEST_F(TimelineTest, EngineShowsWhoHadTheTurn) {
  Turn(1, 1000, 2000);
  Turn(2, 2000, 3000);
  Turn(0, 3000, 3500);
  EXPECT_EQ(Spans(Make(), "GPU 0000:00:10.0", "gr"),
            (Lines{"alpha u-1 1000-2000", "u-2 2000-3000", "idle 3000-3500"}));
}

TEST_F(TimelineTest, EnginesDoNotMix) {
  Turn(1, 1000, 2000, 0);
  Turn(1, 1500, 2500, 1);
  const Timeline timeline = Make();
  EXPECT_EQ(Spans(timeline, "vGPU alpha u-1", "gr"), Lines{"runs 1000-2000"});
  EXPECT_EQ(Spans(timeline, "vGPU alpha u-1", "ce2"), Lines{"runs 1500-2500"});
  EXPECT_EQ(timeline.refused, 0u);
}

TEST_F(TimelineTest, WhoHasWorkLeftWaitsUntilItsNextTurn) {
  Event(2000, "preempt", "gpu=0000:00:10.0 vgpu=u-1 runlist=0 function=1 next=2");
  Turn(1, 1000, 2000);
  Turn(2, 2000, 3000);
  Turn(1, 3000, 4000);
  Turn(2, 4000, 5000);
  Turn(1, 5000, 6000);
  EXPECT_EQ(Spans(Make(), "vGPU alpha u-1", "gr"),
            (Lines{"runs 1000-2000", "waits 2000-3000", "runs 3000-4000", "runs 5000-6000"}));
}

TEST_F(TimelineTest, WhoWasWokenWaitsFromThenOn) {
  Turn(1, 1000, 2000);
  Event(2500, "wake", "gpu=0000:00:10.0 vgpu=u-1 function=1 by=doorbell");
  Event(2600, "wake", "gpu=0000:00:10.0 vgpu=u-1 function=1 by=trap");
  Turn(1, 3000, 4000);
  Turn(1, 5000, 6000);
  EXPECT_EQ(Spans(Make(), "vGPU alpha u-1", "gr"),
            (Lines{"runs 1000-2000", "waits 2500-3000", "runs 3000-4000", "runs 5000-6000"}));
}

TEST_F(TimelineTest, WakeDuringATurnMakesNoWaitInIt) {
  Event(1500, "wake", "gpu=0000:00:10.0 vgpu=u-1 function=1 by=doorbell");
  Turn(1, 1000, 2000);
  EXPECT_EQ(Spans(Make(), "vGPU alpha u-1", "gr"), Lines{"runs 1000-2000"});
}

TEST_F(TimelineTest, OverlapIsRefusedAndCounted) {
  Turn(1, 1000, 2000);
  Turn(2, 1999, 3000);
  const Timeline timeline = Make();
  EXPECT_EQ(timeline.refused, 1u);
  EXPECT_EQ(Spans(timeline, "GPU 0000:00:10.0", "gr"), Lines{"alpha u-1 1000-2000"});
}

TEST_F(TimelineTest, EventsOfAVgpuAreOnLanesOfTheirKind) {
  Event(10, "irq_inject", "vgpu=u-2 kind=MSI-X vector=3 heard=1");
  Event(11, "csr_access", "vgpu=u-2 access=write region=0 offset=0x30 size=4 value=0x1");
  Event(12, "fault", "vgpu=u-2 type=2 engine=0 access=1 address=0x1000");
  Event(13, "vgpu_reset", "vgpu=u-2");
  const Timeline timeline = Make();
  const auto name = [&](const char* lane) {
    const Lane* found = Find(timeline, "vGPU u-2", lane);
    return found && found->marks.size() == 1 ? found->marks[0].name : "";
  };
  EXPECT_EQ(name("interrupts"), "MSI-X 3");
  EXPECT_EQ(name("exits"), "write 0:0x30");
  EXPECT_EQ(name("faults"), "fault");
  EXPECT_EQ(name("life"), "vgpu_reset");
  EXPECT_EQ(timeline.lanes.size(), 4u);
}

TEST_F(TimelineTest, VgpuThatIsMadeMeanwhileHasLanes) {
  Event(10, "vgpu_create", "vgpu=u-3 type=0 function=3 error=0");
  Turn(3, 1000, 2000);
  EXPECT_EQ(Spans(Make(), "vGPU u-3", "gr"), Lines{"runs 1000-2000"});
}

TEST_F(TimelineTest, WhatIsNotOfTheHostIsLeftOut) {
  Event(10, "irq_inject", "vgpu=u-9 kind=MSI vector=0 heard=1");
  Event(11, "switch", "gpu=0000:00:11.0 vgpu=u-1 runlist=0 from=0 to=1 entries=2");
  EXPECT_TRUE(Make().lanes.empty());
}

// What a viewer reads.
class ChromeTraceTest : public TimelineTest {
 protected:
  nlohmann::json Events(const char* phase) const {
    nlohmann::json found = nlohmann::json::array();
    const auto document = nlohmann::json::parse(ChromeTrace(Make()));
    for (const auto& event : document.at("traceEvents")) {
      if (event.at("ph") == phase) found.push_back(event);
    }
    return found;
  }
};

TEST_F(ChromeTraceTest, SpansAreCompleteEventsInMicroseconds) {
  Turn(1, 1'234'567'890'123, 1'234'567'891'124);
  const auto events = Events("X");
  ASSERT_EQ(events.size(), 2u);  // of the GPU and of the vGPU
  EXPECT_EQ(events[0]["name"], "alpha u-1");
  EXPECT_EQ(events[0]["ts"], 1'234'567'890.123);
  EXPECT_EQ(events[0]["dur"], 1.0);
  EXPECT_EQ(events[0]["args"]["run_ns"], 1001);
  EXPECT_EQ(events[1]["name"], "runs");
}

// 30556732.171 + 4105.582 is more than 30560837.753 in doubles.
TEST_F(ChromeTraceTest, SpansThatTouchDoNotOverlapForWhoAddsDoubles) {
  Turn(1, 30'556'732'171, 30'560'837'753);
  Turn(2, 30'560'837'753, 30'572'864'683);
  const auto events = Events("X");
  const double end = events[0]["ts"].get<double>() + events[0]["dur"].get<double>();
  EXPECT_LT(end, events[1]["ts"].get<double>());
}

TEST_F(ChromeTraceTest, EveryLaneIsAThreadWithANameInAProcessWithAName) {
  Turn(1, 1000, 2000);
  Event(10, "irq_inject", "vgpu=u-1 kind=MSI vector=0 heard=1");
  Lines names;
  for (const auto& event : Events("M")) {
    if (event["name"] == "process_name" || event["name"] == "thread_name") {
      names.push_back(fmt::format("{}.{} {}", event["pid"].get<int>(), event["tid"].get<int>(),
                                  event["args"]["name"].get<std::string>()));
    }
  }
  EXPECT_EQ(names, (Lines{"1.0 GPU 0000:00:10.0", "1.1 gr", "2.0 vGPU alpha u-1", "2.1 gr",
                          "2.2 interrupts"}));
}

TEST_F(ChromeTraceTest, MarksAreInstants) {
  Event(1500, "irq_inject", "vgpu=u-1 kind=MSI vector=0 heard=1");
  const auto events = Events("i");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["ts"], 1.5);
  EXPECT_EQ(events[0]["args"]["kind"], "MSI");
}

TEST_F(ChromeTraceTest, NamesOfVmsAreQuoted) {
  host_.gpus[0].vgpus[0].user->vm_name = "a\"b";
  Turn(1, 1000, 2000);
  EXPECT_EQ(Events("X")[0]["name"], "a\"b u-1");
}

TEST_F(ChromeTraceTest, SaysHowManyEventsWereLost) {
  trace_.lost = 7;
  EXPECT_EQ(nlohmann::json::parse(ChromeTrace(Make()))["otherData"]["lost_events"], 7);
}

}  // namespace
}  // namespace turnstile_smi
