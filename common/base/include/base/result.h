// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Errors as values. A function that only acts returns Status; one that produces something returns
// Result<T>. Both are [[nodiscard]]: an error can be ignored only on purpose.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace base {

// clang-format off
enum class [[nodiscard]] Status : uint8_t {
  kOk = 0,
  kInvalidArgument,  // malformed, whatever the state is
  kNoMemory,         // an allocation failed
  kNoSpace,          // a fixed capacity is used up
  kNotFound,
  kExists,
  kBusy,   // somebody else holds it; retrying now is useless
  kFault,  // an address does not translate
  kPermission,
  kOutOfRange,
  kNotSupported,
  kTimeout,
  kIo,     // the hardware reported a failure
  kAgain,  // try again: nothing was done
  kCancelled,
};
// clang-format on

inline constexpr size_t kStatusCount = static_cast<size_t>(Status::kCancelled) + 1;

// The name in the log, e.g. "no-memory". Never null; an invalid value gives "unknown".
constexpr const char* StatusName(Status status) {
  switch (status) {
    case Status::kOk: return "ok";
    case Status::kInvalidArgument: return "invalid-argument";
    case Status::kNoMemory: return "no-memory";
    case Status::kNoSpace: return "no-space";
    case Status::kNotFound: return "not-found";
    case Status::kExists: return "exists";
    case Status::kBusy: return "busy";
    case Status::kFault: return "fault";
    case Status::kPermission: return "permission";
    case Status::kOutOfRange: return "out-of-range";
    case Status::kNotSupported: return "not-supported";
    case Status::kTimeout: return "timeout";
    case Status::kIo: return "io";
    case Status::kAgain: return "again";
    case Status::kCancelled: return "cancelled";
  }
  return "unknown";
}

template <typename T>
class Result;

namespace internal {

// What a Result<T> holding a value can be made of: not itself, and not what means an error.
template <typename U, typename T>
concept MakesValue =
    std::is_constructible_v<T, U> && !std::is_same_v<std::remove_cvref_t<U>, Result<T>> &&
    !std::is_same_v<std::remove_cvref_t<U>, Status>;

}  // namespace internal

// A T, or the Status that says why there is none. T may be move-only; for a reference use T*.
//
//   Result<UniquePtr<Channel>> channel = Channel::Create(id);
//   if (!channel.ok()) return channel.status();
//   (*channel)->Enable();
template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_void_v<T>, "use T*, or plain Status");
  static_assert(!std::is_same_v<std::remove_cv_t<T>, Status>, "return plain Status");

 public:
  using ValueType = T;

  // From an error. kOk is no error: passing it is a bug and traps.
  constexpr Result(Status error) : status_(error) { TS_CHECK(error != Status::kOk); }

  // From anything that T can be made of.
  template <internal::MakesValue<T> U = T>
  constexpr explicit(!std::is_convertible_v<U&&, T>) Result(U&& value)
      : value_(std::in_place, std::forward<U>(value)) {}

  constexpr bool ok() const { return status_ == Status::kOk; }
  constexpr Status status() const { return status_; }

  // The value. Calling these on an error is a bug and traps.
  constexpr T& value() & {
    TS_CHECK(ok());
    return *value_;
  }
  constexpr const T& value() const& {
    TS_CHECK(ok());
    return *value_;
  }
  constexpr T&& value() && {
    TS_CHECK(ok());
    return *std::move(value_);
  }
  constexpr T& operator*() & { return value(); }
  constexpr const T& operator*() const& { return value(); }
  constexpr T&& operator*() && { return std::move(*this).value(); }
  constexpr T* operator->() { return &value(); }
  constexpr const T* operator->() const { return &value(); }

  template <typename U>
  constexpr T value_or(U&& other) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(other));
  }

 private:
  std::optional<T> value_;
  Status status_ = Status::kOk;
};

constexpr Status ToStatus(Status status) { return status; }
template <typename T>
constexpr Status ToStatus(const Result<T>& result) {
  return result.status();
}

}  // namespace base

#define TS_INTERNAL_CONCAT2(a, b) a##b
#define TS_INTERNAL_CONCAT(a, b) TS_INTERNAL_CONCAT2(a, b)
#define TS_INTERNAL_TRY(temporary, declaration, ...) \
  auto temporary = (__VA_ARGS__);                    \
  if (!temporary.ok()) [[unlikely]]                  \
    return temporary.status();                       \
  declaration = *std::move(temporary)
#define TS_INTERNAL_TRY_STATUS(temporary, ...)                      \
  do {                                                              \
    const ::base::Status temporary = ::base::ToStatus(__VA_ARGS__); \
    if (temporary != ::base::Status::kOk) [[unlikely]]              \
      return temporary;                                             \
  } while (false)

// TS_TRY(auto page, AllocatePage());  declares `page`, or returns the error from this function.
// Two statements: inside an `if` without braces it does not compile, which is meant.
#define TS_TRY(declaration, ...) \
  TS_INTERNAL_TRY(TS_INTERNAL_CONCAT(ts_try_, __LINE__), declaration, __VA_ARGS__)

// TS_TRY_STATUS(mutex_.Init(kRankVgpu));  returns from this function unless it is kOk. Takes a
// Status or a Result<T> whose value is of no interest.
#define TS_TRY_STATUS(...) \
  TS_INTERNAL_TRY_STATUS(TS_INTERNAL_CONCAT(ts_status_, __LINE__), __VA_ARGS__)
