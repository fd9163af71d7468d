// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// One GPU thread with registers that a test can set and look at.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "fakes/flat_sm_memory.h"
#include "riscv_asm.h"
#include "sm/float_ops.h"
#include "sm/interpreter.h"

class InterpreterTest : public testing::Test {
 protected:
  static constexpr uint64_t kCode = 0x1'0000;
  static constexpr uint64_t kData = 0x2'0000;  // two pages, all rights
  static constexpr uint64_t kShared = sm::kDefaultSharedWindow;
  static constexpr uint64_t kLocal = sm::kDefaultLocalWindow;
  static constexpr uint32_t kSharedBytes = 1000;
  static constexpr uint32_t kLocalBytes = 256;
  static constexpr uint64_t kLocalMemory = 0x4'0000;

  InterpreterTest() {
    memory_.Map(kCode, 2 * sm::kPageSize);
    memory_.Map(kData, 2 * sm::kPageSize);
    memory_.Map(kLocalMemory, sm::kPageSize);
    shared_.resize(kSharedBytes);
    view_.launch = &launch_;
    view_.cta = {4, 5, 6};
    view_.sm = 3;
    view_.start_cycle = 1000;
    view_.shared = sm::MemoryWindow(kShared, kSharedBytes, 0);
    view_.shared_memory = shared_.data();
    view_.local = sm::MemoryWindow(kLocal, kLocalBytes, sm::kWindowExtent);
    view_.local_memory = kLocalMemory;
    launch_.cta = {7, 8, 9};
    launch_.grid = {10, 11, 12};
  }

  void LoadCode(const std::vector<uint32_t>& words) {
    memory_.Copy(kCode, std::as_bytes(std::span(words)));
    interpreter_.InvalidateCode();
    thread_.pc = kCode;
  }

  // Runs what LoadCode put there, at most `budget` instructions; retired_ counts them.
  sm::RunExit Run(uint64_t budget = 1000) {
    const sm::HostFloat host_float;
    interpreter_.Bind(0, memory_);
    uint64_t left = budget;
    const sm::RunExit exit = interpreter_.Run(thread_, view_, left);
    retired_ = budget - left;
    return exit;
  }

  // Runs `words`, which must all retire.
  void Execute(std::vector<uint32_t> words) {
    words.push_back(riscv::kEbreak);
    LoadCode(words);
    ASSERT_EQ(Run(), sm::RunExit::kStop);
    ASSERT_EQ(interpreter_.stop().exception, sm::ExceptionKind::kBreakpoint)
        << sm::ExceptionKindName(interpreter_.stop().exception) << " at "
        << interpreter_.stop().pc - kCode;
    ASSERT_EQ(interpreter_.stop().pc, kCode + 4 * (words.size() - 1));
  }

  // Runs `words`, of which the last must not retire.
  const sm::StopRecord& ExecuteToStop(const std::vector<uint32_t>& words) {
    LoadCode(words);
    EXPECT_EQ(Run(), sm::RunExit::kStop);
    EXPECT_EQ(interpreter_.stop().pc, kCode + 4 * (words.size() - 1));
    EXPECT_EQ(thread_.pc, kCode + 4 * (words.size() - 1));
    EXPECT_EQ(retired_, words.size() - 1);
    return interpreter_.stop();
  }

  static constexpr uint64_t kAllOnes = ~uint64_t{0};

  uint8_t fflags() const { return thread_.fcsr & 0x1f; }

  fakes::FlatSmMemory memory_;
  sm::Interpreter interpreter_;
  sm::ThreadState thread_;
  sm::Launch launch_;
  sm::CtaView view_;
  std::vector<std::byte> shared_;
  uint64_t retired_ = 0;
};
