// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/instance_block.h"

#include "ts104/typed.h"

namespace guest {

namespace {

using namespace ts104::ram;

// Makes hwreg's WriteTo write into the block.
class Words {
 public:
  explicit Words(std::span<uint32_t, kInstanceWords> words) : words_(words) {}
  void Write32(uint32_t offset, uint32_t value) { words_[offset / 4] = value; }

 private:
  std::span<uint32_t, kInstanceWords> words_;
};

constexpr uint32_t kAcquireInit = 0x7ffff902;     // retry after 2 << 2, no timeout
constexpr uint32_t kPbHeaderInit = 0x20400000;    // FIRST, incrementing
constexpr uint32_t kSubdeviceInit = 0x30000001;   // CHANNEL_DMA, ACTIVE, id 1
constexpr uint32_t kReservedF8Init = 0x10003080;  // as every driver writes it

void WriteRamfc(const InstanceBlockParams& params, Words& block) {
  RamfcUserd userd;
  userd.Set<RamfcUserd::Target>(params.userd_aperture == TSG_APERTURE_VRAM
                                    ? RamfcUserd::kTargetVid
                                    : RamfcUserd::kTargetSysCoh);
  userd.Set<RamfcUserd::Addr>(static_cast<uint32_t>(params.userd_address) >> 9);
  userd.WriteTo(block);
  RamfcUserdHi userd_hi;
  userd_hi.Set<RamfcUserdHi::Addr>(static_cast<uint32_t>(params.userd_address >> 32));
  userd_hi.WriteTo(block);

  RamfcSignature signature;
  signature.Set<RamfcSignature::Hw>(RamfcSignature::kHwValue).WriteTo(block);
  RamfcAcquire(kAcquireInit).WriteTo(block);

  RamfcGpBase base;
  base.Set<RamfcGpBase::OffsetBits>(static_cast<uint32_t>(params.ring_va) >> 3).WriteTo(block);
  RamfcGpBaseHi base_hi;
  base_hi.Set<RamfcGpBaseHi::OffsetBits>(static_cast<uint32_t>(params.ring_va >> 32));
  base_hi.Set<RamfcGpBaseHi::Limit2>(params.ring_order).WriteTo(block);

  RamfcPbHeader(kPbHeaderInit).WriteTo(block);
  RamfcSubdevice(kSubdeviceInit).WriteTo(block);
  RamfcEngChid(params.chid).WriteTo(block);
  RamfcConfig config;
  config.Set<RamfcConfig::UserdWriteback>(1).WriteTo(block);
  RamfcReservedF8(kReservedF8Init).WriteTo(block);
  RamfcSetChannelInfo info;
  info.Set<RamfcSetChannelInfo::Chid>(params.chid).WriteTo(block);
}

}  // namespace

void BuildInstanceBlock(const InstanceBlockParams& params,
                        std::span<uint32_t, kInstanceWords> words) {
  for (uint32_t& word : words) word = 0;
  Words block(words);
  WriteRamfc(params, block);

  RaminPageDirBase pdb;
  if (params.root_aperture == TSG_APERTURE_VRAM) {
    pdb.Set<RaminPageDirBase::Target>(RaminPageDirBase::kTargetVid);
  } else {
    pdb.Set<RaminPageDirBase::Target>(RaminPageDirBase::kTargetSysCoh);
    pdb.Set<RaminPageDirBase::Vol>(1);
  }
  pdb.Set<RaminPageDirBase::UseVer2PtFormat>(1).Set<RaminPageDirBase::BigPageSize>(1);
  pdb.Set<RaminPageDirBase::Lo>(static_cast<uint32_t>(params.root_address) >> 12);
  pdb.WriteTo(block);
  RaminPageDirBaseHi(static_cast<uint32_t>(params.root_address >> 32)).WriteTo(block);

  if (params.context_offset == 0) return;
  RaminEngineWfiPtr context;
  context.Set<RaminEngineWfiPtr::Target>(RaminEngineWfiPtr::kTargetVid);
  context.Set<RaminEngineWfiPtr::Mode>(RaminEngineWfiPtr::kModePhysical);
  context.Set<RaminEngineWfiPtr::PtrLo>(static_cast<uint32_t>(params.context_offset) >> 12);
  context.WriteTo(block);
  RaminEngineWfiPtrHi context_hi;
  context_hi.Set<RaminEngineWfiPtrHi::PtrHi>(static_cast<uint32_t>(params.context_offset >> 32));
  context_hi.WriteTo(block);
}

}  // namespace guest
