// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Sequences of CSR accesses, of every width, on and beside every register.
#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

struct Area {
  uint32_t first;
  uint32_t bytes;
};
// Where registers are; the last is all of BAR0.
constexpr Area kAreas[] = {
    {0x0, 0x400},       {NV_PBUS_BAR0_WINDOW, 0x20},
    {0x2100, 0x500},    {NV_PFIFO_SCHED_DISABLE, 0x5d0},
    {0x3080, 0x480},    {NV_PPBDMA_GP_PUT(0), 0x6000},
    {0x88000, 0x100},   {0x100c80, 0x1f0},
    {0x104400, 0x280},  {NV_FUNC_PRAMIN_BASE, 0x100},
    {0x800000, 0x20},   {NV_FUNC_BAR0_USERMODE_BASE, 0x100},
    {0xb60000, 0x40},   {0xb73400, 0x10},
    {0xb74000, 0x40},   {0xb78000, 0x40},
    {0xb80000, 0x4000}, {NV_FUNC_MSIX_TABLE, 0x70},
    {0x22400, 0x1000},  {0x0, TS104_PCI_BAR0_SIZE},
};

}  // namespace

void StepCsr(Hostile& hostile, Input& input) {
  const uint8_t kind = input.U8();
  if (kind >= 0xf0) return hostile.Advance(uint64_t{1000} << (kind & 7));
  const Area area = kAreas[kind % std::size(kAreas)];
  const uint32_t offset = area.first + input.Below(area.bytes);
  const uint8_t how = input.U8();
  const size_t length = size_t{1} << (how & 3);
  const bool word = (how & 4) != 0;
  uint64_t value = input.Value();
  const uint32_t at = word ? offset & ~3u : offset;
  hostile.Access(TS_REGION_BAR0, at, &value, word ? 4 : length, (how & 8) != 0);
}

// With channels that work, so that registers of a PBDMA and of the engines are alive.
void FuzzCsr(Input& input) {
  rig::ModelGpu gpu(kGpu);
  Hostile hostile(gpu);
  if (input.OneIn(2)) {
    for (uint32_t r = 0; r < 3; ++r) {
      hostile.StartChannel(r, r);
      hostile.guest().Push(r, r, rig::RawGuest::Release(rig::RawGuest::kData, r));
    }
  }
  Drive(hostile, input, StepCsr);
}

}  // namespace fuzz
