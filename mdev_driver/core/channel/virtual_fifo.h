// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// PFIFO, PCCSR and the PBDMAs as one vGPU's guest sees them, and its channels.
//
// Split by theme: virtual_fifo.cc (PFIFO registers, runlists), virtual_channel.cc (channels and
// PCCSR), virtual_pbdma.cc (errors, MEM_OP).
#pragma once

#include <cstdint>

#include "base/hash_map.h"
#include "base/unique_ptr.h"
#include "core/channel/instance_block.h"
#include "core/channel/runlist.h"
#include "core/memory/virtual_mmu.h"
#include "core/vgpu_context.h"

namespace turnstile {

// One channel of the guest. Made when it is bound or enabled, so an idle vGPU has none.
struct VirtualChannel {
  explicit VirtualChannel(MemoryCounter& memory) : counter(memory) {
    counter.Add(sizeof(VirtualChannel));
  }
  ~VirtualChannel() { counter.Sub(sizeof(VirtualChannel)); }
  VirtualChannel(const VirtualChannel&) = delete;
  VirtualChannel& operator=(const VirtualChannel&) = delete;

  // Why the host keeps it off the device although the guest has enabled it.
  enum Hold : uint8_t {
    kHoldError = 1,  // a PBDMA error that the guest has not cleared
    kHoldMemOp = 2,  // its MEM_OP is being carried out
    kHoldSync = 4,   // its page tables are being translated
    kHoldCheck = 8,  // its instance block is to be read again
  };

  MemoryCounter& counter;
  uint32_t chid = 0;     // the guest's
  uint32_t inst = 0;     // PCCSR_CHANNEL_INST as the guest wrote it
  bool bound = false;    // to the hardware
  bool enabled = false;  // by the guest
  bool listed = false;   // has been in a list since it was bound
  bool stale = false;    // the shadow must be made anew before it runs
  uint8_t holds = 0;
  InstanceBlock guest;  // as read last
  DmaBuffer shadow;     // instance block
  ShadowSpace* space = nullptr;
  UserdPlace userd;
  base::Gpa userd_page;  // pinned when userd.system
  PbdmaError error;      // with kHoldError or kHoldMemOp
};

// All functions with the vGPU's mutex held, process context. (Said by AssertHeld inside: the
// analysis does not see that the context of two parts is one.)
class VirtualFifo {
 public:
  // Instance blocks that one submit, or one call of the work item, reads and builds shadows of.
  static constexpr uint32_t kChecksPerSlice = 16;

  VirtualFifo(VgpuContext& context, VirtualMmu& mmu) : context_(context), mmu_(mmu) {}

  // Registers to power-on values, channels gone: the hardware has been drained.
  void Reset();

  // `offset`: canonical BAR0 offset of the part.
  uint32_t ReadFifo(uint32_t offset);
  void WriteFifo(uint32_t offset, uint32_t value);
  uint32_t ReadChannel(uint32_t offset);
  void WriteChannel(uint32_t offset, uint32_t value);
  uint32_t ReadPbdma(uint32_t offset);
  void WritePbdma(uint32_t offset, uint32_t value);
  void RingDoorbell(uint32_t token);

  // What the physical interrupt handler found.
  void HandleEvents(FunctionEvents& events);
  // The MMU has finished work that channels wait for.
  void MmuIdle();
  // One slice of reading instance blocks that a submit has put off. True: there is more.
  bool CheckSome();
  // Guest memory goes away: USERDs in it are taken from their channels, which are stopped first.
  void Unmap(uint64_t start, uint64_t length);

  // An engine (bit of PMC ENABLE) is reset by the guest: its own context on it gets ENG_RESET.
  void ResetEngine(uint32_t engine);
  uint64_t bound_channels() const;
  void DumpChannels(Dump& dump);

 private:
  struct Pbdma {
    uint32_t intr_0 = 0;
    uint32_t intr_1 = 0;
    uint32_t enable_0 = 0;
    uint32_t enable_1 = 0;
    uint32_t timeout = 0x10000;
    uint32_t stall_0 = ~0u;
    uint32_t stall_1 = ~0u;
    bool occupied = false;  // shows the error of channel shown.chid
    PbdmaError shown;
  };

  // ---- virtual_fifo.cc ----
  void UpdateInterrupts() TS_REQUIRES(context_.mutex);
  uint32_t Intr0() const TS_REQUIRES(context_.mutex);
  uint32_t PbdmaInterrupts() const TS_REQUIRES(context_.mutex);
  uint32_t ReadRunlist(uint32_t runlist, uint32_t word) TS_REQUIRES(context_.mutex);
  void WriteRunlist(uint32_t runlist, uint32_t word, uint32_t value) TS_REQUIRES(context_.mutex);
  void Submit(uint32_t runlist) TS_REQUIRES(context_.mutex);
  Status ParseList(uint32_t runlist, SoftwareRunlist* list) TS_REQUIRES(context_.mutex);
  void WriteSchedDisable(uint32_t value) TS_REQUIRES(context_.mutex);
  void WriteRunlistPreempt(uint32_t value) TS_REQUIRES(context_.mutex);
  uint32_t ReadRunlistPreempt() TS_REQUIRES(context_.mutex);
  void WritePreempt(uint32_t value) TS_REQUIRES(context_.mutex);
  void PreemptDone() TS_REQUIRES(context_.mutex);
  uint32_t ReadStatus(uint32_t physical_offset) const TS_REQUIRES(context_.mutex);
  uint32_t ReadInstStatus(uint32_t runlist) TS_REQUIRES(context_.mutex);
  uint32_t ReadIdle(uint32_t runlist) const TS_REQUIRES(context_.mutex);
  uint32_t* IdleEnable(uint32_t offset, bool* set) TS_REQUIRES(context_.mutex);

  // ---- virtual_channel.cc ----
  VirtualChannel* Find(uint32_t chid) TS_REQUIRES(context_.mutex);
  VirtualChannel* FindOrMake(uint32_t chid) TS_REQUIRES(context_.mutex);
  // The guest's channel that a physical PBDMA holds, or null.
  VirtualChannel* LoadedChannel(uint32_t pbdma) TS_REQUIRES(context_.mutex);
  void WriteInst(uint32_t chid, uint32_t value) TS_REQUIRES(context_.mutex);
  void WriteControl(uint32_t chid, uint32_t value) TS_REQUIRES(context_.mutex);
  Status Bind(VirtualChannel& channel, uint32_t value) TS_REQUIRES(context_.mutex);
  void Unbind(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  void ReadInstance(uint32_t inst, InstanceBlock* block) const TS_REQUIRES(context_.mutex);
  Status BuildShadow(VirtualChannel& channel, const InstanceBlock& block)
      TS_REQUIRES(context_.mutex);
  UserdPlace PlaceUserd(const InstanceBlock& block, base::Gpa* page) TS_REQUIRES(context_.mutex);
  void Check(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  void Revalidate(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  void ReleaseParts(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  ChannelPointers PointersOf(const VirtualChannel& channel) const TS_REQUIRES(context_.mutex);
  void Disable(const VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  void EnableIfFree(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  void BindError(uint32_t code) TS_REQUIRES(context_.mutex);
  void DumpChannel(const VirtualChannel& channel, Dump& dump) const TS_REQUIRES(context_.mutex);

  // ---- virtual_pbdma.cc ----
  void HandlePbdmaError(const PbdmaError& error) TS_REQUIRES(context_.mutex);
  bool Emulate(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  void ClearFaulted(uint32_t data) TS_REQUIRES(context_.mutex);
  void Show(Pbdma& pbdma, const PbdmaError& error) TS_REQUIRES(context_.mutex);
  void Resolve(Pbdma& pbdma) TS_REQUIRES(context_.mutex);
  void ShowNext(uint32_t index) TS_REQUIRES(context_.mutex);
  void PatchMethod(VirtualChannel& channel, uint32_t method0, uint32_t data0)
      TS_REQUIRES(context_.mutex);
  void Resume(VirtualChannel& channel) TS_REQUIRES(context_.mutex);
  uint32_t ReadPbdmaState(uint32_t index, uint32_t register_offset) TS_REQUIRES(context_.mutex);

  VgpuContext& context_;
  VirtualMmu& mmu_;
  base::HashMap<base::UniquePtr<VirtualChannel>> channels_ TS_GUARDED_BY(context_.mutex);

  uint32_t intr_0_ TS_GUARDED_BY(context_.mutex) = 0;  // W1C bits
  uint32_t intr_mask_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t enable_[2] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t bind_error_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t sched_error_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t sched_disable_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t runlist_events_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t ctxsw_timeouts_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t ctxsw_info_[kNumEngines] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t idle_enable_[4] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t base_lo_[kNumRunlists] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t base_hi_[kNumRunlists] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t submit_[kNumRunlists] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t submit_info_[kNumRunlists] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t runlist_preempts_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t preempt_ TS_GUARDED_BY(context_.mutex) = 0;
  bool preempt_wanted_ TS_GUARDED_BY(context_.mutex) = false;
  // Some channel has kHoldMemOp or kHoldSync.
  bool mmu_waited_for_ TS_GUARDED_BY(context_.mutex) = false;
  // Some channel may have kHoldCheck.
  bool checks_wanted_ TS_GUARDED_BY(context_.mutex) = false;
  Pbdma pbdmas_[kNumRunlists] TS_GUARDED_BY(context_.mutex);
};

}  // namespace turnstile
