// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "channel_ram.h"

namespace ts104 {
namespace {

uint32_t StatusOf(const Channel& channel) {
  if (channel.on_pbdma) {
    return channel.on_engine ? NV_PCCSR_CHANNEL_STATUS_ON_PBDMA_AND_ENG
                             : NV_PCCSR_CHANNEL_STATUS_ON_PBDMA;
  }
  if (channel.on_engine) {
    if (channel.acquiring) return NV_PCCSR_CHANNEL_STATUS_ON_ENG_PENDING_ACQUIRE;
    return channel.pending ? NV_PCCSR_CHANNEL_STATUS_ON_ENG_PENDING
                           : NV_PCCSR_CHANNEL_STATUS_ON_ENG;
  }
  if (channel.acquiring) return NV_PCCSR_CHANNEL_STATUS_PENDING_ACQUIRE;
  return channel.pending ? NV_PCCSR_CHANNEL_STATUS_PENDING : NV_PCCSR_CHANNEL_STATUS_IDLE;
}

}  // namespace

BindError ChannelRam::WriteInst(uint32_t chid, uint32_t value) {
  Channel& channel = (*this)[chid];
  value &= TS104_FIELD(NV_PCCSR_CHANNEL_INST_PTR) | TS104_FIELD(NV_PCCSR_CHANNEL_INST_TARGET) |
           TS104_FIELD(NV_PCCSR_CHANNEL_INST_BIND);
  if (TS104_GET(NV_PCCSR_CHANNEL_INST_BIND, value) == 0) {
    if (channel.busy()) return BindError::kUnbindWhileRunning;
    channel.inst = value;
    channel.pending = false;
    channel.rang = false;
    channel.acquiring = false;
    channel.runlist = kNoRunlist;
    return BindError::kNone;
  }
  if (channel.bound()) return BindError::kBindNotUnbound;
  if (TS104_GET(NV_PCCSR_CHANNEL_INST_TARGET, value) == 1) return BindError::kInvalidContextTarget;
  channel.inst = value;
  return BindError::kNone;
}

void ChannelRam::WriteChannel(uint32_t chid, uint32_t value) {
  Channel& channel = (*this)[chid];
  channel.next = TS104_GET(NV_PCCSR_CHANNEL_NEXT, value) != 0;
  if (TS104_GET(NV_PCCSR_CHANNEL_ENABLE_SET, value) != 0) channel.enabled = true;
  if (TS104_GET(NV_PCCSR_CHANNEL_ENABLE_CLR, value) != 0) channel.enabled = false;
  if (TS104_GET(NV_PCCSR_CHANNEL_PBDMA_FAULTED, value) != 0) channel.pbdma_faulted = false;
  if (TS104_GET(NV_PCCSR_CHANNEL_ENG_FAULTED, value) != 0) channel.eng_faulted = false;
  if (TS104_GET(NV_PCCSR_CHANNEL_FORCE_PBDMA_FAULTED, value) != 0) channel.pbdma_faulted = true;
  if (TS104_GET(NV_PCCSR_CHANNEL_FORCE_ENG_FAULTED, value) != 0) channel.eng_faulted = true;
}

uint32_t ChannelRam::ReadChannel(uint32_t chid) const {
  const Channel& channel = (*this)[chid];
  return TS104_SET(NV_PCCSR_CHANNEL_ENABLE, channel.enabled) |
         TS104_SET(NV_PCCSR_CHANNEL_NEXT, channel.next) |
         TS104_SET(NV_PCCSR_CHANNEL_PBDMA_FAULTED, channel.pbdma_faulted) |
         TS104_SET(NV_PCCSR_CHANNEL_ENG_FAULTED, channel.eng_faulted) |
         TS104_SET(NV_PCCSR_CHANNEL_STATUS, StatusOf(channel)) |
         TS104_SET(NV_PCCSR_CHANNEL_BUSY, channel.busy());
}

}  // namespace ts104
