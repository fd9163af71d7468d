// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/channel/runlist.h"

#include <span>

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

using Channel = ts104::ram::RamrlEntryChan;
using Header = ts104::ram::RamrlEntryTsg;

// Bounds of a TSG's timeslice, (TIMEOUT << SCALE) * 1024 ns: about 0.26 and 4.2 ms. A guest must
// neither hold the hardware for the 8.5 s that the fields can say, nor have it do nothing but
// context switches.
constexpr uint32_t kShortestSlice = 256;
constexpr uint32_t kLongestSlice = 4096;
constexpr uint32_t kBoundTimeout = 128;  // << 1 and << 5
constexpr uint32_t kShortestScale = 1;
constexpr uint32_t kLongestScale = 5;
static_assert(kBoundTimeout << kShortestScale == kShortestSlice);
static_assert(kBoundTimeout << kLongestScale == kLongestSlice);

std::span<const uint32_t> Words(const uint32_t* entry) { return {entry, kRunlistEntryWords}; }

}  // namespace

const SoftwareRunlist::Tsg* SoftwareRunlist::Find(uint32_t tsgid) const {
  for (const Tsg& tsg : tsgs_) {
    if (tsg.tsgid == tsgid) return &tsg;
  }
  return nullptr;
}

Status RunlistParser::Init(uint32_t channels) {
  channels_ = channels;
  TS_TRY(seen_, base::DynArray<uint64_t>::Create((channels + 63) / 64));
  return Status::kOk;
}

Status RunlistParser::Feed(const uint32_t* entry) {
  const bool header = Header::Type::Get(Words(entry)) == Channel::kTypeTsg;
  Status status = Status::kOk;
  if (header) {
    status = missing_ == 0 ? BeginTsg(entry) : Reject();
  } else {
    status = missing_ != 0 ? AddChannel(entry) : Reject();
  }
  ++position_;
  return status;
}

Status RunlistParser::Finish() { return missing_ == 0 ? Status::kOk : Reject(); }

// A vGPU has one function, 0; other GFIDs are as wrong for it as those above 63 are on a bare
// TS104.
Status RunlistParser::BeginTsg(const uint32_t* entry) {
  const uint64_t length = Header::Length::Get(Words(entry));
  const uint64_t tsgid = Header::Tsgid::Get(Words(entry));
  if (length == 0 || length > NV_RAMRL_TSG_MAX_LENGTH) return Reject();
  if (Header::Gfid::Get(Words(entry)) != 0 || tsgid >= channels_) return Reject();
  SoftwareRunlist::Tsg tsg;
  tsg.tsgid = static_cast<uint16_t>(tsgid);
  tsg.timeslice_scale = static_cast<uint8_t>(Header::TimesliceScale::Get(Words(entry)));
  tsg.timeslice_timeout = static_cast<uint8_t>(Header::TimesliceTimeout::Get(Words(entry)));
  tsg.first = static_cast<uint16_t>(list_.chids_.size());
  tsg.length = static_cast<uint16_t>(length);
  tsg.header = position_;
  TS_TRY_STATUS(list_.tsgs_.TryPushBack(tsg));
  missing_ = tsg.length;
  return Status::kOk;
}

Status RunlistParser::AddChannel(const uint32_t* entry) {
  const auto chid = static_cast<uint32_t>(Channel::Chid::Get(Words(entry)));
  if (chid >= channels_) return Reject();
  uint64_t& word = seen_[chid / 64];
  const uint64_t bit = uint64_t{1} << (chid % 64);
  if ((word & bit) != 0) return Reject();
  word |= bit;
  TS_TRY_STATUS(list_.chids_.TryPushBack(static_cast<uint16_t>(chid)));
  --missing_;
  return Status::kOk;
}

SoftwareRunlist RunlistParser::Take() {
  if (missing_ != 0) static_cast<void>(Reject());
  return static_cast<SoftwareRunlist&&>(list_);
}

// Drops the open TSG, if there is one.
Status RunlistParser::Reject() {
  if (missing_ != 0) {
    list_.chids_.Truncate(list_.tsgs_.back().first);
    list_.tsgs_.PopBack();
    missing_ = 0;
  }
  return Status::kInvalidArgument;
}

void MakeTsgEntry(const SoftwareRunlist::Tsg& tsg, uint32_t function, uint32_t physical_tsgid,
                  uint32_t* words) {
  const std::span<uint32_t> entry(words, kRunlistEntryWords);
  for (uint32_t& word : entry) word = 0;
  Header::Type::Set(entry, Channel::kTypeTsg);
  Header::Gfid::Set(entry, function);
  const uint32_t slice = uint32_t{tsg.timeslice_timeout} << tsg.timeslice_scale;
  uint32_t scale = tsg.timeslice_scale;
  uint32_t timeout = tsg.timeslice_timeout;
  if (slice < kShortestSlice || slice > kLongestSlice) {
    scale = slice < kShortestSlice ? kShortestScale : kLongestScale;
    timeout = kBoundTimeout;
  }
  Header::TimesliceScale::Set(entry, scale);
  Header::TimesliceTimeout::Set(entry, timeout);
  Header::Length::Set(entry, tsg.length);
  Header::Tsgid::Set(entry, physical_tsgid);
}

void MakeChannelEntry(uint32_t physical_chid, const ChannelPointers& pointers, uint32_t* words) {
  const std::span<uint32_t> entry(words, kRunlistEntryWords);
  for (uint32_t& word : entry) word = 0;
  Channel::InstTarget::Set(entry, ts104::pccsr::ChannelInst::kTargetSysCoh);
  Channel::UserdTarget::Set(entry, pointers.userd_system ? ts104::ram::RamfcUserd::kTargetSysCoh
                                                         : ts104::ram::RamfcUserd::kTargetVid);
  Channel::UserdPtrLo::Set(entry, (pointers.userd & 0xffffffff) >> 8);
  Channel::UserdPtrHi::Set(entry, pointers.userd >> 32);
  Channel::Chid::Set(entry, physical_chid);
  Channel::InstPtrLo::Set(entry, (pointers.instance & 0xffffffff) >> 12);
  Channel::InstPtrHi::Set(entry, pointers.instance >> 32);
}

}  // namespace turnstile
