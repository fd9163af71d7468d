// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fuzz/hostile.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ts104/regs.h"

namespace fuzz {

namespace {

// What one exit may cost the host, whatever the guest prepared: docs/memory_virtualization.md,
// Bounded work. Counted, not timed: the same on every machine.
constexpr uint64_t kMaxCopied = 4u << 20;
constexpr uint64_t kMaxPins = 16384 + 512;
constexpr uint64_t kMaxAllocations = 2048;
constexpr uint64_t kMaxRegisters = 65536;
constexpr uint64_t kMaxSleptNs = 100'000'000;  // a reset whose channel does not leave its engine

void CheckWork(const HostWork& before, const HostWork& after) {
  FUZZ_CHECK(
      after.guest_bytes - before.guest_bytes + after.vram_bytes - before.vram_bytes <= kMaxCopied,
      std::to_string(after.guest_bytes - before.guest_bytes + after.vram_bytes -
                     before.vram_bytes) +
          " bytes copied in one exit");
  FUZZ_CHECK(after.pins - before.pins <= kMaxPins,
             std::to_string(after.pins - before.pins) + " pages pinned in one exit");
  FUZZ_CHECK(after.unpins - before.unpins <= kMaxPins,
             std::to_string(after.unpins - before.unpins) + " pages unpinned in one exit");
  FUZZ_CHECK(
      after.dma_allocations - before.dma_allocations <= kMaxAllocations,
      std::to_string(after.dma_allocations - before.dma_allocations) + " allocations in one exit");
  FUZZ_CHECK(after.registers - before.registers <= kMaxRegisters,
             std::to_string(after.registers - before.registers) + " register accesses in one exit");
  FUZZ_CHECK(after.slept_ns - before.slept_ns <= kMaxSleptNs,
             std::to_string(after.slept_ns - before.slept_ns) + " ns slept in one exit");
}

// Lists and bindings are checked before the device sees them: it has nothing to complain of.
void CheckLine(const std::string& line) {
  static const char* const kNever[] = {"PFIFO reports", "did not finish", "was not fetched",
                                       "for no channel of a vGPU"};
  for (const char* text : kNever) FUZZ_CHECK(line.find(text) == std::string::npos, line);
}

// The number behind `name` in a line of a dump.
uint64_t Field(const std::string& line, const char* name) {
  const size_t at = line.find(name);
  FUZZ_CHECK(at != std::string::npos, line + " has no " + name);
  return std::strtoull(line.c_str() + at + std::strlen(name), nullptr, 0);
}

}  // namespace

void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::abort();
}

void CheckDevice(rig::ModelGpu& gpu) {
  if (gpu.stray_accesses() != 0) Fail(__FILE__, __LINE__, gpu.last_stray());
}

Hostile::Hostile(rig::ModelGpu& gpu, rig::VgpuMachine::Type type)
    : gpu_(gpu),
      dma_bytes_before_(gpu.dma_bytes),
      machine_(gpu, type, kMemoryPages),
      memory_bytes_open_(machine_.Counters().memory_bytes),
      guest_(machine_),
      first_channel_(
          TS104_GET(NV_CTRL_VIRTUAL_CHANNEL_CFG_SET,
                    gpu.Read32(NV_CTRL_VIRTUAL_CHANNEL_CFG(ts_vgpu_function(machine_.core()))))) {
  gpu_.on_log = CheckLine;
}

int Hostile::Access(uint32_t region, uint64_t offset, void* buffer, size_t length, bool write) {
  const HostWork before = gpu_.work;
  const int status = ts_vgpu_region_rw(machine_.core(), region, offset, buffer, length, write);
  CheckWork(before, gpu_.work);
  gpu_.Pump();
  CheckDevice(gpu_);
  return status;
}

uint32_t Hostile::Read(uint32_t offset) {
  uint32_t value = 0;
  Access(TS_REGION_BAR0, offset, &value, sizeof(value), false);
  return value;
}

void Hostile::Write(uint32_t offset, uint32_t value) {
  Access(TS_REGION_BAR0, offset, &value, sizeof(value), true);
}

void Hostile::Ring(uint32_t token) {
  machine_.Write32(NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING, token);
}

void Hostile::Unmap(uint64_t start, uint64_t length) {
  ts_vgpu_dma_unmap(machine_.core(), start, length);
  for (const auto& [page, count] : machine_.host().pinned) {
    const uint64_t address = page * TS_PAGE_SIZE;
    const bool inside = length != 0 && start + (length - 1) >= start &&
                        address + (TS_PAGE_SIZE - 1) >= start && address <= start + (length - 1);
    FUZZ_CHECK(!inside, "page " + std::to_string(page) + " is still pinned after its unmap");
  }
  gpu_.Pump();
  CheckDevice(gpu_);
}

void Hostile::Advance(uint64_t ns) {
  machine_.Advance(ns);
  CheckDevice(gpu_);
}

void Hostile::Store32(bool system, uint64_t address, uint32_t value) {
  const uint64_t size = system ? machine_.host().memory.size() : machine_.vram_bytes();
  if (address > size - sizeof(value)) return;
  std::memcpy(system ? machine_.host().At(address) : machine_.vram() + address, &value,
              sizeof(value));
}

void Hostile::Store64(bool system, uint64_t address, uint64_t value) {
  Store32(system, address, static_cast<uint32_t>(value));
  Store32(system, address + 4, static_cast<uint32_t>(value >> 32));
}

void Hostile::StartChannel(uint32_t channel, uint32_t runlist, uint32_t config) {
  guest_.WriteInstance(channel, config);
  const uint64_t instance = rig::RawGuest::kInstance + channel * TS_PAGE_SIZE;
  guest_.SetVram32(instance + NV_RAMIN_ENGINE_WFI_PTR,
                   static_cast<uint32_t>(kContext + channel * 0x80000));
  guest_.Bind(channel);
  guest_.Enable(channel);
  guest_.Submit(runlist, {channel});
}

void Hostile::Recover(uint32_t channel, uint32_t pbdma) {
  Write(NV_PPBDMA_INTR_0(pbdma), ~0u);
  Write(NV_PPBDMA_INTR_1(pbdma), ~0u);
  Write(NV_PCCSR_CHANNEL(channel), 3u << 22 | 1u << 10);
}

void Hostile::Restart(uint32_t channel, uint32_t runlist, uint64_t ns) {
  Write(NV_PCCSR_CHANNEL(channel), 1u << 11);
  Advance(ns);
  Write(NV_PCCSR_CHANNEL_INST(channel), 0);
  StartChannel(channel, runlist);
}

void Hostile::Finish() {
  machine_.Close();
  CheckDevice(gpu_);
  FUZZ_CHECK(machine_.host().pinned.empty(), "pages stay pinned after close");
  FUZZ_CHECK(gpu_.dma_bytes == dma_bytes_before_, "DMA memory is left after close");
  const uint64_t left = machine_.Counters().memory_bytes;
  FUZZ_CHECK(left < memory_bytes_open_, std::to_string(left) + " bytes are left after close");
  // The next user finds a vGPU like new.
  FUZZ_CHECK(machine_.Reopen() == 0, "cannot be opened again");
  FUZZ_CHECK(machine_.Counters().memory_bytes == memory_bytes_open_, "memory is left from before");
  machine_.Close();
  FUZZ_CHECK(machine_.Counters().memory_bytes == left, "another close leaves another amount");
}

void CheckDumps(Hostile& hostile) {
  constexpr size_t kMaxLines = 4096;
  rig::VgpuMachine& machine = hostile.machine();
  const auto dump = [&](ts_vgpu_dump_kind kind) {
    ts_host_dump reader;
    ts_vgpu_dump(machine.core(), kind, &reader);
    FUZZ_CHECK(reader.lines.size() <= kMaxLines + 1, "too many lines");
    return reader.lines;
  };
  const std::vector<std::string> pins = dump(TS_VGPU_DUMP_PINS);
  uint64_t pages = 0;
  for (const std::string& line : pins) pages += Field(line, "pages=");
  FUZZ_CHECK(pages == machine.host().pinned.size() || pins.size() > kMaxLines,
             std::to_string(pages) + " pages shown");
  const uint64_t vram = static_cast<uint64_t>(machine.vram() - hostile.gpu().vram());
  for (const std::string& line : dump(TS_VGPU_DUMP_SHADOW)) {
    if (line.find(" va=") == std::string::npos) continue;
    const uint64_t length = Field(line, " pages=") * Field(line, "page_bytes=");
    if (line.find(" to=vid:") != std::string::npos) {
      const uint64_t at = Field(line, " to=vid:");
      FUZZ_CHECK(at >= vram && at + length <= vram + machine.vram_bytes(), line);
    } else if (line.find(" to=sys:") != std::string::npos) {
      const uint64_t at = Field(line, " to=sys:");
      for (uint64_t page = 0; page < length; page += TS_PAGE_SIZE) {
        FUZZ_CHECK(machine.host().IsPinnedDma(at + page), line);
      }
    }
  }
  dump(TS_VGPU_DUMP_CHANNELS);
  ts_host_dump runlists;
  ts_gpu_dump_runlists(hostile.gpu().core, &runlists);
  FUZZ_CHECK(runlists.lines.size() <= kMaxLines, "too many lines");
}

void Drive(Hostile& hostile, Input& input, void (*step)(Hostile&, Input&)) {
  while (!input.empty()) step(hostile, input);
  CheckDumps(hostile);
  hostile.Advance(200'000);
  hostile.Finish();
}

}  // namespace fuzz
