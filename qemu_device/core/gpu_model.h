// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The TS104 model: BARs, reset, and the thread. model_abi.h is its C interface.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_GPU_MODEL_H_
#define TURNSTILE_QEMU_DEVICE_CORE_GPU_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "device_state.h"
#include "fault_buffer.h"
#include "memory_port.h"
#include "model_abi.h"
#include "registers.h"
#include "worker.h"

namespace ts104 {

// Thread contexts are those of model_abi.h. Two locks: DeviceState::mutex, held briefly, and
// control_, held by whoever stops the worker (reset, start, stop) and taken first.
class GpuModel {
 public:
  // Empty: the configuration is legal; else one line that names the legal range.
  static std::string CheckConfig(const ts104_config& config);

  // `config` has been checked. `vram` and `opaque` outlive the model.
  GpuModel(const ts104_config& config, std::span<std::byte> vram, const ts104_host_ops& ops,
           void* opaque);
  ~GpuModel();
  GpuModel(const GpuModel&) = delete;
  GpuModel& operator=(const GpuModel&) = delete;

  uint32_t ReadBar0(uint64_t offset, unsigned size);
  void WriteBar0(uint64_t offset, unsigned size, uint32_t value);
  uint32_t ReadBar3(uint64_t offset, unsigned size);
  void WriteBar3(uint64_t offset, unsigned size, uint32_t value);
  void SetBusMaster(bool on) { memory_.set_bus_master(on); }

  void Reset();
  int StartThread();  // 0 or an errno
  void StopThread();
  void RunUntil(uint64_t ns) { worker_.RunUntil(ns, /*paced=*/false); }
  uint64_t NextEvent() const { return worker_.NextEvent(); }

 private:
  // Holds the worker between two pieces of work for as long as it lives.
  class Parked {
   public:
    explicit Parked(GpuModel& model);
    ~Parked();

   private:
    GpuModel& model_;
    const std::lock_guard<std::mutex> control_;
  };

  void ThreadMain();
  void WaitForWork(std::unique_lock<std::mutex>& lock, uint64_t now);
  uint32_t ReadPramin(uint32_t offset);
  void WritePramin(uint32_t offset, uint32_t value);
  bool PraminAddress(uint32_t offset, PhysicalAddress& at);
  void ResetPfifo();
  void ClearVram();

  const ts104_host_ops ops_;
  void* const opaque_;
  const std::span<std::byte> vram_;
  MemoryPort memory_;
  DeviceState state_;
  FaultBuffer faults_;
  Registers registers_;
  Worker worker_;

  std::mutex control_;
  std::thread thread_;
  // Guarded by state_.mutex.
  bool stop_ = false;
  bool park_ = false;
  bool parked_ = false;
  bool running_ = false;  // ThreadMain is in its loop
  std::condition_variable parked_changed_;
  uint64_t last_now_ = 0;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_GPU_MODEL_H_
