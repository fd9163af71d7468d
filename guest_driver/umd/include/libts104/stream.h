// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include "libts104/device.h"
#include "libts104/program.h"

namespace libts104 {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

// A point in a stream: done when all work before it is done.
class Event {
 public:
  Event() = default;

 private:
  friend class Stream;
  explicit Event(uint32_t sequence) : sequence_(sequence) {}
  uint32_t sequence_ = 0;
};

struct StreamCounters {
  uint64_t submissions = 0;  // doorbells rung
  uint64_t launches = 0;
  uint64_t copies = 0;
  uint64_t gpu_time_ns = 0;  // from the start of a submission to its end, GPU clock; finished ones
};

// Work that runs in order on one channel. Launches and copies are collected and go to the GPU at
// Submit; that takes no system call. One thread at a time.
class Stream {
 public:
  // `commands`: where ring, push buffers and launch descriptors live.
  Stream(Device& device, Engine engine, Placement commands = Placement::kVram);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Compute streams only. `args` becomes constant buffer 0. Throws Error: sizes out of range, or
  // less than the program's argument block.
  void Launch(const Program& program, Dim3 grid, Dim3 cta, std::span<const std::byte> args);
  template <typename Args>
    requires(std::is_trivially_copyable_v<Args> &&
             !std::is_convertible_v<const Args&, std::span<const std::byte>>)
  void Launch(const Program& program, Dim3 grid, Dim3 cta, const Args& args) {
    Launch(program, grid, cta, std::as_bytes(std::span(&args, 1)));
  }
  // By the copy engine; ranges must not overlap.
  void Copy(uint64_t to, uint64_t from, uint64_t bytes);

  // Sends what was collected; an event for its end. With nothing collected: the last event. Without
  // `interrupt` the GPU does not wake anybody at its end: for all but the last of many small
  // submissions.
  Event Submit(bool interrupt = true);
  bool IsDone(Event event) const;
  // Sleeps until the event is done. FaultError: the channel has an error. TimeoutError.
  void Wait(Event event, int64_t timeout_ns = kForever);
  void Synchronize(int64_t timeout_ns = kForever) { Wait(Submit(), timeout_ns); }

  // After a FaultError or TimeoutError: drops all pending work; the stream is as new.
  void Reset();
  ChannelFault fault() { return device_.transport().GetFault(channel_.id); }
  StreamCounters counters() const { return counters_; }

  static constexpr int64_t kForever = INT64_MAX;

 private:
  static constexpr uint32_t kRingOrder = 10;
  static constexpr uint32_t kRingEntries = 1u << kRingOrder;
  static constexpr uint64_t kCommandBytes = 1u << 20;

  // One submission that the GPU may not have finished.
  struct Pending {
    uint32_t sequence;
    uint64_t command_end;  // commands up to here are free when it is done
    bool interrupt;
  };

  void BeginPush();
  void Push(std::span<const uint32_t> words);
  void PushMethod(uint32_t subchannel, uint32_t method, std::span<const uint32_t> data);
  void PushRelease(uint64_t va, uint32_t payload, bool wait_idle, bool timestamp);
  void SetUpObjects();
  void EnsureLocalMemory(uint32_t bytes_per_thread);
  uint64_t AllocCommands(uint64_t bytes, uint64_t align);
  void Retire();
  void WaitForSpace();
  void ThrowIfFaulted();
  void EnsureWakeUp(Event event);
  void Sleep(Event event, int64_t timeout_ns);
  uint32_t DoneSequence() const;
  std::byte* CommandAt(uint64_t position);

  Device& device_;
  const Engine engine_;
  const Placement placement_;
  Buffer ring_;
  Buffer commands_;
  Buffer fences_;  // word 0: sequence; from 4096 on: two timestamps per ring entry
  Buffer local_;
  uint32_t local_bytes_per_thread_ = 0;
  ChannelInfo channel_;

  std::vector<uint32_t> push_;  // words of the open submission
  bool objects_set_ = false;
  uint32_t put_ = 0;
  uint32_t sequence_ = 0;      // last one submitted
  uint64_t command_head_ = 0;  // positions only grow; modulo kCommandBytes in the buffer
  uint64_t command_tail_ = 0;
  uint64_t command_submitted_ = 0;    // head at the last Submit
  uint64_t command_interrupted_ = 0;  // head at the last Submit with an interrupt
  std::deque<Pending> pending_;
  StreamCounters counters_;
};

}  // namespace libts104
