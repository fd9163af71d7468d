// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The seam between what guests submitted and what the hardware runs.
#pragma once

#include <cstdint>
#include <span>

#include "base/unique_ptr.h"
#include "base/units.h"
#include "core/sched/accounting.h"
#include "core/sched/sched_params.h"

namespace turnstile {

enum class RunlistState : uint8_t {
  kBusy,
  kIdle,     // nothing to run, engines idle
  kWaiting,  // all that there is waits in an acquire, engines idle
};

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

  // ---- for policies that give the hardware one function at a time ----

  // Functions are 1 .. functions() - 1.
  virtual uint32_t functions() const = 0;
  virtual bool HasList(base::RunlistId runlist, base::FunctionId function) = 0;
  // Whether a channel in the function's list has work; true if that cannot be told cheaply.
  virtual bool HasWork(base::RunlistId runlist, base::FunctionId function) = 0;
  // The function's list alone, from where it was preempted; function 0: an empty one. What ran
  // before leaves at its next preemption point. Two register accesses.
  virtual void Switch(base::RunlistId runlist, base::FunctionId function) = 0;
  // The list of the function that is on the hardware has changed. Completes its submit.
  virtual void Refresh(base::RunlistId runlist, base::FunctionId function) = 0;
  // What the function ran in all; one register access if asked at least every 4 s.
  virtual base::Nanoseconds RunTime(base::RunlistId runlist, base::FunctionId function) = 0;
  // The runlist's own clock, modulo 2^32 ns, in which RunTime counts. One register access.
  virtual uint32_t Clock(base::RunlistId runlist) = 0;
  // Of the list that is on the hardware. One register access.
  virtual RunlistState State(base::RunlistId runlist) = 0;
  // Idle() is called when State() leaves kBusy.
  virtual void WatchIdle(base::RunlistId runlist, bool on) = 0;
  // Doorbell() is called once at the function's next doorbell for one of the runlists for which it
  // is armed. One register access.
  virtual void ArmDoorbell(base::RunlistId runlist, base::FunctionId function) = 0;

  // Cost of a context switch.
  virtual base::Nanoseconds switch_cost() const = 0;
  virtual const SchedParams& params() const = 0;
  virtual const VgpuSchedParams& vgpu_params(base::FunctionId function) const = 0;
  // Sixteenths of the GPU that the type of the function has.
  virtual uint32_t units(base::FunctionId function) const = 0;
  // Null: there is no such function any more.
  virtual SchedAccount* account(base::RunlistId runlist, base::FunctionId function) = 0;
  // A slice has ended; to be remembered.
  virtual void SliceEnded(base::RunlistId runlist, const ts_slice& slice) = 0;
  // It ended although the function has work left, since it is the turn of `next`.
  virtual void Preempted(base::RunlistId runlist, base::FunctionId function,
                         base::FunctionId next) = 0;
};

// Decides which lists are on the hardware. All calls with the GPU's mutex held, process context.
class Policy {
 public:
  explicit Policy(RunlistHost& host) : host_(host) {}
  virtual ~Policy() = default;

  // Memory, all of it. kNoMemory.
  virtual base::Status Init() { return base::Status::kOk; }
  // In the ABI: module parameter and sysfs.
  virtual const char* name() const = 0;
  // Takes over whatever lists there are.
  virtual void Start() = 0;
  // The list of this function, or whether it is enabled, has changed. Must lead to a Submit or to
  // CompleteSubmit.
  virtual void ListChanged(base::RunlistId runlist, base::FunctionId function) = 0;
  // An idle function whose doorbell notify was armed has rung, or the host rang or enabled one of
  // its channels: it may have work on any runlist.
  virtual void Doorbell(base::FunctionId) {}
  // WatchIdle was on.
  virtual void Idle(base::RunlistId) {}
  virtual void Timer() {}
  // SchedParams or somebody's VgpuSchedParams are others now.
  virtual void ParamsChanged() {}
  // Whether Doorbell is of use to it.
  virtual bool wants_doorbells() const { return false; }

 protected:
  RunlistHost& host_;
};

// By number, for the list of names: null beyond the last.
const char* PolicyName(uint32_t index);
// kInvalidArgument: no such name. kNoMemory.
base::Result<base::UniquePtr<Policy>> MakePolicy(const char* name, RunlistHost& host);

}  // namespace turnstile
