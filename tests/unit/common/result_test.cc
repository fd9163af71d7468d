// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/result.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/errno_map.h"
#include "base/unique_ptr.h"

namespace base {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Status::kInvalidArgument;
  return n / 2;
}

Result<int> Quarter(int n) {
  TS_TRY(const int half, Half(n));
  TS_TRY(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int n, bool& reached_end) {
  TS_TRY_STATUS(Half(n));
  TS_TRY_STATUS(Status::kOk);
  reached_end = true;
  return Status::kOk;
}

Result<UniquePtr<int>> MakeBoxed(int n) {
  TS_TRY(UniquePtr<int> box, MakeUnique<int>(n));
  return box;
}

TEST(ResultTest, HoldsValue) {
  const Result<int> result = Half(8);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.status(), Status::kOk);
  EXPECT_EQ(*result, 4);
  EXPECT_EQ(result.value(), 4);
}

TEST(ResultTest, HoldsError) {
  const Result<int> result = Half(7);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status(), Status::kInvalidArgument);
  EXPECT_EQ(result.value_or(-1), -1);
}

TEST(ResultTest, TryPassesValueOn) { EXPECT_EQ(*Quarter(12), 3); }

TEST(ResultTest, TryReturnsErrorOfFirstStep) {
  EXPECT_EQ(Quarter(3).status(), Status::kInvalidArgument);
}

TEST(ResultTest, TryReturnsErrorOfSecondStep) {
  EXPECT_EQ(Quarter(6).status(), Status::kInvalidArgument);
}

TEST(ResultTest, TryStatusContinuesWhenOk) {
  bool reached_end = false;
  EXPECT_EQ(CheckEven(2, reached_end), Status::kOk);
  EXPECT_TRUE(reached_end);
}

TEST(ResultTest, TryStatusReturnsErrorAndSkipsTheRest) {
  bool reached_end = false;
  EXPECT_EQ(CheckEven(1, reached_end), Status::kInvalidArgument);
  EXPECT_FALSE(reached_end);
}

TEST(ResultTest, CarriesMoveOnlyValue) {
  Result<UniquePtr<int>> result = MakeBoxed(5);
  ASSERT_TRUE(result.ok());
  const UniquePtr<int> box = *std::move(result);
  EXPECT_EQ(*box, 5);
}

TEST(ResultTest, ArrowReachesMembers) {
  Result<std::string> result(std::string("abc"));
  EXPECT_EQ(result->size(), 3u);
}

TEST(ResultTest, WorksAtCompileTime) {
  static constexpr Result<int> kResult(3);
  static_assert(kResult.ok() && *kResult == 3);
  static_assert(!Result<int>(Status::kBusy).ok());
}

TEST(ResultDeathTest, ValueOfErrorTraps) {
  EXPECT_DEATH(static_cast<void>(Half(7).value()), "bug: ok\\(\\)");
}

TEST(ResultDeathTest, ErrorFromOkTraps) {
  EXPECT_DEATH(static_cast<void>(Result<int>(Status::kOk)), "error != Status::kOk");
}

TEST(StatusTest, EveryStatusHasItsOwnName) {
  std::set<std::string> names;
  for (size_t i = 0; i < kStatusCount; ++i) names.insert(StatusName(static_cast<Status>(i)));
  EXPECT_EQ(names.size(), 15u);
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(StatusTest, InvalidValueIsNamedUnknown) {
  EXPECT_STREQ(StatusName(static_cast<Status>(200)), "unknown");
}

TEST(ErrnoTest, StatusBecomesNegativeLinuxErrno) {
  EXPECT_EQ(StatusToErrno(Status::kOk), 0);
  EXPECT_EQ(StatusToErrno(Status::kInvalidArgument), -22);
  EXPECT_EQ(StatusToErrno(Status::kNoMemory), -12);
  EXPECT_EQ(StatusToErrno(Status::kNoSpace), -28);
  EXPECT_EQ(StatusToErrno(Status::kExists), -17);
  EXPECT_EQ(StatusToErrno(Status::kTimeout), -110);
}

TEST(ErrnoTest, EveryStatusSurvivesTheRoundTrip) {
  for (size_t i = 0; i < kStatusCount; ++i) {
    const auto status = static_cast<Status>(i);
    EXPECT_EQ(StatusFromErrno(StatusToErrno(status)), status) << StatusName(status);
  }
}

TEST(ErrnoTest, UnlistedErrnoIsIo) { EXPECT_EQ(StatusFromErrno(-71), Status::kIo); }

TEST(ErrnoTest, CountFromCFunctionIsOk) { EXPECT_EQ(StatusFromErrno(17), Status::kOk); }

}  // namespace
}  // namespace base
