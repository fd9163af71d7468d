// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The part of Fifo that finds out what went wrong: fault packets, PBDMA and PFIFO interrupts.
#include "guest_driver/core/fifo.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace guest {

namespace {

namespace pfifo = ts104::pfifo;
namespace pbdma = ts104::pbdma;
using PccsrChannel = ts104::pccsr::Channel;

// Unbounded draining would let a device that always has one more keep us here.
constexpr uint32_t kMaxPacketsPerCall = 1024;

}  // namespace

uint32_t Fifo::ServiceErrors(std::span<tsg_error> out) {
  base::MutexGuard guard(mutex_);
  if (os_.lost()) return 0;
  DrainFaults();
  ServicePfifo();
  uint32_t count = 0;
  for (Channel* channel : channels_) {
    if (channel == nullptr || !channel->unreported) continue;
    if (count == out.size()) break;
    out[count++] = channel->first_error;
    channel->unreported = false;
  }
  return count;
}

Channel* Fifo::FindByInst(uint64_t inst) {
  for (Channel* channel : channels_) {
    if (channel != nullptr && channel->on_list.inst == inst) return channel;
  }
  return nullptr;
}

void Fifo::Record(Channel* channel, tsg_error error) {
  LogLine line;
  if (channel == nullptr) {
    os_.Log(TSG_LOG_WARN, line.Text("error of no known channel, type ").Hex(error.type));
    return;
  }
  error.chid = channel->on_list.chid;
  if (channel->error_count++ == 0) {
    channel->first_error = error;
    channel->unreported = true;
    line.Text("channel ").Dec(error.chid).Text(": ");
    if (error.kind == TSG_ERROR_PBDMA) {
      line.Text("push buffer error, INTR_0 ").Hex(error.type).Text(" INTR_1 ").Hex(error.access);
    } else {
      line.Text(tsg_fault_type_name(error.type)).Text(", ");
      line.Text(tsg_access_type_name(error.access)).Text(" at ").Hex(error.va);
      line.Text(", engine ").Dec(error.engine);
    }
    os_.Log(TSG_LOG_INFO, line);
  }
}

void Fifo::DrainFaults() {
  for (uint32_t i = 0; i < kMaxPacketsPerCall; ++i) {
    const base::Result<FaultBuffer::Packet> packet = faults_.Pop();
    if (!packet.ok()) break;
    const bool in_vram = packet->inst_aperture == ts104::mmu_fmt::FaultPacket::kInstApertureVid;
    Record(in_vram ? FindByInst(packet->inst) : nullptr, packet->error);
  }
  if (faults_.TakeOverflow()) FindLostFaults();
}

// After an overflow: the packets are gone, but the channels' FAULTED bits are not.
void Fifo::FindLostFaults() {
  for (Channel* channel : channels_) {
    if (channel == nullptr || channel->error_count != 0) continue;
    const auto status = PccsrChannel::ReadFrom(os_, channel->on_list.chid);
    const bool engine = status.Test<PccsrChannel::EngFaulted>();
    if (!engine && !status.Test<PccsrChannel::PbdmaFaulted>()) continue;
    tsg_error error = {};
    error.kind = TSG_ERROR_MMU_FAULT;
    error.type = NV_MMU_FAULT_PACKET_FAULT_TYPE_PTE;
    error.engine = engine ? NV_MMU_FAULT_PACKET_ENGINE_ID_GRAPHICS
                          : NV_MMU_FAULT_PACKET_ENGINE_ID_HOST0 + channel->runlist;
    Record(channel, error);
  }
}

void Fifo::ServicePfifo() {
  using pfifo::Intr0;
  const auto pending = Intr0::ReadFrom(os_);
  if (pending.Test<Intr0::BindError>() || pending.Test<Intr0::SchedError>()) {
    LogLine line;
    line.Text("PFIFO: bind error ").Hex(pfifo::BindError::ReadFrom(os_).raw());
    line.Text(", scheduling error ").Hex(pfifo::SchedError::ReadFrom(os_).raw());
    os_.Log(TSG_LOG_ERROR, line);
    Intr0 clear;
    clear.Set<Intr0::BindError>(1).Set<Intr0::SchedError>(1).WriteTo(os_);
  }
  if (!pending.Test<Intr0::PbdmaIntr>()) return;
  const uint32_t pbdmas = pfifo::IntrPbdmaId::ReadFrom(os_).raw();
  for (uint32_t p = 0; p < TSG_NUM_RUNLISTS; ++p) {
    if ((pbdmas >> p & 1) != 0) ServicePbdma(p);
  }
}

// A frozen PBDMA stops everybody on its runlist: the guilty channel is disabled and its method
// dropped, then the PBDMA goes on and saves it out.
void Fifo::ServicePbdma(uint32_t p) {
  const auto intr0 = pbdma::Intr0::ReadFrom(os_, p);
  const auto intr1 = pbdma::Intr1::ReadFrom(os_, p);
  if (intr0.raw() == 0 && intr1.raw() == 0) return;

  tsg_error error = {};
  error.kind = TSG_ERROR_PBDMA;
  error.type = intr0.raw();
  error.access = intr1.raw();
  error.engine = NV_MMU_FAULT_PACKET_ENGINE_ID_HOST0 + p;
  auto method = pbdma::Method0::ReadFrom(os_, p);
  error.va = method.raw() | uint64_t{pbdma::Data0::ReadFrom(os_, p).raw()} << 32;
  if (intr1.raw() != 0) {
    error.va = pbdma::HceDbg0::ReadFrom(os_, p).raw() |
               uint64_t{pbdma::HceDbg1::ReadFrom(os_, p).raw()} << 32;
  } else if (intr0.Test<pbdma::Intr0::Pbentry>()) {
    error.va = pbdma::HdrShadow::ReadFrom(os_, p).raw();
  }

  const auto loaded = pbdma::Channel::ReadFrom(os_, p);
  Channel* channel = nullptr;
  if (loaded.Test<pbdma::Channel::Valid>()) {
    const uint32_t chid = loaded.Get<pbdma::Channel::Chid>();
    if (chid < channels_.size()) channel = channels_[chid];
    PccsrChannel disable;
    disable.Set<PccsrChannel::EnableClr>(1).WriteTo(os_, chid);
  }
  method.Set<pbdma::Method0::Valid>(0).WriteTo(os_, p);
  intr1.WriteTo(os_, p);
  intr0.WriteTo(os_, p);
  Record(channel, error);
}

}  // namespace guest
