// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Grids of hand-written code or of the programs that come with libts104.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "embedded_programs.h"
#include "fakes/flat_sm_memory.h"
#include "riscv_asm.h"
#include "sm/grid_executor.h"

class GridFixture : public testing::Test {
 protected:
  static constexpr uint64_t kCode = 0x1'0000;
  static constexpr uint64_t kArguments = 0x8'0000;
  static constexpr uint64_t kData = 0x10'0000;
  static constexpr uint64_t kDataBytes = 0x10'0000;
  static constexpr uint64_t kLocalMemory = 0x4000'0000;

  GridFixture() {
    memory_.Map(kArguments, sm::kPageSize);
    memory_.Map(kData, kDataBytes);
    launch_.program_address = kCode;
    launch_.constant_buffer_address = kArguments;
    launch_.constant_buffer_bytes = 256;
    launch_.local_memory = kLocalMemory;
  }

  // Code words as the program.
  void UseCode(const std::vector<uint32_t>& words) {
    memory_.Map(kCode, words.size() * 4);
    memory_.Copy(kCode, std::as_bytes(std::span(words)));
  }

  // A program of libts104 with its arguments, and local memory for `sms` SMs.
  template <typename Arguments>
  void UseProgram(const char* name, const Arguments& arguments, uint32_t sms = 4) {
    const auto program = fakes::LoadProgram(memory_, kCode, ts104::FindEmbeddedProgram(name));
    ASSERT_EQ(program.argument_bytes, sizeof(Arguments));
    memory_.Put(kArguments, arguments);
    launch_.program_address = program.entry;
    launch_.constant_buffer_bytes = program.argument_bytes;
    launch_.shared_bytes = program.shared_bytes;
    launch_.local_bytes = program.local_bytes;
    launch_.barrier_count = program.barriers;
    memory_.Map(kLocalMemory, uint64_t{sms} * sm::kMaxCtaThreads * program.local_bytes);
  }

  std::unique_ptr<sm::GridExecutor> Start(uint32_t sms = 4) {
    return sm::GridExecutor::Create(launch_, sms, interpreter_, memory_);
  }

  // Runs to the end or a stop, in quanta.
  static sm::QuantumResult RunAll(sm::GridExecutor& grid, uint64_t quantum = 100'000,
                                  uint64_t limit = 2'000'000'000) {
    sm::QuantumResult sum;
    while (grid.state() == sm::GridState::kRunning && sum.instructions < limit) {
      const sm::QuantumResult result = grid.RunQuantum(quantum);
      sum.instructions += result.instructions;
      sum.cycles += result.cycles;
      sum.ctas_finished += result.ctas_finished;
    }
    sum.state = grid.state();
    return sum;
  }

  fakes::FlatSmMemory memory_;
  sm::Interpreter interpreter_;
  sm::Launch launch_;
};
