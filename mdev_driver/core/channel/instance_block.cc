// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/channel/instance_block.h"

#include "ts104/typed.h"

namespace turnstile {

namespace {

using namespace ts104::ram;  // NOLINT: the names are the manual's

// RAMFC words that hold no physical address and no privilege: channel state, GPU-virtual addresses.
constexpr uint16_t kPlainWords[] = {
    RamfcGpPut::Offset(),         RamfcMemOpA::Offset(),
    RamfcGpGet::Offset(),         RamfcGet::Offset(),
    RamfcGetHi::Offset(),         RamfcTopLevelGet::Offset(),
    RamfcTopLevelGetHi::Offset(), RamfcRef::Offset(),
    RamfcAcquire::Offset(),       RamfcAcquireDeadline::Offset(),
    RamfcSemAddrHi::Offset(),     RamfcSemAddrLo::Offset(),
    RamfcSemPayloadLo::Offset(),  RamfcSemExecute::Offset(),
    RamfcGpBase::Offset(),        RamfcGpBaseHi::Offset(),
    RamfcGpFetch::Offset(),       RamfcPbFetch::Offset(),
    RamfcPbFetchHi::Offset(),     RamfcPut::Offset(),
    RamfcPutHi::Offset(),         RamfcMemOpB::Offset(),
    RamfcGpCrc::Offset(),         RamfcPbHeader::Offset(),
    RamfcPbCount::Offset(),       RamfcSubdevice::Offset(),
    RamfcPbCrc::Offset(),         RamfcSemPayloadHi::Offset(),
    RamfcMemOpC::Offset(),        RamfcTarget::Offset(),
    RamfcMethodCrc::Offset(),     RamfcMethod0::Offset(),
    RamfcData0::Offset(),         RamfcMethod1::Offset(),
    RamfcData1::Offset(),         RamfcMethod2::Offset(),
    RamfcData2::Offset(),         RamfcMethod3::Offset(),
    RamfcData3::Offset(),
};

void Put(InstanceBlock& block, uint32_t offset, uint32_t value) { block.words[offset / 4] = value; }

// A USERD that cannot be reached: VRAM address far beyond any card, so that loading the channel is
// the MMU fault that it would be on a bare TS104.
constexpr uint64_t kUnreachableUserd = 0xff'ffff'fe00;

void PutUserd(InstanceBlock& shadow, const UserdPlace& userd) {
  const uint64_t address = userd.valid ? userd.address : kUnreachableUserd;
  const bool system = userd.valid && userd.system;
  const auto low = static_cast<uint32_t>(address);
  const auto high = static_cast<uint32_t>(address >> 32);
  Put(shadow, RamfcUserd::Offset(),
      RamfcUserd(low & RamfcUserd::Addr::kMask)
          .Set<RamfcUserd::Target>(system ? RamfcUserd::kTargetSysCoh : RamfcUserd::kTargetVid)
          .raw());
  Put(shadow, RamfcUserdHi::Offset(), RamfcUserdHi().Set<RamfcUserdHi::Addr>(high).raw());
}

// A GR context pointer is a virtual address, or it lies in the guest's VRAM. Any other becomes a
// physical system pointer, for which TS104 reports BAD_CONTEXT without an access (register map §8).
void PutContextPointer(InstanceBlock& shadow, const InstanceBlock& guest,
                       const Partition& partition, uint64_t ctx_size) {
  const RaminEngineWfiPtr pointer(guest.At(RaminEngineWfiPtr::Offset()));
  const RaminEngineWfiPtrHi high(guest.At(RaminEngineWfiPtrHi::Offset()));
  uint64_t address = uint64_t{pointer.raw() & RaminEngineWfiPtr::PtrLo::kMask} |
                     uint64_t{high.Get<RaminEngineWfiPtrHi::PtrHi>()} << 32;
  if (address == 0) return;
  RaminEngineWfiPtr out;
  out.Set<RaminEngineWfiPtr::Mode>(pointer.Get<RaminEngineWfiPtr::Mode>());
  if (!pointer.Test<RaminEngineWfiPtr::Mode>()) {
    const bool video = pointer.Get<RaminEngineWfiPtr::Target>() == RaminEngineWfiPtr::kTargetVid;
    if (video && base::RangeFits(address, ctx_size, partition.vram_bytes)) {
      address += partition.vram.value();
    } else {
      address = kPageSize;
      out.Set<RaminEngineWfiPtr::Target>(RaminEngineWfiPtr::kTargetSysCoh);
    }
  }
  Put(shadow, RaminEngineWfiPtr::Offset(),
      out.raw() | (static_cast<uint32_t>(address) & RaminEngineWfiPtr::PtrLo::kMask));
  Put(shadow, RaminEngineWfiPtrHi::Offset(), static_cast<uint32_t>(address >> 32));
  Put(shadow, RaminEngineWfiVeid::Offset(), guest.At(RaminEngineWfiVeid::Offset()));
}

}  // namespace

bool PageDirectoryOf(const InstanceBlock& block, GuestAddress* root) {
  const RaminPageDirBase low(block.At(RaminPageDirBase::Offset()));
  const uint64_t address = uint64_t{low.raw() & RaminPageDirBase::Lo::kMask} |
                           uint64_t{block.At(RaminPageDirBaseHi::Offset())} << 32;
  const uint32_t target = low.Get<RaminPageDirBase::Target>();
  if (target == RaminPageDirBase::kTargetInvalid) return false;
  if (!low.Test<RaminPageDirBase::UseVer2PtFormat>()) return false;
  if (!low.Test<RaminPageDirBase::BigPageSize>()) return false;
  *root = {target == RaminPageDirBase::kTargetVid ? Aperture::kVid : Aperture::kSys, address};
  return true;
}

bool UserdOf(const InstanceBlock& block, GuestAddress* userd) {
  const RamfcUserd low(block.At(RamfcUserd::Offset()));
  const RamfcUserdHi high(block.At(RamfcUserdHi::Offset()));
  const uint32_t target = low.Get<RamfcUserd::Target>();
  if (target == RamfcUserd::kTargetVidNvlinkCoh) return false;
  *userd = {target == RamfcUserd::kTargetVid ? Aperture::kVid : Aperture::kSys,
            uint64_t{low.raw() & RamfcUserd::Addr::kMask} | uint64_t{high.Get<RamfcUserdHi::Addr>()}
                                                                << 32};
  return true;
}

bool IsPrivileged(const InstanceBlock& block) {
  return RamfcConfig(block.At(RamfcConfig::Offset())).Test<RamfcConfig::AuthLevel>();
}

InstanceBlock MakeShadowInstance(const InstanceBlock& guest, const InstanceTranslation& translation,
                                 const Partition& partition, uint64_t ctx_size) {
  InstanceBlock shadow;
  for (const uint16_t offset : kPlainWords) Put(shadow, offset, guest.At(offset));
  PutUserd(shadow, translation.userd);
  Put(shadow, RamfcSignature::Offset(),
      guest.At(RamfcSignature::Offset()) & RamfcSignature::Hw::kMask);
  RamfcConfig config(guest.At(RamfcConfig::Offset()));
  Put(shadow, RamfcConfig::Offset(),
      RamfcConfig()
          .Set<RamfcConfig::L2Evict>(config.Get<RamfcConfig::L2Evict>())
          .Set<RamfcConfig::CeSplit>(config.Get<RamfcConfig::CeSplit>())
          .Set<RamfcConfig::CeThrottle>(config.Get<RamfcConfig::CeThrottle>())
          .Set<RamfcConfig::UserdWriteback>(config.Get<RamfcConfig::UserdWriteback>())
          .raw());
  const RamfcSetChannelInfo info(guest.At(RamfcSetChannelInfo::Offset()));
  Put(shadow, RamfcSetChannelInfo::Offset(),
      RamfcSetChannelInfo()
          .Set<RamfcSetChannelInfo::ScgType>(info.Get<RamfcSetChannelInfo::ScgType>())
          .Set<RamfcSetChannelInfo::Veid>(info.Get<RamfcSetChannelInfo::Veid>())
          .Set<RamfcSetChannelInfo::Chid>(translation.chid)
          .raw());
  Put(shadow, RamfcEngChid::Offset(), translation.chid);
  RaminPageDirBase root;
  root.Set<RaminPageDirBase::Target>(RaminPageDirBase::kTargetInvalid);
  if (translation.has_root) {
    root = RaminPageDirBase(static_cast<uint32_t>(translation.root.value()) &
                            RaminPageDirBase::Lo::kMask);
    root.Set<RaminPageDirBase::Target>(RaminPageDirBase::kTargetSysCoh)
        .Set<RaminPageDirBase::UseVer2PtFormat>(1)
        .Set<RaminPageDirBase::BigPageSize>(1);
    Put(shadow, RaminPageDirBaseHi::Offset(),
        static_cast<uint32_t>(translation.root.value() >> 32));
  }
  Put(shadow, RaminPageDirBase::Offset(), root.raw());
  PutContextPointer(shadow, guest, partition, ctx_size);
  return shadow;
}

}  // namespace turnstile
