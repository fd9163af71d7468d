// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The physical TS104: the only writer of its registers. Split by theme: physical_gpu.cc (life,
// functions, channels, MMU), sched/hardware_runlist.cc (lists), irq/physical_interrupts.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/hash_map.h"
#include "base/lock.h"
#include "base/static_vector.h"
#include "base/unique_ptr.h"
#include "core/channel/runlist.h"
#include "core/core_abi.h"
#include "core/dump.h"
#include "core/host.h"
#include "core/irq/virtual_tree.h"
#include "core/memory/shadow_page_table.h"
#include "core/sched/policy.h"
#include "core/vgpu_type.h"

namespace turnstile {

inline constexpr uint32_t kNumEngines = 4;
inline constexpr uint32_t kNumFunctions = 64;
inline constexpr uint32_t kFaultPacketWords = 8;
inline constexpr uint32_t kAnyRunlist = 15;  // in a doorbell token

// A vGPU as the GPU's interrupt handling sees it.
class FunctionClient {
 public:
  virtual ~FunctionClient() = default;
  // Engine non-stall vectors 0..31 of its channels. Hard interrupt context, spinlock held.
  virtual void LatchInterrupts(uint32_t leaf0_bits) = 0;
  // Events wait in TakeEvents. Any context.
  virtual void QueueWork() = 0;
  // For traces. Any context.
  virtual ts_host_vgpu* host() const = 0;
};

// What a PBDMA showed when it froze on a channel. The channel is off it, disabled, since.
struct PbdmaError {
  uint32_t pbdma = 0;
  uint32_t chid = 0;  // physical
  uint32_t intr_0 = 0;
  uint32_t intr_1 = 0;
  uint32_t method0 = 0;
  uint32_t data0 = 0;
  uint32_t gp_shadow_0 = 0;
  uint32_t gp_shadow_1 = 0;
  uint32_t hdr_shadow = 0;
  uint32_t hce_dbg0 = 0;
  uint32_t hce_dbg1 = 0;
};

// A fault packet of one of the function's channels, still with physical names in it.
struct FaultRecord {
  std::array<uint32_t, kFaultPacketWords> words{};
  uint32_t chid = 0;  // physical
  uint32_t lce_report = 0;
};

// What happened to a function since the last TakeEvents.
struct FunctionEvents {
  static constexpr size_t kMaxFaults = 32;

  uint32_t runlist_events = 0;  // bit r: a submit of runlist r was fetched
  bool preempt_complete = false;
  uint32_t ctxsw_timeouts = 0;  // bit e: engine e
  std::array<uint32_t, kNumEngines> ctxsw_info{};
  bool faults_lost = false;
  base::StaticVector<FaultRecord, kMaxFaults> faults;
  base::Vector<PbdmaError> pbdma_errors;
};

class PhysicalGpu final : public TlbInvalidator, private RunlistHost {
 public:
  // core_abi.h, ts_gpu_create. kNotFound: no TS104 answers.
  static base::Result<base::UniquePtr<PhysicalGpu>> Create(HostGpu host,
                                                           const ts_gpu_params& params);
  ~PhysicalGpu() override;

  const ts_gpu_info& info() const { return info_; }
  uint32_t ctx_size() const { return ctx_size_; }
  HostGpu host() const { return host_; }
  uint32_t pin_batch() const { return pin_batch_.load(std::memory_order_relaxed); }
  void set_pin_batch(uint32_t pages) { pin_batch_.store(pages, std::memory_order_relaxed); }

  // ---- capacity ----
  uint64_t TypeVramBytes(uint32_t type) const TS_EXCLUDES(mutex_);
  uint32_t Available(uint32_t type) TS_EXCLUDES(mutex_);
  base::Result<Partition> Reserve(uint32_t type, ts_host_vgpu* vgpu) TS_EXCLUDES(mutex_);
  void Unreserve(const Partition& partition) TS_EXCLUDES(mutex_);

  // Starts the device over after a reset from outside, or when it does not do what it should.
  // kBusy: there are vGPUs, which have lost or would lose what they had. kNotFound: no TS104
  // answers. kTimeout: an invalidate does not end. Then nothing has changed.
  Status Recover() TS_EXCLUDES(mutex_);

  // ---- functions ----
  // From here on events and interrupts of the function reach `client`. `counter` is charged.
  Status Attach(const Partition& partition, FunctionClient& client, MemoryCounter& counter)
      TS_EXCLUDES(mutex_);
  // After this returns nothing reaches the client any more. Its channels are unbound.
  void Detach(const Partition& partition, MemoryCounter& counter) TS_EXCLUDES(mutex_);
  // VIRTUAL_CHANNEL_CFG(f).PENDING_ENABLE: whether doorbells of its window count.
  void SetPendingEnable(const Partition& partition, bool enable) TS_EXCLUDES(mutex_);
  // Moves what happened into `events`, which is empty before.
  void TakeEvents(const Partition& partition, FunctionEvents& events) TS_EXCLUDES(mutex_);
  // Takes every channel of the function off the hardware, lists and bindings too; bounded. Its
  // engines are reset where a channel would not leave.
  void Drain(const Partition& partition) TS_EXCLUDES(mutex_);
  uint64_t FunctionTime(base::FunctionId function, uint32_t runlist) const;
  // A channel of the function may have work that no doorbell of its window told of.
  void NoteWork(base::FunctionId function);

  // ---- channels; chid physical ----
  Status BindChannel(uint32_t chid, const ChannelPointers& pointers) TS_EXCLUDES(mutex_);
  void UnbindChannel(uint32_t chid) TS_EXCLUDES(mutex_);
  // The hardware's list entries must name what the channel names.
  void SetChannelPointers(uint32_t chid, const ChannelPointers& pointers) TS_EXCLUDES(mutex_);
  uint32_t ReadChannel(uint32_t chid) const;
  void WriteChannel(uint32_t chid, uint32_t value);
  // Whether the channel is on a PBDMA or an engine.
  bool ChannelLoaded(uint32_t chid) const;
  // Waits until it is not; the channel is disabled. Thaws PBDMAs meanwhile. kTimeout.
  Status WaitChannelOff(uint32_t chid, uint32_t timeout_us) TS_EXCLUDES(mutex_);
  // `runlist` 0..2, or 15: any.
  void RingDoorbell(uint32_t chid, uint32_t runlist = kAnyRunlist);

  // ---- runlists ----
  void SubmitList(base::FunctionId function, uint32_t runlist, SoftwareRunlist list)
      TS_EXCLUDES(mutex_);
  bool SubmitPending(base::FunctionId function, uint32_t runlist) TS_EXCLUDES(mutex_);
  // SCHED_DISABLE of the guest: its list leaves the hardware, or comes back.
  void SetListDisabled(base::FunctionId function, uint32_t runlist, bool disabled)
      TS_EXCLUDES(mutex_);
  // The function's TSG that PBDMA or engines of the runlist hold now, physical id.
  std::optional<uint32_t> LoadedTsg(const Partition& partition, uint32_t runlist) const;
  // Entry index of a TSG's header (the guest's id) in the list that the guest submitted last.
  std::optional<uint32_t> HeaderIndex(base::FunctionId function, uint32_t runlist, uint32_t tsgid)
      TS_EXCLUDES(mutex_);
  void PreemptTsg(base::FunctionId function, uint32_t tsgid) TS_EXCLUDES(mutex_);
  // Whether the function's last PreemptTsg is still going on.
  bool PreemptPending(base::FunctionId function) TS_EXCLUDES(mutex_);

  // ---- MMU ----
  void InvalidateTlb(base::Hpa root) override TS_EXCLUDES(mutex_);

  // ---- interrupts ----
  int HandleInterrupt() TS_EXCLUDES(irq_lock_);
  void HandleInterruptThread() TS_EXCLUDES(mutex_);

  // ---- policy ----
  const char* policy_name() const;
  Status SetPolicy(const char* name) TS_EXCLUDES(mutex_);
  void PolicyWork() TS_EXCLUDES(mutex_);
  // `param`: ts_gpu_sched_param. kInvalidArgument, with a line that names the range.
  Status SetSchedParam(uint32_t param, uint32_t value) TS_EXCLUDES(mutex_);
  uint32_t GetSchedParam(uint32_t param) TS_EXCLUDES(mutex_);
  // `param`: ts_vgpu_sched_param. `vgpu` is for the line.
  Status SetVgpuSchedParam(base::FunctionId function, uint32_t param, uint32_t value,
                           ts_host_vgpu* vgpu) TS_EXCLUDES(mutex_);
  uint32_t GetVgpuSchedParam(base::FunctionId function, uint32_t param) TS_EXCLUDES(mutex_);
  // Since Reserve.
  SchedAccount GetAccount(base::FunctionId function, uint32_t runlist) TS_EXCLUDES(mutex_);
  // The newest min(count, 200) slices, oldest first; returns how many.
  uint32_t GetSlices(uint32_t runlist, ts_slice* out, uint32_t count) TS_EXCLUDES(mutex_);

  void DumpRunlists(Dump& dump) TS_EXCLUDES(mutex_);

 private:
  struct FunctionState {
    Partition partition;
    FunctionClient* client = nullptr;
    SoftwareRunlist lists[kNumRunlists];
    bool disabled[kNumRunlists] = {};
    bool submit_pending[kNumRunlists] = {};
    std::optional<uint32_t> resume[kNumRunlists];  // physical TSG that a switch has preempted
    uint64_t run_time[kNumRunlists] = {};          // FUNCTION_TIME as read last
    uint64_t run_time_read_at[kNumRunlists] = {};  // 0: never
    uint64_t run_time_base[kNumRunlists] = {};     // FUNCTION_TIME less what the account has
    FunctionEvents events;
  };

  // Two buffers per runlist: one may be fetched while the other is written.
  struct HardwareRunlist {
    DmaBuffer buffers[2];
    uint32_t next = 0;
    uint32_t in_flight = 0;
    // What BASE_LO and BASE_HI hold.
    std::optional<uint64_t> base;
    // Of Switch: whose list the hardware has and whose it had before; 0: nobody's, or many.
    uint32_t function = 0;
    uint32_t previous_function = 0;
    SliceLog slices;
  };

  explicit PhysicalGpu(HostGpu host) : host_(host) {}

  Status Init(const ts_gpu_params& params);
  Status ReadIdentity(const ts_gpu_params& params);
  void ResetFifo();
  void SetUpFaultBuffer() TS_REQUIRES(mutex_);
  Status CheckId() const;
  void EnableInterrupts();
  void DisableInterrupts();

  std::span<const uint8_t> Runnable(base::RunlistId runlist) override;
  void Submit(base::RunlistId runlist, std::span<const uint8_t> functions,
              base::FunctionId cause) override;
  void CompleteSubmit(base::RunlistId runlist, base::FunctionId function) override;
  void ArmTimer(base::Nanoseconds delay) override;
  base::Nanoseconds Now() override;
  uint32_t functions() const override { return kNumFunctions; }
  bool HasList(base::RunlistId runlist, base::FunctionId function) override;
  bool HasWork(base::RunlistId runlist, base::FunctionId function) override;
  void Switch(base::RunlistId runlist, base::FunctionId function) override;
  void Refresh(base::RunlistId runlist, base::FunctionId function) override;
  base::Nanoseconds RunTime(base::RunlistId runlist, base::FunctionId function) override;
  uint32_t Clock(base::RunlistId runlist) override;
  RunlistState State(base::RunlistId runlist) override;
  void WatchIdle(base::RunlistId runlist, bool on) override;
  void ArmDoorbell(base::RunlistId runlist, base::FunctionId function) override;
  base::Nanoseconds switch_cost() const override {
    return base::Nanoseconds::FromMicroseconds(info_.ctxsw_us);
  }
  const SchedParams& params() const override;
  const VgpuSchedParams& vgpu_params(base::FunctionId function) const override;
  uint32_t units(base::FunctionId function) const override;
  SchedAccount* account(base::RunlistId runlist, base::FunctionId function) override;
  void SliceEnded(base::RunlistId runlist, const ts_slice& slice) override;
  void Preempted(base::RunlistId runlist, base::FunctionId function,
                 base::FunctionId next) override;

  uint32_t WriteEntries(uint32_t runlist, DmaBuffer& buffer, std::span<const uint8_t> functions,
                        std::optional<uint32_t> resume, base::FunctionId cause, uint32_t* offset)
      TS_REQUIRES(mutex_);
  void WriteSubmit(uint32_t runlist, uint64_t address, uint32_t entries, uint32_t offset)
      TS_REQUIRES(mutex_);
  void WatchEvents(bool on) TS_REQUIRES(mutex_);
  void SubmitOne(uint32_t runlist, uint32_t function, bool refresh) TS_REQUIRES(mutex_);
  void SetCtxswTimeout(uint32_t ms);
  std::optional<uint32_t> LoadedTsgOfRunlist(uint32_t runlist) const;
  bool FunctionLoaded(const Partition& partition) const;
  bool EngineHas(const Partition& partition, uint32_t engine) const;
  void ResetEnginesOf(const Partition& partition) TS_REQUIRES(mutex_);
  bool WaitFor(uint32_t offset, uint32_t mask, uint32_t timeout_us) const;

  void DispatchFunctionInterrupts() TS_REQUIRES(irq_lock_);
  void ServiceFifo() TS_REQUIRES(mutex_);
  void ServicePbdmas() TS_REQUIRES(mutex_);
  void ServicePbdma(uint32_t pbdma) TS_REQUIRES(mutex_);
  void ServiceRunlistEvents() TS_REQUIRES(mutex_);
  void ServiceCtxswTimeouts() TS_REQUIRES(mutex_);
  void ServiceIdle(uint32_t detail) TS_REQUIRES(mutex_);
  void DrainFaults() TS_REQUIRES(mutex_);
  void ForwardFault(const std::array<uint32_t, kFaultPacketWords>& packet) TS_REQUIRES(mutex_);
  FunctionState* OwnerOfChannel(uint32_t chid) TS_REQUIRES(mutex_);
  // visit(state, function, runlist) for every list that is not empty.
  template <typename Visit>
  void ForEachList(Visit&& visit) TS_REQUIRES(mutex_);
  static void DumpList(const FunctionState& state, uint32_t function, uint32_t runlist,
                       uint32_t room, Dump& dump);
  // The vGPU whose function it is, null for none: whom a trace names.
  ts_host_vgpu* HostVgpu(uint32_t function) const TS_REQUIRES(mutex_) {
    const FunctionState* state = functions_[function].get();
    return state == nullptr ? nullptr : state->client->host();
  }

  const HostGpu host_;
  ts_gpu_info info_ = {};
  uint32_t ctx_size_ = 0;
  std::atomic<uint32_t> pin_batch_{PinTable::kMaxBatch};

  base::Mutex mutex_;
  PartitionMap partitions_ TS_GUARDED_BY(mutex_);
  base::UniquePtr<FunctionState> functions_[kNumFunctions] TS_GUARDED_BY(mutex_);
  HardwareRunlist runlists_[kNumRunlists] TS_GUARDED_BY(mutex_);
  uint8_t runnable_[kNumFunctions] TS_GUARDED_BY(mutex_) = {};      // result of Runnable
  base::DynArray<ChannelPointers> channels_ TS_GUARDED_BY(mutex_);  // by physical CHID
  base::HashMap<uint32_t> chid_of_instance_ TS_GUARDED_BY(mutex_);  // by DMA address
  uint32_t preempting_function_ TS_GUARDED_BY(mutex_) = 0;
  base::UniquePtr<Policy> policy_ TS_GUARDED_BY(mutex_);
  SchedParams sched_params_ TS_GUARDED_BY(mutex_);
  VgpuSchedParams vgpu_sched_params_[kNumFunctions] TS_GUARDED_BY(mutex_);
  // From Reserve on, whoever uses the function.
  SchedAccount accounts_[kNumFunctions][kNumRunlists] TS_GUARDED_BY(mutex_);
  bool events_watched_ TS_GUARDED_BY(mutex_) = true;  // RUNLIST_EVENT interrupts
  // Notify of every function: for which runlists it is armed, 0: it is not.
  uint8_t armed_doorbells_[kNumFunctions] TS_GUARDED_BY(mutex_) = {};
  std::atomic<bool> notes_wanted_{false};  // by the policy
  std::atomic<uint64_t> noted_work_{0};    // bit f, for PolicyWork
  std::atomic<const char*> policy_name_{""};
  std::atomic<bool> timer_due_{false};
  DmaBuffer fault_buffer_ TS_GUARDED_BY(mutex_);
  uint32_t fault_get_ TS_GUARDED_BY(mutex_) = 0;

  base::SpinLock irq_lock_;
  FunctionClient* clients_[kNumFunctions] TS_GUARDED_BY(irq_lock_) = {};
  std::atomic<uint32_t> pending_{0};  // bits of leaf 4 for the thread
};

}  // namespace turnstile
