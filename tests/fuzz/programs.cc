// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// QMDs and RISC-V programs on the SMs.
#include <array>
#include <cstring>

#include "base/bits.h"
#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

using rig::RawGuest;

constexpr uint32_t kChannel = 0;
constexpr uint32_t kRunlist = 0;
// In RawGuest's data, which the GPU sees at the same addresses.
constexpr uint64_t kArgs = RawGuest::kData;
constexpr uint64_t kQmd = RawGuest::kData + 0x4000;
constexpr uint64_t kCode = RawGuest::kData + 0x8000;
constexpr uint32_t kCodeWords = 256;

struct Field {
  uint16_t hi, lo;
};
// Of QMD V02_03, in bits: version, grid, CTA, sizes, program, constant buffer, releases, queues.
constexpr Field kFields[] = {{579, 576},   {583, 580},   {415, 384},   {431, 416},   {463, 448},
                             {607, 592},   {623, 608},   {639, 624},   {561, 544},   {1567, 1536},
                             {1584, 1568}, {1055, 1024}, {1072, 1056}, {1087, 1075}, {640, 640},
                             {138, 138},   {767, 736},   {775, 768},   {831, 800},   {1503, 1480},
                             {1471, 1448}, {1439, 1416}, {587, 584},   {30, 0},      {127, 96}};

std::array<uint32_t, 64> GoodQmd() {
  std::array<uint32_t, 64> words = {};
  const auto set = [&words](size_t hi, size_t lo, uint64_t value) {
    base::SetBits(std::span<uint32_t>(words), hi, lo, value);
  };
  set(579, 576, 3);
  set(583, 580, 2);
  set(415, 384, 1);
  set(431, 416, 1);
  set(463, 448, 1);
  set(607, 592, 2);
  set(623, 608, 1);
  set(639, 624, 1);
  set(640, 640, 1);
  set(1087, 1075, 1);
  set(1567, 1536, kCode);
  set(1055, 1024, kArgs);
  return words;
}

void WriteQmd(Hostile& hostile, const std::array<uint32_t, 64>& words) {
  std::memcpy(hostile.machine().vram() + kQmd, words.data(), sizeof(words));
}

uint32_t Instruction(Input& input) {
  static constexpr uint32_t kOpcodes[] = {0x03, 0x07, 0x0f, 0x13, 0x17, 0x1b, 0x23,
                                          0x27, 0x2f, 0x33, 0x37, 0x3b, 0x43, 0x47,
                                          0x4b, 0x4f, 0x53, 0x63, 0x67, 0x6f, 0x73};
  const uint8_t kind = input.U8();
  if (kind >= 0xf8) return input.U32();
  const uint32_t opcode = kOpcodes[kind % std::size(kOpcodes)];
  // Few registers, so that results are used.
  const uint8_t registers = input.U8();
  const uint32_t rd = registers & 7;
  const uint32_t rs1 = 8 | (registers >> 3 & 3);
  return opcode | rd << 7 | (input.U8() & 7u) << 12 | rs1 << 15 | uint32_t{input.U16()} << 20;
}

void Launch(Hostile& hostile) {
  hostile.guest().Push(kChannel, kRunlist,
                       {RawGuest::Inc(NVC5C0_SEND_PCAS_A, 1, 1), static_cast<uint32_t>(kQmd >> 8),
                        RawGuest::Inc(NVC5C0_SEND_SIGNALING_PCAS_B, 1, 1), 3});
}

}  // namespace

void StepProgram(Hostile& hostile, Input& input) {
  const uint8_t kind = input.U8();
  switch (kind % 16) {
    case 0: Launch(hostile); return;
    case 1: hostile.Advance(uint64_t{1000} << (input.U8() % 8)); return;
    case 2: {
      std::array<uint32_t, 64> words;
      std::memcpy(words.data(), hostile.machine().vram() + kQmd, sizeof(words));
      const Field field = input.Pick(kFields);
      const uint64_t value = input.Value() & ((uint64_t{1} << (field.hi - field.lo + 1)) - 1);
      base::SetBits(std::span<uint32_t>(words), field.hi, field.lo, value);
      WriteQmd(hostile, words);
      return;
    }
    case 3: WriteQmd(hostile, GoodQmd()); return;
    case 4:
      // What the engine saved of a program, and preemption options.
      hostile.Store32(false, Hostile::kContext + input.Below(0x4000) * 4, input.Word());
      return;
    case 5:
      hostile.Store32(false, Hostile::kContext + 0x80 + input.Below(2) * 4, input.U8() & 3u);
      return;
    case 6:
      hostile.guest().Push(kChannel, kRunlist,
                           {RawGuest::Inc(NVC5C0_SET_SHADER_LOCAL_MEMORY_A, 2, 1), 0,
                            static_cast<uint32_t>(RawGuest::kData) + 0xc000});
      return;
    case 7: hostile.Write(NV_PFIFO_RUNLIST_PREEMPT, 1); return;
    case 8: hostile.Recover(kChannel, 0); return;
    case 9: hostile.Restart(kChannel, kRunlist, 200'000); return;
    default: {
      const uint64_t at = kCode + uint64_t{input.Below(kCodeWords)} * 4;
      for (uint32_t count = 1 + kind / 64; count > 0; --count) {
        hostile.Store32(false, at + (count - 1) * 4, Instruction(input));
      }
      return;
    }
  }
}

void FuzzPrograms(Input& input) {
  constexpr rig::RigConfig kSlow = {64u << 20, 20, 1, 5};  // few instructions per unit of time
  rig::ModelGpu gpu(kSlow);
  // A program that does not leave its engine is dropped soon.
  ts_gpu_set_sched_param(gpu.core, TS_SCHED_CTXSW_TIMEOUT_MS, 1);
  Hostile hostile(gpu);
  hostile.StartChannel(kChannel, kRunlist);
  WriteQmd(hostile, GoodQmd());
  hostile.guest().SetVram64(kArgs, kArgs + 0x100);
  // Where a program ends, whatever it did before.
  hostile.Store32(false, kCode + (kCodeWords - 2) * 4, 0x00000893);  // li a7, 0
  hostile.Store32(false, kCode + (kCodeWords - 1) * 4, 0x00000073);  // ecall
  for (uint32_t i = 0; i < kCodeWords - 2; ++i) hostile.Store32(false, kCode + i * 4, 0x13);  // nop
  Drive(hostile, input, StepProgram);
}

}  // namespace fuzz
