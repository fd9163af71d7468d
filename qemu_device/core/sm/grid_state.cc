// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The saved form of a grid. Layout, little endian without padding:
//   u64 magic, u32 version, u32 live CTAs, launch, u64 next CTA, u64 cycles, then per live CTA
//   u32 slot and the CTA's record (cta.cc).
// Nothing here is trusted on the way in: the buffer may lie in a guest's memory.
#include "sm/grid_executor.h"

namespace sm {
namespace {

constexpr uint64_t kMagic = 0x4449'5247'3430'3154;  // "T104GRID"
constexpr size_t kLaunchSize = 5 * 8 + 5 * 4 + 6 * 4;
constexpr size_t kHeaderSize = 8 + 4 + 4 + kLaunchSize + 8 + 8;
constexpr size_t kSlotRecordFixed = 4;
// Cycle counts beyond this are forged: 584 years at 1 GHz would be 2^64.
constexpr uint64_t kMaxCycles = uint64_t{1} << 62;

}  // namespace

void GridExecutor::SaveLaunch(StateWriter& writer) const {
  writer.Value(launch_.program_address);
  writer.Value(launch_.constant_buffer_address);
  writer.Value(launch_.shared_window);
  writer.Value(launch_.local_window);
  writer.Value(launch_.local_memory);
  writer.Value(launch_.constant_buffer_bytes);
  writer.Value(launch_.shared_bytes);
  writer.Value(launch_.local_bytes);
  writer.Value(launch_.barrier_count);
  writer.Value(uint32_t{launch_.sequential});
  for (const Dim3& dim : {launch_.grid, launch_.cta}) {
    writer.Value(dim.x);
    writer.Value(dim.y);
    writer.Value(dim.z);
  }
}

Launch GridExecutor::LoadLaunch(StateReader& reader) {
  Launch launch;
  launch.program_address = reader.Value<uint64_t>();
  launch.constant_buffer_address = reader.Value<uint64_t>();
  launch.shared_window = reader.Value<uint64_t>();
  launch.local_window = reader.Value<uint64_t>();
  launch.local_memory = reader.Value<uint64_t>();
  launch.constant_buffer_bytes = reader.Value<uint32_t>();
  launch.shared_bytes = reader.Value<uint32_t>();
  launch.local_bytes = reader.Value<uint32_t>();
  launch.barrier_count = reader.Value<uint32_t>();
  launch.sequential = reader.Value<uint32_t>() != 0;
  for (Dim3* dim : {&launch.grid, &launch.cta}) {
    dim->x = reader.Value<uint32_t>();
    dim->y = reader.Value<uint32_t>();
    dim->z = reader.Value<uint32_t>();
  }
  return launch;
}

size_t GridExecutor::StateSize() const {
  size_t size = kHeaderSize;
  for (const Slot& slot : slots_) {
    if (slot.live) size += kSlotRecordFixed + Cta::StateSize(launch_);
  }
  return size;
}

size_t GridExecutor::MaxStateSize(uint32_t sms) {
  Launch largest;
  largest.cta = {kMaxCtaThreads, 1, 1};
  largest.shared_bytes = kMaxSharedBytes;
  return kHeaderSize + sms * (kSlotRecordFixed + Cta::StateSize(largest));
}

size_t GridExecutor::SaveState(std::span<std::byte> buffer) const {
  StateWriter writer(buffer);
  writer.Value(kMagic);
  writer.Value(kStateVersion);
  writer.Value(live_ctas());
  SaveLaunch(writer);
  writer.Value(next_cta_);
  writer.Value(cycles_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].live) continue;
    writer.Value(static_cast<uint32_t>(i));
    slots_[i].cta->Save(writer);
  }
  return writer.failed() ? 0 : writer.used();
}

bool GridExecutor::LoadCtas(StateReader& reader, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto index = reader.Value<uint32_t>();
    if (reader.failed() || index >= slots_.size() || slots_[index].live) return false;
    if (!CtaOf(index).Load(reader)) return false;
    slots_[index].live = true;
  }
  return reader.left() == 0;
}

std::unique_ptr<GridExecutor> GridExecutor::RestoreState(std::span<const std::byte> buffer,
                                                         uint64_t context_id, uint32_t sms,
                                                         Interpreter& interpreter,
                                                         SmMemory& memory) {
  StateReader reader(buffer);
  if (reader.Value<uint64_t>() != kMagic || reader.Value<uint32_t>() != kStateVersion) {
    return nullptr;
  }
  const auto live = reader.Value<uint32_t>();
  Launch launch = LoadLaunch(reader);
  launch.context_id = context_id;
  const auto next_cta = reader.Value<uint64_t>();
  const auto cycles = reader.Value<uint64_t>();
  if (reader.failed()) return nullptr;
  std::unique_ptr<GridExecutor> executor = Create(launch, sms, interpreter, memory);
  if (executor == nullptr || next_cta > executor->cta_count_ || live > next_cta ||
      cycles > kMaxCycles || !executor->LoadCtas(reader, live)) {
    return nullptr;
  }
  executor->next_cta_ = next_cta;
  executor->cycles_ = cycles;
  // The SMs start together: what one was ahead of another is not worth trusting a guest for.
  for (Slot& slot : executor->slots_) slot.cycles = cycles;
  return executor;
}

}  // namespace sm
