// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What a user with the device's file may ask: regions, mappings, interrupts, reset, unmap, closing
// and opening again, at the core's door.
#include <vector>

#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

constexpr size_t kLongest = 70'000;  // a little more than an access may have

uint64_t Offset(Input& input) {
  static constexpr uint64_t kBases[] = {0,        0x40,     0x70,     0xb0,     NV_FUNC_PRAMIN_BASE,
                                        0x800000, 0xb90000, 0xfff000, 0x3fff00, 0xffffff};
  return input.OneIn(2) ? input.Pick(kBases) + input.U8() : input.Value();
}

void AccessRegion(Hostile& hostile, Input& input, bool write) {
  const uint32_t region = input.Below(10);
  const uint64_t offset = Offset(input);
  const uint64_t length = input.OneIn(2) ? size_t{1} << input.Below(4) : input.Value() % kLongest;
  // Exactly as long: a sanitizer sees the first byte beyond.
  std::vector<uint8_t> buffer(length, input.U8());
  const int status = hostile.Access(region, offset, buffer.data(), length, write);
  ts_region_info info = {};
  const int known = ts_vgpu_region_info(hostile.machine().core(), region, &info);
  const bool inside = known == 0 && offset <= info.size && length <= info.size - offset;
  FUZZ_CHECK(inside || status < 0, "an access outside of its region succeeds");
}

// A mapping leads into the vGPU's own share or nowhere.
void Map(Hostile& hostile, Input& input) {
  const uint32_t region = input.Below(10);
  const uint64_t offset = input.OneIn(2) ? Offset(input) & ~uint64_t{0xfff} : input.Value();
  const uint64_t length = input.OneIn(2) ? uint64_t{1 + input.Below(32)} << 12 : input.Value();
  ts_mmap_target target = {};
  if (ts_vgpu_mmap(hostile.machine().core(), region, offset, length, &target) != 0) return;
  uint64_t first = static_cast<uint64_t>(hostile.machine().vram() - hostile.gpu().vram());
  uint64_t size = hostile.machine().vram_bytes();
  if (target.bar != TS104_PCI_BAR1_INDEX) {
    FUZZ_CHECK(target.bar == TS104_PCI_BAR3_INDEX, "a mapping of another BAR");
    first = uint64_t{ts_vgpu_function(hostile.machine().core())} * NV_FUNC_USERMODE_SIZE;
    size = NV_FUNC_USERMODE_SIZE;
  }
  FUZZ_CHECK(target.bar_offset >= first && target.bar_offset - first <= size &&
                 length <= size - (target.bar_offset - first),
             "a mapping leaves the vGPU's share");
}

}  // namespace

void StepVfio(Hostile& hostile, Input& input) {
  ts_vgpu* core = hostile.machine().core();
  const uint8_t kind = input.U8();
  switch (kind % 12) {
    case 0: AccessRegion(hostile, input, false); return;
    case 1: AccessRegion(hostile, input, true); return;
    case 2: Map(hostile, input); return;
    case 3: ts_vgpu_set_irq_mode(core, static_cast<ts_irq_mode>(input.Below(4))); return;
    case 4: FUZZ_CHECK(ts_vgpu_reset(core) == 0, "reset"); return;
    case 5: hostile.Unmap(input.Value(), input.Value()); return;
    case 6: {
      ts_counters counters = {};
      ts_vgpu_get_counters(core, &counters);
      ts_sched_figures figures = {};
      ts_vgpu_sched_figures(core, input.U8(), &figures);
      return;
    }
    case 7:
      ts_vgpu_set_sched_param(core, static_cast<ts_vgpu_sched_param>(input.Below(3)), input.Word());
      return;
    case 8: {
      hostile.machine().Close();
      FUZZ_CHECK(hostile.machine().host().pinned.empty(), "pages stay pinned after close");
      // What QEMU's other threads may still do.
      AccessRegion(hostile, input, input.OneIn(2));
      hostile.Unmap(input.Value(), input.Value());
      ts_vgpu_work(core);
      FUZZ_CHECK(ts_vgpu_reset(core) < 0, "a closed vGPU is reset");
      FUZZ_CHECK(hostile.machine().Reopen() == 0, "open again");
      FUZZ_CHECK(ts_vgpu_open(core) == -16, "opened twice");
      return;
    }
    case 9: {
      // FLR, MSI-X, command and BARs in config space.
      static constexpr uint64_t kRegisters[] = {0x04, 0x10, 0x14, 0x18, 0x30, 0x3c, 0x40, 0x48,
                                                0x50, 0x58, 0x60, 0x68, 0x70, 0x78, 0x80, 0x100};
      uint64_t value = input.Value();
      hostile.Access(TS_REGION_CONFIG, input.Pick(kRegisters), &value, 4, true);
      return;
    }
    case 10: hostile.StartChannel(input.Below(4), input.Below(3)); return;
    default: StepChannels(hostile, input); return;
  }
}

void FuzzVfio(Input& input) {
  rig::ModelGpu gpu(kGpu);
  static constexpr rig::VgpuMachine::Type kTypes[] = {rig::VgpuMachine::kV16,
                                                      rig::VgpuMachine::kV8};
  Hostile hostile(gpu, input.Pick(kTypes));
  Drive(hostile, input, StepVfio);
}

}  // namespace fuzz
