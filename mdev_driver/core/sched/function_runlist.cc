// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// PhysicalGpu's side of policies that give the hardware one function at a time, and their controls.
#include "core/log.h"
#include "core/physical_gpu.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace reg = ts104;

constexpr uint32_t kFetchTimeoutUs = 100 * 1000;
constexpr uint32_t kMaxLookedAt = 32;  // channels; of more HasWork says yes
// FUNCTION_TIME_LO alone tells the time if it is read before it can have gone half round.
constexpr uint64_t kLowWordNs = 2'000'000'000;

// kInvalidArgument: no such parameter; or out of range, with a line that only an administrator
// causes.
template <size_t n>
Status CheckRange(const SchedRange (&ranges)[n], uint32_t param, uint32_t value, ts_host_gpu* gpu,
                  ts_host_vgpu* vgpu) {
  if (param >= n) return Status::kInvalidArgument;
  const SchedRange& range = ranges[param];
  if (InRange(range, value)) return Status::kOk;
  LogLine(gpu, vgpu, TS_LOG_WARNING)
      << range.name << " " << value << " is out of range: " << range.min << " to " << range.max
      << (range.zero && range.min != 0 ? ", or 0" : "");
  return Status::kInvalidArgument;
}

uint32_t* Field(SchedParams& params, uint32_t param) {
  uint32_t* const fields[] = {&params.arr,          &params.frequency_hz, &params.averaging_factor,
                              &params.timeslice_us, &params.hold_us,      &params.ctxsw_timeout_ms,
                              &params.strict};
  static_assert(sizeof(fields) / sizeof(fields[0]) == sizeof(kSchedRanges) / sizeof(SchedRange));
  return fields[param];
}

uint32_t* Field(VgpuSchedParams& params, uint32_t param) {
  uint32_t* const fields[] = {&params.weight, &params.cap_percent, &params.latency_us};
  static_assert(sizeof(fields) / sizeof(fields[0]) ==
                sizeof(kVgpuSchedRanges) / sizeof(SchedRange));
  return fields[param];
}

}  // namespace

// ---- what the hardware runs ----

bool PhysicalGpu::HasList(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  const FunctionState* state = functions_[function.value()].get();
  const uint32_t r = runlist.value();
  return state != nullptr && !state->disabled[r] && !state->lists[r].empty();
}

// One register per channel of the list. Not part of a switch.
bool PhysicalGpu::HasWork(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  if (!HasList(runlist, function)) return false;
  const FunctionState& state = *functions_[function.value()];
  const SoftwareRunlist& list = state.lists[runlist.value()];
  if (list.chids().size() > kMaxLookedAt) return true;
  using Channel = reg::pccsr::Channel;
  for (const uint16_t chid : list.chids()) {
    const Channel channel(ReadChannel(state.partition.first_chid + chid));
    if (channel.Test<Channel::Enable>() && channel.Get<Channel::Status>() != Channel::kStatusIdle) {
      return true;
    }
  }
  return false;
}

// RUNLIST_EVENT interrupts are wanted by guests' submits alone. What was not taken is dropped.
void PhysicalGpu::WatchEvents(bool on) {
  if (events_watched_ == on) return;
  events_watched_ = on;
  using Enable = reg::pfifo::IntrEn0;
  const uint32_t event = reg::pfifo::Intr0::RunlistEvent::kMask;
  if (on) host_.Write32(reg::pfifo::IntrRunlistEvent::Offset(), (1u << kNumRunlists) - 1);
  const uint32_t enabled = host_.Read32(Enable::Offset());
  host_.Write32(Enable::Offset(), on ? enabled | event : enabled & ~event);
}

void PhysicalGpu::Switch(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  WatchEvents(false);
  SubmitOne(runlist.value(), function.value(), false);
}

void PhysicalGpu::Refresh(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  SubmitOne(runlist.value(), function.value(), true);
  CompleteSubmit(runlist, function);
}

// SUBMIT_INFO tells two things: whether the last list has been fetched, so that its memory is free,
// and which TSG the switch before this one took off. The new submit alone takes off what is on the
// hardware now (behaviour.md §4), so a switch is this read and the write of RUNLIST_SUBMIT.
void PhysicalGpu::SubmitOne(uint32_t r, uint32_t function, bool refresh) {
  HardwareRunlist& hardware = runlists_[r];
  using Info = reg::pfifo::RunlistSubmitInfo;
  Info info(host_.Read32(Info::Offset(r)));
  if (info.Test<Info::Pending>()) {
    if (!WaitFor(Info::Offset(r), Info::Pending::kMask, kFetchTimeoutUs)) {
      LogLine(host_.handle(), nullptr, TS_LOG_ERROR, TS_LOG_HARDWARE)
          << "runlist " << r << ": a submit was not fetched";
    }
    info = Info(host_.Read32(Info::Offset(r)));
  }
  hardware.in_flight = 0;
  if (info.Test<Info::PreemptedTsgidValid>()) {
    const uint32_t tsgid = info.Get<Info::PreemptedTsgid>();
    for (const uint32_t f : {hardware.previous_function, hardware.function}) {
      FunctionState* state = functions_[f].get();
      if (state == nullptr || tsgid < state->partition.first_chid) continue;
      if (tsgid - state->partition.first_chid < state->partition.channels) state->resume[r] = tsgid;
    }
  }
  DmaBuffer& buffer = hardware.buffers[0];
  hardware.next = 1;
  uint32_t offset = 0;
  uint32_t entries = 0;
  FunctionState* state = functions_[function].get();
  if (state != nullptr && !state->disabled[r]) {
    const auto one = static_cast<uint8_t>(function);
    const std::optional<uint32_t> resume = refresh ? LoadedTsgOfRunlist(r) : state->resume[r];
    entries = WriteEntries(r, buffer, {&one, 1}, resume, base::FunctionId(refresh ? function : 0),
                           &offset);
  }
  WriteSubmit(r, buffer.address().value(), entries, offset);
  if (refresh) return;
  ts_host_trace_switch(host_.handle(), HostVgpu(function), r, hardware.function, function, entries);
  hardware.previous_function = hardware.function;
  hardware.function = function;
}

base::Nanoseconds PhysicalGpu::RunTime(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  FunctionState* state = functions_[function.value()].get();
  if (state == nullptr) return base::Nanoseconds(0);
  const uint32_t r = runlist.value();
  const uint64_t now = host_.NowNs();
  uint64_t& time = state->run_time[r];
  const bool recent =
      state->run_time_read_at[r] != 0 && now - state->run_time_read_at[r] < kLowWordNs;
  if (recent) {
    using Low = reg::ts104::FunctionTimeLo;
    const uint32_t low = host_.Read32(Low::Offset(64 * r + function.value()));
    // A step back is no turn of the counter, which would charge the function for four seconds.
    const auto gained = static_cast<int32_t>(low - static_cast<uint32_t>(time));
    if (gained > 0) time += static_cast<uint32_t>(gained);
  } else {
    time = FunctionTime(function, r);
  }
  state->run_time_read_at[r] = now;
  return base::Nanoseconds(time - state->run_time_base[r]);
}

uint32_t PhysicalGpu::Clock(base::RunlistId runlist) {
  return host_.Read32(reg::ts104::RunlistTimeLo::Offset(runlist.value()));
}

RunlistState PhysicalGpu::State(base::RunlistId runlist) {
  using Info = reg::pfifo::RunlistInfo;
  const Info info(host_.Read32(Info::Offset(runlist.value())));
  if (!info.Test<Info::EngIdle>()) return RunlistState::kBusy;
  if (info.Test<Info::AcquireStillPending>()) return RunlistState::kWaiting;
  return info.Test<Info::RunlistIdle>() ? RunlistState::kIdle : RunlistState::kBusy;
}

void PhysicalGpu::WatchIdle(base::RunlistId runlist, bool on) {
  mutex_.AssertHeld();
  const uint32_t bit = 1u << runlist.value();
  if (on) {
    host_.Write32(reg::pfifo::IntrRunlistAndEngIdle::Offset(), bit);
    host_.Write32(reg::pfifo::IntrRunlistAcquireAndEngIdle::Offset(), bit);
    host_.Write32(reg::pfifo::IntrRunlistAndEngIdleEnSet::Offset(), bit);
    host_.Write32(reg::pfifo::IntrRunlistAcquireAndEngIdleEnSet::Offset(), bit);
  } else {
    host_.Write32(reg::pfifo::IntrRunlistAndEngIdleEnClear::Offset(), bit);
    host_.Write32(reg::pfifo::IntrRunlistAcquireAndEngIdleEnClear::Offset(), bit);
  }
}

// One register for all runlists: what it was armed for stays. It may have rung already, which the
// register says until the interrupt's thread has seen it.
void PhysicalGpu::ArmDoorbell(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  using Notify = reg::ctrl::VirtualDoorbellNotify;
  uint8_t& armed = armed_doorbells_[function.value()];
  armed = static_cast<uint8_t>(armed | 1u << runlist.value());
  host_.Write32(Notify::Offset(function.value()),
                Notify().Set<Notify::Arm>(1).Set<Notify::Runlists>(armed).raw());
}

// ---- controls ----

const SchedParams& PhysicalGpu::params() const {
  mutex_.AssertHeld();
  return sched_params_;
}

const VgpuSchedParams& PhysicalGpu::vgpu_params(base::FunctionId function) const {
  mutex_.AssertHeld();
  return vgpu_sched_params_[function.value()];
}

uint32_t PhysicalGpu::units(base::FunctionId function) const {
  mutex_.AssertHeld();
  const FunctionState* state = functions_[function.value()].get();
  return state == nullptr ? 0 : state->partition.channels * PartitionMap::kUnits / info_.channels;
}

SchedAccount* PhysicalGpu::account(base::RunlistId runlist, base::FunctionId function) {
  mutex_.AssertHeld();
  if (functions_[function.value()].get() == nullptr) return nullptr;
  return &accounts_[function.value()][runlist.value()];
}

void PhysicalGpu::SliceEnded(base::RunlistId runlist, const ts_slice& slice) {
  mutex_.AssertHeld();
  runlists_[runlist.value()].slices.Add(slice);
  ts_host_trace_slice(host_.handle(), HostVgpu(slice.function), runlist.value(), &slice);
}

void PhysicalGpu::Preempted(base::RunlistId runlist, base::FunctionId function,
                            base::FunctionId next) {
  mutex_.AssertHeld();
  ts_host_trace_preempt(host_.handle(), HostVgpu(function.value()), runlist.value(),
                        function.value(), next.value());
}

void PhysicalGpu::SetCtxswTimeout(uint32_t ms) {
  using Timeout = reg::pfifo::EngCtxswTimeout;
  const auto ticks = static_cast<uint32_t>(uint64_t{ms} * 1'000'000 / 1024);
  host_.Write32(Timeout::Offset(),
                Timeout().Set<Timeout::Period>(ticks).Set<Timeout::Detection>(1).raw());
}

Status PhysicalGpu::SetSchedParam(uint32_t param, uint32_t value) {
  TS_TRY_STATUS(CheckRange(kSchedRanges, param, value, host_.handle(), nullptr));
  base::MutexGuard guard(mutex_);
  *Field(sched_params_, param) = value;
  SetCtxswTimeout(sched_params_.ctxsw_timeout_ms);
  policy_->ParamsChanged();
  return Status::kOk;
}

uint32_t PhysicalGpu::GetSchedParam(uint32_t param) {
  if (param >= sizeof(kSchedRanges) / sizeof(SchedRange)) return 0;
  base::MutexGuard guard(mutex_);
  return *Field(sched_params_, param);
}

Status PhysicalGpu::SetVgpuSchedParam(base::FunctionId function, uint32_t param, uint32_t value,
                                      ts_host_vgpu* vgpu) {
  TS_TRY_STATUS(CheckRange(kVgpuSchedRanges, param, value, host_.handle(), vgpu));
  base::MutexGuard guard(mutex_);
  *Field(vgpu_sched_params_[function.value()], param) = value;
  policy_->ParamsChanged();
  return Status::kOk;
}

uint32_t PhysicalGpu::GetVgpuSchedParam(base::FunctionId function, uint32_t param) {
  if (param >= sizeof(kVgpuSchedRanges) / sizeof(SchedRange)) return 0;
  base::MutexGuard guard(mutex_);
  return *Field(vgpu_sched_params_[function.value()], param);
}

SchedAccount PhysicalGpu::GetAccount(base::FunctionId function, uint32_t runlist) {
  base::MutexGuard guard(mutex_);
  if (runlist >= kNumRunlists) return SchedAccount();
  SchedAccount account = accounts_[function.value()][runlist];
  if (functions_[function.value()].get() != nullptr) {
    account.run_ns = RunTime(base::RunlistId(runlist), function).value();
  }
  return account;
}

uint32_t PhysicalGpu::GetSlices(uint32_t runlist, ts_slice* out, uint32_t count) {
  if (runlist >= kNumRunlists) return 0;
  base::MutexGuard guard(mutex_);
  const SliceLog& log = runlists_[runlist].slices;
  const auto size = static_cast<uint32_t>(log.size());
  const uint32_t skip = size > count ? size - count : 0;
  for (uint32_t i = skip; i < size; ++i) out[i - skip] = log.At(i);
  return size - skip;
}

}  // namespace turnstile
