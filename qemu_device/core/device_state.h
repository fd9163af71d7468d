// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What register accesses and the worker share: registers, channel RAM, interrupts, requests.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_DEVICE_STATE_H_
#define TURNSTILE_QEMU_DEVICE_CORE_DEVICE_STATE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

#include "channel_ram.h"
#include "hwreg/register_bank.h"
#include "interrupt_tree.h"
#include "mmu.h"
#include "model_abi.h"
#include "ts104/regs.h"

namespace ts104 {

inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
inline constexpr uint32_t kRunlists = TS104_PCI_NUM_RUNLISTS;
inline constexpr uint32_t kEngines = TS104_PCI_NUM_ENGINES;

// The engines by ENUM of the topology table; behaviour.md §2.
struct EngineInfo {
  uint32_t runlist;
  uint32_t pmc_bit;   // also its non-stall vector
  uint32_t fault_id;  // ENGINE_ID of fault packets
  uint32_t instance;  // PTOP INST_ID; of a copy engine also its LCE registers
  bool is_graphics;
};
inline constexpr std::array<EngineInfo, kEngines> kEngineTable = {{
    {0, NV_PMC_INTR_BIT_GRAPHICS, NV_MMU_FAULT_PACKET_ENGINE_ID_GRAPHICS, 0, true},
    {0, NV_PMC_INTR_BIT_CE0, NV_MMU_FAULT_PACKET_ENGINE_ID_CE0, 0, false},
    {1, NV_PMC_INTR_BIT_CE2, NV_MMU_FAULT_PACKET_ENGINE_ID_CE2, 2, false},
    {2, NV_PMC_INTR_BIT_CE3, NV_MMU_FAULT_PACKET_ENGINE_ID_CE3, 3, false},
}};

// What software asked the worker to do; taken at `time`.
struct RunlistRequest {
  bool wake = false;     // something a scheduling decision depends on has changed
  bool submit = false;   // RUNLIST_SUBMIT was written
  bool preempt = false;  // RUNLIST_PREEMPT
};
struct Requests {
  uint64_t time = kNever;  // of the earliest request; kNever when there is none
  std::array<RunlistRequest, kRunlists> runlist{};
  std::optional<uint32_t> preempt_tsg;
  std::optional<TlbInvalidate> invalidate;
  uint32_t engine_resets = 0;  // bit = engine
  bool pfifo_reset = false;
};

// What the status registers show of a runlist; published by the worker after each step.
struct RunlistStatus {
  uint32_t ctx_status = NV_PFIFO_ENGINE_STATUS_CTX_STATUS_INVALID;
  uint32_t tsgid = 0;
  uint32_t next_tsgid = 0;
  bool channel_loaded = false;
  uint32_t chid = 0;
  uint32_t inst = 0;                  // of the loaded channel, as PCCSR INST
  std::array<uint32_t, 64> ramfc{};   // of the loaded channel
  std::array<bool, 2> engine_busy{};  // in the order of kEngineTable
  std::array<uint32_t, 2> engine_inst{};
  bool runlist_idle = true;
  bool engines_idle = true;
  bool acquire_pending = false;
  // FUNCTION_TIME: a context of `function` is on the engine since `since`; what lies between is
  // worked out up to `until`.
  bool active = false;
  uint32_t function = 0;
  uint64_t since = 0;
  uint64_t until = kNever;
};

class DeviceState {
 public:
  // `context_bytes`: what NV_TS104_CTX_SIZE reads.
  DeviceState(const ts104_config& config, uint32_t context_bytes, const ts104_host_ops& ops,
              void* opaque);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // Guards everything below. Never held across DMA, VRAM accesses, or while waiting.
  std::mutex mutex;
  std::condition_variable work;  // a request has come, or the thread shall stop or park

  hwreg::RegisterBank regs;
  InterruptTree tree;
  ChannelRam channels;
  Requests requests;
  std::array<RunlistStatus, kRunlists> status{};
  std::array<std::array<uint64_t, InterruptTree::kFunctions>, kRunlists> function_ns{};
  // FUNCTION_TIME as read last.
  std::array<std::array<uint64_t, InterruptTree::kFunctions>, kRunlists> function_ns_read{};
  std::array<uint32_t, kRunlists> submit_sequence{};  // counts writes of RUNLIST_SUBMIT
  std::array<bool, kRunlists> submit_pending{};
  std::array<bool, kRunlists> preempt_pending{};  // RUNLIST_PREEMPT
  bool tsg_preempt_pending = false;               // PREEMPT.PENDING
  bool invalidate_pending = false;                // MMU_INVALIDATE.TRIGGER
  uint32_t engines_enabled = 0;                   // bit = engine: PMC ENABLE
  bool pfifo_enabled = true;
  bool tsg_preempt_reported = false;  // INTR_0_MASK of TSG_PREEMPT_COMPLETE
  uint64_t alarm = kNever;            // when PTIMER's alarm is due
  uint64_t lag_ns = 0;
  // Clocks, which a reset leaves: what each runlist fell behind in all; RUNLIST_TIME as read last.
  std::array<uint64_t, kRunlists> runlist_lag_ns{};
  std::array<uint64_t, kRunlists> runlist_time_read{};
  uint64_t instructions = 0;

  const ts104_config& config() const { return config_; }
  uint64_t Now() const { return ops_.now_ns(opaque_); }
  // When the worker must look at `requests` or `alarm`; readable without the lock.
  uint64_t request_time() const { return request_time_.load(std::memory_order_acquire); }

  // Registers by their offset; the offset must be a register's.
  uint32_t Get(uint32_t offset) const { return regs.GetAt(offset).value_or(0u); }
  void Set(uint32_t offset, uint32_t value) { (void)regs.SetAt(offset, value); }
  void SetBits(uint32_t offset, uint32_t bits) { Set(offset, Get(offset) | bits); }

  // Marks that `requests` or `alarm` has changed at time `now` and wakes the worker.
  void Post(uint64_t now);
  void PostWake(uint32_t runlist, uint64_t now);
  Requests TakeRequests();
  void SetAlarm(uint64_t when);

  // Interrupt sources. Each ends with UpdateInterrupts.
  void RaiseVector(uint32_t function, uint32_t vector);
  void RaisePfifo(uint32_t intr_0_bits);
  void RaisePbdma(uint32_t pbdma, uint32_t intr_0, uint32_t intr_1);
  void CompleteTsgPreempt();
  bool PbdmaFrozen(uint32_t pbdma) const;
  uint32_t PfifoIntr0() const;        // as it reads
  uint32_t PbdmaIntrPending() const;  // INTR_PBDMA_ID
  uint32_t PmcIntr(uint32_t index) const;
  // Works level sources out anew and tells the host what has to be sent. Call after every change of
  // an interrupt register.
  void UpdateInterrupts();

  // PFIFO, PBDMA and channel registers at their reset values; part of Reset and of PMC ENABLE.
  void ResetPfifo();
  // Everything. The worker must be parked.
  void Reset();

 private:
  void PublishRequestTime();

  const ts104_config config_;
  const uint32_t context_bytes_;
  const ts104_host_ops& ops_;
  void* const opaque_;
  std::atomic<uint64_t> request_time_{kNever};
  std::array<bool, 2> pmc_was_active_{};
  bool intx_level_ = false;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_DEVICE_STATE_H_
