// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/fault_buffer.h"

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace guest {

using base::Status;
using ts104::mmu::FaultBufferGet;
using ts104::mmu::FaultBufferHi;
using ts104::mmu::FaultBufferLo;
using ts104::mmu::FaultBufferPut;
using ts104::mmu::FaultBufferSize;

namespace {
constexpr uint32_t kNonReplayable = 0;
}

FaultBuffer::Packet DecodeFaultPacket(const uint32_t (&words)[8]) {
  using P = ts104::mmu_fmt::FaultPacket;
  FaultBuffer::Packet packet = {};
  packet.inst = P::InstLo::Get(words) << 12 | P::InstHi::Get(words) << 32;
  packet.inst_aperture = static_cast<uint32_t>(P::InstAperture::Get(words));
  tsg_error& error = packet.error;
  error.type = static_cast<uint32_t>(P::FaultType::Get(words));
  error.kind =
      error.type < P::kFaultTypeTs104IllegalInstruction ? TSG_ERROR_MMU_FAULT : TSG_ERROR_ENGINE;
  error.access = static_cast<uint32_t>(P::AccessType::Get(words));
  error.engine = static_cast<uint32_t>(P::EngineId::Get(words));
  error.client = static_cast<uint32_t>(P::Client::Get(words) | P::MmuClientType::Get(words) << 7);
  error.va = P::AddrLo::Get(words) << 12 | P::AddrHi::Get(words) << 32;
  error.gpu_time_ns = P::TimestampLo::Get(words) | P::TimestampHi::Get(words) << 32;
  return packet;
}

FaultBuffer::~FaultBuffer() {
  if (allocated_) (void)vram_.Free(offset_, kPackets * NV_MMU_FAULT_PACKET_SIZE);
}

Status FaultBuffer::Init() {
  TS_TRY(offset_, vram_.Alloc(kPackets * NV_MMU_FAULT_PACKET_SIZE));
  allocated_ = true;
  os_.VramZero(offset_, kPackets * NV_MMU_FAULT_PACKET_SIZE);
  FaultBufferSize().WriteTo(os_, kNonReplayable);
  FaultBufferLo lo;
  lo.Set<FaultBufferLo::AddrMode>(FaultBufferLo::kAddrModePhysical);
  lo.Set<FaultBufferLo::PhysAperture>(FaultBufferLo::kPhysApertureLocal);
  lo.Set<FaultBufferLo::Addr>(static_cast<uint32_t>(offset_ >> 12) & FaultBufferLo::Addr::kMax);
  lo.WriteTo(os_, kNonReplayable);
  FaultBufferHi(static_cast<uint32_t>(offset_ >> 32)).WriteTo(os_, kNonReplayable);
  FaultBufferSize size;
  size.Set<FaultBufferSize::Val>(kPackets).Set<FaultBufferSize::OverflowIntr>(1);
  size.Set<FaultBufferSize::Enable>(1);
  size.WriteTo(os_, kNonReplayable);
  get_ = put_ = 0;
  return Status::kOk;
}

void FaultBuffer::Disable() { FaultBufferSize().WriteTo(os_, kNonReplayable); }

base::Result<FaultBuffer::Packet> FaultBuffer::Pop() {
  if (get_ == put_) {
    const uint32_t put = FaultBufferPut::ReadFrom(os_, kNonReplayable).Get<FaultBufferPut::Ptr>();
    if (put >= kPackets || put == get_) return Status::kNotFound;
    put_ = put;
  }
  const uint64_t at = offset_ + uint64_t{get_} * NV_MMU_FAULT_PACKET_SIZE;
  uint32_t words[8] = {};
  // VALID is written last: a packet that PUT already counts may still be on its way.
  const Status arrived = os_.WaitFor(1000, [&] {
    os_.VramRead(at, words, sizeof(words));
    return ts104::mmu_fmt::FaultPacket::Valid::Get(words) != 0;
  });
  const uint32_t none = 0;
  os_.VramWrite(at + 28, &none, sizeof(none));
  get_ = (get_ + 1) % kPackets;
  FaultBufferGet get;
  get.Set<FaultBufferGet::Ptr>(get_).WriteTo(os_, kNonReplayable);
  if (arrived != Status::kOk) return Status::kNotFound;
  return DecodeFaultPacket(words);
}

bool FaultBuffer::TakeOverflow() {
  if (!FaultBufferPut::ReadFrom(os_, kNonReplayable).Test<FaultBufferPut::Overflow>()) return false;
  // GET was moved before, in a write of its own, as the manual asks.
  FaultBufferGet get;
  get.Set<FaultBufferGet::Ptr>(get_).Set<FaultBufferGet::Overflow>(1);
  get.WriteTo(os_, kNonReplayable);
  return true;
}

}  // namespace guest
