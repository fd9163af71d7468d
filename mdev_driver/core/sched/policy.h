// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The seam between what guests submitted and what the hardware runs.
#pragma once

#include <cstdint>
#include <span>

#include "base/unique_ptr.h"
#include "base/units.h"

namespace turnstile {

// What a policy may see and do. Implemented by PhysicalGpu; called with the GPU's mutex held.
class RunlistHost {
 public:
  virtual ~RunlistHost() = default;

  // Functions that have something to run on this runlist: a list that is not empty and that the
  // guest has not disabled. Ascending; at most 63.
  virtual std::span<const uint8_t> Runnable(base::RunlistId runlist) = 0;
  // Gives the hardware one list made of the lists of these functions, in this order. `cause`: the
  // function whose submit led to it (it does not keep its place by submitting again and again), or
  // function 0.
  virtual void Submit(base::RunlistId runlist, std::span<const uint8_t> functions,
                      base::FunctionId cause) = 0;
  // A guest's submit counts as done although its list is not on the hardware.
  virtual void CompleteSubmit(base::RunlistId runlist, base::FunctionId function) = 0;
  // Timer() is called after this time; 0 cancels. One timer.
  virtual void ArmTimer(base::Nanoseconds delay) = 0;
  virtual base::Nanoseconds Now() = 0;
};

// Decides which lists are on the hardware. All calls with the GPU's mutex held, process context.
class Policy {
 public:
  explicit Policy(RunlistHost& host) : host_(host) {}
  virtual ~Policy() = default;

  // In the ABI: module parameter and sysfs.
  virtual const char* name() const = 0;
  // Takes over whatever lists there are.
  virtual void Start() = 0;
  // The list of this function, or whether it is enabled, has changed. Must lead to a Submit or to
  // CompleteSubmit.
  virtual void ListChanged(base::RunlistId runlist, base::FunctionId function) = 0;
  // The hardware has fetched the last list submitted.
  virtual void Fetched(base::RunlistId) {}
  // An idle function whose doorbell notify was armed has rung.
  virtual void Doorbell(base::FunctionId) {}
  virtual void Timer() {}

 protected:
  RunlistHost& host_;
};

// By number, for the list of names: null beyond the last.
const char* PolicyName(uint32_t index);
// kInvalidArgument: no such name. kNoMemory.
base::Result<base::UniquePtr<Policy>> MakePolicy(const char* name, RunlistHost& host);

}  // namespace turnstile
