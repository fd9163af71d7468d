// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// PhysicalGpu's side of runlists: what guests submitted, and the lists that the hardware gets.
#include <utility>

#include "core/log.h"
#include "core/physical_gpu.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace reg = ts104;

constexpr uint32_t kFetchTimeoutUs = 100 * 1000;

}  // namespace

void PhysicalGpu::SubmitList(base::FunctionId function, uint32_t runlist, SoftwareRunlist list) {
  base::MutexGuard guard(mutex_);
  FunctionState* state = functions_[function.value()].get();
  if (state == nullptr) return;
  state->lists[runlist] = std::move(list);
  state->submit_pending[runlist] = true;
  if (state->disabled[runlist]) {
    // The guest keeps the runlist stopped: its list is taken, and counts when it goes on.
    CompleteSubmit(base::RunlistId(runlist), function);
    return;
  }
  policy_->ListChanged(base::RunlistId(runlist), function);
}

bool PhysicalGpu::SubmitPending(base::FunctionId function, uint32_t runlist) {
  base::MutexGuard guard(mutex_);
  const FunctionState* state = functions_[function.value()].get();
  return state != nullptr && state->submit_pending[runlist];
}

void PhysicalGpu::SetListDisabled(base::FunctionId function, uint32_t runlist, bool disabled) {
  base::MutexGuard guard(mutex_);
  FunctionState* state = functions_[function.value()].get();
  if (state == nullptr || state->disabled[runlist] == disabled) return;
  state->disabled[runlist] = disabled;
  if (!state->lists[runlist].empty()) policy_->ListChanged(base::RunlistId(runlist), function);
}

std::optional<uint32_t> PhysicalGpu::HeaderIndex(base::FunctionId function, uint32_t runlist,
                                                 uint32_t tsgid) {
  base::MutexGuard guard(mutex_);
  const FunctionState* state = functions_[function.value()].get();
  if (state == nullptr) return std::nullopt;
  const SoftwareRunlist::Tsg* tsg = state->lists[runlist].Find(tsgid);
  if (tsg == nullptr) return std::nullopt;
  return tsg->header;
}

void PhysicalGpu::PreemptTsg(base::FunctionId function, uint32_t tsgid) {
  using reg::pfifo::Preempt;
  base::MutexGuard guard(mutex_);
  // One register for all: a preempt of somebody else that is still going on stays in force in the
  // hardware, only its completion is no longer told apart.
  preempting_function_ = function.value();
  host_.Write32(Preempt::Offset(),
                Preempt().Set<Preempt::Id>(tsgid).Set<Preempt::Type>(Preempt::kTypeTsg).raw());
}

bool PhysicalGpu::PreemptPending(base::FunctionId function) {
  using reg::pfifo::Preempt;
  base::MutexGuard guard(mutex_);
  if (preempting_function_ != function.value()) return false;
  return Preempt(host_.Read32(Preempt::Offset())).Test<Preempt::Pending>();
}

// ---- RunlistHost: for policies, mutex held
// -------------------------------------------------------

std::span<const uint8_t> PhysicalGpu::Runnable(base::RunlistId runlist) {
  mutex_.AssertHeld();
  size_t count = 0;
  for (uint32_t function = 1; function < kNumFunctions; ++function) {
    const FunctionState* state = functions_[function].get();
    if (state == nullptr || state->disabled[runlist.value()]) continue;
    if (state->lists[runlist.value()].empty()) continue;
    runnable_[count++] = static_cast<uint8_t>(function);
  }
  return {runnable_, count};
}

void PhysicalGpu::Submit(base::RunlistId runlist, std::span<const uint8_t> functions,
                         base::FunctionId cause) {
  mutex_.AssertHeld();
  const uint32_t r = runlist.value();
  HardwareRunlist& hardware = runlists_[r];
  using Info = reg::pfifo::RunlistSubmitInfo;
  const bool pending = Info(host_.Read32(Info::Offset(r))).Test<Info::Pending>();
  if (!pending) hardware.in_flight = 0;
  // With two submits not fetched yet the hardware may still read either buffer.
  if (hardware.in_flight >= 2) {
    if (!WaitFor(Info::Offset(r), Info::Pending::kMask, kFetchTimeoutUs)) {
      LogLine(host_.handle(), nullptr, TS_LOG_ERROR, TS_LOG_HARDWARE)
          << "runlist " << r << ": a submit was not fetched";
    }
    hardware.in_flight = 0;
  }
  DmaBuffer& buffer = hardware.buffers[hardware.next];
  hardware.next ^= 1;
  ++hardware.in_flight;
  uint32_t offset = 0;
  const uint32_t entries =
      WriteEntries(r, buffer, functions, LoadedTsgOfRunlist(r), cause, &offset);
  hardware.function = hardware.previous_function = 0;
  WatchEvents(true);
  WriteSubmit(r, buffer.address().value(), entries, offset);
}

// The base is written when it has changed only.
void PhysicalGpu::WriteSubmit(uint32_t r, uint64_t address, uint32_t entries, uint32_t offset) {
  std::optional<uint64_t>& base = runlists_[r].base;
  using Low = reg::pfifo::RunlistBaseLo;
  if (base != address) {
    host_.Write32(Low::Offset(r), Low(static_cast<uint32_t>(address) & Low::PtrLo::kMask)
                                      .Set<Low::Target>(Low::kTargetSysCoh)
                                      .raw());
  }
  if (!base.has_value() || *base >> 32 != address >> 32) {
    host_.Write32(reg::pfifo::RunlistBaseHi::Offset(r), static_cast<uint32_t>(address >> 32));
  }
  base = address;
  using Write = reg::pfifo::RunlistSubmit;
  host_.Write32(Write::Offset(r),
                Write().Set<Write::Length>(entries).Set<Write::OffsetBits>(offset).raw());
}

// Returns the number of entries. `offset`: where the hardware goes on, at TSG `resume`: the one
// that is loaded keeps its place, so that a submit of one guest does not push another's off the
// engine; but not when it belongs to the submitter, who would otherwise renew its slice with every
// submit.
uint32_t PhysicalGpu::WriteEntries(uint32_t runlist, DmaBuffer& buffer,
                                   std::span<const uint8_t> functions,
                                   std::optional<uint32_t> resume, base::FunctionId cause,
                                   uint32_t* offset) {
  uint32_t count = 0;
  uint32_t words[kRunlistEntryWords];
  const auto append = [&] {
    for (uint32_t i = 0; i < kRunlistEntryWords; ++i) {
      buffer.Store32(count * kRunlistEntryWords + i, words[i]);
    }
    ++count;
  };
  for (const uint8_t function : functions) {
    const FunctionState& state = *functions_[function];
    const SoftwareRunlist& list = state.lists[runlist];
    if (count + list.entries() > kMaxHardwareEntries) break;
    const uint32_t first_id = state.partition.first_chid;
    for (const SoftwareRunlist::Tsg& tsg : list.tsgs()) {
      if (resume == first_id + tsg.tsgid) {
        *offset = cause.value() == function ? count + 1 + tsg.length : count;
      }
      MakeTsgEntry(tsg, function, first_id + tsg.tsgid, words);
      append();
      for (uint32_t i = 0; i < tsg.length; ++i) {
        const uint32_t chid = first_id + list.chids()[tsg.first + i];
        MakeChannelEntry(chid, channels_[chid], words);
        append();
      }
    }
  }
  if (*offset >= count) *offset = 0;
  return count;
}

void PhysicalGpu::CompleteSubmit(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  FunctionState* state = functions_[function.value()].get();
  if (state == nullptr || !state->submit_pending[runlist.value()]) return;
  state->submit_pending[runlist.value()] = false;
  state->events.runlist_events |= 1u << runlist.value();
  state->client->QueueWork();
}

void PhysicalGpu::ArmTimer(base::Nanoseconds delay) {
  ts_host_arm_timer(host_.handle(), delay.value());
}

base::Nanoseconds PhysicalGpu::Now() { return base::Nanoseconds(host_.NowNs()); }

}  // namespace turnstile
