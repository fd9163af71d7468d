// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "device_state.h"

#include <algorithm>
#include <utility>

#include "ts104/register_table.h"

namespace ts104 {
namespace {

// Detail registers of the read-only bits of PFIFO INTR_0.
struct DetailBit {
  uint32_t bit;
  uint32_t offset;
};
constexpr DetailBit kPfifoDetails[] = {
    {TS104_FIELD(NV_PFIFO_INTR_0_CTXSW_TIMEOUT), NV_PFIFO_INTR_CTXSW_TIMEOUT},
    {TS104_FIELD(NV_PFIFO_INTR_0_RUNLIST_IDLE), NV_PFIFO_INTR_RUNLIST_IDLE},
    {TS104_FIELD(NV_PFIFO_INTR_0_RUNLIST_AND_ENG_IDLE), NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE},
    {TS104_FIELD(NV_PFIFO_INTR_0_RUNLIST_ACQUIRE), NV_PFIFO_INTR_RUNLIST_ACQUIRE},
    {TS104_FIELD(NV_PFIFO_INTR_0_RUNLIST_ACQUIRE_AND_ENG_IDLE),
     NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE},
    {TS104_FIELD(NV_PFIFO_INTR_0_RUNLIST_EVENT), NV_PFIFO_INTR_RUNLIST_EVENT},
};

bool InPfifo(uint32_t offset) {
  return (offset >= 0x2000 && offset < 0x4000) ||
         (offset >= NV_PPBDMA_GP_PUT(0) && offset < NV_PPBDMA_GP_PUT(kRunlists));
}

// One for all devices of the process: it never changes, and making it takes longer than all the
// rest of a device.
const hwreg::RegisterMap& Bar0Map() {
  static const hwreg::RegisterMap map =
      *hwreg::RegisterMap::Create(kBar0Registers, TS104_PCI_BAR0_SIZE);
  return map;
}

}  // namespace

DeviceState::DeviceState(const ts104_config& config, uint32_t context_bytes,
                         const ts104_host_ops& ops, void* opaque)
    : config_(config), context_bytes_(context_bytes), ops_(ops), opaque_(opaque) {
  regs = *hwreg::RegisterBank::Create(Bar0Map());
  Reset();
}

void DeviceState::PublishRequestTime() {
  request_time_.store(std::min(requests.time, alarm), std::memory_order_release);
}

void DeviceState::Post(uint64_t now) {
  requests.time = std::min(requests.time, now);
  PublishRequestTime();
  work.notify_all();
}

void DeviceState::PostWake(uint32_t runlist, uint64_t now) {
  if (runlist >= kRunlists) return;
  requests.runlist[runlist].wake = true;
  Post(now);
}

Requests DeviceState::TakeRequests() {
  Requests taken = std::exchange(requests, Requests());
  PublishRequestTime();
  return taken;
}

void DeviceState::SetAlarm(uint64_t when) {
  alarm = when;
  PublishRequestTime();
  work.notify_all();
}

void DeviceState::RaiseVector(uint32_t function, uint32_t vector) {
  tree.Raise(function, vector);
  UpdateInterrupts();
}

void DeviceState::RaisePfifo(uint32_t intr_0_bits) {
  SetBits(NV_PFIFO_INTR_0, intr_0_bits);
  UpdateInterrupts();
}

void DeviceState::RaisePbdma(uint32_t pbdma, uint32_t intr_0, uint32_t intr_1) {
  SetBits(NV_PPBDMA_INTR_0(pbdma), intr_0);
  SetBits(NV_PPBDMA_INTR_1(pbdma), intr_1);
  UpdateInterrupts();
}

void DeviceState::CompleteTsgPreempt() {
  tsg_preempt_pending = false;
  if (tsg_preempt_reported) RaisePfifo(TS104_FIELD(NV_PFIFO_INTR_0_TSG_PREEMPT_COMPLETE));
}

bool DeviceState::PbdmaFrozen(uint32_t pbdma) const {
  return (Get(NV_PPBDMA_INTR_0(pbdma)) | Get(NV_PPBDMA_INTR_1(pbdma))) != 0;
}

uint32_t DeviceState::PbdmaIntrPending() const {
  uint32_t pending = 0;
  for (uint32_t p = 0; p < kRunlists; ++p) {
    const uint32_t enabled = (Get(NV_PPBDMA_INTR_0(p)) & Get(NV_PPBDMA_INTR_EN_0(p))) |
                             (Get(NV_PPBDMA_INTR_1(p)) & Get(NV_PPBDMA_INTR_EN_1(p)));
    if (enabled != 0) pending |= 1u << p;
  }
  return pending;
}

uint32_t DeviceState::PfifoIntr0() const {
  uint32_t value = Get(NV_PFIFO_INTR_0);
  for (const DetailBit& detail : kPfifoDetails) {
    if (Get(detail.offset) != 0) value |= detail.bit;
  }
  if (PbdmaIntrPending() != 0) value |= TS104_FIELD(NV_PFIFO_INTR_0_PBDMA_INTR);
  return value;
}

uint32_t DeviceState::PmcIntr(uint32_t index) const {
  const uint32_t pfifo_mask = Get(index == 0 ? NV_PFIFO_INTR_EN_0 : NV_PFIFO_INTR_EN_1);
  uint32_t value = 0;
  if ((PfifoIntr0() & pfifo_mask) != 0) value |= 1u << NV_PMC_INTR_BIT_PFIFO;
  if ((Get(NV_PMC_INTR_SW(index)) & TS104_FIELD(NV_PMC_INTR_SW_SOFTWARE)) != 0) {
    value |= 1u << NV_PMC_INTR_BIT_SOFTWARE;
  }
  if (index != 0) return value;
  if ((Get(NV_PTIMER_INTR_0) & Get(NV_PTIMER_INTR_EN_0)) != 0) {
    value |= 1u << NV_PMC_INTR_BIT_PTIMER;
  }
  if ((Get(NV_PBUS_INTR) & Get(NV_PBUS_INTR_EN)) != 0) value |= 1u << NV_PMC_INTR_BIT_PBUS;
  for (const EngineInfo& engine : kEngineTable) {
    if (engine.is_graphics) continue;
    const uint32_t lce = engine.instance;
    if ((Get(NV_CE_LCE_INTR_STATUS(lce)) & Get(NV_CE_LCE_INTR_EN(lce))) != 0) {
      value |= 1u << engine.pmc_bit;
    }
  }
  return value;
}

void DeviceState::UpdateInterrupts() {
  const uint32_t pfifo = PfifoIntr0();
  if ((pfifo & Get(NV_PFIFO_INTR_EN_0)) != 0) tree.Raise(0, NV_CTRL_VECTOR_PFIFO_STALL);
  if ((pfifo & Get(NV_PFIFO_INTR_EN_1)) != 0) tree.Raise(0, NV_CTRL_VECTOR_PFIFO_NONSTALL);
  const uint32_t stall = PmcIntr(0);
  for (const EngineInfo& engine : kEngineTable) {
    if ((stall >> engine.pmc_bit & 1) != 0) {
      tree.Raise(0, Get(NV_CTRL_ENGINE_STALL_BASE) + engine.pmc_bit);
    }
  }

  uint32_t messages = tree.TakeMessages();
  bool level = tree.Asserted();
  for (uint32_t i = 0; i < 2; ++i) {
    const bool active = (PmcIntr(i) & Get(NV_PMC_INTR_EN(i))) != 0;
    if (active && !pmc_was_active_[i]) messages |= 1u << (TS104_PCI_MSIX_VECTOR_PMC_STALL + i);
    pmc_was_active_[i] = active;
    level = level || active;
  }
  if (messages == 0 && level == intx_level_) return;
  intx_level_ = level;
  ops_.irq(opaque_, messages, messages != 0, level);
}

void DeviceState::ResetPfifo() {
  for (const hwreg::RegisterInfo& info : kBar0Registers) {
    if (!InPfifo(info.offset)) continue;
    for (uint32_t i = 0; i < info.count; ++i) Set(info.offset + i * info.stride, info.reset);
  }
  for (uint32_t p = 0; p < kRunlists; ++p) Set(NV_PFIFO_PBDMA_MAP(p), 1u << p);
  channels.Reset();
  tsg_preempt_reported = false;
  status = {};
  submit_sequence = {};
  submit_pending = {};
  preempt_pending = {};
  tsg_preempt_pending = false;
  requests.runlist = {};
  requests.preempt_tsg.reset();
}

void DeviceState::Reset() {
  regs.Reset();
  tree.Reset();
  requests = Requests();
  ResetPfifo();
  function_ns = function_ns_read = {};
  engines_enabled = (1u << kEngines) - 1;
  pfifo_enabled = true;
  invalidate_pending = false;
  alarm = kNever;
  lag_ns = 0;
  instructions = 0;
  Set(NV_TS104_VRAM_SIZE, static_cast<uint32_t>(config_.vram_bytes >> 20));
  Set(NV_TS104_SM_COUNT, config_.sms);
  Set(NV_TS104_ENGINE_MHZ, config_.engine_mhz);
  Set(NV_TS104_CTXSW_US, config_.ctxsw_us);
  Set(NV_TS104_CTX_SIZE, context_bytes_);
  Set(NV_TS104_NUM_CHIDS, TS104_PCI_NUM_CHANNELS);
  Set(NV_PMC_INTR_MODE(1), ~0u);
  PublishRequestTime();
  pmc_was_active_ = {};
  intx_level_ = false;
  ops_.irq(opaque_, 0, false, false);
}

}  // namespace ts104
