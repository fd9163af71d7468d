// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/vgpu.h"

#include <utility>

#include "core/log.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

constexpr uint64_t kWindowBytes = NV_FUNC_USERMODE_SIZE;  // BAR3 of a vGPU is window 0
constexpr uint32_t kHighestRegion = 8;
constexpr size_t kMaxVramAccess = 65536;
constexpr uint64_t kVramClearUnit = kPageSize;

}  // namespace

// ---- life
// ----------------------------------------------------------------------------------------

Vgpu::Vgpu(PhysicalGpu& gpu, uint32_t type, ts_host_vgpu* host, const Partition& partition)
    : type_(type),
      context_(gpu, host, partition),
      mmu_(context_),
      fifo_(context_, mmu_),
      config_(partition.vram_bytes, kWindowBytes, static_cast<uint16_t>(kVgpuTypes[type].divisor)) {
  context_.memory_counter.Add(sizeof(Vgpu));
}

base::Result<base::UniquePtr<Vgpu>> Vgpu::Create(PhysicalGpu& gpu, uint32_t type,
                                                 ts_host_vgpu* host) {
  TS_TRY(const Partition partition, gpu.Reserve(type, host));
  auto vgpu = base::AdoptUnique(new (std::nothrow) Vgpu(gpu, type, host, partition));
  Status status = vgpu.status();
  if (status == Status::kOk) status = (*vgpu)->context_.mutex.Init(kRankVgpu);
  if (status == Status::kOk) status = (*vgpu)->context_.tree.Init();
  if (status != Status::kOk) {
    gpu.Unreserve(partition);
    return status;
  }
  base::MutexGuard guard((*vgpu)->context_.mutex);
  (*vgpu)->ready_ = true;
  (*vgpu)->ResetRegisters();
  return vgpu;
}

Vgpu::~Vgpu() {
  if (ready_) context_.gpu.Unreserve(context_.partition);
}

Status Vgpu::Open() {
  base::MutexGuard guard(context_.mutex);
  if (open_) return Status::kBusy;
  TS_TRY_STATUS(mmu_.Open());
  const Status status = context_.gpu.Attach(context_.partition, *this, context_.memory_counter);
  if (status != Status::kOk) {
    mmu_.Close();
    return status;
  }
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    time_base_[r] = context_.gpu.FunctionTime(context_.partition.function, r);
  }
  open_ = true;
  ResetRegisters();
  return Status::kOk;
}

void Vgpu::Close() {
  base::MutexGuard guard(context_.mutex);
  if (!open_) return;
  StopAndForget();
  mmu_.Close();
  time_before_ = GpuTime();
  context_.gpu.Detach(context_.partition, context_.memory_counter);
  open_ = false;
  ResetRegisters();
  // The next user may be another tenant.
  StartClear();
  ts_host_vram_clear_wait(context_.host);
}

Status Vgpu::Reset() {
  base::MutexGuard guard(context_.mutex);
  if (!open_) return Status::kInvalidArgument;
  ResetLocked();
  return Status::kOk;
}

// As FLR on a bare TS104: registers, contexts and VRAM (register map §1), of this vGPU alone. The
// register map gives it 100 ms, so VRAM is cleared behind it: nothing of the guest is on the device
// then, and its next list waits (VirtualFifo::Submit), as the CPU does that touches VRAM.
void Vgpu::ResetLocked() {
  ++context_.figures.resets;
  ts_host_trace_reset(context_.host);
  StopAndForget();
  ResetRegisters();
  StartClear();
}

void Vgpu::StartClear() {
  const Partition& partition = context_.partition;
  ts_host_vram_clear_start(context_.host, partition.vram.value(),
                           base::AlignDown(partition.vram_bytes, kVramClearUnit));
}

// Takes everything off the device, in the order that is safe: doorbells, contexts, bindings; then
// what they referred to.
void Vgpu::StopAndForget() {
  context_.gpu.SetPendingEnable(context_.partition, false);
  context_.gpu.Drain(context_.partition);
  fifo_.Reset();
  mmu_.Reset();
  FunctionEvents stale;
  context_.gpu.TakeEvents(context_.partition, stale);
}

void Vgpu::ResetRegisters() {
  fifo_.Reset();
  mmu_.Reset();
  config_.Reset();
  context_.tree.Reset();
  ResetStored(stored_);
  pmc_enable_ = ~0u;
  pmc_software_[0] = pmc_software_[1] = 0;
  channel_cfg_ = ts104::ctrl::VirtualChannelCfg::Mask::kMask;  // reset value, register map J15
  for (Lce& lce : lces_) {
    lce = Lce();
    lce.enable = ts104::ce::LceIntrEn::Launcherr::kMask;
  }
  for (uint32_t& word : msix_) word = 0;
  for (uint32_t vector = 0; vector < TS_MSIX_VECTORS; ++vector)
    msix_[vector * 4 + 3] = 1;  // masked
}

// ---- work
// ----------------------------------------------------------------------------------------

void Vgpu::Work() {
  base::MutexGuard guard(context_.mutex);
  if (!open_) return;
  FunctionEvents events;
  context_.gpu.TakeEvents(context_.partition, events);
  for (const FaultRecord& fault : events.faults) ForwardFault(fault);
  if (events.faults_lost) mmu_.PushOverflow();
  fifo_.HandleEvents(events);
  // A slice at a time: other accesses of the guest come in between.
  const bool more = mmu_.Work();
  if (!mmu_.busy()) fifo_.MmuIdle();  // also when a trap finished the work before we came
  if (fifo_.CheckSome() || more) QueueWork();
}

// The packet as a bare TS104 would write it: the guest's instance block, function 0.
void Vgpu::ForwardFault(const FaultRecord& record) {
  using Packet = ts104::mmu_fmt::FaultPacket;
  using Inst = ts104::pccsr::ChannelInst;
  std::array<uint32_t, kFaultPacketWords> packet = record.words;
  const uint32_t chid = context_.VirtualId(record.chid);
  const Inst inst(fifo_.ReadChannel(Inst::Offset(chid)));
  const uint64_t address = uint64_t{inst.Get<Inst::Ptr>()} << 12;
  Packet::InstAperture::Set(packet, inst.Get<Inst::Target>());
  Packet::InstLo::Set(packet, (address & 0xffffffff) >> 12);
  Packet::InstHi::Set(packet, address >> 32);
  Packet::Gfid::Set(packet, 0);
  if (record.lce_report != 0) {
    const auto index = static_cast<uint32_t>(Packet::EngineId::Get(packet) - Packet::kEngineIdCe0);
    if (index < kNumLces) {
      lces_[index].launch_error = record.lce_report;
      lces_[index].status |= ts104::ce::LceIntrStatus::Launcherr::kMask;
      UpdateLce(index);
    }
  }
  ts_host_trace_fault(context_.host, static_cast<uint32_t>(Packet::FaultType::Get(packet)),
                      static_cast<uint32_t>(Packet::EngineId::Get(packet)),
                      static_cast<uint32_t>(Packet::AccessType::Get(packet)),
                      Packet::AddrLo::Get(packet) << 12 | Packet::AddrHi::Get(packet) << 32);
  mmu_.PushFault(packet);
}

void Vgpu::DmaUnmap(uint64_t start, uint64_t length) {
  if (length == 0 || start + (length - 1) < start) return;
  base::MutexGuard guard(context_.mutex);
  if (!open_ || !mmu_.AnyPinned(start, length)) return;
  fifo_.Unmap(start, length);
  mmu_.Unmap(start, length);
}

// ---- regions
// -------------------------------------------------------------------------------------

Status Vgpu::RegionInfo(uint32_t index, ts_region_info* out) const {
  if (index > kHighestRegion) return Status::kInvalidArgument;
  *out = {};
  switch (index) {
    case TS_REGION_BAR0:
      out->size = TS104_PCI_BAR0_SIZE;
      out->flags = TS_REGION_READ | TS_REGION_WRITE | TS_REGION_MMAP;
      out->n_areas = 2;
      out->areas[0] = {NV_FUNC_BAR0_USERMODE_BASE, kWindowBytes};
      out->areas[1] = {NV_FUNC_USERMODE_BASE, kWindowBytes};
      break;
    case TS_REGION_BAR1:
      out->size = context_.partition.vram_bytes;
      out->flags = TS_REGION_READ | TS_REGION_WRITE | TS_REGION_MMAP;
      break;
    case TS_REGION_BAR3:
      out->size = kWindowBytes;
      out->flags = TS_REGION_READ | TS_REGION_WRITE | TS_REGION_MMAP;
      break;
    case TS_REGION_CONFIG:
      out->size = PciConfig::kRegionSize;
      out->flags = TS_REGION_READ | TS_REGION_WRITE;
      break;
    default: break;
  }
  return Status::kOk;
}

Status Vgpu::Map(uint32_t index, uint64_t offset, uint64_t length, ts_mmap_target* out) const {
  ts_region_info info;
  TS_TRY_STATUS(RegionInfo(index, &info));
  if (length == 0 || !base::IsAligned(offset, kPageSize) || !base::IsAligned(length, kPageSize) ||
      (info.flags & TS_REGION_MMAP) == 0) {
    return Status::kInvalidArgument;
  }
  uint64_t window_offset = offset;
  bool inside = info.n_areas == 0 && base::RangeFits(offset, length, info.size);
  for (uint32_t i = 0; i < info.n_areas && !inside; ++i) {
    const ts_region_area& area = info.areas[i];
    if (offset < area.offset) continue;
    window_offset = offset - area.offset;
    inside = base::RangeFits(window_offset, length, area.size);
  }
  if (!inside) return Status::kInvalidArgument;
  if (index == TS_REGION_BAR1) {
    *out = {TS104_PCI_BAR1_INDEX, context_.partition.vram.value() + offset, true};
    return Status::kOk;
  }
  // Every doorbell page of the guest is the window of this function: it names own channels only.
  const uint64_t window = context_.partition.function.value() * kWindowBytes;
  *out = {TS104_PCI_BAR3_INDEX, window + window_offset, false};
  return Status::kOk;
}

Status Vgpu::RegionAccess(uint32_t index, uint64_t offset, uint8_t* buffer, size_t length,
                          bool write) {
  ts_region_info info;
  TS_TRY_STATUS(RegionInfo(index, &info));
  if (!base::RangeFits(offset, length, info.size)) return Status::kInvalidArgument;
  base::MutexGuard guard(context_.mutex);
  if (!open_) return Status::kInvalidArgument;
  if (index == TS_REGION_BAR1) return AccessVram(offset, buffer, length, write);
  if (length == 0 || length > 8 || !base::IsPowerOfTwo(length) ||
      !base::IsAligned(offset, length)) {
    return Status::kInvalidArgument;
  }
  if (index == TS_REGION_CONFIG) return AccessConfig(offset, buffer, length, write);
  ++context_.figures.csr_exits;
  if (index == TS_REGION_BAR0) return AccessBar0(offset, buffer, length, write);
  return AccessBar3(offset, buffer, length, write);
}

Status Vgpu::AccessConfig(uint64_t offset, uint8_t* buffer, size_t length, bool write) {
  ++context_.figures.config_accesses;
  if (!write) {
    const uint64_t value = config_.Read(offset, length);
    for (size_t i = 0; i < length; ++i) buffer[i] = static_cast<uint8_t>(value >> (8 * i));
    return Status::kOk;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < length; ++i) value |= uint64_t{buffer[i]} << (8 * i);
  const PciConfig::Effects effects = config_.Write(offset, value, length);
  if (effects.reset) {
    ResetLocked();
  } else if (effects.command_changed) {
    context_.tree.SetIntxDisabled(config_.intx_disabled());
  }
  return Status::kOk;
}

// 8- and 16-bit reads are the part of the word, such writes are dropped; 64 bits are two words, low
// first (register map §1).
Status Vgpu::AccessBar0(uint64_t offset, uint8_t* buffer, size_t length, bool write) {
  const auto at = static_cast<uint32_t>(offset);
  if (write) {
    for (size_t i = 0; i + 4 <= length; i += 4) {
      ++context_.figures.csr_writes;
      WriteCsr(at + static_cast<uint32_t>(i), base::LoadLe32(buffer + i));
    }
    return Status::kOk;
  }
  for (size_t done = 0; done < length;) {
    const uint32_t word_offset = (at + static_cast<uint32_t>(done)) & ~3u;
    ++context_.figures.csr_reads;
    uint32_t word = ReadCsr(word_offset) >> (8 * (at % 4));
    const size_t part = length < 4 ? length : 4;
    for (size_t i = 0; i < part; ++i, word >>= 8) buffer[done++] = static_cast<uint8_t>(word);
  }
  return Status::kOk;
}

// The same window as in BAR0.
Status Vgpu::AccessBar3(uint64_t offset, uint8_t* buffer, size_t length, bool write) {
  return AccessBar0(NV_FUNC_BAR0_USERMODE_BASE + offset, buffer, length, write);
}

Status Vgpu::AccessVram(uint64_t offset, uint8_t* buffer, size_t length, bool write) {
  if (length == 0 || length > kMaxVramAccess) return Status::kInvalidArgument;
  const GuestAddress at = {Aperture::kVid, offset};
  return write ? context_.memory.Write(at, buffer, length)
               : context_.memory.Read(at, buffer, length);
}

// ---- figures
// -------------------------------------------------------------------------------------

uint64_t Vgpu::GpuTime() const {
  uint64_t total = time_before_;
  for (uint32_t r = 0; open_ && r < kNumRunlists; ++r) {
    total += context_.gpu.FunctionTime(context_.partition.function, r) - time_base_[r];
  }
  return total;
}

void Vgpu::Counters(ts_counters* out) {
  base::MutexGuard guard(context_.mutex);
  *out = {};
  out->csr_reads = context_.figures.csr_reads;
  out->csr_writes = context_.figures.csr_writes;
  out->csr_exits_total = context_.figures.csr_exits;
  out->interrupt_tree_accesses = context_.figures.tree_accesses;
  out->config_accesses = context_.figures.config_accesses;
  out->invalidates = context_.figures.invalidates;
  out->mem_ops = context_.figures.mem_ops;
  out->ptes_translated = mmu_.ptes_translated();
  out->submissions = context_.figures.submissions;
  out->interrupts_injected = context_.tree.injected();
  out->faults_forwarded = context_.figures.faults_forwarded;
  out->pbdma_errors = context_.figures.pbdma_errors;
  out->pages_pinned = mmu_.pages_pinned();
  out->pages_pinned_total = mmu_.pages_pinned_total();
  out->pin_calls = mmu_.pin_calls();
  out->resets = context_.figures.resets;
  out->gpu_time_ns = GpuTime();
  out->memory_bytes = context_.memory_counter.bytes() + mmu_.memory_bytes();
  out->channels = fifo_.bound_channels();
}

}  // namespace turnstile
