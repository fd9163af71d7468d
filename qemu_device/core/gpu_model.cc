// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "gpu_model.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/bits.h"
#include "gr_context.h"
#include "sm/grid_executor.h"

namespace ts104 {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
// The shortest and the longest sleep of the thread. Sleeping less costs more than it gains; longer
// only until the device clock, which may run slower than the host's or stand still, is asked again.
constexpr uint64_t kMinSleepNs = 50'000;
constexpr uint64_t kMaxSleepNs = 100'000'000;
constexpr uint64_t kStoppedClockSleepNs = 5'000'000;

bool IsAccess(uint64_t offset, unsigned size, uint64_t limit) {
  return (size == 1 || size == 2 || size == 4) && offset % size == 0 && offset < limit;
}

// The bytes of a narrow access out of the word they lie in.
uint32_t Part(uint32_t word, uint64_t offset, unsigned size) {
  if (size == 4) return word;
  return word >> (offset % 4 * 8) & ((1u << size * 8) - 1);
}

}  // namespace

std::string GpuModel::CheckConfig(const ts104_config& config) {
  const auto range = [](const char* name, uint64_t value, uint64_t low, uint64_t high,
                        const char* unit) {
    return std::string(name) + " " + std::to_string(value) + unit + " is not within " +
           std::to_string(low) + unit + " to " + std::to_string(high) + unit;
  };
  if (!base::IsPowerOfTwo(config.vram_bytes) || config.vram_bytes < TS104_PCI_VRAM_MIN_MIB * kMib ||
      config.vram_bytes > TS104_PCI_VRAM_MAX_MIB * kMib) {
    return "vram of " + std::to_string(config.vram_bytes) + " bytes is not a power of two from " +
           std::to_string(TS104_PCI_VRAM_MIN_MIB) + " MiB to " +
           std::to_string(TS104_PCI_VRAM_MAX_MIB) + " MiB";
  }
  if (config.engine_mhz < 1 || config.engine_mhz > 10000) {
    return range("engine-mhz", config.engine_mhz, 1, 10000, "");
  }
  if (config.sms < 1 || config.sms > sm::GridExecutor::kMaxSms) {
    return range("sms", config.sms, 1, sm::GridExecutor::kMaxSms, "");
  }
  if (config.ctxsw_us > 1000000) return range("ctxsw-us", config.ctxsw_us, 0, 1000000, "");
  return {};
}

GpuModel::GpuModel(const ts104_config& config, std::span<std::byte> vram, const ts104_host_ops& ops,
                   void* opaque)
    : ops_(ops),
      opaque_(opaque),
      vram_(vram),
      memory_(vram, ops_, opaque),
      state_(config, static_cast<uint32_t>(GrContextBuffer::Bytes(config.sms)), ops_, opaque),
      faults_(state_, memory_),
      registers_(state_, faults_),
      worker_(state_, memory_, faults_) {}

GpuModel::~GpuModel() { StopThread(); }

uint32_t GpuModel::ReadBar0(uint64_t offset, unsigned size) {
  if (!IsAccess(offset, size, TS104_PCI_BAR0_SIZE)) return 0;
  const auto word_offset = static_cast<uint32_t>(offset & ~uint64_t{3});
  if (word_offset >= NV_FUNC_PRAMIN_BASE &&
      word_offset < NV_FUNC_PRAMIN_BASE + NV_FUNC_PRAMIN_SIZE) {
    return Part(ReadPramin(word_offset - NV_FUNC_PRAMIN_BASE), offset, size);
  }
  const std::lock_guard lock(state_.mutex);
  return Part(registers_.Read(word_offset), offset, size);
}

void GpuModel::WriteBar0(uint64_t offset, unsigned size, uint32_t value) {
  if (size != 4 || !IsAccess(offset, size, TS104_PCI_BAR0_SIZE)) return;
  const auto word_offset = static_cast<uint32_t>(offset);
  if (word_offset >= NV_FUNC_PRAMIN_BASE &&
      word_offset < NV_FUNC_PRAMIN_BASE + NV_FUNC_PRAMIN_SIZE) {
    return WritePramin(word_offset - NV_FUNC_PRAMIN_BASE, value);
  }
  bool resets_pfifo = false;
  {
    const std::lock_guard lock(state_.mutex);
    const uint32_t pfifo = 1u << NV_PMC_INTR_BIT_PFIFO;
    resets_pfifo = word_offset == NV_PMC_ENABLE && (value & pfifo) == 0 &&
                   (state_.Get(NV_PMC_ENABLE) & pfifo) != 0;
    registers_.Write(word_offset, value);
  }
  if (resets_pfifo) ResetPfifo();
}

uint32_t GpuModel::ReadBar3(uint64_t offset, unsigned size) {
  if (!IsAccess(offset, size, TS104_PCI_BAR3_SIZE)) return 0;
  const auto in_window = static_cast<uint32_t>(offset % NV_FUNC_USERMODE_SIZE) & ~3u;
  const std::lock_guard lock(state_.mutex);
  return Part(registers_.ReadUsermode(in_window), offset, size);
}

void GpuModel::WriteBar3(uint64_t offset, unsigned size, uint32_t value) {
  if (size != 4 || !IsAccess(offset, size, TS104_PCI_BAR3_SIZE)) return;
  const std::lock_guard lock(state_.mutex);
  registers_.WriteUsermode(static_cast<uint32_t>(offset / NV_FUNC_USERMODE_SIZE),
                           static_cast<uint32_t>(offset % NV_FUNC_USERMODE_SIZE), value);
}

bool GpuModel::PraminAddress(uint32_t offset, PhysicalAddress& at) {
  const std::lock_guard lock(state_.mutex);
  const uint32_t window = state_.Get(NV_PBUS_BAR0_WINDOW);
  const auto aperture = ApertureOfTarget(TS104_GET(NV_PBUS_BAR0_WINDOW_TARGET, window));
  if (!aperture.has_value()) return false;
  at = {*aperture, (uint64_t{TS104_GET(NV_PBUS_BAR0_WINDOW_BASE, window)} << 16) + offset};
  return true;
}

uint32_t GpuModel::ReadPramin(uint32_t offset) {
  PhysicalAddress at;
  uint32_t value = ~0u;
  if (!PraminAddress(offset, at) || memory_.ReadValue(at, value) != BusStatus::kOk) return ~0u;
  return value;
}

void GpuModel::WritePramin(uint32_t offset, uint32_t value) {
  PhysicalAddress at;
  // Beyond memory a write is dropped, as behaviour.md §1 says.
  if (PraminAddress(offset, at)) (void)memory_.WriteValue(at, value);
}

GpuModel::Parked::Parked(GpuModel& model) : model_(model), control_(model.control_) {
  std::unique_lock lock(model_.state_.mutex);
  model_.park_ = true;
  model_.worker_.Interrupt();
  model_.state_.work.notify_all();
  model_.parked_changed_.wait(lock, [this] { return model_.parked_ || !model_.running_; });
}

GpuModel::Parked::~Parked() {
  const std::lock_guard lock(model_.state_.mutex);
  model_.park_ = false;
  model_.worker_.Continue();
  model_.state_.work.notify_all();
}

void GpuModel::ResetPfifo() {
  const Parked parked(*this);
  worker_.Reset(/*everything=*/false);
  const std::lock_guard lock(state_.mutex);
  state_.ResetPfifo();
  state_.UpdateInterrupts();
}

void GpuModel::ClearVram() {
  if (ops_.vram_clear != nullptr && ops_.vram_clear(opaque_) == 0) return;
  std::memset(vram_.data(), 0, vram_.size());
}

void GpuModel::Reset() {
  const Parked parked(*this);
  memory_.set_bus_master(false);
  worker_.Reset(/*everything=*/true);
  ClearVram();
  const std::lock_guard lock(state_.mutex);
  state_.Reset();
}

int GpuModel::StartThread() {
  const std::lock_guard control(control_);
  if (thread_.joinable()) return EBUSY;
  {
    const std::lock_guard lock(state_.mutex);
    stop_ = false;
    running_ = true;
  }
  try {
    thread_ = std::thread(&GpuModel::ThreadMain, this);
  } catch (const std::system_error& error) {
    const std::lock_guard lock(state_.mutex);
    running_ = false;
    return error.code().value();
  }
  return 0;
}

void GpuModel::StopThread() {
  const std::lock_guard control(control_);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(state_.mutex);
    stop_ = true;
    worker_.Interrupt();
    state_.work.notify_all();
  }
  thread_.join();
  const std::lock_guard lock(state_.mutex);
  worker_.Continue();
}

void GpuModel::WaitForWork(std::unique_lock<std::mutex>& lock, uint64_t now) {
  const uint64_t next = worker_.NextEvent();
  if (next <= now) return;
  uint64_t sleep = std::clamp(next - now, kMinSleepNs, kMaxSleepNs);
  // While the clock stands (the machine is paused) there is no point in asking often.
  if (now == last_now_) sleep = std::max(sleep, kStoppedClockSleepNs);
  last_now_ = now;
  if (next == kNever) {
    state_.work.wait(lock);
  } else {
    state_.work.wait_for(lock, std::chrono::nanoseconds(sleep));
  }
}

void GpuModel::ThreadMain() {
  std::unique_lock lock(state_.mutex);
  while (!stop_) {
    if (park_) {
      parked_ = true;
      parked_changed_.notify_all();
      state_.work.wait(lock, [this] { return !park_ || stop_; });
      parked_ = false;
      continue;
    }
    lock.unlock();
    const uint64_t now = state_.Now();
    worker_.RunUntil(now, /*paced=*/true);
    lock.lock();
    if (!stop_ && !park_) WaitForWork(lock, now);
  }
  running_ = false;
  parked_changed_.notify_all();
}

}  // namespace ts104
