// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/memory/virtual_mmu.h"

#include <utility>

#include "core/log.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace mmu = ts104::mmu;

// Work of one slice inside a trap and in the work item; see SyncBudget. A trap stays below a few
// hundred microseconds.
constexpr int64_t kTrapBudget = 16384;
constexpr int64_t kWorkBudget = 65536;

constexpr uint32_t kFaultWords = 5;  // LO, HI, GET, PUT, SIZE
constexpr uint64_t kSmallPage = 4096;
// For this long after memory was taken away nothing is pinned. VFIO asks again at most ten times
// for a page that was pinned anew while it unmaps, and then stops the host; a guest must not win
// that race eleven times.
constexpr uint32_t kQuietUs = 1000;

// [address, address + (4 KiB << log2)), aligned down, cut to the virtual address space.
SyncRange Targeted(uint64_t address, uint32_t log2) {
  SyncRange range;
  if (log2 >= 49 - 12) return range;
  const uint64_t size = kSmallPage << log2;
  address = base::AlignDown(address, size);
  if (address >= SyncRange::kVaLimit) address = SyncRange::kVaLimit - size;
  range.first = address;
  range.last = address + (size - 1);
  return range;
}

}  // namespace

Status VirtualMmu::Open() {
  context_.mutex.AssertHeld();
  // Guests choose the keys of the table of pins: its hash is seeded with what they do not know.
  const uint64_t seed =
      context_.gpu.host().NowNs() * 0x9e3779b97f4a7c15u ^ reinterpret_cast<uintptr_t>(this);
  TS_TRY(auto pins, base::MakeUnique<PinTable>(context_.host, seed));
  TS_TRY(shadow_, ShadowMemory::Create(context_.gpu.host(), context_.partition, context_.memory,
                                       *pins, context_.gpu, context_.memory_counter));
  pins_ = std::move(pins);
  return Status::kOk;
}

void VirtualMmu::Close() {
  context_.mutex.AssertHeld();
  if (pins_.get() == nullptr) return;
  if (shadow_.get() != nullptr) {
    shadow_->Clear();
    ptes_before_ += shadow_->ptes_translated();
  }
  pinned_before_ += pins_->pinned_total();
  calls_before_ += pins_->host_calls();
  shadow_.reset();
  pins_.reset();
  busy_ = syncing_ = false;
}

void VirtualMmu::Reset() {
  context_.mutex.AssertHeld();
  if (shadow_.get() != nullptr) shadow_->Clear();
  busy_ = syncing_ = false;
  vaddr_ = upper_vaddr_ = pdb_ = upper_pdb_ = size_ = invalidate_ = 0;
  faults_[0] = FaultBuffer();
  faults_[1] = FaultBuffer();
}

// ---- spaces and pages
// ----------------------------------------------------------------------------

base::Result<ShadowSpace*> VirtualMmu::AcquireSpace(GuestAddress root) {
  context_.mutex.AssertHeld();
  bool fresh = false;
  shadow_->set_pin_batch(context_.gpu.pin_batch());
  base::Result<ShadowSpace*> space = shadow_->Acquire(root, &fresh);
  if (space.status() == Status::kNoSpace && !syncing_ && shadow_->flush_wanted()) {
    // The limit counts tables that are waiting to be freed. To come here again the guest must have
    // so many made anew, slice by slice.
    shadow_->Flush();
    space = shadow_->Acquire(root, &fresh);
  }
  if (space.ok() && fresh) Start(false, root, SyncRange());
  ReportLimit();
  return space;
}

void VirtualMmu::ReleaseSpace(ShadowSpace* space) {
  context_.mutex.AssertHeld();
  shadow_->Release(space);
}

base::Result<base::Hpa> VirtualMmu::PinPage(base::Gpa page) {
  context_.mutex.AssertHeld();
  uint64_t dma = PinTable::kNoDma;
  WaitUntilUnmapIsOver();
  pins_->Acquire(page, 1, &dma, 1);
  if (dma == PinTable::kNoDma) return Status::kFault;
  return base::Hpa(dma);
}

void VirtualMmu::UnpinPage(base::Gpa page) {
  context_.mutex.AssertHeld();
  pins_->Release(page);
}

void VirtualMmu::Flush() {
  context_.mutex.AssertHeld();
  if (syncing_) return;  // comes at the end of it
  SyncBudget budget{kTrapBudget};
  if (!shadow_->FlushTlb(budget) || !shadow_->Free(budget)) {
    ts_host_queue_vgpu_work(context_.host);
  }
}

void VirtualMmu::Unmap(uint64_t start, uint64_t length) {
  context_.mutex.AssertHeld();
  shadow_->Unmap(start, length);
  quiet_until_ns_ = context_.gpu.host().NowNs() + kQuietUs * 1000;
}

void VirtualMmu::WaitUntilUnmapIsOver() {
  if (context_.gpu.host().NowNs() < quiet_until_ns_) context_.gpu.host().SleepUs(kQuietUs);
}

bool VirtualMmu::AnyPinned(uint64_t start, uint64_t length) const {
  context_.mutex.AssertHeld();
  return pins_.get() != nullptr && pins_->AnyPinned(start, length);
}

// ---- invalidate
// ----------------------------------------------------------------------------------

void VirtualMmu::Start(bool all_spaces, GuestAddress root, const SyncRange& range) {
  shadow_->set_pin_batch(context_.gpu.pin_batch());
  if (all_spaces) {
    shadow_->ForEachSpace([&](ShadowSpace& space) { space.BeginSync(range); });
  } else if (ShadowSpace* space = shadow_->Find(root); space != nullptr) {
    space->BeginSync(range);
  }
  busy_ = true;
  if (RunSlice(kTrapBudget)) ts_host_queue_vgpu_work(context_.host);
}

// True: there is more to do. What an earlier request retired is freed before the next one begins.
bool VirtualMmu::RunSlice(int64_t units) {
  SyncBudget budget{units};
  if (!syncing_ && (!shadow_->FlushTlb(budget) || !shadow_->Free(budget))) return true;
  if (!busy_) return false;
  WaitUntilUnmapIsOver();
  syncing_ = true;
  bool more = false;
  const uint64_t before = shadow_->ptes_translated();
  shadow_->ForEachSpace([&](ShadowSpace& space) { more = !space.Continue(budget) || more; });
  more = more || !shadow_->FlushTlb(budget);
  if (!more) {
    busy_ = syncing_ = false;
    ReportLimit();
  }
  ts_host_trace_shadow_update(context_.host, shadow_->ptes_translated() - before, more);
  return more || !shadow_->Free(budget);
}

bool VirtualMmu::Work() {
  context_.mutex.AssertHeld();
  return shadow_.get() != nullptr && RunSlice(kWorkBudget);
}

void VirtualMmu::ReportLimit() {
  if (!shadow_->TakeLimitReached() && !pins_->TakeLimitReached()) return;
  LogLine(context_.gpu.host().handle(), context_.host, TS_LOG_WARNING, TS_LOG_CAPACITY)
      << "limit reached, or no memory: " << shadow_->tables() << " of " << ShadowMemory::kMaxTables
      << " shadow tables, " << uint64_t{pins_->pinned()} << " of " << uint64_t{PinTable::kMaxPages}
      << " pages; the rest stays unmapped";
}

void VirtualMmu::WriteInvalidate(uint32_t value) {
  using Invalidate = mmu::Invalidate;
  const Invalidate request(value);
  invalidate_ = value & ~Invalidate::Trigger::kMask;
  if (!request.Test<Invalidate::Trigger>()) return;
  ++context_.figures.invalidates;
  const mmu::InvalidatePdb pdb(pdb_);
  const GuestAddress root = {
      pdb.Test<mmu::InvalidatePdb::Aperture>() ? Aperture::kSys : Aperture::kVid,
      uint64_t{pdb.Get<mmu::InvalidatePdb::Addr>()} << 12 |
          uint64_t{mmu::InvalidateUpperPdb(upper_pdb_).Get<mmu::InvalidateUpperPdb::Addr>()} << 40};
  SyncRange range;
  if (!request.Test<Invalidate::AllVa>()) {
    const uint64_t page = mmu::InvalidateVaddr(vaddr_).Get<mmu::InvalidateVaddr::Bits>() |
                          uint64_t{upper_vaddr_} << 28;
    const uint32_t log2 = request.Test<Invalidate::UseSize>()
                              ? mmu::InvalidateSize(size_).Get<mmu::InvalidateSize::Val>()
                              : 0;
    range = Targeted(page << 12, log2);
  }
  Start(request.Test<Invalidate::AllPdb>(), root, range);
}

void VirtualMmu::MemOp(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  context_.mutex.AssertHeld();
  namespace host = ts104::host_methods;
  const uint32_t operation = host::MemOpD(d).Get<host::MemOpD::Operation>();
  const bool targeted = operation == host::MemOpD::kOperationMmuTlbInvalidateTargeted;
  if (!targeted && operation != host::MemOpD::kOperationMmuTlbInvalidate) return;
  ++context_.figures.invalidates;
  ++context_.figures.mem_ops;
  const host::MemOpC pdb(c);
  const GuestAddress root = {
      pdb.Get<host::MemOpC::TlbInvalidatePdbAperture>() ==
              host::MemOpC::kTlbInvalidatePdbApertureVidMem
          ? Aperture::kVid
          : Aperture::kSys,
      uint64_t{c & host::MemOpC::TlbInvalidatePdbAddrLo::kMask} |
          uint64_t{host::MemOpD(d).Get<host::MemOpD::TlbInvalidatePdbAddrHi>()} << 32};
  SyncRange range;
  if (targeted) {
    const host::MemOpA target(a);
    range =
        Targeted(uint64_t{a & host::MemOpA::TlbInvalidateTargetAddrLo::kMask} | uint64_t{b} << 32,
                 target.Get<host::MemOpA::TlbInvalidateInvalidationSize>());
  }
  const bool all = pdb.Get<host::MemOpC::TlbInvalidatePdb>() == host::MemOpC::kTlbInvalidatePdbAll;
  Start(all, root, range);
}

// ---- registers
// -----------------------------------------------------------------------------------

uint32_t VirtualMmu::Read(uint32_t offset) const {
  context_.mutex.AssertHeld();
  switch (offset) {
    case mmu::InvalidateVaddr::Offset(): return vaddr_;
    case mmu::InvalidatePdb::Offset(): return pdb_;
    case mmu::Invalidate::Offset():
      return invalidate_ | (busy_ ? mmu::Invalidate::Trigger::kMask : 0);
    case mmu::InvalidateUpperVaddr::Offset(): return upper_vaddr_;
    case mmu::InvalidateUpperPdb::Offset(): return upper_pdb_;
    case mmu::InvalidateSize::Offset(): return size_;
    case mmu::FaultStatus::Offset(): return FaultStatus();
    default: break;
  }
  const uint32_t word = (offset - mmu::FaultBufferLo::Offset(0)) / 4;
  return word < 2 * kFaultWords ? ReadFaultBuffer(word / kFaultWords, word % kFaultWords) : 0;
}

void VirtualMmu::Write(uint32_t offset, uint32_t value) {
  context_.mutex.AssertHeld();
  switch (offset) {
    case mmu::InvalidateVaddr::Offset(): vaddr_ = value & mmu::InvalidateVaddr::Bits::kMask; return;
    case mmu::InvalidatePdb::Offset():
      pdb_ = value & (mmu::InvalidatePdb::Addr::kMask | mmu::InvalidatePdb::Aperture::kMask);
      return;
    case mmu::Invalidate::Offset(): WriteInvalidate(value); return;
    case mmu::InvalidateUpperVaddr::Offset():
      upper_vaddr_ = value & mmu::InvalidateUpperVaddr::Bits::kMask;
      return;
    case mmu::InvalidateUpperPdb::Offset():
      upper_pdb_ = value & mmu::InvalidateUpperPdb::Addr::kMask;
      return;
    case mmu::InvalidateSize::Offset():
      size_ = value & (mmu::InvalidateSize::Val::kMask | mmu::InvalidateSize::Gfid::kMask);
      return;
    case mmu::FaultStatus::Offset(): return;  // nothing of it is latched in a vGPU
    default: break;
  }
  const uint32_t word = (offset - mmu::FaultBufferLo::Offset(0)) / 4;
  if (word < 2 * kFaultWords) WriteFaultBuffer(word / kFaultWords, word % kFaultWords, value);
}

uint32_t VirtualMmu::ReadFaultBuffer(uint32_t index, uint32_t word) const {
  const FaultBuffer& buffer = faults_[index];
  const uint32_t overflow = buffer.overflow ? mmu::FaultBufferGet::Overflow::kMask : 0;
  switch (word) {
    case 0: return buffer.lo;
    case 1: return buffer.hi;
    case 2: return buffer.get | overflow;
    case 3: return buffer.put | overflow;
    default: return buffer.size;
  }
}

void VirtualMmu::WriteFaultBuffer(uint32_t index, uint32_t word, uint32_t value) {
  FaultBuffer& buffer = faults_[index];
  using Get = mmu::FaultBufferGet;
  using Size = mmu::FaultBufferSize;
  switch (word) {
    case 0: buffer.lo = value & ~0xff0u; return;
    case 1: buffer.hi = value; return;
    case 2:
      buffer.get = value & Get::Ptr::kMask;
      if (Get(value).Test<Get::Overflow>()) buffer.overflow = false;
      return;
    case 4: {
      const bool was_enabled = Size(buffer.size).Test<Size::Enable>();
      buffer.size = value & (Size::Val::kMask | Size::OverflowIntr::kMask | Size::Enable::kMask);
      if (!was_enabled && Size(value).Test<Size::Enable>()) buffer.get = buffer.put = 0;
      return;
    }
    default: return;  // PUT is the hardware's
  }
}

uint32_t VirtualMmu::FaultStatus() const {
  using Value = mmu::FaultStatus;
  Value status;
  status.Set<Value::NonReplayable>(faults_[0].get != faults_[0].put ? 1 : 0)
      .Set<Value::NonReplayableOverflow>(faults_[0].overflow ? 1 : 0)
      .Set<Value::NonReplayableError>(faults_[0].overflow ? 1 : 0);
  return status.raw();
}

// ---- faults
// --------------------------------------------------------------------------------------

void VirtualMmu::PushFault(const std::array<uint32_t, kFaultPacketWords>& packet) {
  context_.mutex.AssertHeld();
  using Low = mmu::FaultBufferLo;
  using Size = mmu::FaultBufferSize;
  FaultBuffer& buffer = faults_[0];
  const Low low(buffer.lo);
  const uint32_t entries = Size(buffer.size).Get<Size::Val>();
  const uint32_t next = buffer.put + 1 < entries ? buffer.put + 1 : 0;
  const bool usable = Size(buffer.size).Test<Size::Enable>() &&
                      low.Get<Low::AddrMode>() == Low::kAddrModePhysical && buffer.put < entries &&
                      next != buffer.get;
  GuestAddress at = {
      low.Get<Low::PhysAperture>() == Low::kPhysApertureLocal ? Aperture::kVid : Aperture::kSys,
      uint64_t{buffer.lo & Low::Addr::kMask} | uint64_t{buffer.hi} << 32};
  at.value += uint64_t{buffer.put} * NV_MMU_FAULT_PACKET_SIZE;
  // VALID lies in the last word and is written after the others.
  constexpr size_t kBody = (kFaultPacketWords - 1) * sizeof(uint32_t);
  GuestAddress last = at;
  last.value += kBody;
  if (!usable || context_.memory.Write(at, packet.data(), kBody) != Status::kOk ||
      context_.memory.Write(last, &packet[kFaultPacketWords - 1], sizeof(uint32_t)) !=
          Status::kOk) {
    PushOverflow();
    return;
  }
  buffer.put = next;
  ++context_.figures.faults_forwarded;
  context_.tree.Latch(NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE);
}

void VirtualMmu::PushOverflow() {
  context_.mutex.AssertHeld();
  faults_[0].overflow = true;
  context_.tree.Latch(NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE_ERROR);
}

// ---- figures
// -------------------------------------------------------------------------------------

bool VirtualMmu::busy() const {
  context_.mutex.AssertHeld();
  return busy_;
}

uint64_t VirtualMmu::pages_pinned() const {
  context_.mutex.AssertHeld();
  return pins_.get() == nullptr ? 0 : pins_->pinned();
}
uint64_t VirtualMmu::pages_pinned_total() const {
  context_.mutex.AssertHeld();
  return pinned_before_ + (pins_.get() == nullptr ? 0 : pins_->pinned_total());
}
uint64_t VirtualMmu::pin_calls() const {
  context_.mutex.AssertHeld();
  return calls_before_ + (pins_.get() == nullptr ? 0 : pins_->host_calls());
}
uint64_t VirtualMmu::ptes_translated() const {
  context_.mutex.AssertHeld();
  return ptes_before_ + (shadow_.get() == nullptr ? 0 : shadow_->ptes_translated());
}
uint64_t VirtualMmu::memory_bytes() const {
  context_.mutex.AssertHeld();
  return pins_.get() == nullptr ? 0 : pins_->memory_bytes();
}

}  // namespace turnstile
