// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "gr_engine.h"

#include <algorithm>
#include <array>

namespace ts104 {
namespace {

// What an SM exception is in a fault packet; program_abi.md, "What ends a grid early".
FaultType TypeOf(sm::ExceptionKind kind) {
  switch (kind) {
    case sm::ExceptionKind::kIllegalInstruction:
    case sm::ExceptionKind::kBreakpoint:
    case sm::ExceptionKind::kMisalignedPc:
    case sm::ExceptionKind::kUnknownCall: return FaultType::kIllegalInstruction;
    case sm::ExceptionKind::kMisalignedAtomic: return FaultType::kMisaligned;
    case sm::ExceptionKind::kSharedOutOfRange: return FaultType::kSharedOutOfRange;
    case sm::ExceptionKind::kLocalOutOfRange: return FaultType::kLocalOutOfRange;
    default: return FaultType::kTrap;
  }
}

AccessKind KindOf(sm::Access access) {
  switch (access) {
    case sm::Access::kWrite: return AccessKind::kWrite;
    case sm::Access::kAtomic: return AccessKind::kAtomic;
    default: return AccessKind::kRead;
  }
}

}  // namespace

// Order of the compute classes' reduction codes: ADD MIN MAX INC DEC AND OR XOR.
ReduceOp ComputeReduceOp(uint32_t code) {
  constexpr std::array<ReduceOp, 8> kOps = {ReduceOp::kAdd, ReduceOp::kMin, ReduceOp::kMax,
                                            ReduceOp::kInc, ReduceOp::kDec, ReduceOp::kAnd,
                                            ReduceOp::kOr,  ReduceOp::kXor};
  return kOps[code % kOps.size()];
}

EngineResult GrEngine::Bad(FaultType type, uint64_t address, uint64_t now) const {
  FaultRecord record = MakeFaultRecord(*owner_, info().fault_id, now);
  record.type = type;
  record.va = address;
  record.client = kClientFrontEnd;
  return EngineResult::Fault(record);
}

std::optional<EngineResult> GrEngine::TakeContext(const ChannelContext& channel, uint64_t now) {
  owner_ = channel;
  sm_memory_.SetSpace(channel.space);
  GrContextBuffer buffer(machine_, *owner_);
  switch (buffer.Load(context_)) {
    case GrContextBuffer::LoadError::kNone: return std::nullopt;
    case GrContextBuffer::LoadError::kNoContext: return Bad(FaultType::kIllegalMethod, 0, now);
    case GrContextBuffer::LoadError::kBadContext: return Bad(FaultType::kBadContext, 0, now);
    case GrContextBuffer::LoadError::kFault: break;
  }
  return MmuFaultResult(buffer.fault(), kClientContext, now);
}

EngineResult GrEngine::Method(const ChannelContext& channel, uint32_t method, uint32_t data,
                              uint64_t now) {
  if (busy_) return EngineResult::Busy();
  if (!HoldsContextOf(channel.chid)) {
    if (owner_.has_value()) Save();
    grid_marked_ = false;
    if (auto error = TakeContext(channel, now)) {
      // Not even its context is there: nothing to be saved later.
      if (error->fault.type == FaultType::kIllegalMethod) error->fault.va = method;
      owner_.reset();
      return *error;
    }
    context_.grid.clear();
  }
  return StoreOrRun(method, data, now);
}

uint64_t GrEngine::Address(uint32_t upper_word, uint32_t upper_mask) const {
  return (uint64_t{context_.words[upper_word] & upper_mask} << 32) | context_.words[upper_word + 1];
}

compute::ClassState GrEngine::MakeClassState() const {
  compute::ClassState state;
  const uint32_t set = context_.words[kWindowsSet];
  if ((set & 1) != 0) state.shared_window = Address(kSharedWindowUpper, 0x1ffff);
  if ((set & 2) != 0) state.local_window = Address(kLocalWindowUpper, 0x1ffff);
  state.local_memory = Address(kLocalMemoryUpper, 0x1ffff);
  state.context_id = sm_memory_.ContextId();
  return state;
}

EngineResult GrEngine::Launch(uint64_t now) {
  const uint64_t address = uint64_t{context_.words[kQmdShifted]} << 8;
  std::array<uint32_t, compute::kQmdWords> words{};
  if (auto fault = machine_.mmu.ReadValue(owner_->space, address, words)) {
    return MmuFaultResult(*fault, kClientFrontEnd, now);
  }
  compute::Qmd qmd;
  if (compute::ParseQmd(words, MakeClassState(), qmd) != compute::QmdError::kNone) {
    return Bad(FaultType::kBadLaunch, address, now);
  }
  grid_ =
      sm::GridExecutor::Create(qmd.launch, machine_.state.config().sms, interpreter_, sm_memory_);
  if (grid_ == nullptr) return Bad(FaultType::kBadLaunch, address, now);
  context_.releases = qmd.releases;
  phase_ = Phase::kRunning;
  busy_ = true;
  due_ = now;
  return EngineResult::Ok();
}

uint64_t GrEngine::BusySms() const {
  if (grid_->launch().sequential) return 1;
  const uint64_t ctas = grid_->launch().grid.Count() - grid_->ctas_started() + grid_->live_ctas();
  return std::clamp<uint64_t>(ctas, 1, machine_.state.config().sms);
}

uint64_t GrEngine::QuantumCycles(uint64_t now, uint64_t limit, uint64_t sms) const {
  uint64_t quantum = kQuantumNs;
  if (limit != kNever && limit > now) quantum = std::min(quantum, limit - now);
  return std::clamp<uint64_t>(machine_.NsToCycles(quantum), 1, kQuantumInstructions / sms);
}

uint64_t GrEngine::RunSms(uint64_t cycles, uint64_t sms) {
  uint64_t spent = 0;
  uint64_t instructions = 0;
  // The executor takes the SM that is furthest behind. So as many rounds as there are SMs bring
  // them all to the same time, and a quantum overshoots only by starts of CTAs.
  for (uint64_t i = 0; i < sms && spent <= cycles; ++i) {
    const sm::QuantumResult result = grid_->RunQuantum(cycles);
    spent += result.cycles;
    instructions += result.instructions;
    if (result.state != sm::GridState::kRunning) break;
  }
  const std::lock_guard lock(machine_.state.mutex);
  machine_.state.instructions += instructions;
  return spent;
}

EngineResult GrEngine::Run(uint64_t now, bool leaving, uint64_t limit) {
  if (!busy_ || grid_ == nullptr) return EngineResult::Done();
  if (phase_ == Phase::kReleasing) return ReleaseAll(now);
  if (phase_ == Phase::kStopped) return ReportStop(now);
  grid_->SetDraining(leaving && context_.mode == PreemptionMode::kCta);
  const uint64_t sms = BusySms();
  due_ = now + machine_.CyclesToNs(RunSms(QuantumCycles(now, limit, sms), sms));
  const sm::GridState state = grid_->state();
  if (state == sm::GridState::kFinished) phase_ = Phase::kReleasing;
  if (state == sm::GridState::kFault || state == sm::GridState::kException) {
    phase_ = Phase::kStopped;
  }
  return EngineResult::Ok();
}

EngineResult GrEngine::ReleaseAll(uint64_t now) {
  DropWork();
  for (const compute::SemaphoreRelease& from : context_.releases) {
    if (!from.enabled) continue;
    SemaphoreRelease release;
    release.va = from.address;
    release.payload = from.payload;
    release.timestamp = !from.one_word;
    if (from.reduction) {
      release.reduction = Reduction{ComputeReduceOp(from.reduction_op), from.reduction_signed};
    }
    if (auto fault = ReleaseSemaphore(machine_.mmu, owner_->space, release, now)) {
      return MmuFaultResult(*fault, kClientFrontEnd, now);
    }
    ++machine_.semaphore_releases;
  }
  return EngineResult::Done();
}

EngineResult GrEngine::ReportStop(uint64_t now) {
  const sm::StopRecord stop = grid_->stop();
  context_.last_stop = stop;
  DropWork();
  FaultRecord record = MakeFaultRecord(*owner_, info().fault_id, now);
  record.client = kClientSm;
  record.from_gpc = true;
  record.gpc_id = stop.sm;
  record.access = KindOf(stop.access);
  if (stop.exception == sm::ExceptionKind::kNone) {
    record.type = static_cast<FaultType>(stop.fault_type);
    record.va = stop.address;
  } else {
    record.type = TypeOf(stop.exception);
    record.va = stop.pc;
  }
  return EngineResult::Fault(record);
}

bool GrEngine::CanSave(uint64_t now) const {
  if (!busy_) return true;
  if (now < due_ || phase_ != Phase::kRunning) return false;
  switch (context_.mode) {
    case PreemptionMode::kCilp: return true;
    case PreemptionMode::kCta: return grid_->live_ctas() == 0;
    case PreemptionMode::kWfi: return false;
  }
  return false;
}

EngineResult GrEngine::Resume(const ChannelContext& channel, const EngineWords& words,
                              uint64_t now) {
  if (busy_ || words[kGrSavedGridWord] == 0) return EngineResult::Ok();
  grid_marked_ = true;
  auto error = TakeContext(channel, now);
  if (!error.has_value()) {
    grid_ = sm::GridExecutor::RestoreState(context_.grid, sm_memory_.ContextId(),
                                           machine_.state.config().sms, interpreter_, sm_memory_);
    context_.grid.clear();
    if (grid_ != nullptr) {
      phase_ = Phase::kRunning;
      busy_ = true;
      due_ = now;
      return EngineResult::Ok();
    }
    error = Bad(FaultType::kBadContext, 0, now);
  }
  // The grid is lost; the mark must not bring it back at the next load.
  MarkSavedGrid(false);
  owner_.reset();
  return *error;
}

void GrEngine::MarkSavedGrid(bool saved) {
  if (saved == grid_marked_) return;
  const uint32_t word = saved ? 1 : 0;
  (void)machine_.memory.WriteValue(owner_->inst_block + (kEngineWordsOffset + kGrSavedGridWord * 4),
                                   word);
  grid_marked_ = saved;
}

bool GrEngine::Save() {
  if (!owner_.has_value()) return false;
  const bool unfinished = busy_;
  context_.grid.clear();
  if (unfinished) {
    context_.grid.resize(grid_->StateSize());
    grid_->SaveState(context_.grid);
  }
  GrContextBuffer buffer(machine_, *owner_);
  const bool saved = buffer.Save(context_);
  MarkSavedGrid(unfinished && saved);
  if (!saved) {
    FaultRecord record = MakeFaultRecord(*owner_, info().fault_id, machine_.time);
    record.type = buffer.fault().type;
    record.va = buffer.fault().va;
    record.access = buffer.fault().access;
    record.client = kClientContext;
    machine_.faults.Push(record);
    const std::lock_guard lock(machine_.state.mutex);
    machine_.state.channels[owner_->chid].eng_faulted = true;
  }
  DropWork();
  owner_.reset();
  return unfinished && saved;
}

void GrEngine::DropWork() {
  busy_ = false;
  grid_.reset();
}

void GrEngine::Reset() {
  Engine::Reset();
  DropWork();
  interpreter_.InvalidateCode();
}

}  // namespace ts104
