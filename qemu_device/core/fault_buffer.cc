// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fault_buffer.h"

#include <optional>
#include <span>

#include "ts104/typed.h"

namespace ts104 {
namespace {

constexpr uint32_t kIndex = 0;  // the non-replayable buffer
constexpr uint32_t kOverflow = TS104_FIELD(NV_PFB_PRI_MMU_FAULT_BUFFER_GET_OVERFLOW);
constexpr uint32_t kCorrupted = TS104_FIELD(NV_PFB_PRI_MMU_FAULT_BUFFER_GET_GETPTR_CORRUPTED);

template <typename Field>
void Put(FaultPacket& packet, uint64_t value) {
  Field::Set(std::span<uint32_t>(packet), value);
}

}  // namespace

FaultPacket EncodeFaultPacket(const FaultRecord& record) {
  using P = mmu_fmt::FaultPacket;
  FaultPacket packet{};
  Put<P::InstAperture>(packet, record.inst_target);
  Put<P::InstLo>(packet, record.inst_address >> 12);
  Put<P::InstHi>(packet, record.inst_address >> 32);
  Put<P::AddrLo>(packet, record.va >> 12);
  Put<P::AddrHi>(packet, record.va >> 32);
  Put<P::TimestampLo>(packet, record.time_ns);
  Put<P::TimestampHi>(packet, record.time_ns >> 32);
  Put<P::EngineId>(packet, record.engine_id);
  Put<P::Gfid>(packet, record.gfid);
  Put<P::FaultType>(packet, static_cast<uint64_t>(record.type));
  Put<P::Client>(packet, record.client);
  Put<P::AccessType>(packet, static_cast<uint64_t>(record.access));
  Put<P::MmuClientType>(packet, record.from_gpc ? 0 : 1);
  Put<P::GpcId>(packet, record.gpc_id);
  Put<P::Valid>(packet, 1);
  return packet;
}

void FaultBuffer::Overflow() {
  state_.SetBits(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(kIndex), kOverflow);
  state_.SetBits(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(kIndex), kOverflow);
  state_.RaiseVector(0, NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE_ERROR);
}

void FaultBuffer::Push(const FaultRecord& record) {
  PhysicalAddress slot;
  uint32_t put = 0;
  uint32_t entries = 0;
  {
    const std::lock_guard lock(state_.mutex);
    const uint32_t lo = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_LO(kIndex));
    const uint32_t hi = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_HI(kIndex));
    const uint32_t size = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(kIndex));
    const uint32_t get = TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_GET_PTR,
                                   state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(kIndex)));
    put = TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT_PTR,
                    state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(kIndex)));
    entries = TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE_VAL, size);
    const std::optional<Aperture> aperture =
        ApertureOfTarget(TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_LO_PHYS_APERTURE, lo));
    const bool usable = TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE_ENABLE, size) != 0 &&
                        TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_LO_ADDR_MODE, lo) != 0 &&
                        aperture.has_value() && put < entries && (put + 1) % entries != get;
    if (!usable) return Overflow();
    const uint64_t base = (uint64_t{hi} << 32) | (lo & 0xfffff000u);
    slot = {*aperture, base + uint64_t{put} * NV_MMU_FAULT_PACKET_SIZE};
  }

  // VALID lies in the last word and goes out last.
  const FaultPacket packet = EncodeFaultPacket(record);
  const auto body = std::span<const uint32_t>(packet).first<7>();
  BusStatus status = memory_.Write(slot, std::as_bytes(body));
  if (status == BusStatus::kOk) status = memory_.WriteValue(slot + body.size_bytes(), packet[7]);

  const std::lock_guard lock(state_.mutex);
  if (status != BusStatus::kOk) return Overflow();
  const uint32_t flags = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(kIndex)) & ~0xfffffu;
  state_.Set(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(kIndex), flags | (put + 1) % entries);
  state_.RaiseVector(0, NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE);
}

void FaultBuffer::OnGetWritten(uint32_t index, uint32_t old_value, uint32_t written) {
  const uint32_t get_offset = NV_PFB_PRI_MMU_FAULT_BUFFER_GET(index);
  const uint32_t put_offset = NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(index);
  const uint32_t size = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(index));
  const uint32_t entries = TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE_VAL, size);
  uint32_t flags = old_value & (kOverflow | kCorrupted) & ~written;
  const uint32_t pointer = TS104_GET(NV_PFB_PRI_MMU_FAULT_BUFFER_GET_PTR, written);
  if (pointer >= entries && entries != 0) flags |= kCorrupted;
  state_.Set(get_offset, flags | pointer);
  state_.Set(put_offset, flags | (state_.Get(put_offset) & 0xfffffu));
}

void FaultBuffer::OnSizeWritten(uint32_t index, uint32_t old_value) {
  const uint32_t offset = NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(index);
  const uint32_t value =
      state_.Get(offset) & ~TS104_FIELD(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE_SET_DEFAULT);
  state_.Set(offset, value);
  if ((value & ~old_value & TS104_FIELD(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE_ENABLE)) == 0) return;
  state_.Set(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(index), 0);
  state_.Set(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(index), 0);
}

uint32_t FaultBuffer::ReadStatus() const {
  const uint32_t get = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(kIndex));
  const uint32_t put = state_.Get(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(kIndex));
  const bool waiting = ((get ^ put) & 0xfffffu) != 0;
  return state_.Get(NV_PFB_PRI_MMU_FAULT_STATUS) |
         TS104_SET(NV_PFB_PRI_MMU_FAULT_STATUS_NON_REPLAYABLE, waiting) |
         TS104_SET(NV_PFB_PRI_MMU_FAULT_STATUS_NON_REPLAYABLE_OVERFLOW, (get & kOverflow) != 0) |
         TS104_SET(NV_PFB_PRI_MMU_FAULT_STATUS_NON_REPLAYABLE_GETPTR_CORRUPTED,
                   (get & kCorrupted) != 0);
}

}  // namespace ts104
