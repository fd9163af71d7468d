// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Interrupts of the device. The hard part passes engine interrupts on to guests; everything that
// needs more than a few registers is done in the thread, and what needs a vGPU's lock in its work.
#include <utility>

#include "core/log.h"
#include "core/physical_gpu.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace reg = ts104;

// All vectors of the physical driver lie in leaf 4 (128..159), subtree 2.
constexpr uint32_t kLeaf = 4;
constexpr uint32_t kSubtree = 1u << 2;
constexpr uint32_t Bit(uint32_t vector) { return 1u << (vector % 32); }
constexpr uint32_t kDoorbell = Bit(NV_CTRL_VECTOR_CPU_DOORBELL);
constexpr uint32_t kFunctions = Bit(NV_CTRL_VECTOR_VIRTUAL_INTR);
constexpr uint32_t kFault = Bit(NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE);
constexpr uint32_t kFaultError = Bit(NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE_ERROR);
constexpr uint32_t kFifo = Bit(NV_CTRL_VECTOR_PFIFO_STALL);
constexpr uint32_t kEnabled = kDoorbell | kFunctions | kFault | kFaultError | kFifo;

// Engine vectors that a function's tree can hold.
constexpr uint32_t kEngineVectors =
    1u << NV_CTRL_VECTOR_NONSTALL_CE0 | 1u << NV_CTRL_VECTOR_NONSTALL_CE2 |
    1u << NV_CTRL_VECTOR_NONSTALL_CE3 | 1u << NV_CTRL_VECTOR_NONSTALL_GR;

constexpr uint32_t kGone = 0xffffffff;  // what a removed device reads

using FifoIntr = reg::pfifo::Intr0;
constexpr uint32_t kFifoErrors = FifoIntr::BindError::kMask | FifoIntr::SchedError::kMask |
                                 FifoIntr::ChswError::kMask | FifoIntr::MemopTimeout::kMask |
                                 FifoIntr::LbError::kMask;
constexpr uint32_t kFifoEnabled =
    kFifoErrors | FifoIntr::CtxswTimeout::kMask | FifoIntr::TsgPreemptComplete::kMask |
    FifoIntr::PbdmaIntr::kMask | FifoIntr::RunlistEvent::kMask |
    FifoIntr::RunlistAndEngIdle::kMask | FifoIntr::RunlistAcquireAndEngIdle::kMask;

}  // namespace

void PhysicalGpu::EnableInterrupts() {
  using Config = reg::ctrl::VirtualChannelCfg;
  host_.Write32(Config::Offset(0),
                Config().Set<Config::Mask>(info_.channels - 1).Set<Config::PendingEnable>(1).raw());
  for (uint32_t pbdma = 0; pbdma < kNumRunlists; ++pbdma) {
    host_.Write32(reg::pbdma::IntrEn0::Offset(pbdma), ~0u);
    host_.Write32(reg::pbdma::IntrEn1::Offset(pbdma), ~0u);
  }
  host_.Write32(reg::pfifo::Intr0MaskSet::Offset(), FifoIntr::TsgPreemptComplete::kMask);
  host_.Write32(reg::pfifo::IntrEn0::Offset(), kFifoEnabled);
  host_.Write32(reg::ctrl::Leaf::Offset(kLeaf), ~0u);
  host_.Write32(reg::ctrl::LeafEnSet::Offset(kLeaf), kEnabled);
  host_.Write32(reg::ctrl::TopEnSet::Offset(0), kSubtree);
}

void PhysicalGpu::DisableInterrupts() {
  host_.Write32(reg::ctrl::TopEnClear::Offset(0), kSubtree);
  host_.Write32(reg::ctrl::LeafEnClear::Offset(kLeaf), kEnabled);
  host_.Write32(reg::pfifo::IntrEn0::Offset(), 0);
}

// ---- hard part
// -----------------------------------------------------------------------------------

int PhysicalGpu::HandleInterrupt() {
  base::SpinLockGuard guard(irq_lock_);
  const uint32_t raw = host_.Read32(reg::ctrl::Leaf::Offset(kLeaf));
  const uint32_t leaf = raw & kEnabled;
  if (raw == kGone || leaf == 0) return TS_IRQ_NONE;
  // A level source would come back at once: it stays masked until the thread has looked.
  if ((leaf & kFifo) != 0) host_.Write32(reg::ctrl::LeafEnClear::Offset(kLeaf), kFifo);
  host_.Write32(reg::ctrl::Leaf::Offset(kLeaf), leaf);
  if ((leaf & kFunctions) != 0) DispatchFunctionInterrupts();
  const uint32_t rest = leaf & ~kFunctions;
  if (rest == 0) return TS_IRQ_HANDLED;
  pending_.fetch_or(rest);
  return TS_IRQ_WAKE;
}

// VIRTUAL_INTR_LEAF is cleared before the leaf of the function is read: what comes in between
// raises vector 130 again.
void PhysicalGpu::DispatchFunctionInterrupts() {
  constexpr uint32_t kMaxRounds = 4;
  for (uint32_t word = 0; word < kNumFunctions / 32; ++word) {
    const uint32_t bits = host_.Read32(reg::ctrl::VirtualIntrLeaf::Offset(word));
    if (bits == 0 || bits == kGone) continue;
    host_.Write32(reg::ctrl::VirtualIntrLeaf::Offset(word), bits);
    for (uint32_t i = 0; i < 32; ++i) {
      if ((bits >> i & 1) == 0) continue;
      const uint32_t function = word * 32 + i;
      for (uint32_t round = 0; round < kMaxRounds; ++round) {
        const uint32_t leaf = host_.Read32(reg::ctrl::Leaf::Offset(16 * function));
        if (leaf == 0) break;
        host_.Write32(reg::ctrl::Leaf::Offset(16 * function), leaf);
        FunctionClient* client = clients_[function];
        if (client != nullptr) client->LatchInterrupts(leaf & kEngineVectors);
      }
    }
  }
}

// ---- thread
// --------------------------------------------------------------------------------------

void PhysicalGpu::HandleInterruptThread() {
  const uint32_t pending = pending_.exchange(0);
  base::MutexGuard guard(mutex_);
  if ((pending & (kFault | kFaultError)) != 0) DrainFaults();
  if ((pending & kFifo) != 0) {
    ServiceFifo();
    host_.Write32(reg::ctrl::LeafEnSet::Offset(kLeaf), kFifo);
  }
  if ((pending & kDoorbell) == 0) return;
  using Notify = reg::ctrl::VirtualDoorbellNotify;
  for (uint32_t function = 1; function < kNumFunctions; ++function) {
    if (armed_doorbells_[function] == 0) continue;
    if (!Notify(host_.Read32(Notify::Offset(function))).Test<Notify::Pending>()) continue;
    host_.Write32(Notify::Offset(function), Notify::Pending::kMask);
    armed_doorbells_[function] = 0;
    ts_host_trace_wake(host_.handle(), HostVgpu(function), function, true);
    policy_->Doorbell(base::FunctionId(function));
  }
}

void PhysicalGpu::ServiceFifo() {
  const FifoIntr intr(host_.Read32(FifoIntr::Offset()));
  if (intr.raw() == kGone) return;
  if (intr.Test<FifoIntr::RunlistEvent>()) ServiceRunlistEvents();
  if (intr.Test<FifoIntr::PbdmaIntr>()) ServicePbdmas();
  if (intr.Test<FifoIntr::CtxswTimeout>()) ServiceCtxswTimeouts();
  if (intr.Test<FifoIntr::RunlistAndEngIdle>()) {
    ServiceIdle(reg::pfifo::IntrRunlistAndEngIdle::Offset());
  }
  if (intr.Test<FifoIntr::RunlistAcquireAndEngIdle>()) {
    ServiceIdle(reg::pfifo::IntrRunlistAcquireAndEngIdle::Offset());
  }
  if (intr.Test<FifoIntr::TsgPreemptComplete>()) {
    host_.Write32(FifoIntr::Offset(), FifoIntr::TsgPreemptComplete::kMask);
    if (FunctionState* state = functions_[preempting_function_].get(); state != nullptr) {
      state->events.preempt_complete = true;
      state->client->QueueWork();
    }
  }
  const uint32_t errors = intr.raw() & kFifoErrors;
  if (errors == 0) return;
  // Nothing a guest does should lead here: lists and bindings are checked before.
  host_.Write32(FifoIntr::Offset(), errors);
  LogLine(host_.handle(), nullptr, TS_LOG_ERROR, TS_LOG_HARDWARE)
      << "PFIFO reports " << Hex{errors} << ", bind error "
      << host_.Read32(reg::pfifo::BindError::Offset()) << ", scheduling error "
      << host_.Read32(reg::pfifo::SchedError::Offset());
}

void PhysicalGpu::ServiceRunlistEvents() {
  const uint32_t bits = host_.Read32(reg::pfifo::IntrRunlistEvent::Offset());
  host_.Write32(reg::pfifo::IntrRunlistEvent::Offset(), bits);
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    if ((bits >> r & 1) == 0) continue;
    // A newer submit waits: its own event will tell.
    using Info = reg::pfifo::RunlistSubmitInfo;
    if (Info(host_.Read32(Info::Offset(r))).Test<Info::Pending>()) continue;
    runlists_[r].in_flight = 0;
    for (uint32_t function = 1; function < kNumFunctions; ++function) {
      CompleteSubmit(base::RunlistId(r), base::FunctionId(function));
    }
  }
}

void PhysicalGpu::ServiceIdle(uint32_t detail) {
  const uint32_t bits = host_.Read32(detail);
  host_.Write32(detail, bits);
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    if ((bits >> r & 1) != 0) policy_->Idle(base::RunlistId(r));
  }
}

PhysicalGpu::FunctionState* PhysicalGpu::OwnerOfChannel(uint32_t chid) {
  for (auto& state : functions_) {
    if (state.get() == nullptr) continue;
    const Partition& partition = state->partition;
    if (chid >= partition.first_chid && chid - partition.first_chid < partition.channels) {
      return state.get();
    }
  }
  return nullptr;
}

void PhysicalGpu::ServicePbdmas() {
  const uint32_t ids = host_.Read32(reg::pfifo::IntrPbdmaId::Offset());
  if (ids == kGone) return;
  for (uint32_t pbdma = 0; pbdma < kNumRunlists; ++pbdma) {
    if ((ids >> pbdma & 1) != 0) ServicePbdma(pbdma);
  }
}

// A frozen PBDMA stops everybody. So the channel on it is disabled, which makes the thaw save it
// out instead of trying again, and its vGPU gets to see what the registers showed. The vGPU's lock
// is not needed: whoever holds it may be waiting for this very PBDMA.
void PhysicalGpu::ServicePbdma(uint32_t pbdma) {
  namespace pb = reg::pbdma;
  PbdmaError error;
  error.pbdma = pbdma;
  error.intr_0 = host_.Read32(pb::Intr0::Offset(pbdma));
  error.intr_1 = host_.Read32(pb::Intr1::Offset(pbdma));
  if (error.intr_0 == 0 && error.intr_1 == 0) return;
  error.method0 = host_.Read32(pb::Method0::Offset(pbdma));
  error.data0 = host_.Read32(pb::Data0::Offset(pbdma));
  error.gp_shadow_0 = host_.Read32(pb::GpShadow0::Offset(pbdma));
  error.gp_shadow_1 = host_.Read32(pb::GpShadow1::Offset(pbdma));
  error.hdr_shadow = host_.Read32(pb::HdrShadow::Offset(pbdma));
  error.hce_dbg0 = host_.Read32(pb::HceDbg0::Offset(pbdma));
  error.hce_dbg1 = host_.Read32(pb::HceDbg1::Offset(pbdma));
  const pb::Channel loaded(host_.Read32(pb::Channel::Offset(pbdma)));
  error.chid = loaded.Get<pb::Channel::Chid>();
  const bool valid = loaded.Test<pb::Channel::Valid>();
  if (valid) {
    WriteChannel(error.chid, reg::pccsr::Channel().Set<reg::pccsr::Channel::EnableClr>(1).raw());
  }
  host_.Write32(pb::Intr1::Offset(pbdma), error.intr_1);
  host_.Write32(pb::Intr0::Offset(pbdma), error.intr_0);
  FunctionState* state = valid ? OwnerOfChannel(error.chid) : nullptr;
  if (state == nullptr) {
    LogLine(host_.handle(), nullptr, TS_LOG_WARNING, TS_LOG_PBDMA)
        << "PBDMA " << pbdma << " interrupt " << Hex{error.intr_0} << "/" << Hex{error.intr_1}
        << " for no channel of a vGPU";
    return;
  }
  LogLine(host_.handle(), state->client->host(), TS_LOG_INFO, TS_LOG_PBDMA)
      << "channel " << error.chid - state->partition.first_chid << ": PBDMA error "
      << Hex{error.intr_0} << "/" << Hex{error.intr_1} << ", method " << Hex{error.method0};
  if (state->events.pbdma_errors.TryPushBack(error) != Status::kOk) {
    LogLine(host_.handle(), nullptr, TS_LOG_WARNING, TS_LOG_PBDMA)
        << "channel " << error.chid << " stays disabled: no memory to report its PBDMA error";
    return;
  }
  state->client->QueueWork();
}

void PhysicalGpu::ServiceCtxswTimeouts() {
  const uint32_t engines = host_.Read32(reg::pfifo::IntrCtxswTimeout::Offset());
  using Info = reg::pfifo::IntrCtxswTimeoutInfo;
  for (uint32_t engine = 0; engine < kNumEngines; ++engine) {
    if ((engines >> engine & 1) == 0) continue;
    const Info info(host_.Read32(Info::Offset(engine)));
    const uint32_t tsgid = info.Get<Info::PrevTsgid>();
    FunctionState* state = OwnerOfChannel(tsgid);  // TSGIDs split alike
    ts_host_trace_ctxsw_timeout(host_.handle(), state != nullptr ? state->client->host() : nullptr,
                                engine, tsgid);
    if (state == nullptr) continue;
    LogLine(host_.handle(), state->client->host(), TS_LOG_INFO, TS_LOG_TIMEOUT)
        << "channel group " << tsgid - state->partition.first_chid << " did not leave engine "
        << engine << " in time and was dropped";
    state->events.ctxsw_timeouts |= 1u << engine;
    state->events.ctxsw_info[engine] = info.raw();
    state->client->QueueWork();
  }
  host_.Write32(reg::pfifo::IntrCtxswTimeout::Offset(), engines);
}

// ---- faults
// --------------------------------------------------------------------------------------

void PhysicalGpu::DrainFaults() {
  using Packet = reg::mmu_fmt::FaultPacket;
  using Put = reg::mmu::FaultBufferPut;
  using Get = reg::mmu::FaultBufferGet;
  const Put put(host_.Read32(Put::Offset(0)));
  if (put.raw() == kGone) return;
  const auto entries = static_cast<uint32_t>(fault_buffer_.size() / NV_MMU_FAULT_PACKET_SIZE);
  for (uint32_t seen = 0; seen < entries && fault_get_ != put.Get<Put::Ptr>(); ++seen) {
    std::array<uint32_t, kFaultPacketWords> packet;
    const size_t first = fault_get_ * kFaultPacketWords;
    for (uint32_t i = 0; i < kFaultPacketWords; ++i) packet[i] = fault_buffer_.Load32(first + i);
    fault_buffer_.Store32(first + kFaultPacketWords - 1, 0);
    fault_get_ = fault_get_ + 1 < entries ? fault_get_ + 1 : 0;
    if (Packet::Valid::Get(packet) != 0) ForwardFault(packet);
  }
  host_.Write32(Get::Offset(0), Get().Set<Get::Ptr>(fault_get_).raw());
  if (!put.Test<Put::Overflow>()) return;
  // GET first, then the flag: the order of the manual (dev_mmu_fault).
  host_.Write32(Get::Offset(0), Get().Set<Get::Ptr>(fault_get_).Set<Get::Overflow>(1).raw());
  LogLine(host_.handle(), nullptr, TS_LOG_WARNING, TS_LOG_FAULT) << "fault buffer overflow";
  for (auto& state : functions_) {
    if (state.get() == nullptr) continue;
    state->events.faults_lost = true;
    state->client->QueueWork();
  }
}

// The instance address is one of ours or the packet is not believed.
void PhysicalGpu::ForwardFault(const std::array<uint32_t, kFaultPacketWords>& packet) {
  using Packet = reg::mmu_fmt::FaultPacket;
  const uint64_t instance = Packet::InstLo::Get(packet) << 12 | Packet::InstHi::Get(packet) << 32;
  const uint32_t* chid = chid_of_instance_.Find(instance);
  FunctionState* state = chid != nullptr ? OwnerOfChannel(*chid) : nullptr;
  if (state == nullptr) {
    LogLine(host_.handle(), nullptr, TS_LOG_WARNING, TS_LOG_FAULT)
        << "fault of type " << Packet::FaultType::Get(packet) << " with an instance block "
        << Hex{instance} << " that is no vGPU's";
    return;
  }
  LogLine(host_.handle(), state->client->host(), TS_LOG_INFO, TS_LOG_FAULT)
      << "channel " << *chid - state->partition.first_chid << ": fault of type "
      << Packet::FaultType::Get(packet) << " at "
      << Hex{Packet::AddrLo::Get(packet) << 12 | Packet::AddrHi::Get(packet) << 32} << ", engine "
      << Packet::EngineId::Get(packet);
  FaultRecord record;
  record.words = packet;
  record.chid = *chid;
  if (Packet::FaultType::Get(packet) == Packet::kFaultTypeTs104CeLaunchError) {
    const auto lce = static_cast<uint32_t>(Packet::EngineId::Get(packet) - Packet::kEngineIdCe0);
    if (lce < reg::ce::LceLauncherr::kCount) {
      record.lce_report = host_.Read32(reg::ce::LceLauncherr::Offset(lce));
      host_.Write32(reg::ce::LceIntrStatus::Offset(lce), reg::ce::LceIntrStatus::Launcherr::kMask);
    }
  }
  if (state->events.faults.TryPushBack(record) != Status::kOk) state->events.faults_lost = true;
  state->client->QueueWork();
}

}  // namespace turnstile
