// SPDX-License-Identifier: GPL-2.0-only OR MIT
// PBDMA: fetches GP entries and push buffers of one channel, decodes them, executes host methods
// and hands engine methods on.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_PBDMA_H_
#define TURNSTILE_QEMU_DEVICE_CORE_PBDMA_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine.h"

namespace ts104 {

// The operands of a semaphore acquire, enough to look whether it would succeed now.
struct AcquireTest {
  AddressSpace space;
  uint64_t va = 0;
  uint64_t payload = 0;
  uint32_t operation = 0;
  bool wide = false;

  // A fault counts as a success: the PBDMA then meets it itself.
  bool Succeeds(Mmu& mmu) const;
};
// The comparison alone; `operation` is one of NVC46F_SEM_EXECUTE_OPERATION_ACQ*.
bool AcquireMatches(uint32_t operation, uint64_t memory, uint64_t payload, bool wide);

// A failing acquire that a channel waits in.
struct AcquireWait {
  AcquireTest test;
  bool switch_tsg = false;
  uint64_t retry_ns = 0;       // from one try to the next
  uint64_t deadline = kNever;  // when INTR_0 ACQUIRE is due
};

// Thread context: the worker. The RAMFC words of the loaded channel are the state; nothing else of
// it outlives Save.
class Pbdma {
 public:
  static constexpr uint64_t kMethodNs = 10;
  static constexpr uint64_t kGpEntryNs = 200;

  enum class Outcome : uint8_t {
    kContinue,
    kIdle,           // GP_GET has reached GP_PUT
    kBlocked,        // waits for an engine; call again when one has become idle
    kAcquireFailed,  // acquire_wait() tells; the method is tried again at the next Step
    kYieldChannel,   // YIELD TSG
    kYieldTimeslice,
    kInterrupt,    // frozen until software has cleared INTR_0 and INTR_1; then Thaw
    kHostFault,    // packet reported; the channel is to be PBDMA_FAULTED and saved out
    kEngineFault,  // engine_fault() is to be reported
  };

  // `engines`: of this runlist, in the order of the topology table.
  Pbdma(uint32_t id, Machine& machine, std::span<const std::unique_ptr<Engine>> engines)
      : id_(id), machine_(machine), engines_(engines) {}

  bool loaded() const { return channel_.has_value(); }
  const ChannelContext& channel() const { return *channel_; }
  const std::array<uint32_t, 64>& ramfc() const { return ramfc_; }
  // When the next unit of work is due. Meaningful while loaded.
  uint64_t due() const { return due_; }
  void DelayUntil(uint64_t when) { due_ = due_ < when ? when : due_; }
  void Delay(uint64_t ns) { due_ += ns; }

  // Reads the instance block of `chid`. kContinue: loaded. kInterrupt (SIGNATURE, GPPTR): loaded
  // but frozen. kHostFault: not loaded, the packet is reported.
  Outcome Load(uint32_t chid, uint32_t inst, uint32_t gfid, uint64_t now);
  // Engine words of the instance block, as Load read them.
  const EngineWords& engine_words() const { return engine_words_; }
  // SIGNATURE was raised: the RAMFC is not to be trusted and not written back.
  bool bad_signature() const { return bad_signature_; }

  // Executes one method, header, or GP entry, at `now` = due().
  Outcome Step(uint64_t now);
  // GP_PUT anew from USERD: the doorbell has rung. kContinue, kInterrupt or kHostFault.
  Outcome ReadGpPut(uint64_t now);
  // All interrupt bits are cleared: takes over what software left in METHOD0.
  void Thaw();
  // RAMFC to the instance block, and USERD's words; forgets the channel.
  void Save();
  // USERD's words, while loaded.
  void WriteBackUserd();
  bool wants_userd_writeback() const;
  // Forgets the channel without writing.
  void Drop();

  const AcquireWait& acquire_wait() const { return acquire_; }
  const FaultRecord& engine_fault() const { return engine_fault_; }
  uint32_t fault_id() const { return NV_MMU_FAULT_PACKET_ENGINE_ID_HOST0 + id_; }

 private:
  struct Method {
    uint32_t address = 0;  // byte offset
    uint32_t subchannel = 0;
    uint32_t data = 0;
  };

  uint32_t& Word(uint32_t offset) { return ramfc_[offset / 4]; }
  uint32_t Word(uint32_t offset) const { return ramfc_[offset / 4]; }
  uint64_t Va(uint32_t lo_offset, uint32_t hi_offset) const {
    return (uint64_t{Word(hi_offset) & 0xff} << 32) | Word(lo_offset);
  }
  void SetVa(uint32_t lo_offset, uint32_t hi_offset, uint64_t va) {
    Word(lo_offset) = static_cast<uint32_t>(va);
    Word(hi_offset) = static_cast<uint32_t>(va >> 32);
  }
  bool privileged() const { return channel_->space.privileged; }
  uint64_t ring_entries() const;
  std::optional<PhysicalAddress> UserdAddress() const;

  // Fetching and decoding.
  Outcome FetchGpEntry(uint64_t now);
  Outcome ControlEntry(uint32_t operand, uint32_t entry1);
  Outcome StartSegment(uint32_t entry0, uint32_t entry1);
  Outcome StepSegment(uint64_t now);
  std::optional<MmuFault> FetchDword(uint64_t va, uint64_t end, uint32_t& dword);
  Outcome DecodeHeader(uint32_t header, uint64_t now);
  Outcome DecodeTertiary(uint32_t header);
  Outcome StartMethods(uint32_t header, uint32_t type, uint32_t count);
  void EndSegment();
  Outcome BadHeader(uint32_t header);

  // Methods.
  Outcome Hold(const Method& method, uint64_t now);
  Outcome TryHeld(uint64_t now);
  Outcome Execute(const Method& method, uint64_t now);
  Outcome ExecuteEngine(const Method& method, uint64_t now);
  Outcome ExecuteHost(const Method& method, uint64_t now);
  Outcome SetObject(const Method& method);
  Outcome SemExecute(uint32_t data, uint64_t now);
  Outcome Acquire(uint32_t data, uint64_t now);
  Outcome Release(uint32_t data, uint64_t now);
  Outcome MemOpD(uint32_t data);
  void InvalidateTlb(uint32_t data, bool targeted);
  Outcome ClearFaulted(uint32_t data, uint64_t now);
  void NonStallInterrupt();
  Engine* EngineOf(uint32_t subchannel) const;
  // An engine works for this channel.
  bool EngineBusy() const;
  uint32_t PrimaryVector() const;

  // Ends a unit of work: charges it and goes on.
  Outcome Spent(uint64_t now, uint64_t ns) {
    due_ = now + ns;
    return Outcome::kContinue;
  }
  // Sets interrupt bits and freezes.
  Outcome Raise(uint32_t intr_0, uint32_t intr_1 = 0);
  Outcome HceError(const Method& method, uint32_t intr_1);
  Outcome HostFault(const MmuFault& fault, uint64_t now);

  const uint32_t id_;
  Machine& machine_;
  const std::span<const std::unique_ptr<Engine>> engines_;
  std::optional<ChannelContext> channel_;
  std::array<uint32_t, 64> ramfc_{};
  EngineWords engine_words_{};
  bool bad_signature_ = false;
  uint64_t due_ = 0;
  AcquireWait acquire_;
  FaultRecord engine_fault_;

  // Dwords read ahead of GET, within one page and segment.
  std::array<uint32_t, 64> ahead_{};
  uint64_t ahead_va_ = 0;
  uint32_t ahead_count_ = 0;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_PBDMA_H_
