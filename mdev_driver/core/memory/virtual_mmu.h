// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The MMU registers of a vGPU: invalidates that bring the shadow up to date, and fault buffers.
#pragma once

#include <cstdint>

#include "base/unique_ptr.h"
#include "core/memory/pin_table.h"
#include "core/memory/shadow_page_table.h"
#include "core/vgpu_context.h"

namespace turnstile {

// All functions with the vGPU's mutex held, process context. (Said by AssertHeld inside: the
// analysis does not see that the context of two parts is one.)
class VirtualMmu {
 public:
  explicit VirtualMmu(VgpuContext& context) : context_(context) {}

  // Between Open and Close pins and shadows exist. kNoMemory.
  Status Open();
  // The vGPU's channels are off the device and have given their spaces back. Unpins everything.
  void Close();
  // Registers to power-on values. Shadows go as in Close.
  void Reset();

  // `offset`: canonical BAR0 offset of part kMmu.
  uint32_t Read(uint32_t offset) const;
  void Write(uint32_t offset, uint32_t value);

  // The shadow of a page directory, with a reference. A new one is filled by Work as far as the
  // budget of this call does not reach; see ShadowSpace::syncing. kNoMemory, kNoSpace.
  base::Result<ShadowSpace*> AcquireSpace(GuestAddress root);
  void ReleaseSpace(ShadowSpace* space);
  // A page for direct use by the device (USERD). kFault: no such page, or limit.
  base::Result<base::Hpa> PinPage(base::Gpa page);
  void UnpinPage(base::Gpa page);
  // Carries out what was released, in slices: see ShadowMemory::Flush. What this call does not get
  // done is left to Work.
  void Flush();
  void Unmap(uint64_t start, uint64_t length);
  bool AnyPinned(uint64_t start, uint64_t length) const;

  // An invalidate by method (MEM_OP); the data words of the four methods.
  void MemOp(uint32_t a, uint32_t b, uint32_t c, uint32_t d);

  // Whether an invalidate of the guest, or the filling of a new space, goes on.
  bool busy() const;
  // One slice of that work, and of taking apart what is not needed any more. True: there is more.
  bool Work();

  // Puts a packet, translated for the guest, into its fault buffer 0.
  void PushFault(const std::array<uint32_t, kFaultPacketWords>& packet);
  // Packets were lost on the way.
  void PushOverflow();

  uint64_t pages_pinned() const;
  uint64_t pages_pinned_total() const;
  uint64_t pin_calls() const;
  uint64_t ptes_translated() const;
  uint64_t memory_bytes() const;
  void DumpPins(Dump& dump) const;
  void DumpShadow(Dump& dump) const;

 private:
  struct FaultBuffer {
    uint32_t lo = 0;
    uint32_t hi = 0;
    uint32_t get = 0;
    uint32_t put = 0;
    uint32_t size = 0;
    bool overflow = false;
  };

  void Start(bool all_spaces, GuestAddress root, const SyncRange& range)
      TS_REQUIRES(context_.mutex);
  bool RunSlice(int64_t budget) TS_REQUIRES(context_.mutex);
  void WriteInvalidate(uint32_t value) TS_REQUIRES(context_.mutex);
  void WriteFaultBuffer(uint32_t index, uint32_t word, uint32_t value) TS_REQUIRES(context_.mutex);
  uint32_t ReadFaultBuffer(uint32_t index, uint32_t word) const TS_REQUIRES(context_.mutex);
  uint32_t FaultStatus() const TS_REQUIRES(context_.mutex);
  void ReportLimit() TS_REQUIRES(context_.mutex);
  void WaitUntilUnmapIsOver() TS_REQUIRES(context_.mutex);

  VgpuContext& context_;
  base::UniquePtr<PinTable> pins_ TS_GUARDED_BY(context_.mutex);
  base::UniquePtr<ShadowMemory> shadow_ TS_GUARDED_BY(context_.mutex);
  bool busy_ TS_GUARDED_BY(context_.mutex) = false;     // an invalidate is asked for, not done
  bool syncing_ TS_GUARDED_BY(context_.mutex) = false;  // some of it is: tables are half changed
  uint64_t quiet_until_ns_ TS_GUARDED_BY(context_.mutex) = 0;

  uint32_t vaddr_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t upper_vaddr_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t pdb_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t upper_pdb_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t size_ TS_GUARDED_BY(context_.mutex) = 0;
  uint32_t invalidate_ TS_GUARDED_BY(context_.mutex) = 0;
  FaultBuffer faults_[2] TS_GUARDED_BY(context_.mutex);
  uint64_t pinned_before_ TS_GUARDED_BY(context_.mutex) = 0;  // of earlier openings
  uint64_t calls_before_ TS_GUARDED_BY(context_.mutex) = 0;
  uint64_t ptes_before_ TS_GUARDED_BY(context_.mutex) = 0;
};

}  // namespace turnstile
