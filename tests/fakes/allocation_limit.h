// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Memory that runs out when the test says so.
#pragma once

#include <cstddef>

namespace fakes {

// While it lives, this thread's first `allowed` nothrow allocations succeed and all later ones give
// null. Ordinary (throwing) new, which the test itself uses, is not touched. Do not nest.
//
// Looping `allowed` from 0 until the call under test succeeds walks every failure path it has.
class AllocationLimit {
 public:
  explicit AllocationLimit(size_t allowed);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

// While it lives, this thread's `nth` nothrow allocation, counted from 1, gives null; all others
// succeed. Do not nest.
class AllocationFailure {
 public:
  explicit AllocationFailure(size_t nth);
  ~AllocationFailure();
  AllocationFailure(const AllocationFailure&) = delete;
  AllocationFailure& operator=(const AllocationFailure&) = delete;

  // Whether it came to that allocation.
  bool reached() const;
};

// Blocks that are allocated now, by whatever operator new, in all threads. Equal before and after
// means nothing leaked.
size_t LiveAllocations();

// Blocks that were ever allocated, in the same way. Equal before and after: nothing was allocated.
size_t TotalAllocations();

}  // namespace fakes
