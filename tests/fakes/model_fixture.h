// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A TS104 model with everything around it that a test needs: VRAM, system memory, a clock moved by
// hand, an interrupt log, and helpers that do a driver's work in the plainest way.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "model_abi.h"
#include "ts104/regs.h"

namespace fakes {

inline constexpr uint64_t kMib = uint64_t{1} << 20;

struct ModelOptions {
  uint64_t vram_bytes = 64 * kMib;
  uint64_t system_bytes = 16 * kMib;
  uint32_t engine_mhz = 1000;
  uint32_t sms = 4;
  uint32_t ctxsw_us = 0;
};

// The model on its memories. System memory answers DMA at [0, system_bytes); beyond is refused.
class ModelFixture {
 public:
  explicit ModelFixture(const ModelOptions& options = {})
      : options_(options),
        vram_(static_cast<std::byte*>(operator new(options.vram_bytes, std::align_val_t{4096}))),
        system_(options.system_bytes) {
    std::memset(vram_, 0, options.vram_bytes);
    const ts104_config config = {options.vram_bytes, options.engine_mhz, options.sms,
                                 options.ctxsw_us};
    const ts104_host_ops ops = {DmaRead, DmaWrite, Now, Irq, nullptr, nullptr};
    model_ = ts104_create(&config, vram_, &ops, this, nullptr, 0);
    ts104_bus_master(model_, true);
    Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0),
          TS104_SET(NV_CTRL_VIRTUAL_CHANNEL_CFG_MASK, 0xfff) |
              TS104_SET(NV_CTRL_VIRTUAL_CHANNEL_CFG_PENDING_ENABLE, 1));
  }
  ~ModelFixture() {
    ts104_destroy(model_);
    operator delete(vram_, std::align_val_t{4096});
  }
  ModelFixture(const ModelFixture&) = delete;
  ModelFixture& operator=(const ModelFixture&) = delete;

  ts104_model* model() { return model_; }
  const ModelOptions& options() const { return options_; }

  uint32_t Read(uint32_t offset) { return ts104_bar0_read(model_, offset, 4); }
  void Write(uint32_t offset, uint32_t value) { ts104_bar0_write(model_, offset, 4, value); }
  uint32_t ReadBar3(uint32_t offset) { return ts104_bar3_read(model_, offset, 4); }
  void WriteBar3(uint32_t offset, uint32_t value) { ts104_bar3_write(model_, offset, 4, value); }

  // Time. AdvanceTo stops at every event on the way, so that everything sees its exact time.
  uint64_t now() const { return now_; }
  void AdvanceTo(uint64_t time) {
    uint64_t next = ts104_next_event(model_);
    while (next <= time) {
      now_ = std::max(now_, next);
      ts104_run_until(model_, now_);
      next = ts104_next_event(model_);
    }
    now_ = std::max(now_, time);
    ts104_run_until(model_, now_);
  }
  void Advance(uint64_t ns) { AdvanceTo(now_ + ns); }
  // Until nothing more will happen, at most `limit` ns.
  void Settle(uint64_t limit = 100'000'000) {
    const uint64_t end = now_ + limit;
    uint64_t next = ts104_next_event(model_);
    while (next <= end) {
      now_ = std::max(now_, next);
      ts104_run_until(model_, now_);
      next = ts104_next_event(model_);
    }
  }

  // Memory.
  std::byte* vram() { return vram_; }
  std::byte* system() { return system_.data(); }
  template <typename T = uint32_t>
  T Vram(uint64_t offset) const {
    T value;
    std::memcpy(&value, vram_ + offset, sizeof(T));
    return value;
  }
  template <typename T>
  void SetVram(uint64_t offset, T value) {
    std::memcpy(vram_ + offset, &value, sizeof(T));
  }
  template <typename T = uint32_t>
  T System(uint64_t offset) const {
    T value;
    std::memcpy(&value, system_.data() + offset, sizeof(T));
    return value;
  }
  template <typename T>
  void SetSystem(uint64_t offset, T value) {
    std::memcpy(system_.data() + offset, &value, sizeof(T));
  }
  // Offsets that were not handed out before. Zeroed at the start.
  uint64_t AllocateVram(uint64_t bytes, uint64_t align = 4096) {
    vram_next_ = (vram_next_ + align - 1) / align * align;
    return std::exchange(vram_next_, vram_next_ + bytes);
  }
  uint64_t AllocateSystem(uint64_t bytes, uint64_t align = 4096) {
    system_next_ = (system_next_ + align - 1) / align * align;
    return std::exchange(system_next_, system_next_ + bytes);
  }

  // Interrupts.
  uint32_t msix_count(unsigned entry) const { return msix_[entry]; }
  uint32_t msi_count() const { return msi_; }
  bool intx() const { return intx_; }
  void ForgetInterrupts() {
    msix_ = {};
    msi_ = 0;
  }
  // Lets vectors of a leaf of function f through to the top.
  void EnableLeaf(uint32_t function, uint32_t leaf, uint32_t mask) {
    Write(NV_CTRL_LEAF_EN_SET(16 * function + leaf), mask);
    Write(NV_CTRL_TOP_EN_SET(function), 1u << leaf / 2);
  }
  uint32_t Leaf(uint32_t function, uint32_t leaf) {
    return Read(NV_CTRL_LEAF(16 * function + leaf));
  }

 private:
  static int DmaRead(void* opaque, uint64_t addr, void* buf, uint64_t len) {
    auto& self = *static_cast<ModelFixture*>(opaque);
    if (addr > self.system_.size() || len > self.system_.size() - addr) return -1;
    std::memcpy(buf, self.system_.data() + addr, len);
    return 0;
  }
  static int DmaWrite(void* opaque, uint64_t addr, const void* buf, uint64_t len) {
    auto& self = *static_cast<ModelFixture*>(opaque);
    if (addr > self.system_.size() || len > self.system_.size() - addr) return -1;
    std::memcpy(self.system_.data() + addr, buf, len);
    return 0;
  }
  static uint64_t Now(void* opaque) { return static_cast<ModelFixture*>(opaque)->now_; }
  static void Irq(void* opaque, uint32_t msix, bool msi, bool intx) {
    auto& self = *static_cast<ModelFixture*>(opaque);
    for (unsigned i = 0; i < self.msix_.size(); ++i) self.msix_[i] += msix >> i & 1;
    self.msi_ += msi ? 1 : 0;
    self.intx_ = intx;
  }

  const ModelOptions options_;
  std::byte* const vram_;
  std::vector<std::byte> system_;
  ts104_model* model_ = nullptr;
  uint64_t now_ = 1'000'000;
  uint64_t vram_next_ = kMib;  // the first MiB is for tests that want fixed places
  uint64_t system_next_ = kMib;
  std::array<uint32_t, 6> msix_{};
  uint32_t msi_ = 0;
  bool intx_ = false;
};

// PTE bits of NV_MMU_PTE besides VALID and the address.
inline constexpr uint64_t kPteVid = 0;
inline constexpr uint64_t kPteSys = 2ull << 1;
inline constexpr uint64_t kPtePrivilege = 1ull << 5;
inline constexpr uint64_t kPteReadOnly = 1ull << 6;
inline constexpr uint64_t kPteAtomicDisable = 1ull << 7;
inline constexpr uint64_t kPteGeneric = 6ull << 56;

// Page tables in VRAM, built by hand as the format's manual says.
class PageTables {
 public:
  explicit PageTables(ModelFixture& rig) : rig_(rig), root_(rig.AllocateVram(4096)) {}

  uint64_t root() const { return root_; }

  void Map4K(uint64_t va, uint64_t physical, uint64_t bits = kPteVid | kPteGeneric) {
    SetSmallPte(va, Pte(physical, bits));
  }
  void Map64K(uint64_t va, uint64_t physical, uint64_t bits = kPteVid | kPteGeneric) {
    const uint64_t pd0 = Pd0EntryOf(va);
    const uint64_t table = TableAt(pd0, 4, 8, 256);
    rig_.SetVram(table + (va >> 16 & 31) * 8, Pte(physical, bits));
  }
  void Map2M(uint64_t va, uint64_t physical, uint64_t bits = kPteVid | kPteGeneric) {
    rig_.SetVram(Pd0EntryOf(va), Pte(physical, bits));
  }
  void MapRange(uint64_t va, uint64_t physical, uint64_t bytes,
                uint64_t bits = kPteVid | kPteGeneric) {
    for (uint64_t at = 0; at < bytes; at += 4096) Map4K(va + at, physical + at, bits);
  }
  void SetSmallPte(uint64_t va, uint64_t pte) {
    const uint64_t table = TableAt(Pd0EntryOf(va) + 8, 8, 12, 4096);
    rig_.SetVram(table + (va >> 12 & 511) * 8, pte);
  }
  void SetBigPte(uint64_t va, uint64_t pte) {
    const uint64_t table = TableAt(Pd0EntryOf(va), 4, 8, 256);
    rig_.SetVram(table + (va >> 16 & 31) * 8, pte);
  }
  // VRAM offset of the 16-byte PD0 entry of `va`.
  uint64_t Pd0EntryOf(uint64_t va) {
    const uint64_t pd2 = TableAt(root_ + (va >> 47 & 3) * 8, 8, 12, 4096);
    const uint64_t pd1 = TableAt(pd2 + (va >> 38 & 511) * 8, 8, 12, 4096);
    const uint64_t pd0 = TableAt(pd1 + (va >> 29 & 511) * 8, 8, 12, 4096);
    return pd0 + (va >> 21 & 255) * 16;
  }
  static uint64_t Pte(uint64_t physical, uint64_t bits) { return 1 | bits | physical >> 12 << 8; }

 private:
  // The table an entry names, made if there is none. `field`: lowest address bit in the entry.
  uint64_t TableAt(uint64_t entry, unsigned field, unsigned shift, uint64_t bytes) {
    const auto pde = rig_.Vram<uint64_t>(entry);
    if ((pde >> 1 & 3) != 0) return pde >> field << shift;
    const uint64_t table = rig_.AllocateVram(bytes);
    rig_.SetVram(entry, uint64_t{1} << 1 | table >> shift << field);
    return table;
  }

  ModelFixture& rig_;
  const uint64_t root_;
};

// Push buffer headers.
inline constexpr uint32_t Inc(uint32_t subchannel, uint32_t method, uint32_t count) {
  return 1u << 29 | count << 16 | subchannel << 13 | method >> 2;
}
inline constexpr uint32_t NonInc(uint32_t subchannel, uint32_t method, uint32_t count) {
  return 3u << 29 | count << 16 | subchannel << 13 | method >> 2;
}
inline constexpr uint32_t Immediate(uint32_t subchannel, uint32_t method, uint32_t data) {
  return 4u << 29 | data << 16 | subchannel << 13 | method >> 2;
}
inline constexpr uint32_t OneInc(uint32_t subchannel, uint32_t method, uint32_t count) {
  return 5u << 29 | count << 16 | subchannel << 13 | method >> 2;
}

struct ChannelOptions {
  bool privileged = false;
  bool hce_privileged = false;
  uint32_t acquire = 0x7ffff902;
  uint32_t config = 0x1000;
  bool gr_context = false;
};

// A channel in VRAM: instance block, USERD, GP ring and a push buffer of 64 KiB, both mapped in
// `tables` at VAs derived from the CHID.
class TestChannel {
 public:
  static constexpr uint32_t kRingLog2 = 6;

  TestChannel(ModelFixture& rig, PageTables& tables, uint32_t chid,
              const ChannelOptions& options = {})
      : rig_(rig),
        chid_(chid),
        inst_(rig.AllocateVram(4096)),
        userd_(rig.AllocateVram(512, 512)),
        ring_(rig.AllocateVram(4096)),
        push_(rig.AllocateVram(kPushBytes)),
        ring_va_(0x10'0000'0000 + uint64_t{chid} * 0x10'0000),
        push_va_(ring_va_ + 0x1'0000) {
    tables.Map4K(ring_va_, ring_);
    tables.MapRange(push_va_, push_, kPushBytes);
    SetInst(NV_RAMFC_USERD, static_cast<uint32_t>(userd_));
    SetInst(NV_RAMFC_SIGNATURE, 0xface);
    SetInst(NV_RAMFC_ACQUIRE, options.acquire);
    SetInst(NV_RAMFC_GP_BASE, static_cast<uint32_t>(ring_va_));
    SetInst(NV_RAMFC_GP_BASE_HI, static_cast<uint32_t>(ring_va_ >> 32) | kRingLog2 << 16);
    SetInst(NV_RAMFC_PB_HEADER, 0x20400000);
    SetInst(NV_RAMFC_SUBDEVICE, 0x30000001);
    SetInst(NV_RAMFC_HCE_CTRL, options.hce_privileged ? 0x20 : 0);
    SetInst(NV_RAMFC_CONFIG, options.config | (options.privileged ? 1u << 8 : 0));
    SetInst(NV_RAMIN_PAGE_DIR_BASE, static_cast<uint32_t>(tables.root()) | 1u << 10 | 1u << 11);
    SetInst(NV_RAMIN_PAGE_DIR_BASE_HI, static_cast<uint32_t>(tables.root() >> 32));
    if (options.gr_context) {
      context_ = rig.AllocateVram(rig.Read(NV_TS104_CTX_SIZE));
      SetInst(NV_RAMIN_ENGINE_WFI_PTR, static_cast<uint32_t>(context_));
    }
    rig.Write(NV_PCCSR_CHANNEL_INST(chid), 1u << 31 | static_cast<uint32_t>(inst_ >> 12));
    Enable();
  }

  uint32_t chid() const { return chid_; }
  uint64_t inst() const { return inst_; }
  uint64_t userd() const { return userd_; }
  uint64_t context() const { return context_; }
  uint64_t push_va() const { return push_va_; }
  uint64_t push_vram() const { return push_; }
  uint64_t ring_vram() const { return ring_; }
  void SetInst(uint32_t offset, uint32_t value) { rig_.SetVram(inst_ + offset, value); }
  uint32_t Inst(uint32_t offset) const { return rig_.Vram(inst_ + offset); }
  void Enable() { rig_.Write(NV_PCCSR_CHANNEL(chid_), 1u << 10); }
  void Disable() { rig_.Write(NV_PCCSR_CHANNEL(chid_), 1u << 11); }
  uint32_t Status() { return rig_.Read(NV_PCCSR_CHANNEL(chid_)) >> 24 & 0xf; }
  bool Busy() { return (rig_.Read(NV_PCCSR_CHANNEL(chid_)) >> 28 & 1) != 0; }
  bool PbdmaFaulted() { return (rig_.Read(NV_PCCSR_CHANNEL(chid_)) >> 22 & 1) != 0; }
  bool EngFaulted() { return (rig_.Read(NV_PCCSR_CHANNEL(chid_)) >> 23 & 1) != 0; }
  uint32_t GpGet() const { return rig_.Vram(userd_ + NV_USERD_GP_GET); }

  // Appends a segment and its GP entry and publishes GP_PUT; no doorbell.
  void Push(const std::vector<uint32_t>& words) {
    if (push_used_ + words.size() * 4 > kPushBytes) push_used_ = 0;
    std::memcpy(rig_.vram() + push_ + push_used_, words.data(), words.size() * 4);
    const uint64_t va = push_va_ + push_used_;
    push_used_ += words.size() * 4;
    PushEntry(static_cast<uint32_t>(va),
              static_cast<uint32_t>(va >> 32) | static_cast<uint32_t>(words.size()) << 10);
  }
  void PushEntry(uint32_t entry0, uint32_t entry1) {
    rig_.SetVram(ring_ + gp_put_ * 8, entry0);
    rig_.SetVram(ring_ + gp_put_ * 8 + 4, entry1);
    gp_put_ = (gp_put_ + 1) % (1u << kRingLog2);
    rig_.SetVram(userd_ + NV_USERD_GP_PUT, gp_put_);
  }
  void Ring(uint32_t runlist = 15) {
    rig_.Write(NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING,
               chid_ | runlist << 16);
  }
  void PushAndRing(const std::vector<uint32_t>& words) {
    Push(words);
    Ring();
  }

 private:
  static constexpr uint64_t kPushBytes = 0x1'0000;

  ModelFixture& rig_;
  const uint32_t chid_;
  const uint64_t inst_;
  const uint64_t userd_;
  const uint64_t ring_;
  const uint64_t push_;
  const uint64_t ring_va_;
  const uint64_t push_va_;
  uint64_t context_ = 0;
  uint64_t push_used_ = 0;
  uint32_t gp_put_ = 0;
};

struct TestTsg {
  uint32_t tsgid = 0;
  std::vector<uint32_t> chids;
  uint32_t timeout = 128;
  uint32_t scale = 3;
  uint32_t gfid = 0;
};

// Runlist entries in memory order.
inline std::vector<std::array<uint32_t, 4>> RunlistEntries(const std::vector<TestTsg>& tsgs) {
  std::vector<std::array<uint32_t, 4>> entries;
  for (const TestTsg& tsg : tsgs) {
    entries.push_back({1u | tsg.gfid << 4 | tsg.scale << 16 | tsg.timeout << 24,
                       static_cast<uint32_t>(tsg.chids.size()), tsg.tsgid, 0});
    for (const uint32_t chid : tsg.chids) entries.push_back({0, 0, chid, 0});
  }
  return entries;
}

inline void SubmitEntries(ModelFixture& rig, uint32_t runlist,
                          const std::vector<std::array<uint32_t, 4>>& entries,
                          uint32_t offset = 0) {
  const uint64_t list = rig.AllocateVram(std::max<uint64_t>(entries.size() * 16, 16));
  std::memcpy(rig.vram() + list, entries.data(), entries.size() * 16);
  rig.Write(NV_PFIFO_RUNLIST_BASE_LO(runlist), static_cast<uint32_t>(list));
  rig.Write(NV_PFIFO_RUNLIST_BASE_HI(runlist), static_cast<uint32_t>(list >> 32));
  rig.Write(NV_PFIFO_RUNLIST_SUBMIT(runlist), static_cast<uint32_t>(entries.size()) | offset << 16);
}

inline void Submit(ModelFixture& rig, uint32_t runlist, const std::vector<TestTsg>& tsgs,
                   uint32_t offset = 0) {
  SubmitEntries(rig, runlist, RunlistEntries(tsgs), offset);
}

// Methods that release a 32-bit semaphore from Host.
inline std::vector<uint32_t> HostRelease(uint64_t va, uint32_t payload, uint32_t more = 0) {
  return {Inc(0, NVC46F_SEM_ADDR_LO, 5),
          static_cast<uint32_t>(va),
          static_cast<uint32_t>(va >> 32),
          payload,
          0,
          NVC46F_SEM_EXECUTE_OPERATION_RELEASE | more};
}
inline std::vector<uint32_t> HostAcquire(uint64_t va, uint32_t payload, uint32_t more = 0) {
  return {Inc(0, NVC46F_SEM_ADDR_LO, 5),
          static_cast<uint32_t>(va),
          static_cast<uint32_t>(va >> 32),
          payload,
          0,
          NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE | more};
}

inline std::vector<uint32_t> operator+(std::vector<uint32_t> a, const std::vector<uint32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A GMMU fault buffer in VRAM, enabled, with its packets decoded as far as tests look at them.
class TestFaultBuffer {
 public:
  struct Packet {
    uint64_t inst, va;
    uint32_t engine, type, client, access, gfid, aperture;
    bool hub;
  };

  explicit TestFaultBuffer(ModelFixture& rig, uint32_t entries = 16)
      : rig_(rig), entries_(entries), base_(rig.AllocateVram(entries * 32)) {
    rig.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0), static_cast<uint32_t>(base_) | 1);
    rig.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_HI(0), static_cast<uint32_t>(base_ >> 32));
    rig.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(0), entries | 1u << 31);
  }

  uint64_t base() const { return base_; }
  uint32_t count() {
    const uint32_t put = rig_.Read(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0)) & 0xfffff;
    const uint32_t get = rig_.Read(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0)) & 0xfffff;
    return (put + entries_ - get) % entries_;
  }
  Packet at(uint32_t index) {
    std::array<uint32_t, 8> w;
    std::memcpy(w.data(), rig_.vram() + base_ + index * 32, 32);
    return {uint64_t{w[1]} << 32 | (w[0] & 0xfffff000),
            uint64_t{w[3]} << 32 | (w[2] & 0xfffff000),
            w[6] & 0x1ff,
            w[7] & 0x1f,
            w[7] >> 8 & 0x7f,
            w[7] >> 16 & 0xf,
            w[6] >> 26,
            w[0] >> 8 & 3,
            (w[7] >> 20 & 1) != 0};
  }

 private:
  ModelFixture& rig_;
  const uint32_t entries_;
  const uint64_t base_;
};

}  // namespace fakes
