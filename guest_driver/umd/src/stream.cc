// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "libts104/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "push_buffer.h"
#include "qmd.h"

namespace libts104 {

namespace {

namespace host = ts104::host_methods;
namespace copy = ts104::copy_methods;
namespace compute = ts104::compute_methods;

constexpr uint32_t kComputeClass = 0xc5c0;
constexpr uint32_t kCopyClass = 0xc5b5;
constexpr uint32_t kUserdGpPut = NV_USERD_GP_PUT / 4;
constexpr uint32_t kThreadsPerSmSlot = 1024;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint64_t kMaxCopyLine = uint64_t{1} << 30;
constexpr size_t kMaxPushWords = 16384;
constexpr uint64_t kTimestampBase = 4096;
constexpr uint64_t kTimestampBytes = 32;  // per submission: start and end, 16 bytes each
constexpr uint64_t kTimestampWord = 8;    // in a release with timestamp
constexpr int kSpins = 200;
constexpr uint32_t kMaxSilent = 64;  // submissions without an interrupt in a row

uint32_t Lower(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t Upper(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

Stream::Stream(Device& device, Engine engine, Placement commands)
    : device_(device),
      engine_(engine),
      placement_(commands),
      ring_(device.Alloc(kRingEntries * sizeof(uint64_t), commands)),
      commands_(device.Alloc(kCommandBytes, commands)),
      fences_(device.Alloc(kTimestampBase + kRingEntries * kTimestampBytes, commands)),
      channel_(device.transport().CreateChannel(engine, ring_.va(), kRingOrder, commands)) {}

Stream::~Stream() {
  // Off the hardware before the buffers go.
  try {
    device_.transport().DestroyChannel(channel_.id);
  } catch (const Error&) {
    // Nothing more can be done; the transport keeps what the hardware may still use.
  }
}

std::byte* Stream::CommandAt(uint64_t position) {
  return static_cast<std::byte*>(commands_.data()) + position % kCommandBytes;
}

void Stream::Push(std::span<const uint32_t> words) {
  push_.insert(push_.end(), words.begin(), words.end());
}

void Stream::PushMethod(uint32_t subchannel, uint32_t method, std::span<const uint32_t> data) {
  push_.push_back(IncHeader(subchannel, method, static_cast<uint32_t>(data.size())));
  Push(data);
}

// A semaphore release by the PBDMA; with a timestamp it writes 16 bytes.
void Stream::PushRelease(uint64_t va, uint32_t payload, bool wait_idle, bool timestamp) {
  using Execute = host::SemExecute;
  Execute execute;
  execute.Set<Execute::Operation>(Execute::kOperationRelease);
  execute.Set<Execute::ReleaseWfi>(wait_idle ? Execute::kReleaseWfiEn : Execute::kReleaseWfiDis);
  execute.Set<Execute::ReleaseTimestamp>(timestamp ? 1 : 0);
  const uint32_t data[] = {Lower(va), Upper(va), payload, 0, execute.raw()};
  PushMethod(0, host::SemAddrLo::Offset(), data);
}

void Stream::SetUpObjects() {
  if (objects_set_) return;
  objects_set_ = true;
  if (engine_ == Engine::kCompute) {
    const uint32_t object[] = {kComputeClass};
    PushMethod(kSubchannelCompute, compute::SetObject::Offset(), object);
  }
  const uint32_t object[] = {kCopyClass};
  PushMethod(kSubchannelCopy, copy::SetObject::Offset(), object);
}

// The start of a submission: its time stamp.
void Stream::BeginPush() {
  if (!push_.empty()) return;
  WaitForSpace();
  const uint32_t slot = (sequence_ + 1) % kRingEntries;
  PushRelease(fences_.va() + kTimestampBase + slot * kTimestampBytes, 0, false, true);
  SetUpObjects();
}

void Stream::EnsureLocalMemory(uint32_t bytes_per_thread) {
  const uint32_t rounded = (bytes_per_thread + 15) / 16 * 16;
  if (rounded <= local_bytes_per_thread_) return;
  // Work in flight uses the old block.
  Synchronize();
  const uint64_t size = uint64_t{device_.info().sm_count} * kThreadsPerSmSlot * rounded;
  local_ = Buffer();
  local_ = device_.Alloc(size, placement_);
  local_bytes_per_thread_ = rounded;
  BeginPush();
  const uint32_t base[] = {Upper(local_.va()), Lower(local_.va())};
  PushMethod(kSubchannelCompute, compute::SetShaderLocalMemoryA::Offset(), base);
}

void Stream::Launch(const Program& program, Dim3 grid, Dim3 cta, std::span<const std::byte> args) {
  if (engine_ != Engine::kCompute) throw Error("a copy stream cannot launch programs");
  const ProgramImage& image = program.image();
  const uint64_t threads = uint64_t{cta.x} * cta.y * cta.z;
  if (threads == 0 || threads > kMaxThreads || cta.x > kMaxThreads || cta.y > kMaxThreads) {
    throw Error(fmt::format("a CTA of {} x {} x {} threads; 1 to {} are possible", cta.x, cta.y,
                            cta.z, kMaxThreads));
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 0xffff || grid.z > 0xffff) {
    throw Error(fmt::format("a grid of {} x {} x {} CTAs", grid.x, grid.y, grid.z));
  }
  if (args.size() < image.argument_bytes) {
    throw Error(fmt::format("the program takes {} bytes of arguments, {} were given",
                            image.argument_bytes, args.size()));
  }
  EnsureLocalMemory(image.local_bytes);
  if (push_.size() > kMaxPushWords || command_head_ - command_submitted_ > kCommandBytes / 4) {
    Submit();
  }

  LaunchParams params;
  params.program_va = program.entry_va();
  params.grid = grid;
  params.cta = cta;
  params.shared_bytes = image.shared_bytes;
  params.local_bytes = (image.local_bytes + 15) / 16 * 16;
  params.barriers = image.barriers;
  params.args_bytes = static_cast<uint32_t>(args.size());
  const uint64_t args_at = AllocCommands(std::max<uint64_t>(args.size(), 16), 256);
  std::memcpy(CommandAt(args_at), args.data(), args.size());
  params.args_va = commands_.va() + args_at % kCommandBytes;
  const Qmd qmd = BuildQmd(params);
  const uint64_t qmd_at = AllocCommands(sizeof(qmd), 256);
  std::memcpy(CommandAt(qmd_at), qmd.data(), sizeof(qmd));
  const uint64_t qmd_va = commands_.va() + qmd_at % kCommandBytes;

  BeginPush();
  using Send = compute::SendSignalingPcasB;
  Send send;
  send.Set<Send::Invalidate>(1).Set<Send::Schedule>(1);
  const uint32_t address[] = {static_cast<uint32_t>(qmd_va >> 8)};
  PushMethod(kSubchannelCompute, compute::SendPcasA::Offset(), address);
  push_.push_back(ImmediateHeader(kSubchannelCompute, Send::Offset(), send.raw()));
  ++counters_.launches;
}

void Stream::Copy(uint64_t to, uint64_t from, uint64_t bytes) {
  using Launch = copy::LaunchDma;
  Launch launch;
  launch.Set<Launch::DataTransferType>(Launch::kDataTransferTypeNonPipelined);
  launch.Set<Launch::FlushEnable>(1);
  launch.Set<Launch::SrcMemoryLayout>(Launch::kSrcMemoryLayoutPitch);
  launch.Set<Launch::DstMemoryLayout>(Launch::kDstMemoryLayoutPitch);
  while (bytes > 0) {
    if (push_.size() > kMaxPushWords) Submit();
    BeginPush();
    const uint32_t line = static_cast<uint32_t>(std::min(bytes, kMaxCopyLine));
    const uint32_t addresses[] = {Upper(from), Lower(from), Upper(to), Lower(to)};
    PushMethod(kSubchannelCopy, copy::OffsetInUpper::Offset(), addresses);
    const uint32_t size[] = {line, 1};
    PushMethod(kSubchannelCopy, copy::LineLengthIn::Offset(), size);
    const uint32_t go[] = {launch.raw()};
    PushMethod(kSubchannelCopy, Launch::Offset(), go);
    from += line;
    to += line;
    bytes -= line;
    ++counters_.copies;
  }
}

Event Stream::Submit(bool interrupt) {
  if (push_.empty()) return Event(sequence_);
  const uint32_t sequence = sequence_ + 1;
  const uint32_t slot = sequence % kRingEntries;
  const uint64_t end_stamp =
      fences_.va() + kTimestampBase + slot * kTimestampBytes + kTimestampBytes / 2;
  PushRelease(end_stamp, 0, true, true);
  PushRelease(fences_.va(), sequence, false, false);
  // Whoever waits for room in the ring or in the command buffer relies on an interrupt among the
  // pending submissions.
  const uint64_t silent = command_head_ - command_interrupted_ + push_.size() * sizeof(uint32_t);
  if (sequence % kMaxSilent == 0 || silent > kCommandBytes / 8) interrupt = true;
  if (interrupt) push_.push_back(ImmediateHeader(0, host::NonStallInterrupt::Offset(), 0));

  const uint64_t bytes = push_.size() * sizeof(uint32_t);
  const uint64_t at = AllocCommands(bytes, 4);
  std::memcpy(CommandAt(at), push_.data(), bytes);
  ring_.as<uint64_t>()[put_] =
      GpEntry(commands_.va() + at % kCommandBytes, static_cast<uint32_t>(push_.size()));
  push_.clear();
  put_ = (put_ + 1) % kRingEntries;
  sequence_ = sequence;
  pending_.push_back({sequence, command_head_, interrupt});
  command_submitted_ = command_head_;
  if (interrupt) command_interrupted_ = command_head_;

  // Entry before GP_PUT, GP_PUT before the doorbell.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  channel_.userd[kUserdGpPut] = put_;
  device_.transport().RingDoorbell(channel_);
  ++counters_.submissions;
  return Event(sequence);
}

uint32_t Stream::DoneSequence() const {
  const auto* word = static_cast<const uint32_t*>(fences_.data());
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

bool Stream::IsDone(Event event) const {
  return static_cast<int32_t>(DoneSequence() - event.sequence_) >= 0;
}

// Takes back the space of finished submissions and counts their time.
void Stream::Retire() {
  const uint32_t done = DoneSequence();
  const auto* base = static_cast<const std::byte*>(fences_.data()) + kTimestampBase;
  while (!pending_.empty() && static_cast<int32_t>(done - pending_.front().sequence) >= 0) {
    const Pending& oldest = pending_.front();
    const std::byte* stamps = base + (oldest.sequence % kRingEntries) * kTimestampBytes;
    uint64_t start = 0;
    uint64_t end = 0;
    std::memcpy(&start, stamps + kTimestampWord, sizeof(start));
    std::memcpy(&end, stamps + kTimestampBytes / 2 + kTimestampWord, sizeof(end));
    if (end > start) counters_.gpu_time_ns += end - start;
    command_tail_ = oldest.command_end;
    pending_.pop_front();
  }
}

void Stream::ThrowIfFaulted() {
  const ChannelFault channel_fault = fault();
  if (channel_fault.kind != ChannelFault::Kind::kNone) throw FaultError(channel_fault);
}

// Something at or after the event must send an interrupt, else nobody wakes the sleeper.
void Stream::EnsureWakeUp(Event event) {
  for (const Pending& pending : pending_) {
    const bool covers = static_cast<int32_t>(pending.sequence - event.sequence_) >= 0;
    if (covers && pending.interrupt) return;
  }
  BeginPush();
  Submit();
}

void Stream::Wait(Event event, int64_t timeout_ns) {
  for (int i = 0; i < kSpins && !IsDone(event); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  if (!IsDone(event)) {
    EnsureWakeUp(event);
    Sleep(event, timeout_ns);
  }
  Retire();
}

void Stream::Sleep(Event event, int64_t timeout_ns) {
  Transport& transport = device_.transport();
  const int64_t now = transport.Now();
  const int64_t deadline = timeout_ns >= kNoDeadline - now ? kNoDeadline : now + timeout_ns;
  while (!IsDone(event)) {
    if (transport.Wait(fences_.allocation(), 0, event.sequence_, deadline, channel_.id)) return;
    ThrowIfFaulted();
    if (deadline != kNoDeadline && transport.Now() >= deadline) {
      throw TimeoutError(fmt::format("the GPU did not finish within {} ms", timeout_ns / 1000000));
    }
  }
}

// Keeps one ring entry free, as the hardware asks, and the sequence's time stamp slot unused.
void Stream::WaitForSpace() {
  Retire();
  while (pending_.size() >= kRingEntries - 1) {
    Sleep(Event(pending_.front().sequence), kForever);
    Retire();
  }
}

// A contiguous piece of the command buffer; the position returned only grows.
uint64_t Stream::AllocCommands(uint64_t bytes, uint64_t align) {
  if (bytes > kCommandBytes / 8) {
    throw Error(fmt::format("{} bytes of commands or arguments are too many", bytes));
  }
  for (;;) {
    uint64_t at = (command_head_ + align - 1) & ~(align - 1);
    if (at % kCommandBytes + bytes > kCommandBytes) {
      at = (at / kCommandBytes + 1) * kCommandBytes;
    }
    if (at + bytes - command_tail_ <= kCommandBytes) {
      command_head_ = at + bytes;
      return at;
    }
    Retire();
    if (at + bytes - command_tail_ <= kCommandBytes) continue;
    // Cannot be: Launch sends before the open submission holds more than a quarter.
    if (pending_.empty()) throw Error("one submission has too many commands");
    Sleep(Event(pending_.front().sequence), kForever);
  }
}

void Stream::Reset() {
  device_.transport().ResetChannel(channel_.id);
  push_.clear();
  pending_.clear();
  objects_set_ = false;
  local_ = Buffer();
  local_bytes_per_thread_ = 0;
  put_ = 0;
  sequence_ = 0;
  command_head_ = command_tail_ = command_submitted_ = command_interrupted_ = 0;
  std::memset(fences_.data(), 0, fences_.size());
}

}  // namespace libts104
