// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The CSR table against the register map: a vGPU knows the registers that a TS104 has.
#include "core/trap/csr_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ts104/register_table.h"

namespace turnstile {
namespace {

TEST(CsrTableTest, FindsFirstAndLastByteOfARange) {
  EXPECT_EQ(FindCsr(0x0)->kind, CsrKind::kMirrored);
  EXPECT_EQ(FindCsr(0x800000)->part, CsrPart::kChannel);
  EXPECT_EQ(FindCsr(0x807ffc)->part, CsrPart::kChannel);
  EXPECT_EQ(FindCsr(0x808000), nullptr);
  EXPECT_EQ(FindCsr(0x700000)->part, CsrPart::kPramin);
  EXPECT_EQ(FindCsr(0x7ffffc)->part, CsrPart::kPramin);
  EXPECT_EQ(FindCsr(0xfffffc), nullptr);
}

TEST(CsrTableTest, RegistersOfOtherFunctionsAreNotThere) {
  EXPECT_EQ(FindCsr(0xb60040), nullptr);  // MAILBOX_SCRATCH(16): function 1
  EXPECT_EQ(FindCsr(0xb65004), nullptr);  // VIRTUAL_CHANNEL_CFG(1)
  EXPECT_EQ(FindCsr(0xb74040), nullptr);  // LEAF(16)
  EXPECT_EQ(FindCsr(0xb73404), nullptr);  // TOP(1)
  EXPECT_EQ(FindCsr(0xb66800), nullptr);  // VIRTUAL_INTR_LEAF
}

TEST(CsrTableTest, WhatTellsAboutOtherGuestsIsNotThere) {
  EXPECT_EQ(FindCsr(0xf028), nullptr);  // INSTRUCTIONS
}

TEST(CsrTableTest, FunctionWindowIsAnAlias) {
  EXPECT_EQ(CanonicalCsr(0xb81004), 0xb74004u);
  EXPECT_EQ(CanonicalCsr(0xb81210), 0xb78010u);
  EXPECT_EQ(CanonicalCsr(0xb81600), 0xb73400u);
  EXPECT_EQ(CanonicalCsr(0xb82104), 0xb60004u);
  EXPECT_EQ(CanonicalCsr(0xb83010), 0x100e34u);
  EXPECT_EQ(CanonicalCsr(0xb83028), 0x100e40u);  // GET of buffer 1
  EXPECT_EQ(CanonicalCsr(0xb830b0), 0x100cbcu);
  EXPECT_EQ(CanonicalCsr(0x100cbc), 0x100cbcu);
}

TEST(CsrTableTest, StoredRegistersHaveTheMasksAndResetsOfTheRegisterMap) {
  uint32_t words[kStoredWords];
  ResetStored(words);
  size_t stored = 0;
  for (const hwreg::RegisterInfo& info : ts104::kBar0Registers) {
    const CsrRange* range = FindCsr(info.offset);
    if (range == nullptr || range->kind != CsrKind::kStored) continue;
    ++stored;
    EXPECT_EQ(range->write_mask, info.write_mask) << info.name;
    EXPECT_EQ(words[range->slot], info.reset) << info.name;
  }
  EXPECT_EQ(stored, 16u);
}

// Registers that a vGPU deliberately does not have.
TEST(CsrTableTest, EveryRegisterOfTheMapIsServedOrKnownToBeAbsent) {
  const std::set<std::string> absent = {"NV_PBUS_INTR",
                                        "NV_PBUS_BIND_STATUS",
                                        "NV_PFIFO_CHSW_ERROR",
                                        "NV_PFIFO_LB_ERROR",
                                        "NV_PFIFO_INTR_RUNLIST_IDLE",
                                        "NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE",
                                        "NV_PFIFO_INTR_RUNLIST_ACQUIRE",
                                        "NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE",
                                        "NV_PFIFO_ENGINE_STATUS_NEXT_INST",
                                        "NV_PTIMER_INTR_0",
                                        "NV_PTIMER_ALARM_0",
                                        "NV_PFB_PRI_MMU_FAULT_ADDR_LO",
                                        "NV_PFB_PRI_MMU_FAULT_ADDR_HI",
                                        "NV_PFB_PRI_MMU_FAULT_INST_LO",
                                        "NV_PFB_PRI_MMU_FAULT_INST_HI",
                                        "NV_PFB_PRI_MMU_FAULT_INFO",
                                        "NV_CTRL_VIRTUAL_DOORBELL_NOTIFY",
                                        "NV_CTRL_VIRTUAL_INTR_LEAF",
                                        "NV_CTRL_VIRTUAL_INTR_LEAF_EN_SET",
                                        "NV_CTRL_VIRTUAL_INTR_LEAF_EN_CLEAR",
                                        "NV_CTRL_VIRTUAL_INTR_RETRIGGER",
                                        "NV_TS104_INSTRUCTIONS_LO",
                                        "NV_TS104_INSTRUCTIONS_HI"};
  for (const hwreg::RegisterInfo& info : ts104::kBar0Registers) {
    const bool served = FindCsr(CanonicalCsr(info.offset)) != nullptr;
    EXPECT_NE(served, absent.count(info.name) == 1) << info.name;
  }
}

}  // namespace
}  // namespace turnstile
