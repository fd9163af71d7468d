// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Copy engine, class C5B5.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_COPY_ENGINE_H_
#define TURNSTILE_QEMU_DEVICE_CORE_COPY_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "copy_layout.h"
#include "engine.h"
#include "gpu_semaphore.h"

namespace ts104 {

// The methods' values are the context: they, and how far a copy has come, are the engine words of
// the instance block. A copy is done in pieces of up to 256 KiB, then the semaphore is written and
// the interrupt raised as a piece of its own.
class CopyEngine : public Engine {
 public:
  static constexpr uint64_t kPieceBytes = 256 * 1024;
  static constexpr uint32_t kPieceLines = 4096;  // a piece of very short lines ends earlier
  static constexpr uint64_t kBytesPerCycle = 128;
  static constexpr uint64_t kLaunchNs = 500;

  CopyEngine(uint32_t index, Machine& machine) : Engine(index, machine), buffer_(64 * 1024) {}

  EngineResult Method(const ChannelContext& channel, uint32_t method, uint32_t data,
                      uint64_t now) override;
  EngineResult Run(uint64_t now, bool leaving, uint64_t limit) override;
  bool CanSave(uint64_t now) const override;
  EngineResult Resume(const ChannelContext& channel, const EngineWords& words,
                      uint64_t now) override;
  bool Save() override;
  void DropWork() override;

 private:
  // What LAUNCH_DMA starts, decoded.
  struct Plan {
    CopySurface source;
    CopySurface destination;
    Remap remap;
    uint32_t lines = 0;
    uint32_t line_elements = 0;
    bool copies = false;
  };

  uint64_t Address(uint32_t upper_word) const;  // 49 bits, of an UPPER/LOWER pair
  void TakeContext(const ChannelContext& channel);
  EngineResult Launch(uint64_t now);
  // NV_CE_LCE_LAUNCHERR_REPORT code of what is wrong, 0 if nothing is.
  uint32_t CheckLaunch() const;
  uint32_t MakePlan();
  uint32_t MakeSurface(bool is_source, CopySurface& surface) const;
  // False: render enable says not to copy.
  std::optional<MmuFault> RenderEnabled(bool& enabled);
  EngineResult LaunchError(uint32_t code, uint64_t now);
  EngineResult RunCopy(uint64_t now);
  EngineResult Finish(uint64_t now);
  std::optional<Reduction> SemaphoreReduction(bool& valid) const;

  std::optional<MmuFault> Locate(const CopySurface& surface, uint64_t address, AccessKind kind,
                                 Translation& at);
  std::optional<MmuFault> Move(const CopySurface& surface, uint64_t line, uint64_t x,
                               AccessKind kind, std::span<std::byte> data);
  std::optional<MmuFault> CopyBytes(uint64_t line, uint64_t x, uint64_t bytes);
  std::optional<MmuFault> CopyRun(uint64_t from, uint64_t to, uint64_t bytes, uint64_t& done);
  std::optional<MmuFault> CopyElements(uint64_t line, uint64_t first, uint64_t count);

  EngineWords words_{};
  Plan plan_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> target_buffer_;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_COPY_ENGINE_H_
