// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What the scheduler of a runlist needs from an engine, and what an engine needs from the model.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_ENGINE_H_
#define TURNSTILE_QEMU_DEVICE_CORE_ENGINE_H_

#include <array>
#include <cstdint>
#include <optional>

#include "device_state.h"
#include "fault_buffer.h"
#include "memory_port.h"
#include "mmu.h"

namespace ts104 {

// Words of the instance block that belong to the engines: RAMFC bytes 0x100..0x1ff (TS104: the
// manual leaves them free). A copy engine keeps its methods and a half-done copy there; the last
// word tells that the GR context image holds a grid that is not finished.
inline constexpr uint32_t kEngineWordsOffset = 0x100;
using EngineWords = std::array<uint32_t, 64>;
inline constexpr uint32_t kGrSavedGridWord = 63;

// The worker's surroundings, shared by all units. Thread context: the worker.
struct Machine {
  DeviceState& state;
  const MemoryPort& memory;
  Mmu& mmu;
  FaultBuffer& faults;
  uint64_t time = 0;                // of the event at hand
  uint64_t semaphore_releases = 0;  // counts: a failing acquire looks again when it changes
  uint32_t tsg_preempts = 0;        // PREEMPT requests whose TSG has not left yet

  // Cycles of the engine clock, rounded up to whole ns.
  uint64_t CyclesToNs(uint64_t cycles) const {
    const uint64_t mhz = state.config().engine_mhz;
    return cycles / mhz * 1000 + (cycles % mhz * 1000 + mhz - 1) / mhz;
  }
  uint64_t NsToCycles(uint64_t ns) const {
    const uint64_t mhz = state.config().engine_mhz;
    return ns / 1000 * mhz + ns % 1000 * mhz / 1000;
  }
};

// A loaded channel, as its instance block described it at load.
struct ChannelContext {
  uint32_t chid = 0;
  uint32_t inst = 0;  // PCCSR CHANNEL_INST: TARGET and PTR
  PhysicalAddress inst_block;
  AddressSpace space;
  uint32_t gfid = 0;
  bool hce_privileged = false;      // RAMFC HCE_CTRL.HCE_PRIV_MODE
  uint32_t context_pointer_lo = 0;  // RAMIN ENGINE_WFI_PTR
  uint32_t context_pointer_hi = 0;
};

// A packet that names this channel.
inline FaultRecord MakeFaultRecord(const ChannelContext& channel, uint32_t engine_id,
                                   uint64_t time_ns) {
  FaultRecord record;
  record.inst_target = TS104_GET(NV_PCCSR_CHANNEL_INST_TARGET, channel.inst);
  record.inst_address = uint64_t{TS104_GET(NV_PCCSR_CHANNEL_INST_PTR, channel.inst)} << 12;
  record.engine_id = engine_id;
  record.gfid = channel.gfid;
  record.time_ns = time_ns;
  return record;
}

// How an engine took a method, or how a piece of its work ended.
struct EngineResult {
  enum class Kind : uint8_t {
    kOk,        // taken; or: more to do
    kBusy,      // methods only: not taken, the engine works
    kHceError,  // methods only: `hce_bits` of PBDMA INTR_1; the method is dropped
    kDone,      // work only: idle now
    kFault,     // `fault` is to be reported, the channel is ENG_FAULTED; the work is dropped
  };

  static EngineResult Ok() { return {}; }
  static EngineResult Busy() { return {Kind::kBusy, 0, {}}; }
  static EngineResult Done() { return {Kind::kDone, 0, {}}; }
  static EngineResult HceError(uint32_t bits) { return {Kind::kHceError, bits, {}}; }
  static EngineResult Fault(const FaultRecord& record) { return {Kind::kFault, 0, record}; }

  Kind kind = Kind::kOk;
  uint32_t hce_bits = 0;
  FaultRecord fault;
};

// One engine of a runlist. It holds the context of at most one channel, and keeps it only while
// that channel is on the PBDMA or the engine works for it. Thread context: the worker.
class Engine {
 public:
  Engine(uint32_t index, Machine& machine) : index_(index), machine_(machine) {}
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  uint32_t index() const { return index_; }
  const EngineInfo& info() const { return kEngineTable[index_]; }

  bool busy() const { return busy_; }
  // When the next piece of work is due; kNever while idle.
  uint64_t due() const { return busy_ ? due_ : kNever; }
  bool HoldsContextOf(uint32_t chid) const { return owner_.has_value() && owner_->chid == chid; }
  const std::optional<ChannelContext>& owner() const { return owner_; }

  // A method of `channel` at `now`.
  virtual EngineResult Method(const ChannelContext& channel, uint32_t method, uint32_t data,
                              uint64_t now) = 0;
  // Does the piece of work that is due at `now`. `leaving`: the TSG shall be saved out. `limit`:
  // a time at which the engine should be at a preemption point, if it can.
  virtual EngineResult Run(uint64_t now, bool leaving, uint64_t limit) = 0;
  // Could be saved at `now`: idle, or between two pieces of preemptible work.
  virtual bool CanSave(uint64_t now) const = 0;
  // Takes up work that an earlier Save left in the instance block; `words` are its engine words.
  // A fault means that it does not validate and is lost.
  virtual EngineResult Resume(const ChannelContext& channel, const EngineWords& words,
                              uint64_t now) = 0;
  // Writes the context back and forgets it. True: with unfinished work, so the channel has to be
  // loaded again. Only when CanSave.
  virtual bool Save() = 0;
  // Loses the work at hand; the context stays.
  virtual void DropWork() = 0;
  // Loses everything without writing it back.
  virtual void Reset() {
    busy_ = false;
    owner_.reset();
  }
  // Reaches a preemption point whenever due() comes; false for work that has to be waited for.
  virtual bool PreemptsPromptly() const { return true; }
  // PMC ENABLE. A disabled engine takes no methods.
  bool enabled() const { return enabled_; }
  void set_enabled(bool enabled) { enabled_ = enabled; }
  // Moves the engine's time: the model could not keep up.
  void Delay(uint64_t ns) {
    if (busy_) due_ += ns;
  }

 protected:
  EngineResult MmuFaultResult(const MmuFault& fault, uint32_t client, uint64_t now) const {
    FaultRecord record = MakeFaultRecord(*owner_, info().fault_id, now);
    record.type = fault.type;
    record.va = fault.va;
    record.access = fault.access;
    record.client = client;
    return EngineResult::Fault(record);
  }

  const uint32_t index_;
  Machine& machine_;
  std::optional<ChannelContext> owner_;
  bool busy_ = false;
  bool enabled_ = true;
  uint64_t due_ = 0;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_ENGINE_H_
