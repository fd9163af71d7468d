// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// PFIFO registers and runlists.
#include "core/channel/virtual_fifo.h"

#include <utility>

#include "core/log.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace fifo = ts104::pfifo;
using Intr = fifo::Intr0;

constexpr uint32_t kRunlistMask = (1u << kNumRunlists) - 1;
constexpr uint32_t kIntrW1c = Intr::BindError::kMask | Intr::SchedError::kMask |
                              Intr::ChswError::kMask | Intr::MemopTimeout::kMask |
                              Intr::LbError::kMask | Intr::TsgPreemptComplete::kMask |
                              Intr::ChannelIntr::kMask;
constexpr uint32_t kEngineRunlist[kNumEngines] = {0, 0, 1, 2};

// Whether `offset` is element 0..count-1 of an array of words; gives the index.
bool InArray(uint32_t offset, uint32_t first, uint32_t count, uint32_t stride, uint32_t* index) {
  if (offset < first || (offset - first) % stride != 0) return false;
  *index = (offset - first) / stride;
  return *index < count;
}

}  // namespace

void VirtualFifo::Reset() {
  context_.mutex.AssertHeld();
  channels_.ForEach([this](uint64_t, base::UniquePtr<VirtualChannel>& channel) {
    context_.mutex.AssertHeld();
    ReleaseParts(*channel);
  });
  channels_.Clear();
  intr_0_ = intr_mask_ = enable_[0] = enable_[1] = bind_error_ = sched_error_ = 0;
  sched_disable_ = runlist_events_ = ctxsw_timeouts_ = runlist_preempts_ = preempt_ = 0;
  preempt_wanted_ = checks_wanted_ = false;
  for (uint32_t& info : ctxsw_info_) info = 0;
  for (uint32_t& enable : idle_enable_) enable = 0;
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    base_lo_[r] = base_hi_[r] = submit_[r] = submit_info_[r] = 0;
    pbdmas_[r] = Pbdma();
  }
  UpdateInterrupts();
}

// ---- interrupts
// ----------------------------------------------------------------------------------

uint32_t VirtualFifo::PbdmaInterrupts() const {
  uint32_t ids = 0;
  for (uint32_t p = 0; p < kNumRunlists; ++p) {
    const Pbdma& pbdma = pbdmas_[p];
    if ((pbdma.intr_0 & pbdma.enable_0) != 0 || (pbdma.intr_1 & pbdma.enable_1) != 0)
      ids |= 1u << p;
  }
  return ids;
}

uint32_t VirtualFifo::Intr0() const {
  Intr intr(intr_0_);
  intr.Set<Intr::CtxswTimeout>(ctxsw_timeouts_ != 0 ? 1 : 0)
      .Set<Intr::PbdmaIntr>(PbdmaInterrupts() != 0 ? 1 : 0)
      .Set<Intr::RunlistEvent>(runlist_events_ != 0 ? 1 : 0);
  return intr.raw();
}

void VirtualFifo::UpdateInterrupts() {
  const uint32_t intr = Intr0();
  context_.tree.SetLevel(NV_CTRL_VECTOR_PFIFO_STALL, (intr & enable_[0]) != 0);
  context_.tree.SetLevel(NV_CTRL_VECTOR_PFIFO_NONSTALL, (intr & enable_[1]) != 0);
  for (uint32_t tree = 0; tree < 2; ++tree) {
    context_.tree.SetPmcBit(tree, NV_PMC_INTR_BIT_PFIFO, (intr & enable_[tree]) != 0);
  }
}

void VirtualFifo::HandleEvents(FunctionEvents& events) {
  context_.mutex.AssertHeld();
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    if ((events.runlist_events >> r & 1) == 0) continue;
    if (!context_.gpu.SubmitPending(context_.partition.function, r)) runlist_events_ |= 1u << r;
  }
  if (events.preempt_complete && preempt_wanted_) PreemptDone();
  for (uint32_t engine = 0; engine < kNumEngines; ++engine) {
    if ((events.ctxsw_timeouts >> engine & 1) == 0) continue;
    using Info = fifo::IntrCtxswTimeoutInfo;
    Info info(events.ctxsw_info[engine]);
    info.Set<Info::PrevTsgid>(context_.VirtualId(info.Get<Info::PrevTsgid>()));
    const uint32_t next = info.Get<Info::NextTsgid>();
    info.Set<Info::NextTsgid>(context_.Owns(next) ? context_.VirtualId(next) : 0);
    ctxsw_info_[engine] = info.raw();
    ctxsw_timeouts_ |= 1u << engine;
  }
  for (const PbdmaError& error : events.pbdma_errors) HandlePbdmaError(error);
  UpdateInterrupts();
}

// ---- registers
// -----------------------------------------------------------------------------------

uint32_t VirtualFifo::ReadFifo(uint32_t offset) {
  context_.mutex.AssertHeld();
  switch (offset) {
    case Intr::Offset(): return Intr0();
    case fifo::IntrEn0::Offset(): return enable_[0];
    case fifo::IntrEn1::Offset(): return enable_[1];
    case fifo::BindError::Offset(): return bind_error_;
    case fifo::SchedError::Offset(): return sched_error_;
    case fifo::IntrPbdmaId::Offset(): return PbdmaInterrupts();
    case fifo::SchedDisable::Offset(): return sched_disable_;
    case fifo::Preempt::Offset():
      return fifo::Preempt(preempt_)
          .Set<fifo::Preempt::Pending>(
              preempt_wanted_ && context_.gpu.PreemptPending(context_.partition.function) ? 1 : 0)
          .raw();
    case fifo::RunlistPreempt::Offset(): return ReadRunlistPreempt();
    case fifo::IntrRunlistEvent::Offset(): return runlist_events_;
    case fifo::IntrCtxswTimeout::Offset(): return ctxsw_timeouts_;
    default: break;
  }
  uint32_t i = 0;
  bool set = false;
  if (InArray(offset, fifo::EngineStatus::Offset(0), kNumEngines, 8, &i) ||
      InArray(offset, fifo::PbdmaStatus::Offset(0), kNumRunlists, 4, &i)) {
    return ReadStatus(offset);
  }
  if (InArray(offset, fifo::PbdmaStatusInst::Offset(0), kNumRunlists, 4, &i)) {
    return ReadInstStatus(i);
  }
  if (InArray(offset, fifo::EngineStatusInst::Offset(0), kNumEngines, 4, &i)) {
    return ReadInstStatus(kEngineRunlist[i]);
  }
  if (InArray(offset, fifo::PbdmaStatusUserd::Offset(0), kNumRunlists, 4, &i)) {
    const VirtualChannel* channel = LoadedChannel(i);
    return channel == nullptr ? 0 : channel->guest.At(ts104::ram::RamfcUserd::Offset());
  }
  if (InArray(offset, fifo::PbdmaStatusUserdHi::Offset(0), kNumRunlists, 4, &i)) {
    const VirtualChannel* channel = LoadedChannel(i);
    return channel == nullptr ? 0 : channel->guest.At(ts104::ram::RamfcUserdHi::Offset());
  }
  if (InArray(offset, fifo::RunlistBaseLo::Offset(0), kNumRunlists * 4, 4, &i)) {
    return ReadRunlist(i / 4, i % 4);
  }
  if (InArray(offset, fifo::IntrCtxswTimeoutInfo::Offset(0), kNumEngines, 4, &i)) {
    return ctxsw_info_[i];
  }
  if (InArray(offset, fifo::RunlistInfo::Offset(0), kNumRunlists, 4, &i)) return ReadIdle(i);
  if (uint32_t* enable = IdleEnable(offset, &set); enable != nullptr && set) return *enable;
  return 0;
}

void VirtualFifo::WriteFifo(uint32_t offset, uint32_t value) {
  context_.mutex.AssertHeld();
  uint32_t i = 0;
  bool set = false;
  switch (offset) {
    case Intr::Offset(): intr_0_ &= ~(value & kIntrW1c); break;
    case fifo::IntrEn0::Offset(): enable_[0] = value; break;
    case fifo::IntrEn1::Offset(): enable_[1] = value; break;
    case fifo::Intr0MaskSet::Offset():
      intr_mask_ |= value & fifo::Intr0MaskSet::TsgPreemptComplete::kMask;
      return;
    case fifo::Intr0MaskClear::Offset():
      intr_mask_ &= ~(value & fifo::Intr0MaskSet::TsgPreemptComplete::kMask);
      return;
    case fifo::SchedDisable::Offset(): WriteSchedDisable(value); return;
    case fifo::Preempt::Offset(): WritePreempt(value); break;
    case fifo::RunlistPreempt::Offset(): WriteRunlistPreempt(value); return;
    case fifo::IntrRunlistEvent::Offset(): runlist_events_ &= ~value; break;
    case fifo::IntrCtxswTimeout::Offset(): ctxsw_timeouts_ &= ~value; break;
    default:
      if (InArray(offset, fifo::RunlistBaseLo::Offset(0), kNumRunlists * 4, 4, &i)) {
        WriteRunlist(i / 4, i % 4, value);
      } else if (uint32_t* enable = IdleEnable(offset, &set); enable != nullptr) {
        *enable = set ? *enable | (value & kRunlistMask) : *enable & ~value;
        return;
      }
      break;
  }
  UpdateInterrupts();
}

uint32_t* VirtualFifo::IdleEnable(uint32_t offset, bool* set) {
  const uint32_t first = fifo::IntrRunlistIdleEnSet::Offset();
  uint32_t i = 0;
  if (!InArray(offset, first, 8, 0x10, &i)) return nullptr;
  *set = i % 2 == 0;
  return &idle_enable_[i / 2];
}

// Arms as enabled; whether anything of this guest is on the runlist now.
uint32_t VirtualFifo::ReadIdle(uint32_t runlist) const {
  using Info = fifo::RunlistInfo;
  const bool loaded = context_.gpu.LoadedTsg(context_.partition, runlist).has_value();
  Info info;
  info.Set<Info::RunlistIdleArm>(idle_enable_[0] >> runlist & 1)
      .Set<Info::RlAndEngIdleArm>(idle_enable_[1] >> runlist & 1)
      .Set<Info::RunlistAcquireArm>(idle_enable_[2] >> runlist & 1)
      .Set<Info::RlAcquireAndEngIdleArm>(idle_enable_[3] >> runlist & 1)
      .Set<Info::EngIdle>(loaded ? 0 : 1)
      .Set<Info::RunlistIdle>(loaded ? 0 : 1);
  return info.raw();
}

// PBDMA_STATUS and ENGINE_STATUS share their shape. Only own TSGs are shown.
uint32_t VirtualFifo::ReadStatus(uint32_t physical_offset) const {
  using Value = fifo::EngineStatus;
  const Value physical(context_.gpu.host().Read32(physical_offset));
  const uint32_t state = physical.Get<Value::CtxStatus>();
  const bool leaving = state != Value::kCtxStatusInvalid && state != Value::kCtxStatusLoad;
  const bool coming = state == Value::kCtxStatusLoad || state == Value::kCtxStatusSwitch;
  const bool own = leaving && context_.Owns(physical.Get<Value::Id>());
  const bool own_next = coming && context_.Owns(physical.Get<Value::NextId>());
  if (!own && !own_next) return 0;
  Value shown;
  shown.Set<Value::CtxStatus>(own ? state : uint32_t{Value::kCtxStatusLoad});
  if (own) {
    shown.Set<Value::Id>(context_.VirtualId(physical.Get<Value::Id>()))
        .Set<Value::IdType>(Value::kIdTypeTsgid)
        .Set<Value::Engine>(physical.Get<Value::Engine>())
        .Set<Value::Faulted>(physical.Get<Value::Faulted>());
  }
  if (own_next) {
    shown.Set<Value::NextId>(context_.VirtualId(physical.Get<Value::NextId>()))
        .Set<Value::NextIdType>(Value::kIdTypeTsgid);
  }
  return shown.raw();
}

// The instance block, as the guest named it, of its channel on this runlist's PBDMA.
uint32_t VirtualFifo::ReadInstStatus(uint32_t runlist) {
  const VirtualChannel* channel = LoadedChannel(runlist);
  if (channel == nullptr) return 0;
  using Value = fifo::PbdmaStatusInst;
  return Value(channel->inst).Set<Value::Valid>(1).raw();
}

// ---- runlists
// ------------------------------------------------------------------------------------

uint32_t VirtualFifo::ReadRunlist(uint32_t runlist, uint32_t word) {
  switch (word) {
    case 0: return base_lo_[runlist];
    case 1: return base_hi_[runlist];
    case 2: return submit_[runlist];
    default: break;
  }
  using Info = fifo::RunlistSubmitInfo;
  const bool pending = context_.gpu.SubmitPending(context_.partition.function, runlist);
  return Info(submit_info_[runlist]).Set<Info::Pending>(pending ? 1 : 0).raw();
}

void VirtualFifo::WriteRunlist(uint32_t runlist, uint32_t word, uint32_t value) {
  using Low = fifo::RunlistBaseLo;
  switch (word) {
    case 0: base_lo_[runlist] = value & (Low::PtrLo::kMask | Low::Target::kMask); return;
    case 1: base_hi_[runlist] = value & fifo::RunlistBaseHi::PtrHi::kMask; return;
    case 2:
      submit_[runlist] = value;
      Submit(runlist);
      return;
    default: return;
  }
}

void VirtualFifo::Submit(uint32_t runlist) {
  ++context_.figures.submissions;
  // Programs may use VRAM from here on.
  ts_host_vram_clear_wait(context_.host);
  SoftwareRunlist list;
  if (ParseList(runlist, &list) != Status::kOk) {
    sched_error_ = fifo::SchedError::kCodeBadTsg;
    intr_0_ |= Intr::SchedError::kMask;
    LogLine(context_.gpu.host().handle(), context_.host, TS_LOG_INFO, TS_LOG_RUNLIST)
        << "runlist " << runlist << ": a list is cut off at an entry that is wrong";
  }
  // A channel that was bound and enabled before its instance block was filled counts as the
  // hardware would see it: read when it is first scheduled. Of many at once the work item reads the
  // rest, which stay off the device until then.
  uint32_t checks = 0;
  for (const uint16_t chid : list.chids()) {
    VirtualChannel* channel = Find(chid);
    if (channel == nullptr || !channel->bound || channel->listed) continue;
    channel->listed = true;
    if (++checks <= kChecksPerSlice) {
      Check(*channel);
      continue;
    }
    channel->holds |= VirtualChannel::kHoldCheck;
    Disable(*channel);
    checks_wanted_ = true;
  }
  if (checks_wanted_) ts_host_queue_vgpu_work(context_.host);
  context_.gpu.SubmitList(context_.partition.function, runlist, std::move(list));
}

// Reads the list in pieces and keeps what is good of it. Not kOk: something was wrong.
Status VirtualFifo::ParseList(uint32_t runlist, SoftwareRunlist* list) {
  constexpr uint32_t kPiece = 128;  // entries
  using Low = fifo::RunlistBaseLo;
  const Low low(base_lo_[runlist]);
  const uint32_t length = fifo::RunlistSubmit(submit_[runlist]).Get<fifo::RunlistSubmit::Length>();
  const uint32_t entries = length < kMaxHardwareEntries ? length : kMaxHardwareEntries;
  const uint32_t target = low.Get<Low::Target>();
  GuestAddress at = {target == Low::kTargetVid ? Aperture::kVid : Aperture::kSys,
                     uint64_t{low.raw() & Low::PtrLo::kMask} | uint64_t{base_hi_[runlist]} << 32};
  constexpr uint32_t kTargetUndefined = 1;
  if (target == kTargetUndefined && entries != 0) return Status::kFault;
  RunlistParser parser;
  TS_TRY_STATUS(parser.Init(context_.partition.channels));
  TS_TRY(auto words, base::DynArray<uint32_t>::Create(kPiece * kRunlistEntryWords));
  Status status = Status::kOk;
  for (uint32_t done = 0; done < entries && status == Status::kOk; done += kPiece) {
    const uint32_t count = entries - done < kPiece ? entries - done : kPiece;
    // A list that cannot be read is empty (register map §4, Submit).
    TS_TRY_STATUS(context_.memory.Read(at, words.data(), count * NV_RAMRL_ENTRY_SIZE));
    at.value += count * NV_RAMRL_ENTRY_SIZE;
    for (uint32_t i = 0; i < count && status == Status::kOk; ++i) {
      status = parser.Feed(words.data() + i * kRunlistEntryWords);
    }
  }
  if (status == Status::kOk) status = parser.Finish();
  *list = parser.Take();
  return status;
}

void VirtualFifo::WriteSchedDisable(uint32_t value) {
  value &= kRunlistMask;
  const uint32_t changed = value ^ sched_disable_;
  sched_disable_ = value;
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    if ((changed >> r & 1) == 0) continue;
    context_.gpu.SetListDisabled(context_.partition.function, r, (value >> r & 1) != 0);
  }
}

// The guest's own context leaves the hardware; its neighbours are not touched.
void VirtualFifo::WriteRunlistPreempt(uint32_t value) {
  using Info = fifo::RunlistSubmitInfo;
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    if ((value >> r & 1) == 0) continue;
    const auto loaded = context_.gpu.LoadedTsg(context_.partition, r);
    if (!loaded.has_value()) {
      submit_info_[r] = Info(submit_info_[r]).Set<Info::PreemptedTsgidValid>(0).raw();
      continue;
    }
    const uint32_t tsgid = context_.VirtualId(*loaded);
    const auto header = context_.gpu.HeaderIndex(context_.partition.function, r, tsgid);
    submit_info_[r] = Info()
                          .Set<Info::PreemptedTsgid>(tsgid)
                          .Set<Info::PreemptedTsgidValid>(1)
                          .Set<Info::PreemptedOffset>(header.value_or(0))
                          .raw();
    runlist_preempts_ |= 1u << r;
    context_.gpu.PreemptTsg(context_.partition.function, *loaded);
  }
}

uint32_t VirtualFifo::ReadRunlistPreempt() {
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    if ((runlist_preempts_ >> r & 1) == 0) continue;
    const bool stopped = (sched_disable_ >> r & 1) != 0;
    const bool pending = stopped ? context_.gpu.LoadedTsg(context_.partition, r).has_value()
                                 : context_.gpu.PreemptPending(context_.partition.function);
    if (!pending) runlist_preempts_ &= ~(1u << r);
  }
  return runlist_preempts_;
}

void VirtualFifo::WritePreempt(uint32_t value) {
  using Value = fifo::Preempt;
  const Value request(value);
  preempt_ = value & (Value::Id::kMask | Value::Type::kMask);
  if (request.Get<Value::Type>() != Value::kTypeTsg) return;
  if (request.Get<Value::Id>() >= context_.partition.channels) {
    PreemptDone();  // a TSG that is not loaded completes at once
    return;
  }
  preempt_wanted_ = true;
  context_.gpu.PreemptTsg(context_.partition.function,
                          context_.PhysicalId(request.Get<Value::Id>()));
}

void VirtualFifo::PreemptDone() {
  preempt_wanted_ = false;
  if (intr_mask_ != 0) intr_0_ |= Intr::TsgPreemptComplete::kMask;
}

}  // namespace turnstile
