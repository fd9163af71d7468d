// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/runlist.h"

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace guest {

using base::Status;
using ts104::pfifo::RunlistBaseHi;
using ts104::pfifo::RunlistBaseLo;
using ts104::pfifo::RunlistSubmit;
using ts104::pfifo::RunlistSubmitInfo;

namespace {
constexpr uint32_t kSubmitTimeoutUs = 2000000;
constexpr uint32_t kEntriesPerChannel = 2;
}  // namespace

void EncodeTimeslice(uint32_t us, RunlistChannel* channel) {
  if (us == 0) {
    channel->timeslice_scale = 3;
    channel->timeslice_timeout = 128;
    return;
  }
  uint64_t ticks = uint64_t{us} * 1000 / 1024;
  uint32_t scale = 0;
  while (ticks > 255 && scale < 15) {
    ticks >>= 1;
    ++scale;
  }
  channel->timeslice_scale = scale;
  channel->timeslice_timeout = ticks > 255 ? 255 : static_cast<uint32_t>(ticks);
}

void EncodeRunlistEntries(const RunlistChannel& channel, std::span<uint32_t, 8> words) {
  using ts104::ram::RamrlEntryChan;
  using ts104::ram::RamrlEntryTsg;
  for (uint32_t& word : words) word = 0;
  const std::span<uint32_t> tsg = words.first<4>();
  RamrlEntryTsg::Type::Set(tsg, RamrlEntryChan::kTypeTsg);
  RamrlEntryTsg::TimesliceScale::Set(tsg, channel.timeslice_scale);
  RamrlEntryTsg::TimesliceTimeout::Set(tsg, channel.timeslice_timeout);
  RamrlEntryTsg::Length::Set(tsg, 1);
  RamrlEntryTsg::Tsgid::Set(tsg, channel.chid);

  const std::span<uint32_t> chan = words.last<4>();
  RamrlEntryChan::UserdTarget::Set(chan, channel.userd_aperture == TSG_APERTURE_VRAM ? 0 : 2);
  RamrlEntryChan::UserdPtrLo::Set(chan, channel.userd >> 8);
  RamrlEntryChan::UserdPtrHi::Set(chan, channel.userd >> 32);
  RamrlEntryChan::Chid::Set(chan, channel.chid);
  RamrlEntryChan::InstPtrLo::Set(chan, channel.inst >> 12);
  RamrlEntryChan::InstPtrHi::Set(chan, channel.inst >> 32);
}

Runlist::~Runlist() {
  if (max_channels_ != 0) (void)vram_.Free(offset_, Bytes());
}

uint64_t Runlist::Bytes() const {
  return uint64_t{max_channels_} * kEntriesPerChannel * NV_RAMRL_ENTRY_SIZE;
}

Status Runlist::Init(uint32_t max_channels) {
  TS_TRY(offset_, vram_.Alloc(uint64_t{max_channels} * kEntriesPerChannel * NV_RAMRL_ENTRY_SIZE,
                              NV_RAMRL_BASE_ALIGN));
  max_channels_ = max_channels;
  return Status::kOk;
}

Status Runlist::Submit(std::span<RunlistChannel* const> channels) {
  if (channels.size() > max_channels_) return Status::kNoSpace;
  uint64_t at = offset_;
  for (const RunlistChannel* channel : channels) {
    uint32_t words[8];
    EncodeRunlistEntries(*channel, words);
    os_.VramWrite(at, words, sizeof(words));
    at += sizeof(words);
  }
  RunlistBaseLo lo;
  lo.Set<RunlistBaseLo::Target>(RunlistBaseLo::kTargetVid);
  lo.Set<RunlistBaseLo::PtrLo>(static_cast<uint32_t>(offset_) >> 12).WriteTo(os_, id_);
  RunlistBaseHi hi;
  hi.Set<RunlistBaseHi::PtrHi>(static_cast<uint32_t>(offset_ >> 32)).WriteTo(os_, id_);
  RunlistSubmit submit;
  submit.Set<RunlistSubmit::Length>(static_cast<uint32_t>(channels.size()) * kEntriesPerChannel);
  submit.WriteTo(os_, id_);
  return os_.WaitFor(kSubmitTimeoutUs, [&] {
    return !RunlistSubmitInfo::ReadFrom(os_, id_).Test<RunlistSubmitInfo::Pending>();
  });
}

}  // namespace guest
