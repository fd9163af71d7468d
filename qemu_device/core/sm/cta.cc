// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sm/cta.h"

#include <algorithm>

namespace sm {
namespace {

constexpr size_t kThreadRecordSize = 31 * 8 + 32 * 8 + 4 * 8 + 4;
constexpr size_t kCtaRecordFixed = 4 * 3 + 4 + 4;

constexpr unsigned kSp = 2;
constexpr unsigned kTp = 4;
constexpr unsigned kA0 = 10;
constexpr unsigned kA1 = 11;

}  // namespace

Cta::Cta(const Launch& launch, uint32_t sm)
    : launch_(launch),
      sm_(sm),
      thread_count_(static_cast<uint32_t>(launch.cta.Count())),
      threads_(thread_count_),
      shared_(launch.shared_bytes) {}

uint64_t Cta::LocalMemory(uint32_t thread) const {
  const uint64_t slot = uint64_t{sm_} * kMaxCtaThreads + thread;
  return launch_.local_memory + slot * launch_.local_bytes;
}

void Cta::ResetThread(uint32_t linear) {
  ThreadState& thread = threads_[linear];
  thread = {};
  const uint32_t row = linear / launch_.cta.x;
  thread.tid = {static_cast<uint16_t>(linear % launch_.cta.x),
                static_cast<uint16_t>(row % launch_.cta.y),
                static_cast<uint16_t>(row / launch_.cta.y)};
  thread.linear_tid = linear;
  thread.pc = launch_.program_address;
  thread.x[kSp] = launch_.local_window + launch_.local_bytes;
  thread.x[kTp] = launch_.shared_window;
  thread.x[kA0] = launch_.constant_buffer_address;
  thread.x[kA1] = launch_.constant_buffer_bytes;
}

void Cta::Start(Dim3 index) {
  std::fill(shared_.begin(), shared_.end(), std::byte{0});
  index_ = index;
  for (uint32_t i = 0; i < thread_count_; ++i) ResetThread(i);
  waiting_.fill(0);
  live_ = thread_count_;
  current_ = 0;
  slice_left_ = kSliceInstructions;
}

CtaView Cta::MakeView(uint64_t start_cycle) {
  CtaView view;
  view.launch = &launch_;
  view.cta = index_;
  view.sm = sm_;
  view.start_cycle = start_cycle;
  view.shared = MemoryWindow(launch_.shared_window, launch_.shared_bytes, 0);
  view.shared_memory = shared_.data();
  // A stack that overruns runs into the guard.
  view.local = MemoryWindow(launch_.local_window, launch_.local_bytes, kWindowExtent);
  return view;
}

CtaExit Cta::Run(Interpreter& interpreter, uint64_t start_cycle, uint64_t& budget) {
  CtaView view = MakeView(start_cycle);
  while (live_ != 0) {
    if (budget == 0) return CtaExit::kBudget;
    if (!FindRunnable()) {
      StopForDeadlock();
      return CtaExit::kStop;
    }
    ThreadState& thread = threads_[current_];
    view.local_memory = LocalMemory(current_);
    const uint64_t slice = std::min<uint64_t>(budget, slice_left_);
    uint64_t slice_budget = slice;
    const RunExit exit = interpreter.Run(thread, view, slice_budget);
    const uint64_t retired = slice - slice_budget;
    budget -= retired;
    view.start_cycle += retired;
    slice_left_ -= static_cast<uint32_t>(retired);
    switch (exit) {
      case RunExit::kBudget: break;
      case RunExit::kStop: stop_ = interpreter.stop(); return CtaExit::kStop;
      case RunExit::kExit: ThreadExited(thread); break;
      case RunExit::kBarrier:
        if (!ArriveAtBarrier(thread)) return CtaExit::kStop;
        break;
    }
    if (exit != RunExit::kBudget || slice_left_ == 0) {
      current_ = (current_ + 1) % thread_count_;
      slice_left_ = kSliceInstructions;
    }
  }
  return CtaExit::kFinished;
}

bool Cta::FindRunnable() {
  for (uint32_t tried = 0; tried < thread_count_; ++tried) {
    if (threads_[current_].status == ThreadStatus::kRunnable) return true;
    current_ = current_ + 1 == thread_count_ ? 0 : current_ + 1;
    slice_left_ = kSliceInstructions;
  }
  return false;
}

void Cta::ThreadExited(ThreadState& thread) {
  thread.status = ThreadStatus::kExited;
  --live_;
  // A barrier counts live threads: the exit may be what the others waited for.
  for (uint32_t barrier = 0; barrier < launch_.barrier_count; ++barrier) ReleaseIfComplete(barrier);
}

bool Cta::ArriveAtBarrier(ThreadState& thread) {
  const uint64_t barrier = thread.x[kA0];
  if (barrier >= launch_.barrier_count) {
    thread.pc -= 4;  // the call did not happen
    --thread.instret;
    StopAt(thread, ExceptionKind::kBadBarrier, barrier);
    return false;
  }
  thread.status = ThreadStatus::kAtBarrier;
  thread.barrier = static_cast<uint8_t>(barrier);
  ++waiting_[barrier];
  ReleaseIfComplete(thread.barrier);
  return true;
}

void Cta::ReleaseIfComplete(uint32_t barrier) {
  if (waiting_[barrier] == 0 || waiting_[barrier] != live_) return;
  for (ThreadState& thread : threads_) {
    if (thread.status == ThreadStatus::kAtBarrier) thread.status = ThreadStatus::kRunnable;
  }
  waiting_[barrier] = 0;
}

void Cta::StopAt(const ThreadState& thread, ExceptionKind kind, uint64_t code) {
  stop_ = {};
  stop_.exception = kind;
  stop_.code = code;
  stop_.pc = thread.pc;
  stop_.sm = sm_;
  stop_.cta = index_;
  stop_.thread = {thread.tid[0], thread.tid[1], thread.tid[2]};
}

void Cta::StopForDeadlock() {
  const auto waiting = std::find_if(
      threads_.begin(), threads_.end(),
      [](const ThreadState& thread) { return thread.status == ThreadStatus::kAtBarrier; });
  StopAt(*waiting, ExceptionKind::kBarrierDeadlock, waiting->barrier);
  stop_.pc = waiting->pc - 4;  // the call it waits in
}

// --- Saved form ---

size_t Cta::StateSize(const Launch& launch) {
  return kCtaRecordFixed + launch.shared_bytes +
         static_cast<size_t>(launch.cta.Count()) * kThreadRecordSize;
}

void Cta::Save(StateWriter& writer) const {
  writer.Value(index_.x);
  writer.Value(index_.y);
  writer.Value(index_.z);
  writer.Value(current_);
  writer.Value(slice_left_);
  writer.Bytes(shared_);
  for (const ThreadState& thread : threads_) {
    for (unsigned i = 1; i < 32; ++i) writer.Value(thread.x[i]);
    for (const uint64_t value : thread.f) writer.Value(value);
    writer.Value(thread.pc);
    writer.Value(thread.instret);
    writer.Value(thread.reservation_address);
    writer.Value(thread.reservation_value);
    writer.Value(thread.reservation_size);
    writer.Value(thread.fcsr);
    writer.Value(static_cast<uint8_t>(thread.status));
    writer.Value(thread.barrier);
  }
}

bool Cta::LoadThread(StateReader& reader, ThreadState& thread) {
  for (unsigned i = 1; i < 32; ++i) thread.x[i] = reader.Value<uint64_t>();
  for (uint64_t& value : thread.f) value = reader.Value<uint64_t>();
  thread.pc = reader.Value<uint64_t>();
  thread.instret = reader.Value<uint64_t>();
  thread.reservation_address = reader.Value<uint64_t>();
  thread.reservation_value = reader.Value<uint64_t>();
  thread.reservation_size = reader.Value<uint8_t>();
  thread.fcsr = reader.Value<uint8_t>();
  const auto status = reader.Value<uint8_t>();
  thread.barrier = reader.Value<uint8_t>();
  const uint8_t reserved = thread.reservation_size;
  if (reader.failed() || (reserved != 0 && reserved != 4 && reserved != 8) ||
      status > static_cast<uint8_t>(ThreadStatus::kExited)) {
    return false;
  }
  thread.status = static_cast<ThreadStatus>(status);
  return thread.status != ThreadStatus::kAtBarrier || thread.barrier < launch_.barrier_count;
}

bool Cta::Load(StateReader& reader) {
  Dim3 index;
  index.x = reader.Value<uint32_t>();
  index.y = reader.Value<uint32_t>();
  index.z = reader.Value<uint32_t>();
  if (index.x >= launch_.grid.x || index.y >= launch_.grid.y || index.z >= launch_.grid.z) {
    return false;
  }
  Start(index);
  current_ = reader.Value<uint32_t>();
  slice_left_ = reader.Value<uint32_t>();
  reader.Bytes(shared_);
  if (reader.failed() || current_ >= thread_count_ || slice_left_ == 0 ||
      slice_left_ > kSliceInstructions) {
    return false;
  }
  for (ThreadState& thread : threads_) {
    if (!LoadThread(reader, thread)) return false;
    if (thread.status == ThreadStatus::kExited) --live_;
    if (thread.status == ThreadStatus::kAtBarrier) ++waiting_[thread.barrier];
  }
  // All gone: finished, so it would not be here. All at one barrier: released, likewise.
  return live_ != 0 && std::find(waiting_.begin(), waiting_.end(), live_) == waiting_.end();
}

}  // namespace sm
