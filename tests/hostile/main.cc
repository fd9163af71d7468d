// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// ts104-hostile: a guest at its worst, on a vGPU through VFIO.
//
//   ts104-hostile list                            the storms, one name a line
//   ts104-hostile DEVICE storm NAME SECONDS       as fast as it can; "started", then the rounds
//   made ts104-hostile DEVICE flr NAME COUNT           milliseconds of each reset that ends the
//   storm
//
// DEVICE is a UUID or a folder in sysfs.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hostile/storms.h"
#include "ts104/regs.h"

namespace hostile {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint32_t kDoorbell = NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING;
constexpr uint32_t kHangRounds = 20;
constexpr uint64_t kHangNs = kSecond / 5;

// VFIO as the raw guest's hardware.
class Machine : public fakes::GuestHardware {
 public:
  explicit Machine(const std::string& device) : platform_(libts104::OpenVfioPlatform(device)) {}

  uint32_t Read32(uint32_t offset) override { return platform_->Read32(offset); }
  void Write32(uint32_t offset, uint32_t value) override {
    if (offset == kDoorbell) return platform_->RingDoorbell(value);
    platform_->Write32(offset, value);
  }
  uint8_t* vram() override { return platform_->vram(); }
  uint64_t vram_bytes() const override { return platform_->vram_bytes(); }
  libts104::Platform::DmaMemory AllocDma(uint64_t size) override {
    return platform_->AllocDma(size);
  }
  void FreeDma(const libts104::Platform::DmaMemory& memory) override { platform_->FreeDma(memory); }
  uint64_t NowNs() override { return platform_->NowNs(); }
  void Advance(uint64_t ns) override { platform_->Relax(static_cast<uint32_t>(ns / 1000)); }
  uint32_t TakeInterrupts() override { return platform_->WaitInterrupts(0); }
  void Reset() { platform_->Reset(); }

 private:
  std::unique_ptr<libts104::Platform> platform_;
};

// An attacker with memory on a vGPU.
class Guest {
 public:
  explicit Guest(const std::string& device)
      : machine_(device), memory_(machine_.AllocDma(kBytes)), attacker_(Boot()) {}
  ~Guest() { machine_.FreeDma(memory_); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  // One round; its interrupts are taken, else the vGPU would not send more.
  void Tick(const Storm& storm) {
    ++attacker_->round;
    storm.tick(*attacker_);
    machine_.TakeInterrupts();
  }
  // The engine is the storm's, then comes FLR: nanoseconds of that.
  uint64_t TimeReset(const Storm& storm) {
    for (uint32_t i = 0; i < kHangRounds; ++i) Tick(storm);
    machine_.Advance(kHangNs);
    const uint64_t begin = machine_.NowNs();
    machine_.Reset();
    const uint64_t time = machine_.NowNs() - begin;
    attacker_ = Boot();
    return time;
  }
  uint64_t NowNs() { return machine_.NowNs(); }
  uint32_t rounds() const { return attacker_->round; }

 private:
  static constexpr uint64_t kBytes = Attacker::kMemoryPages * 4096;

  // As a booting guest does: registers and memory are written anew.
  std::unique_ptr<Attacker> Boot() {
    return std::make_unique<Attacker>(
        machine_, Attacker::Means{Attacker::kGraphicsRunlist, memory_.runs.front().dma,
                                  [this] { machine_.Reset(); }, [this] { return Remap(); }});
  }
  uint64_t Remap() {
    machine_.FreeDma(memory_);
    memory_ = machine_.AllocDma(kBytes);
    return memory_.runs.front().dma;
  }

  Machine machine_;
  libts104::Platform::DmaMemory memory_;
  std::unique_ptr<Attacker> attacker_;
};

int Usage() {
  fmt::print(stderr,
             "usage: ts104-hostile list | DEVICE storm NAME SECONDS | DEVICE flr NAME COUNT\n");
  return 2;
}

int Run(std::span<char*> arguments) {
  if (arguments.size() == 1 && std::string_view(arguments[0]) == "list") {
    for (const Storm& storm : Storms()) fmt::print("{}\n", storm.name);
    return 0;
  }
  if (arguments.size() != 4) return Usage();
  const std::string_view what = arguments[1];
  const Storm* storm = FindStorm(arguments[2]);
  const std::string_view number = arguments[3];
  uint32_t count = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), count);
  if (storm == nullptr || parsed.ec != std::errc() || parsed.ptr != number.end()) return Usage();
  Guest guest(arguments[0]);
  if (what == "flr") {
    for (uint32_t i = 0; i < count; ++i) {
      fmt::print("{:.2f}\n", static_cast<double>(guest.TimeReset(*storm)) * 1e-6);
    }
    return 0;
  }
  if (what != "storm") return Usage();
  fmt::print("started\n");
  std::fflush(stdout);
  const uint64_t end = guest.NowNs() + count * kSecond;
  while (guest.NowNs() < end) guest.Tick(*storm);
  fmt::print("{} rounds\n", guest.rounds());
  return 0;
}

}  // namespace
}  // namespace hostile

int main(int argc, char** argv) {
  try {
    return hostile::Run({argv + 1, static_cast<size_t>(argc - 1)});
  } catch (const std::exception& error) {
    fmt::print(stderr, "ts104-hostile: {}\n", error.what());
    return 2;
  }
}
