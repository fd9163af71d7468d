// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/channel/runlist.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "fakes/allocation_limit.h"

namespace turnstile {
namespace {

using Entry = std::array<uint32_t, 4>;

Entry Tsg(uint32_t id, uint32_t length, uint32_t gfid = 0) {
  return {0x80030001u | gfid << 4, length, id, 0};
}
Entry Chan(uint32_t chid) { return {0, 0, chid, 0}; }

struct Parsed {
  base::Status status;
  SoftwareRunlist list;
};

Parsed Parse(const std::vector<Entry>& entries, uint32_t channels = 256) {
  RunlistParser parser;
  EXPECT_EQ(parser.Init(channels), base::Status::kOk);
  Parsed parsed{base::Status::kOk, {}};
  for (const Entry& entry : entries) {
    parsed.status = parser.Feed(entry.data());
    if (parsed.status != base::Status::kOk) break;
  }
  if (parsed.status == base::Status::kOk) parsed.status = parser.Finish();
  parsed.list = parser.Take();
  return parsed;
}

TEST(RunlistParserTest, KeepsIdsAndTimeslice) {
  const Parsed parsed = Parse({Tsg(7, 2), Chan(3), Chan(4)});
  ASSERT_EQ(parsed.status, base::Status::kOk);
  ASSERT_EQ(parsed.list.tsgs().size(), 1u);
  EXPECT_EQ(parsed.list.tsgs()[0].tsgid, 7);
  EXPECT_EQ(parsed.list.tsgs()[0].timeslice_timeout, 128);
  EXPECT_EQ(parsed.list.tsgs()[0].timeslice_scale, 3);
  EXPECT_EQ(parsed.list.chids()[0], 3);
  EXPECT_EQ(parsed.list.chids()[1], 4);
  EXPECT_EQ(parsed.list.entries(), 3u);
}

TEST(RunlistParserTest, EmptyListIsGood) { EXPECT_EQ(Parse({}).status, base::Status::kOk); }

TEST(RunlistParserTest, ListEndsBeforeTheBadTsg) {
  const Parsed parsed = Parse({Tsg(1, 1), Chan(1), Tsg(2, 2), Chan(2), Chan(1)});
  EXPECT_EQ(parsed.status, base::Status::kInvalidArgument);
  EXPECT_EQ(parsed.list.tsgs().size(), 1u);
  EXPECT_EQ(parsed.list.chids().size(), 1u);
}

TEST(RunlistParserTest, TsgCutShortIsDropped) {
  const Parsed parsed = Parse({Tsg(1, 2), Chan(1)});
  EXPECT_EQ(parsed.status, base::Status::kInvalidArgument);
  EXPECT_TRUE(parsed.list.empty());
}

TEST(RunlistParserTest, LengthZeroAndAbove128AreBad) {
  EXPECT_EQ(Parse({Tsg(1, 0)}).status, base::Status::kInvalidArgument);
  EXPECT_EQ(Parse({Tsg(1, 129)}).status, base::Status::kInvalidArgument);
}

TEST(RunlistParserTest, ChannelOutsideATsgIsBad) {
  EXPECT_EQ(Parse({Chan(1)}).status, base::Status::kInvalidArgument);
}

TEST(RunlistParserTest, HeaderInsideATsgIsBad) {
  EXPECT_EQ(Parse({Tsg(1, 2), Chan(1), Tsg(2, 1), Chan(2)}).status, base::Status::kInvalidArgument);
}

TEST(RunlistParserTest, ForeignIdsAreBad) {
  EXPECT_EQ(Parse({Tsg(1, 1), Chan(256)}).status, base::Status::kInvalidArgument);
  EXPECT_EQ(Parse({Tsg(256, 1), Chan(1)}).status, base::Status::kInvalidArgument);
}

TEST(RunlistParserTest, OtherFunctionsAreBad) {
  EXPECT_EQ(Parse({Tsg(1, 1, 5), Chan(1)}).status, base::Status::kInvalidArgument);
}

// Memory may give out at any entry: no header may promise channels that are not there.
TEST(RunlistParserTest, ListIsWholeWhereverMemoryGivesOut) {
  const std::vector<Entry> entries = {Tsg(1, 2), Chan(1), Chan(2), Tsg(2, 3),
                                      Chan(3),   Chan(4), Chan(5)};
  for (size_t nth = 1; nth < 20; ++nth) {
    RunlistParser parser;
    ASSERT_EQ(parser.Init(256), base::Status::kOk);
    const fakes::AllocationFailure failure(nth);
    base::Status status = base::Status::kOk;
    for (const Entry& entry : entries) {
      status = parser.Feed(entry.data());
      if (status != base::Status::kOk) break;
    }
    const SoftwareRunlist list = parser.Take();
    size_t promised = 0;
    for (const SoftwareRunlist::Tsg& tsg : list.tsgs()) promised += tsg.length;
    EXPECT_EQ(promised, list.chids().size()) << "allocation " << nth;
    EXPECT_EQ(status == base::Status::kOk, promised == 5u);
    if (!failure.reached()) return;
  }
  FAIL() << "there is no end of allocations";
}

TEST(RunlistEntryTest, TsgHeaderCarriesFunctionAndPhysicalId) {
  SoftwareRunlist::Tsg tsg;
  tsg.tsgid = 7;
  tsg.timeslice_scale = 3;
  tsg.timeslice_timeout = 128;
  tsg.length = 2;
  uint32_t words[4];
  MakeTsgEntry(tsg, 5, 0x807, words);
  EXPECT_EQ(words[0], 0x80030051u);
  EXPECT_EQ(words[1], 2u);
  EXPECT_EQ(words[2], 0x807u);
  EXPECT_EQ(words[3], 0u);
}

TEST(RunlistEntryTest, TimesliceIsBounded) {
  SoftwareRunlist::Tsg tsg;
  tsg.length = 1;
  uint32_t words[4];
  tsg.timeslice_scale = 15;
  tsg.timeslice_timeout = 255;  // 8.5 s
  MakeTsgEntry(tsg, 1, 0, words);
  EXPECT_EQ(words[0], 0x80050011u);  // 4.2 ms
  tsg.timeslice_scale = 0;
  tsg.timeslice_timeout = 0;
  MakeTsgEntry(tsg, 1, 0, words);
  EXPECT_EQ(words[0], 0x80010011u);  // 0.26 ms
  tsg.timeslice_scale = 3;
  tsg.timeslice_timeout = 200;
  MakeTsgEntry(tsg, 1, 0, words);
  EXPECT_EQ(words[0], 0xc8030011u);
}

TEST(RunlistEntryTest, ChannelEntryCarriesInstanceAndUserd) {
  ChannelPointers pointers;
  pointers.instance = 0x12'3456'7000;
  pointers.userd = 0x9a'bcde'f200;
  pointers.userd_system = true;
  uint32_t words[4];
  MakeChannelEntry(0x803, pointers, words);
  EXPECT_EQ(words[0], 0xbcdef2a0u);  // USERD, both targets SYS_COH
  EXPECT_EQ(words[1], 0x9au);
  EXPECT_EQ(words[2], 0x34567803u);
  EXPECT_EQ(words[3], 0x12u);
}

}  // namespace
}  // namespace turnstile
