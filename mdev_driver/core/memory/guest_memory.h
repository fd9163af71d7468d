// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What a vGPU's guest calls memory: its VRAM partition and its system memory, by CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/host.h"
#include "core/vgpu_type.h"

namespace turnstile {

// Which memory an address of the guest means.
enum class Aperture : uint8_t { kVid, kSys };

// Guest address with its aperture: where a page table, list or instance block lies. Untrusted.
struct GuestAddress {
  Aperture aperture = Aperture::kVid;
  uint64_t value = 0;
  friend constexpr bool operator==(GuestAddress, GuestAddress) = default;
};

// System addresses of TS104 have 47 bits (register map §6).
inline constexpr uint64_t kSystemAddressLimit = uint64_t{1} << 47;

// Reads and writes by copy, so that what was read cannot change any more while it is judged.
// Process context. Any thread; system memory only between open and close. VRAM that is still being
// cleared is waited for.
class GuestMemory {
 public:
  GuestMemory(HostGpu gpu, ts_host_vgpu* vgpu, const Partition& partition)
      : gpu_(gpu), vgpu_(vgpu), partition_(partition) {}

  // kFault: outside the partition, or no such guest memory. `length` at most 64 KiB.
  Status Read(GuestAddress from, void* buffer, size_t length) const {
    if (from.aperture == Aperture::kSys) {
      if (!base::RangeFits(from.value, length, kSystemAddressLimit)) return Status::kFault;
      return ts_host_guest_read(vgpu_, from.value, buffer, length) < 0 ? Status::kFault
                                                                       : Status::kOk;
    }
    if (!base::RangeFits(from.value, length, partition_.vram_bytes)) return Status::kFault;
    ts_host_vram_clear_wait(vgpu_);
    gpu_.VramRead(partition_.vram + from.value, buffer, length);
    return Status::kOk;
  }
  Status Write(GuestAddress to, const void* buffer, size_t length) const {
    if (to.aperture == Aperture::kSys) {
      if (!base::RangeFits(to.value, length, kSystemAddressLimit)) return Status::kFault;
      return ts_host_guest_write(vgpu_, to.value, buffer, length) < 0 ? Status::kFault
                                                                      : Status::kOk;
    }
    if (!base::RangeFits(to.value, length, partition_.vram_bytes)) return Status::kFault;
    ts_host_vram_clear_wait(vgpu_);
    gpu_.VramWrite(partition_.vram + to.value, buffer, length);
    return Status::kOk;
  }

  // Where [offset, offset + length) of the guest's VRAM is on the card. kFault: outside.
  base::Result<base::VramOffset> TranslateVram(base::GuestVramOffset offset,
                                               uint64_t length) const {
    if (!base::RangeFits(offset.value(), length, partition_.vram_bytes)) return Status::kFault;
    return partition_.vram + offset.value();
  }

 private:
  HostGpu gpu_;
  ts_host_vgpu* vgpu_;
  const Partition& partition_;
};

}  // namespace turnstile
