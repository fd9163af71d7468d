// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/device.h"

#include "base/units.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace guest {

namespace {

using base::Status;
namespace mmu = ts104::mmu;
using ts104::ctrl::VirtualChannelCfg;

constexpr uint32_t kChipId = 0x164;
constexpr uint32_t kIdLetters = 0x34305354;  // "TS04"
constexpr uint32_t kInvalidateTimeoutUs = 2000000;

}  // namespace

Device::Device(const tsg_os_ops& ops, void* os, uint32_t flags)
    : os_(ops, os),
      tables_(os_, vram_, (flags & TSG_CREATE_SYSMEM_TABLES) != 0),
      fifo_(os_, vram_, topology_),
      interrupts_(os_, topology_) {}

base::Result<base::UniquePtr<Device>> Device::Create(const tsg_os_ops& ops, void* os,
                                                     uint32_t flags) {
  TS_TRY(auto device, base::AdoptUnique(new (std::nothrow) Device(ops, os, flags)));
  TS_TRY_STATUS(device->ReadIds());
  TS_TRY_STATUS(device->BringUp());
  return device;
}

Device::~Device() {
  if (!up_) return;
  interrupts_.Disable();
  if (fifo_.Shutdown() != Status::kOk && !os_.lost()) {
    os_.Log(TSG_LOG_ERROR, LogLine().Text("the device did not become idle"));
  }
  VirtualChannelCfg config;
  config.Set<VirtualChannelCfg::Mask>(VirtualChannelCfg::Mask::kMax).WriteTo(os_, 0u);
}

Status Device::ReadIds() {
  using ts104::pmc::Boot1;
  using ts104::pmc::Boot42;
  info_.chip_id = Boot42::ReadFrom(os_).Get<Boot42::ChipId>();
  const uint32_t letters = ts104::ts104::Id::ReadFrom(os_).raw();
  if (info_.chip_id != kChipId || letters != kIdLetters) {
    os_.Log(
        TSG_LOG_ERROR,
        LogLine().Text("no TS104: chip id ").Hex(info_.chip_id).Text(", letters ").Hex(letters));
    return Status::kNotFound;
  }
  info_.is_vgpu = Boot1::ReadFrom(os_).Get<Boot1::Vgpu>() != Boot1::kVgpuReal ? 1 : 0;
  info_.vram_bytes = ts104::ts104::VramSize::ReadFrom(os_).raw() * base::kMiB;
  info_.sm_count = ts104::ts104::SmCount::ReadFrom(os_).raw();
  info_.engine_mhz = ts104::ts104::EngineMhz::ReadFrom(os_).raw();
  info_.ctxsw_us = ts104::ts104::CtxswUs::ReadFrom(os_).raw();
  info_.ctx_size = ts104::ts104::CtxSize::ReadFrom(os_).raw();
  info_.num_chids = ts104::ts104::NumChids::ReadFrom(os_).raw();
  info_.doorbell_offset = NV_FUNC_BAR0_USERMODE_BASE;
  if (info_.vram_bytes == 0 || info_.num_chids == 0 || info_.num_chids > TS104_PCI_NUM_CHANNELS ||
      info_.ctx_size % TSG_PAGE_SIZE != 0) {
    os_.Log(TSG_LOG_ERROR, LogLine()
                               .Text("impossible sizes: VRAM ")
                               .Hex(info_.vram_bytes)
                               .Text(", channels ")
                               .Dec(info_.num_chids)
                               .Text(", context ")
                               .Dec(info_.ctx_size));
    return Status::kNotSupported;
  }
  TS_TRY(topology_, ReadTopology(os_));
  info_.engine_runlist_mask = topology_.runlist_mask;
  info_.compute_runlist = topology_.compute_runlist;
  info_.copy_runlist_mask = topology_.copy_runlist_mask;
  return Status::kOk;
}

Status Device::BringUp() {
  using ts104::pmc::Enable;
  TS_TRY_STATUS(vram_.Init(info_.vram_bytes));
  TS_TRY_STATUS(mmu_mutex_.Init(TSG_RANK_MMU));
  // Whoever had the device before may have left work behind. Page 0 stays unused, so that address 0
  // never names a structure (a context buffer at 0 would mean: none).
  TS_TRY_STATUS(vram_.Alloc(TSG_PAGE_SIZE));
  interrupts_.Disable();
  const uint32_t units = topology_.engine_reset_mask | 1u << Enable::kBitPfifo;
  const uint32_t enabled = Enable::ReadFrom(os_).raw();
  Enable(enabled & ~units).WriteTo(os_);
  Enable(enabled | units).WriteTo(os_);

  TS_TRY_STATUS(fifo_.Init(info_.num_chids, info_.ctx_size));
  up_ = true;
  TS_TRY_STATUS(InvalidateAll());
  interrupts_.Enable();
  VirtualChannelCfg config;
  config.Set<VirtualChannelCfg::Mask>(VirtualChannelCfg::Mask::kMax);
  config.Set<VirtualChannelCfg::PendingEnable>(1).WriteTo(os_, 0u);
  return Status::kOk;
}

Status Device::InvalidateAll() {
  base::MutexGuard guard(mmu_mutex_);
  mmu::Invalidate invalidate;
  invalidate.Set<mmu::Invalidate::AllVa>(1).Set<mmu::Invalidate::AllPdb>(1);
  invalidate.Set<mmu::Invalidate::Trigger>(1).WriteTo(os_);
  return os_.WaitFor(kInvalidateTimeoutUs, [&] {
    return !mmu::Invalidate::ReadFrom(os_).Test<mmu::Invalidate::Trigger>();
  });
}

Status Device::InvalidateTlb(const TablePage& root) {
  base::MutexGuard guard(mmu_mutex_);
  mmu::InvalidatePdb pdb;
  pdb.Set<mmu::InvalidatePdb::Aperture>(root.aperture == TSG_APERTURE_VRAM
                                            ? mmu::InvalidatePdb::kApertureVid
                                            : mmu::InvalidatePdb::kApertureSys);
  // Page number: 28 bits here, the rest in UPPER_PDB.
  pdb.Set<mmu::InvalidatePdb::Addr>(static_cast<uint32_t>(root.address >> 12)).WriteTo(os_);
  mmu::InvalidateUpperPdb upper;
  upper.Set<mmu::InvalidateUpperPdb::Addr>(static_cast<uint32_t>(root.address >> 40)).WriteTo(os_);
  mmu::Invalidate invalidate;
  invalidate.Set<mmu::Invalidate::AllVa>(1).Set<mmu::Invalidate::Trigger>(1).WriteTo(os_);
  return os_.WaitFor(kInvalidateTimeoutUs, [&] {
    return !mmu::Invalidate::ReadFrom(os_).Test<mmu::Invalidate::Trigger>();
  });
}

uint64_t Device::GpuTime() const {
  constexpr uint32_t kTime0 = NV_FUNC_BAR0_USERMODE_BASE + ts104::usermode::Time0::Offset();
  constexpr uint32_t kTime1 = NV_FUNC_BAR0_USERMODE_BASE + ts104::usermode::Time1::Offset();
  uint32_t high = os_.Read32(kTime1);
  for (;;) {
    const uint32_t low = os_.Read32(kTime0);
    const uint32_t again = os_.Read32(kTime1);
    if (again == high) return uint64_t{high} << 32 | low;
    high = again;
  }
}

}  // namespace guest
