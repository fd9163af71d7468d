// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/fifo.h"

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace guest {

namespace {

using base::Status;
namespace pfifo = ts104::pfifo;
namespace pbdma = ts104::pbdma;
using PccsrChannel = ts104::pccsr::Channel;
using PccsrInst = ts104::pccsr::ChannelInst;

constexpr uint32_t kMaxListed = 1024;
constexpr uint32_t kStopTimeoutUs = 2000000;

bool OnHardware(PccsrChannel channel) {
  return channel.Test<PccsrChannel::Busy>() ||
         channel.Get<PccsrChannel::Status>() >= PccsrChannel::kStatusOnPbdma;
}

PccsrChannel ClearFaulted() {
  PccsrChannel clear;
  clear.Set<PccsrChannel::PbdmaFaulted>(1).Set<PccsrChannel::EngFaulted>(1);
  return clear;
}

}  // namespace

Fifo::~Fifo() {
  for (Channel* channel : channels_) delete channel;
}

Status Fifo::Init(uint32_t num_chids, uint32_t context_bytes) {
  TS_TRY_STATUS(mutex_.Init(TSG_RANK_DEVICE));
  base::MutexGuard guard(mutex_);
  context_bytes_ = context_bytes;
  TS_TRY(chids_, base::Bitmap::Create(num_chids));
  TS_TRY(channels_, base::DynArray<Channel*>::Create(num_chids));
  const uint32_t listed = num_chids < kMaxListed ? num_chids : kMaxListed;
  for (uint32_t r = 0; r < TSG_NUM_RUNLISTS; ++r) {
    if ((topology_.runlist_mask >> r & 1) != 0) TS_TRY_STATUS(runlists_[r].Init(listed));
  }
  TS_TRY_STATUS(faults_.Init());
  for (uint32_t p = 0; p < TSG_NUM_RUNLISTS; ++p) {
    pbdma::Intr0(~0u).WriteTo(os_, p);
    pbdma::Intr1(~0u).WriteTo(os_, p);
    pbdma::IntrEn0(~0u).WriteTo(os_, p);
    pbdma::IntrEn1(~0u).WriteTo(os_, p);
  }
  pfifo::Intr0(~0u).WriteTo(os_);
  pfifo::Intr0 enable;
  enable.Set<pfifo::Intr0::BindError>(1).Set<pfifo::Intr0::SchedError>(1);
  enable.Set<pfifo::Intr0::PbdmaIntr>(1);
  pfifo::IntrEn0(enable.raw()).WriteTo(os_);
  return Status::kOk;
}

Status Fifo::Shutdown() {
  base::MutexGuard guard(mutex_);
  pfifo::IntrEn0().WriteTo(os_);
  Status result = Status::kOk;
  for (uint32_t r = 0; r < TSG_NUM_RUNLISTS; ++r) {
    if ((topology_.runlist_mask >> r & 1) == 0) continue;
    const Status status = runlists_[r].Submit({});
    if (status != Status::kOk) result = status;
  }
  for (const Channel* channel : channels_) {
    if (channel == nullptr || channel->state != Channel::State::kRunning) continue;
    const Status status = WaitUntilOff(*channel);
    if (status != Status::kOk) result = status;
  }
  faults_.Disable();
  return result;
}

Status Fifo::AllocMemory(Channel& channel) {
  TS_TRY(channel.on_list.inst, vram_.Alloc(NV_RAMIN_SIZE));
  if (channel.runlist != topology_.compute_runlist) return Status::kOk;
  base::Result<uint64_t> context = vram_.Alloc(context_bytes_);
  if (!context.ok()) {
    (void)vram_.Free(channel.on_list.inst, NV_RAMIN_SIZE);
    return context.status();
  }
  channel.block.context_offset = *context;
  channel.context_bytes = context_bytes_;
  return Status::kOk;
}

void Fifo::FreeMemory(Channel& channel) {
  (void)vram_.Free(channel.on_list.inst, NV_RAMIN_SIZE);
  if (channel.context_bytes != 0) {
    (void)vram_.Free(channel.block.context_offset, channel.context_bytes);
  }
}

Status Fifo::SubmitList(uint32_t runlist) {
  return runlists_[runlist].Submit(listed_[runlist].span());
}

void Fifo::Unlist(const Channel& channel) {
  base::Vector<RunlistChannel*>& list = listed_[channel.runlist];
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == &channel.on_list) {
      list.Erase(i);
      return;
    }
  }
}

Status Fifo::StartLocked(Channel& channel) {
  const uint32_t chid = channel.on_list.chid;
  if (channel.context_bytes != 0) {
    os_.VramZero(channel.block.context_offset, channel.context_bytes);
  }
  // On the heap: a page is too much for a kernel stack.
  TS_TRY(auto words, base::DynArray<uint32_t>::Create(kInstanceWords));
  BuildInstanceBlock(channel.block, words.span().first<kInstanceWords>());
  os_.VramWrite(channel.on_list.inst, words.data(), NV_RAMIN_SIZE);

  TS_TRY_STATUS(listed_[channel.runlist].TryPushBack(&channel.on_list));
  ClearFaulted().WriteTo(os_, chid);
  PccsrInst inst;
  inst.Set<PccsrInst::Ptr>(static_cast<uint32_t>(channel.on_list.inst >> 12));
  inst.Set<PccsrInst::Target>(PccsrInst::kTargetVid).Set<PccsrInst::Bind>(1).WriteTo(os_, chid);
  PccsrChannel enable;
  enable.Set<PccsrChannel::EnableSet>(1).WriteTo(os_, chid);
  channel.first_error = {};
  channel.error_count = 0;
  channel.unreported = false;
  channel.state = Channel::State::kRunning;
  const Status status = SubmitList(channel.runlist);
  if (status != Status::kOk) (void)StopLocked(channel);
  return status;
}

Status Fifo::WaitUntilOff(const Channel& channel) {
  return os_.WaitFor(kStopTimeoutUs, [&]() TS_NO_THREAD_SAFETY_ANALYSIS {
    if (!OnHardware(PccsrChannel::ReadFrom(os_, channel.on_list.chid))) return true;
    // A PBDMA with an interrupt pending is frozen and saves nothing out.
    ServicePbdma(channel.runlist);
    return false;
  });
}

Status Fifo::StopLocked(Channel& channel) {
  if (channel.state != Channel::State::kRunning) {
    return channel.state == Channel::State::kStuck ? Status::kTimeout : Status::kOk;
  }
  const uint32_t chid = channel.on_list.chid;
  PccsrChannel disable;
  disable.Set<PccsrChannel::EnableClr>(1).WriteTo(os_, chid);
  Unlist(channel);
  const Status submitted = SubmitList(channel.runlist);
  const Status off = WaitUntilOff(channel);
  if (!os_.lost() && off != Status::kOk) {
    channel.state = Channel::State::kStuck;
    os_.Log(TSG_LOG_ERROR, LogLine().Text("channel ").Dec(chid).Text(" does not stop"));
    return off;
  }
  ClearFaulted().WriteTo(os_, chid);
  PccsrInst().WriteTo(os_, chid);
  channel.state = Channel::State::kStopped;
  return os_.lost() ? Status::kIo : submitted;
}

base::Result<Channel*> Fifo::Create(const tsg_channel_params& params, uint32_t root_aperture,
                                    uint64_t root_address) {
  base::MutexGuard guard(mutex_);
  if (os_.lost()) return Status::kIo;
  if (listed_[params.runlist].size() >= runlists_[params.runlist].max_channels()) {
    return Status::kNoSpace;
  }
  TS_TRY(auto channel, base::MakeUnique<Channel>());
  channel->runlist = params.runlist;
  channel->on_list.userd = params.userd_address;
  channel->on_list.userd_aperture = params.userd_aperture;
  EncodeTimeslice(params.timeslice_us, &channel->on_list);
  channel->block.ring_va = params.ring_va;
  channel->block.ring_order = params.ring_order;
  channel->block.userd_address = params.userd_address;
  channel->block.userd_aperture = params.userd_aperture;
  channel->block.root_address = root_address;
  channel->block.root_aperture = root_aperture;
  TS_TRY_STATUS(AllocMemory(*channel));

  const base::Result<size_t> chid = chids_.AllocRange(1);
  if (!chid.ok()) {
    FreeMemory(*channel);
    return chid.status();
  }
  channel->on_list.chid = channel->block.chid = static_cast<uint32_t>(*chid);
  channel->token = channel->on_list.chid | channel->runlist << 16;
  const Status status = StartLocked(*channel);
  if (status != Status::kOk && channel->state != Channel::State::kStuck) {
    FreeMemory(*channel);
    (void)chids_.Free(*chid, 1);
    return status;
  }
  // A stuck one stays here until the device goes.
  channels_[*chid] = channel.release();
  if (status != Status::kOk) return status;
  return channels_[*chid];
}

void Fifo::Destroy(Channel* channel) {
  base::MutexGuard guard(mutex_);
  (void)StopLocked(*channel);
  if (channel->state == Channel::State::kStuck) return;
  const uint32_t chid = channel->on_list.chid;
  FreeMemory(*channel);
  (void)chids_.Free(chid, 1);
  channels_[chid] = nullptr;
  delete channel;
}

Status Fifo::Stop(Channel& channel) {
  base::MutexGuard guard(mutex_);
  return StopLocked(channel);
}

Status Fifo::Restart(Channel& channel) {
  base::MutexGuard guard(mutex_);
  if (os_.lost()) return Status::kIo;
  if (channel.state == Channel::State::kRunning) return Status::kOk;
  if (channel.state == Channel::State::kStuck) return Status::kTimeout;
  return StartLocked(channel);
}

Status Fifo::GetStatus(const Channel& channel, tsg_channel_status* out) {
  base::MutexGuard guard(mutex_);
  *out = {};
  out->first = channel.first_error;
  out->error_count = channel.error_count;
  if (os_.lost()) out->first.kind = TSG_ERROR_DEVICE_LOST;
  return out->first.kind == TSG_ERROR_NONE ? Status::kOk : Status::kIo;
}

}  // namespace guest
