// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Life of the GPU, functions, channels, MMU.
#include "core/physical_gpu.h"

#include <utility>

#include "core/log.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace reg = ts104;  // register classes

constexpr uint32_t kIdLetters = 0x34305354;  // "TS04"
constexpr size_t kRunlistBytes = kMaxHardwareEntries * NV_RAMRL_ENTRY_SIZE;
constexpr uint32_t kFaultEntries = 2048;
// Drain and engine reset together: FLR may take 100 ms (PCI Express, 6.6.2). By the clock: the host
// may sleep longer than it was asked to.
constexpr uint64_t kDrainTimeoutNs = 50'000'000;
constexpr uint32_t kInvalidateTimeoutUs = 1000 * 1000;
constexpr uint64_t kEngineResetTimeoutNs = 20'000'000;
constexpr uint32_t kPollUs = 50;
// Addresses in PCCSR, runlist base and USERD have 40 bits.
constexpr uint64_t kInstanceLimit = uint64_t{1} << 40;

constexpr uint32_t kEngineRunlist[kNumEngines] = {0, 0, 1, 2};
constexpr uint32_t kEngineReset[kNumEngines] = {
    reg::pmc::Enable::kBitGraphics, reg::pmc::Enable::kBitCe0, reg::pmc::Enable::kBitCe2,
    reg::pmc::Enable::kBitCe3};

constexpr uint32_t kGone = 0xffffffff;  // what a removed device reads: nothing to wait for

// PBDMA_STATUS and ENGINE_STATUS have the same shape: the TSG that is there, leaving or coming.
std::optional<uint32_t> TsgInStatus(uint32_t raw) {
  if (raw == kGone) return std::nullopt;
  const reg::pfifo::EngineStatus status(raw);
  using Status32 = reg::pfifo::EngineStatus;
  switch (status.Get<Status32::CtxStatus>()) {
    case Status32::kCtxStatusValid:
    case Status32::kCtxStatusSave:
    case Status32::kCtxStatusSwitch: return status.Get<Status32::Id>();
    case Status32::kCtxStatusLoad: return status.Get<Status32::NextId>();
    default: return std::nullopt;
  }
}

bool Owns(const Partition& partition, uint32_t id) {
  return id >= partition.first_chid && id - partition.first_chid < partition.channels;
}

}  // namespace

// ---- life
// ----------------------------------------------------------------------------------------

base::Result<base::UniquePtr<PhysicalGpu>> PhysicalGpu::Create(HostGpu host,
                                                               const ts_gpu_params& params) {
  TS_TRY(auto gpu, base::AdoptUnique(new (std::nothrow) PhysicalGpu(host)));
  TS_TRY_STATUS(gpu->Init(params));
  return gpu;
}

Status PhysicalGpu::Init(const ts_gpu_params& params) {
  if (params.pin_batch > PinTable::kMaxBatch) return Status::kInvalidArgument;
  if (params.pin_batch != 0) set_pin_batch(params.pin_batch);
  TS_TRY_STATUS(mutex_.Init(kRankGpu));
  TS_TRY_STATUS(irq_lock_.Init(kRankGpuIrq));
  TS_TRY_STATUS(ReadIdentity(params));
  base::MutexGuard guard(mutex_);
  TS_TRY(partitions_, PartitionMap::Create(info_.vram_bytes, info_.channels));
  TS_TRY(channels_, base::DynArray<ChannelPointers>::Create(info_.channels));
  for (HardwareRunlist& runlist : runlists_) {
    for (DmaBuffer& buffer : runlist.buffers) {
      TS_TRY(buffer, DmaBuffer::Create(host_, kRunlistBytes, nullptr));
    }
    TS_TRY_STATUS(runlist.slices.Init());
  }
  TS_TRY(policy_, MakePolicy(params.policy != nullptr ? params.policy : PolicyName(0), *this));
  policy_name_.store(policy_->name(), std::memory_order_relaxed);
  notes_wanted_.store(policy_->wants_doorbells(), std::memory_order_relaxed);
  TS_TRY(fault_buffer_,
         DmaBuffer::Create(host_, kFaultEntries * NV_MMU_FAULT_PACKET_SIZE, nullptr));
  ResetFifo();
  SetUpFaultBuffer();
  EnableInterrupts();
  return Status::kOk;
}

Status PhysicalGpu::CheckId() const {
  const uint32_t letters = host_.Read32(reg::ts104::Id::Offset());
  if (letters == kIdLetters) return Status::kOk;
  LogLine(host_.handle(), nullptr, TS_LOG_ERROR)
      << "register ID is " << Hex{letters} << ", that of a TS104 is " << Hex{kIdLetters};
  return Status::kNotFound;
}

Status PhysicalGpu::ReadIdentity(const ts_gpu_params& params) {
  TS_TRY_STATUS(CheckId());
  info_.vram_bytes = host_.Read32(reg::ts104::VramSize::Offset()) * base::kMiB;
  info_.channels = host_.Read32(reg::ts104::NumChids::Offset());
  info_.sm_count = host_.Read32(reg::ts104::SmCount::Offset());
  info_.engine_mhz = host_.Read32(reg::ts104::EngineMhz::Offset());
  info_.ctxsw_us = host_.Read32(reg::ts104::CtxswUs::Offset());
  ctx_size_ = host_.Read32(reg::ts104::CtxSize::Offset());
  const bool sane = info_.vram_bytes >= TS104_PCI_VRAM_MIN_MIB * base::kMiB &&
                    base::IsPowerOfTwo(info_.vram_bytes) && info_.vram_bytes <= params.bar1_bytes &&
                    info_.channels == TS104_PCI_NUM_CHANNELS;
  if (sane) return Status::kOk;
  LogLine(host_.handle(), nullptr, TS_LOG_ERROR)
      << "VRAM " << info_.vram_bytes << " bytes, BAR1 " << params.bar1_bytes << " bytes, "
      << info_.channels << " channels: not a TS104 that this driver knows";
  return Status::kNotFound;
}

PhysicalGpu::~PhysicalGpu() {
  if (channels_.empty()) return;  // Init did not get as far as the hardware
  DisableInterrupts();
  using Size = reg::mmu::FaultBufferSize;
  host_.Write32(Size::Offset(0), 0);
  ResetFifo();
}

// PFIFO and the engines to their reset values: no list, no channel, nothing that runs, whoever had
// the device before.
void PhysicalGpu::ResetFifo() {
  using reg::pmc::Enable;
  uint32_t units = 1u << Enable::kBitPfifo;
  for (const uint32_t engine : kEngineReset) units |= 1u << engine;
  host_.Write32(Enable::Offset(), ~units);
  host_.Write32(Enable::Offset(), ~0u);
  SetCtxswTimeout(SchedParams().ctxsw_timeout_ms);
}

void PhysicalGpu::SetUpFaultBuffer() {
  using Low = reg::mmu::FaultBufferLo;
  using Size = reg::mmu::FaultBufferSize;
  const uint64_t address = fault_buffer_.address().value();
  host_.Write32(Size::Offset(0), 0);
  host_.Write32(Low::Offset(0), Low(static_cast<uint32_t>(address) & Low::Addr::kMask)
                                    .Set<Low::AddrMode>(Low::kAddrModePhysical)
                                    .Set<Low::PhysAperture>(Low::kPhysApertureSysCoh)
                                    .raw());
  host_.Write32(reg::mmu::FaultBufferHi::Offset(0), static_cast<uint32_t>(address >> 32));
  host_.Write32(Size::Offset(0), Size().Set<Size::Val>(kFaultEntries).Set<Size::Enable>(1).raw());
  fault_get_ = 0;
}

// Without vGPUs nothing is on the device that could be lost, and all that is known of it here are
// its lists, its interrupts and the policy's turns.
Status PhysicalGpu::Recover() {
  base::MutexGuard guard(mutex_);
  if (!partitions_.unused()) return Status::kBusy;
  TS_TRY_STATUS(CheckId());
  using reg::mmu::Invalidate;
  if (!WaitFor(Invalidate::Offset(), Invalidate::Trigger::kMask, kInvalidateTimeoutUs)) {
    return Status::kTimeout;
  }
  TS_TRY(auto policy, MakePolicy(policy_->name(), *this));
  ArmTimer(base::Nanoseconds(0));
  DisableInterrupts();
  ResetFifo();
  SetCtxswTimeout(sched_params_.ctxsw_timeout_ms);
  for (HardwareRunlist& runlist : runlists_) {
    runlist.base.reset();
    runlist.next = runlist.in_flight = 0;
    runlist.function = runlist.previous_function = 0;
  }
  for (uint8_t& runlists : armed_doorbells_) runlists = 0;
  events_watched_ = true;
  SetUpFaultBuffer();
  EnableInterrupts();
  policy_ = std::move(policy);
  policy_->Start();
  return Status::kOk;
}

// ---- capacity
// ------------------------------------------------------------------------------------

uint64_t PhysicalGpu::TypeVramBytes(uint32_t type) const {
  return info_.vram_bytes / kVgpuTypes[type].divisor;
}

uint32_t PhysicalGpu::Available(uint32_t type) {
  base::MutexGuard guard(mutex_);
  return partitions_.Available(type);
}

base::Result<Partition> PhysicalGpu::Reserve(uint32_t type, ts_host_vgpu* vgpu) {
  base::MutexGuard guard(mutex_);
  base::Result<Partition> partition = partitions_.Allocate(type);
  if (partition.ok()) {
    const uint32_t function = partition->function.value();
    vgpu_sched_params_[function] = VgpuSchedParams();
    for (SchedAccount& account : accounts_[function]) account = SchedAccount();
  }
  if (partition.status() == Status::kNoSpace) {
    LogLine(host_.handle(), vgpu, TS_LOG_WARNING)
        << "no room for a vGPU of type " << kVgpuTypes[type].name << ": it wants "
        << partitions_.VramBytes(type) / base::kMiB << " MiB of VRAM in one aligned piece, "
        << partitions_.free_vram_bytes() / base::kMiB << " of " << info_.vram_bytes / base::kMiB
        << " MiB are free, and " << partitions_.free_functions() << " of 63 functions";
  }
  return partition;
}

void PhysicalGpu::Unreserve(const Partition& partition) {
  base::MutexGuard guard(mutex_);
  partitions_.Free(partition);
}

// ---- functions
// -----------------------------------------------------------------------------------

Status PhysicalGpu::Attach(const Partition& partition, FunctionClient& client,
                           MemoryCounter& counter) {
  const uint32_t function = partition.function.value();
  TS_TRY(auto state, base::MakeUnique<FunctionState>());
  counter.Add(sizeof(FunctionState));
  state->partition = partition;
  state->client = &client;
  base::MutexGuard guard(mutex_);
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    state->run_time_base[r] = FunctionTime(partition.function, r) - accounts_[function][r].run_ns;
  }
  functions_[function] = std::move(state);
  {
    base::SpinLockGuard irq_guard(irq_lock_);
    clients_[function] = &client;
  }
  // What an earlier user left behind must not reach this one.
  host_.Write32(reg::ctrl::Leaf::Offset(16 * function), ~0u);
  const uint32_t bit = 1u << (function % 32);
  host_.Write32(reg::ctrl::VirtualIntrLeaf::Offset(function / 32), bit);
  host_.Write32(reg::ctrl::LeafEnSet::Offset(16 * function), ~0u);
  host_.Write32(reg::ctrl::TopEnSet::Offset(function), 1);
  host_.Write32(reg::ctrl::VirtualIntrLeafEnSet::Offset(function / 32), bit);
  return Status::kOk;
}

void PhysicalGpu::Detach(const Partition& partition, MemoryCounter& counter) {
  const uint32_t function = partition.function.value();
  base::MutexGuard guard(mutex_);
  host_.Write32(reg::ctrl::VirtualChannelCfg::Offset(function), 0);
  host_.Write32(reg::ctrl::TopEnClear::Offset(function), 1);
  host_.Write32(reg::ctrl::LeafEnClear::Offset(16 * function), ~0u);
  host_.Write32(reg::ctrl::VirtualIntrLeafEnClear::Offset(function / 32), 1u << (function % 32));
  {
    base::SpinLockGuard irq_guard(irq_lock_);
    clients_[function] = nullptr;
  }
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    accounts_[function][r].run_ns = RunTime(base::RunlistId(r), partition.function).value();
  }
  functions_[function].reset();
  counter.Sub(sizeof(FunctionState));
}

void PhysicalGpu::SetPendingEnable(const Partition& partition, bool enable) {
  using Config = reg::ctrl::VirtualChannelCfg;
  base::MutexGuard guard(mutex_);
  host_.Write32(Config::Offset(partition.function.value()),
                Config()
                    .Set<Config::Mask>(partition.channels - 1)
                    .Set<Config::SetBits>(partition.first_chid)
                    .Set<Config::PendingEnable>(enable ? 1 : 0)
                    .raw());
}

void PhysicalGpu::TakeEvents(const Partition& partition, FunctionEvents& events) {
  base::MutexGuard guard(mutex_);
  FunctionState* state = functions_[partition.function.value()].get();
  if (state == nullptr) return;
  FunctionEvents& from = state->events;
  events.runlist_events = std::exchange(from.runlist_events, 0);
  events.preempt_complete = std::exchange(from.preempt_complete, false);
  events.ctxsw_timeouts = std::exchange(from.ctxsw_timeouts, 0);
  events.ctxsw_info = from.ctxsw_info;
  events.faults_lost = std::exchange(from.faults_lost, false);
  for (const FaultRecord& fault : from.faults) {
    if (events.faults.TryPushBack(fault) != Status::kOk) events.faults_lost = true;
  }
  from.faults.Clear();
  events.pbdma_errors = std::move(from.pbdma_errors);
}

bool PhysicalGpu::FunctionLoaded(const Partition& partition) const {
  for (uint32_t runlist = 0; runlist < kNumRunlists; ++runlist) {
    if (LoadedTsg(partition, runlist).has_value()) return true;
  }
  return false;
}

std::optional<uint32_t> PhysicalGpu::LoadedTsg(const Partition& partition, uint32_t runlist) const {
  const auto on_pbdma = TsgInStatus(host_.Read32(reg::pfifo::PbdmaStatus::Offset(runlist)));
  if (on_pbdma.has_value() && Owns(partition, *on_pbdma)) return on_pbdma;
  for (uint32_t engine = 0; engine < kNumEngines; ++engine) {
    if (kEngineRunlist[engine] != runlist) continue;
    const auto tsg = TsgInStatus(host_.Read32(reg::pfifo::EngineStatus::Offset(engine)));
    if (tsg.has_value() && Owns(partition, *tsg)) return tsg;
  }
  return std::nullopt;
}

std::optional<uint32_t> PhysicalGpu::LoadedTsgOfRunlist(uint32_t runlist) const {
  return TsgInStatus(host_.Read32(reg::pfifo::PbdmaStatus::Offset(runlist)));
}

void PhysicalGpu::Drain(const Partition& partition) {
  {
    base::MutexGuard guard(mutex_);
    FunctionState* state = functions_[partition.function.value()].get();
    for (uint32_t r = 0; state != nullptr && r < kNumRunlists; ++r) {
      const bool listed = !state->lists[r].empty() && !state->disabled[r];
      state->lists[r] = SoftwareRunlist();
      state->disabled[r] = false;
      state->submit_pending[r] = false;
      if (listed) policy_->ListChanged(base::RunlistId(r), partition.function);
    }
    for (uint32_t i = 0; i < partition.channels; ++i) {
      const uint32_t chid = partition.first_chid + i;
      if (channels_[chid].instance == 0) continue;
      WriteChannel(chid, reg::pccsr::Channel().Set<reg::pccsr::Channel::EnableClr>(1).raw());
    }
  }
  // The lock is let go while waiting, and frozen PBDMAs are thawed: both may be what it waits for.
  const uint64_t deadline = host_.NowNs() + kDrainTimeoutNs;
  bool loaded = FunctionLoaded(partition);
  while (loaded && host_.NowNs() < deadline) {
    host_.SleepUs(kPollUs);
    base::MutexGuard guard(mutex_);
    ServicePbdmas();
    loaded = FunctionLoaded(partition);
  }
  base::MutexGuard guard(mutex_);
  if (loaded) ResetEnginesOf(partition);
  for (uint32_t i = 0; i < partition.channels; ++i) {
    const uint32_t chid = partition.first_chid + i;
    if (channels_[chid].instance == 0) continue;
    using Channel = reg::pccsr::Channel;
    WriteChannel(chid, Channel().Set<Channel::PbdmaFaulted>(1).Set<Channel::EngFaulted>(1).raw());
    host_.Write32(reg::pccsr::ChannelInst::Offset(chid), 0);
    chid_of_instance_.Erase(channels_[chid].instance);
    channels_[chid] = ChannelPointers();
  }
}

bool PhysicalGpu::EngineHas(const Partition& partition, uint32_t engine) const {
  const auto tsg = TsgInStatus(host_.Read32(reg::pfifo::EngineStatus::Offset(engine)));
  const auto on_pbdma = LoadedTsgOfRunlist(kEngineRunlist[engine]);
  return (tsg.has_value() && Owns(partition, *tsg)) ||
         (on_pbdma.has_value() && Owns(partition, *on_pbdma));
}

// The last resort for a context that stays: the engine loses what it runs, which is this
// function's. While it is looked at, nobody else's context can be loaded.
void PhysicalGpu::ResetEnginesOf(const Partition& partition) {
  using Disable = reg::pfifo::SchedDisable;
  for (uint32_t engine = 0; engine < kNumEngines; ++engine) {
    if (!EngineHas(partition, engine)) continue;
    host_.Write32(Disable::Offset(), 1u << kEngineRunlist[engine]);
    if (!EngineHas(partition, engine)) {
      host_.Write32(Disable::Offset(), 0);
      continue;
    }
    LogLine(host_.handle(), nullptr, TS_LOG_WARNING, TS_LOG_TIMEOUT)
        << "engine " << engine << " reset: a channel of function " << partition.function.value()
        << " would not leave it";
    host_.Write32(reg::pmc::Enable::Offset(), ~(1u << kEngineReset[engine]));
    host_.Write32(reg::pmc::Enable::Offset(), ~0u);
    host_.Write32(Disable::Offset(), 0);
  }
  const uint64_t deadline = host_.NowNs() + kEngineResetTimeoutNs;
  while (FunctionLoaded(partition) && host_.NowNs() < deadline) {
    ServicePbdmas();
    host_.SleepUs(kPollUs);
  }
}

uint64_t PhysicalGpu::FunctionTime(base::FunctionId function, uint32_t runlist) const {
  const uint32_t index = 64 * runlist + function.value();
  const uint32_t low = host_.Read32(reg::ts104::FunctionTimeLo::Offset(index));
  return low | uint64_t{host_.Read32(reg::ts104::FunctionTimeHi::Offset(index))} << 32;
}

// ---- channels
// ------------------------------------------------------------------------------------

Status PhysicalGpu::BindChannel(uint32_t chid, const ChannelPointers& pointers) {
  if (pointers.instance >= kInstanceLimit) return Status::kOutOfRange;
  base::MutexGuard guard(mutex_);
  TS_TRY_STATUS(chid_of_instance_.TryInsert(pointers.instance, chid));
  channels_[chid] = pointers;
  using Inst = reg::pccsr::ChannelInst;
  host_.Write32(Inst::Offset(chid),
                Inst()
                    .Set<Inst::Ptr>(static_cast<uint32_t>(pointers.instance >> 12))
                    .Set<Inst::Target>(Inst::kTargetSysCoh)
                    .Set<Inst::Bind>(1)
                    .raw());
  return Status::kOk;
}

// A fault that the guest left, or forced, must not meet the channel's next user.
void PhysicalGpu::UnbindChannel(uint32_t chid) {
  using Channel = reg::pccsr::Channel;
  base::MutexGuard guard(mutex_);
  WriteChannel(chid, Channel().Set<Channel::PbdmaFaulted>(1).Set<Channel::EngFaulted>(1).raw());
  host_.Write32(reg::pccsr::ChannelInst::Offset(chid), 0);
  chid_of_instance_.Erase(channels_[chid].instance);
  channels_[chid] = ChannelPointers();
}

void PhysicalGpu::SetChannelPointers(uint32_t chid, const ChannelPointers& pointers) {
  base::MutexGuard guard(mutex_);
  channels_[chid] = pointers;
}

uint32_t PhysicalGpu::ReadChannel(uint32_t chid) const {
  return host_.Read32(reg::pccsr::Channel::Offset(chid));
}

void PhysicalGpu::WriteChannel(uint32_t chid, uint32_t value) {
  host_.Write32(reg::pccsr::Channel::Offset(chid), value);
}

bool PhysicalGpu::ChannelLoaded(uint32_t chid) const {
  const reg::pccsr::Channel channel(ReadChannel(chid));
  if (channel.raw() == kGone) return false;
  return channel.Get<reg::pccsr::Channel::Status>() >= reg::pccsr::Channel::kStatusOnPbdma ||
         channel.Test<reg::pccsr::Channel::Busy>();
}

Status PhysicalGpu::WaitChannelOff(uint32_t chid, uint32_t timeout_us) {
  for (uint32_t waited = 0; ChannelLoaded(chid); waited += kPollUs) {
    if (waited >= timeout_us) return Status::kTimeout;
    host_.SleepUs(kPollUs);
    base::MutexGuard guard(mutex_);
    ServicePbdmas();
  }
  return Status::kOk;
}

// Through window 0, the physical driver's own, which reaches every channel.
void PhysicalGpu::RingDoorbell(uint32_t chid, uint32_t runlist) {
  using Doorbell = reg::usermode::NotifyChannelPending;
  host_.Write32(NV_FUNC_BAR0_USERMODE_BASE + Doorbell::Offset(),
                Doorbell().Set<Doorbell::Chid>(chid).Set<Doorbell::RunlistId>(runlist).raw());
}

// ---- MMU
// -----------------------------------------------------------------------------------------

bool PhysicalGpu::WaitFor(uint32_t offset, uint32_t mask, uint32_t timeout_us) const {
  constexpr uint32_t kImmediateReads = 4;
  const auto done = [&] {
    const uint32_t value = host_.Read32(offset);
    return (value & mask) == 0 || value == kGone;
  };
  for (uint32_t reads = 0; reads < kImmediateReads; ++reads) {
    if (done()) return true;
  }
  for (uint32_t waited = 0; waited < timeout_us; waited += kPollUs) {
    host_.SleepUs(kPollUs);
    if (done()) return true;
  }
  return false;
}

void PhysicalGpu::InvalidateTlb(base::Hpa root) {
  using Pdb = reg::mmu::InvalidatePdb;
  using Upper = reg::mmu::InvalidateUpperPdb;
  using Invalidate = reg::mmu::Invalidate;
  const uint64_t page = root.value() >> 12;
  base::MutexGuard guard(mutex_);
  host_.Write32(Pdb::Offset(), Pdb()
                                   .Set<Pdb::Aperture>(Pdb::kApertureSys)
                                   .Set<Pdb::Addr>(static_cast<uint32_t>(page & 0xfffffff))
                                   .raw());
  host_.Write32(Upper::Offset(), Upper().Set<Upper::Addr>(static_cast<uint32_t>(page >> 28)).raw());
  host_.Write32(Invalidate::Offset(),
                Invalidate().Set<Invalidate::AllVa>(1).Set<Invalidate::Trigger>(1).raw());
  if (WaitFor(Invalidate::Offset(), Invalidate::Trigger::kMask, kInvalidateTimeoutUs)) return;
  LogLine(host_.handle(), nullptr, TS_LOG_ERROR, TS_LOG_HARDWARE)
      << "TLB invalidate of root " << Hex{root.value()} << " did not finish";
}

// ---- policy
// --------------------------------------------------------------------------------------

const char* PhysicalGpu::policy_name() const {
  return policy_name_.load(std::memory_order_relaxed);
}

Status PhysicalGpu::SetPolicy(const char* name) {
  TS_TRY(auto policy, MakePolicy(name, *this));
  base::MutexGuard guard(mutex_);
  for (uint32_t r = 0; r < kNumRunlists; ++r) WatchIdle(base::RunlistId(r), false);
  ArmTimer(base::Nanoseconds(0));
  policy_ = std::move(policy);
  policy_name_.store(policy_->name(), std::memory_order_relaxed);
  notes_wanted_.store(policy_->wants_doorbells(), std::memory_order_relaxed);
  policy_->Start();
  return Status::kOk;
}

void PhysicalGpu::NoteWork(base::FunctionId function) {
  if (!notes_wanted_.load(std::memory_order_relaxed)) return;
  noted_work_.fetch_or(uint64_t{1} << function.value());
  ts_host_queue_gpu_work(host_.handle());
}

void PhysicalGpu::PolicyWork() {
  const uint64_t noted = noted_work_.exchange(0);
  base::MutexGuard guard(mutex_);
  for (uint32_t function = 1; function < kNumFunctions; ++function) {
    if ((noted >> function & 1) == 0) continue;
    ts_host_trace_wake(host_.handle(), HostVgpu(function), function, false);
    policy_->Doorbell(base::FunctionId(function));
  }
  policy_->Timer();
}

}  // namespace turnstile
