// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sm/grid_executor.h"

#include <algorithm>

#include "sm/float_ops.h"

namespace sm {
namespace {

constexpr uint64_t kMinTurn = Cta::kSliceInstructions;
constexpr uint64_t kMaxTurn = 16 * uint64_t{Cta::kSliceInstructions};

}  // namespace

GridExecutor::GridExecutor(const Launch& launch, uint32_t sms, Interpreter& interpreter,
                           SmMemory& memory)
    : launch_(launch),
      cta_count_(launch.grid.Count()),
      interpreter_(interpreter),
      memory_(memory),
      slots_(launch.sequential ? 1 : sms) {
  interpreter_.InvalidateCode();
}

std::unique_ptr<GridExecutor> GridExecutor::Create(const Launch& launch, uint32_t sms,
                                                   Interpreter& interpreter, SmMemory& memory) {
  if (sms == 0 || sms > kMaxSms || launch.Validate() != LaunchError::kNone) return nullptr;
  return std::unique_ptr<GridExecutor>(new GridExecutor(launch, sms, interpreter, memory));
}

uint32_t GridExecutor::live_ctas() const {
  return static_cast<uint32_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.live; }));
}

Dim3 GridExecutor::CtaIndex(uint64_t linear) const {
  const uint64_t row = linear / launch_.grid.x;
  return {static_cast<uint32_t>(linear % launch_.grid.x),
          static_cast<uint32_t>(row % launch_.grid.y), static_cast<uint32_t>(row / launch_.grid.y)};
}

Cta& GridExecutor::CtaOf(size_t slot) {
  std::unique_ptr<Cta>& cta = slots_[slot].cta;
  if (cta == nullptr) cta = std::make_unique<Cta>(launch_, static_cast<uint32_t>(slot));
  return *cta;
}

void GridExecutor::StartCtas() {
  while (!draining_ && next_cta_ < cta_count_) {
    // Of the free SMs the one that became free first.
    Slot* free_slot = nullptr;
    for (Slot& slot : slots_) {
      if (!slot.live && (free_slot == nullptr || slot.cycles < free_slot->cycles))
        free_slot = &slot;
    }
    if (free_slot == nullptr) return;
    CtaOf(static_cast<size_t>(free_slot - slots_.data())).Start(CtaIndex(next_cta_));
    ++next_cta_;
    free_slot->live = true;
    free_slot->cycles += kCtaStartCycles;
  }
}

GridExecutor::Slot* GridExecutor::NextSlot() {
  Slot* next = nullptr;
  for (Slot& slot : slots_) {
    if (slot.live && (next == nullptr || slot.cycles < next->cycles)) next = &slot;
  }
  return next;
}

void GridExecutor::UpdateState() {
  if (live_ctas() != 0) return;
  if (next_cta_ == cta_count_) {
    state_ = GridState::kFinished;
  } else if (draining_) {
    state_ = GridState::kDrained;
  }
}

void GridExecutor::RunTurn(Slot& slot, uint64_t turn, QuantumResult& result) {
  uint64_t left = turn;
  const CtaExit exit = slot.cta->Run(interpreter_, slot.cycles, left);
  slot.cycles += turn - left;
  result.instructions += turn - left;
  switch (exit) {
    case CtaExit::kBudget: break;
    case CtaExit::kFinished:
      slot.live = false;
      ++result.ctas_finished;
      break;
    case CtaExit::kStop:
      stop_ = slot.cta->stop();
      state_ = stop_.exception == ExceptionKind::kNone ? GridState::kFault : GridState::kException;
      break;
  }
}

QuantumResult GridExecutor::RunQuantum(uint64_t max_instructions) {
  QuantumResult result;
  const HostFloat host_float;
  interpreter_.Bind(launch_.context_id, memory_);
  UpdateState();
  while (state_ == GridState::kRunning && result.instructions < max_instructions) {
    StartCtas();
    Slot* const slot = NextSlot();
    const uint64_t left = max_instructions - result.instructions;
    const uint64_t turn = std::clamp(max_instructions / live_ctas(), kMinTurn, kMaxTurn);
    RunTurn(*slot, std::min(turn, left), result);
    if (state_ == GridState::kRunning) UpdateState();
  }
  uint64_t cycles = cycles_;
  for (const Slot& slot : slots_) cycles = std::max(cycles, slot.cycles);
  result.cycles = cycles - cycles_;
  cycles_ = cycles;
  result.state = state_;
  return result;
}

void GridExecutor::SetDraining(bool draining) {
  draining_ = draining;
  if (draining || state_ != GridState::kDrained) return;
  // SMs stood idle meanwhile: they start again together, not in the past.
  for (Slot& slot : slots_) slot.cycles = cycles_;
  state_ = GridState::kRunning;
}

void GridExecutor::Retry() {
  if (state_ == GridState::kFault) state_ = GridState::kRunning;
}

}  // namespace sm
