// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "pbdma.h"

#include <algorithm>

namespace ts104 {
namespace {

constexpr uint64_t kVaEnd = uint64_t{1} << 40;    // of what GP entries and segments can name
constexpr uint32_t kMethodAddressLimit = 0x1000;  // in dwords

// PB_HEADER.TYPE takes the header's SEC_OP.
uint32_t MakePbHeader(uint32_t old_value, uint32_t address, uint32_t subchannel, uint32_t type) {
  const uint32_t fields = TS104_FIELD(NV_RAMFC_PB_HEADER_METHOD) |
                          TS104_FIELD(NV_RAMFC_PB_HEADER_SUBCHANNEL) |
                          TS104_FIELD(NV_RAMFC_PB_HEADER_TYPE);
  return (old_value & ~fields) | TS104_SET(NV_RAMFC_PB_HEADER_METHOD, address) |
         TS104_SET(NV_RAMFC_PB_HEADER_SUBCHANNEL, subchannel) |
         TS104_SET(NV_RAMFC_PB_HEADER_TYPE, type);
}

AddressSpace SpaceOf(uint32_t directory_lo, uint32_t directory_hi, uint32_t config) {
  AddressSpace space;
  const auto aperture = ApertureOfTarget(TS104_GET(NV_RAMIN_PAGE_DIR_BASE_TARGET, directory_lo));
  space.valid = aperture.has_value() &&
                TS104_GET(NV_RAMIN_PAGE_DIR_BASE_USE_VER2_PT_FORMAT, directory_lo) != 0 &&
                TS104_GET(NV_RAMIN_PAGE_DIR_BASE_BIG_PAGE_SIZE, directory_lo) != 0;
  space.page_directory = {aperture.value_or(Aperture::kVid),
                          (uint64_t{directory_hi} << 32) | (directory_lo & 0xfffff000u)};
  space.privileged = TS104_GET(NV_RAMFC_CONFIG_AUTH_LEVEL, config) != 0;
  return space;
}

}  // namespace

uint64_t Pbdma::ring_entries() const {
  return uint64_t{1} << TS104_GET(NV_RAMFC_GP_BASE_HI_LIMIT2, Word(NV_RAMFC_GP_BASE_HI));
}

std::optional<PhysicalAddress> Pbdma::UserdAddress() const {
  const uint32_t lo = Word(NV_RAMFC_USERD);
  uint32_t target = TS104_GET(NV_RAMFC_USERD_TARGET, lo);
  if (target == NV_RAMFC_USERD_TARGET_VID_NVLINK_COH) target = NV_RAMFC_USERD_TARGET_VID;
  const auto aperture = ApertureOfTarget(target);
  if (!aperture.has_value()) return std::nullopt;
  const uint64_t hi = TS104_GET(NV_RAMFC_USERD_HI_ADDR, Word(NV_RAMFC_USERD_HI));
  return PhysicalAddress{*aperture, (hi << 32) | (lo & TS104_FIELD(NV_RAMFC_USERD_ADDR))};
}

Pbdma::Outcome Pbdma::Load(uint32_t chid, uint32_t inst, uint32_t gfid, uint64_t now) {
  ChannelContext channel;
  channel.chid = chid;
  channel.inst = inst;
  channel.gfid = gfid;
  const auto aperture = ApertureOfTarget(TS104_GET(NV_PCCSR_CHANNEL_INST_TARGET, inst));
  channel.inst_block = {aperture.value_or(Aperture::kVid),
                        uint64_t{TS104_GET(NV_PCCSR_CHANNEL_INST_PTR, inst)} << 12};
  channel_ = channel;
  due_ = now;
  ahead_count_ = 0;
  bad_signature_ = false;

  std::array<uint32_t, (NV_RAMIN_ENGINE_WFI_PTR_HI + 4) / 4> ramin{};
  if (machine_.memory.ReadValue(channel.inst_block, ramin) != BusStatus::kOk) {
    const MmuFault fault{FaultType::kUnboundInstBlock, channel.inst_block.offset,
                         AccessKind::kRead};
    (void)HostFault(fault, now);
    Drop();
    return Outcome::kHostFault;
  }
  std::copy_n(ramin.begin(), ramfc_.size(), ramfc_.begin());
  std::copy_n(ramin.begin() + kEngineWordsOffset / 4, engine_words_.size(), engine_words_.begin());
  channel_->space = SpaceOf(ramin[NV_RAMIN_PAGE_DIR_BASE / 4], ramin[NV_RAMIN_PAGE_DIR_BASE_HI / 4],
                            Word(NV_RAMFC_CONFIG));
  channel_->space.gfid = gfid;
  channel_->hce_privileged =
      TS104_GET(NV_RAMFC_HCE_CTRL_HCE_PRIV_MODE, Word(NV_RAMFC_HCE_CTRL)) != 0;
  channel_->context_pointer_lo = ramin[NV_RAMIN_ENGINE_WFI_PTR / 4];
  channel_->context_pointer_hi = ramin[NV_RAMIN_ENGINE_WFI_PTR_HI / 4];

  const uint32_t signature = TS104_GET(NV_RAMFC_SIGNATURE_HW, Word(NV_RAMFC_SIGNATURE));
  const bool known =
      signature == NV_RAMFC_SIGNATURE_HW_VALUE || signature == NV_RAMFC_SIGNATURE_HW_HOST_CLASS;
  const uint32_t veid = TS104_GET(NV_RAMFC_SET_CHANNEL_INFO_VEID, Word(NV_RAMFC_SET_CHANNEL_INFO));
  if (!known || veid != 0 || Word(NV_RAMFC_GP_GET) >= ring_entries()) {
    bad_signature_ = true;
    return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_SIGNATURE));
  }
  const Outcome outcome = ReadGpPut(now);
  if (outcome == Outcome::kHostFault) Drop();
  return outcome;
}

Pbdma::Outcome Pbdma::ReadGpPut(uint64_t now) {
  uint32_t put = 0;
  const auto userd = UserdAddress();
  if (userd.has_value()) {
    machine_.memory.ReportInRange(channel_->gfid, *userd, NV_USERD_SIZE);
  }
  const BusStatus status = userd.has_value()
                               ? machine_.memory.ReadValue(*userd + NV_USERD_GP_PUT, put)
                               : BusStatus::kOutOfRange;
  if (status != BusStatus::kOk) {
    return HostFault(
        {FaultOfBus(status), userd.value_or(PhysicalAddress{}).offset, AccessKind::kRead}, now);
  }
  if (put >= ring_entries()) {
    Word(NV_RAMFC_GP_PUT) = Word(NV_RAMFC_GP_GET);
    return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_GPPTR));
  }
  Word(NV_RAMFC_GP_PUT) = put;
  return Outcome::kContinue;
}

void Pbdma::WriteBackUserd() {
  const auto userd = UserdAddress();
  if (!userd.has_value() || !machine_.memory.InRange(*userd, NV_USERD_SIZE)) return;
  machine_.memory.Report(channel_->gfid, *userd, NV_USERD_SIZE);
  // Written word group by word group: GP_PUT between them belongs to software.
  const std::array<uint32_t, 4> first = {Word(NV_RAMFC_PUT), Word(NV_RAMFC_GET), Word(NV_RAMFC_REF),
                                         Word(NV_RAMFC_PUT_HI)};
  const std::array<uint32_t, 3> second = {Word(NV_RAMFC_TOP_LEVEL_GET),
                                          Word(NV_RAMFC_TOP_LEVEL_GET_HI), Word(NV_RAMFC_GET_HI)};
  static_assert(NV_USERD_PUT_HI == NV_USERD_PUT + 12 &&
                NV_USERD_GET_HI == NV_USERD_TOP_LEVEL_GET + 8);
  // Software sees a USERD that has gone away when its channel is loaded next.
  (void)machine_.memory.WriteValue(*userd + NV_USERD_PUT, first);
  (void)machine_.memory.WriteValue(*userd + NV_USERD_TOP_LEVEL_GET, second);
  (void)machine_.memory.WriteValue(*userd + NV_USERD_GP_GET, Word(NV_RAMFC_GP_GET));
}

bool Pbdma::wants_userd_writeback() const {
  return loaded() && TS104_GET(NV_RAMFC_CONFIG_USERD_WRITEBACK, Word(NV_RAMFC_CONFIG)) != 0;
}

void Pbdma::Save() {
  if (!channel_.has_value()) return;
  Word(NV_RAMFC_GP_FETCH) = Word(NV_RAMFC_GP_GET);
  (void)machine_.memory.WriteValue(channel_->inst_block, ramfc_);
  WriteBackUserd();
  Drop();
}

void Pbdma::Drop() {
  channel_.reset();
  ahead_count_ = 0;
}

Pbdma::Outcome Pbdma::Raise(uint32_t intr_0, uint32_t intr_1) {
  const std::lock_guard lock(machine_.state.mutex);
  machine_.state.Set(NV_PPBDMA_METHOD0(id_), Word(NV_RAMFC_METHOD0));
  machine_.state.Set(NV_PPBDMA_DATA0(id_), Word(NV_RAMFC_DATA0));
  machine_.state.RaisePbdma(id_, intr_0, intr_1);
  return Outcome::kInterrupt;
}

Pbdma::Outcome Pbdma::HceError(const Method& method, uint32_t intr_1) {
  {
    const std::lock_guard lock(machine_.state.mutex);
    machine_.state.Set(NV_PPBDMA_HCE_DBG0(id_), method.address);
    machine_.state.Set(NV_PPBDMA_HCE_DBG1(id_), method.data);
  }
  Word(NV_RAMFC_METHOD0) = 0;
  return Raise(0, intr_1);
}

Pbdma::Outcome Pbdma::HostFault(const MmuFault& fault, uint64_t now) {
  FaultRecord record = MakeFaultRecord(*channel_, fault_id(), now);
  record.type = fault.type;
  record.va = fault.va;
  record.access = fault.access;
  record.client = kClientHost;
  machine_.faults.Push(record);
  return Outcome::kHostFault;
}

void Pbdma::Thaw() {
  const std::lock_guard lock(machine_.state.mutex);
  Word(NV_RAMFC_METHOD0) = machine_.state.Get(NV_PPBDMA_METHOD0(id_));
  Word(NV_RAMFC_DATA0) = machine_.state.Get(NV_PPBDMA_DATA0(id_));
}

Pbdma::Outcome Pbdma::Step(uint64_t now) {
  if (TS104_GET(NV_RAMFC_METHOD0_VALID, Word(NV_RAMFC_METHOD0)) != 0) return TryHeld(now);
  if (Va(NV_RAMFC_GET, NV_RAMFC_GET_HI) < Va(NV_RAMFC_PUT, NV_RAMFC_PUT_HI)) {
    return StepSegment(now);
  }
  if (Word(NV_RAMFC_GP_GET) == Word(NV_RAMFC_GP_PUT)) return Outcome::kIdle;
  return FetchGpEntry(now);
}

Pbdma::Outcome Pbdma::FetchGpEntry(uint64_t now) {
  due_ = now + kGpEntryNs;
  const uint64_t base = Va(NV_RAMFC_GP_BASE, NV_RAMFC_GP_BASE_HI) & ~uint64_t{7};
  const uint64_t va = base + uint64_t{Word(NV_RAMFC_GP_GET)} * 8;
  const uint64_t next = (uint64_t{Word(NV_RAMFC_GP_GET)} + 1) & (ring_entries() - 1);
  if (va + 8 > kVaEnd) {
    Word(NV_RAMFC_GP_GET) = static_cast<uint32_t>(next);
    return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_GPFIFO));
  }
  std::array<uint32_t, 2> entry{};
  if (auto fault = machine_.mmu.ReadValue(channel_->space, va, entry)) {
    return HostFault(*fault, now);
  }
  Word(NV_RAMFC_GP_GET) = static_cast<uint32_t>(next);
  Outcome outcome = TS104_GET64(NVC46F_GP_ENTRY_ENTRY1_LENGTH, uint64_t{entry[1]} << 32) == 0
                        ? ControlEntry(entry[0], entry[1])
                        : StartSegment(entry[0], entry[1]);
  if (outcome != Outcome::kInterrupt) return outcome;
  const std::lock_guard lock(machine_.state.mutex);
  machine_.state.Set(NV_PPBDMA_GP_SHADOW_0(id_), entry[0]);
  machine_.state.Set(NV_PPBDMA_GP_SHADOW_1(id_), entry[1]);
  return outcome;
}

Pbdma::Outcome Pbdma::ControlEntry(uint32_t operand, uint32_t entry1) {
  switch (TS104_GET64(NVC46F_GP_ENTRY_ENTRY1_OPCODE, uint64_t{entry1} << 32)) {
    case NVC46F_GP_ENTRY_ENTRY1_OPCODE_NOP: return Outcome::kContinue;
    case NVC46F_GP_ENTRY_ENTRY1_OPCODE_GP_CRC:
      // CRCs are not kept: they count as 0.
      return operand == 0 ? Outcome::kContinue : Raise(TS104_FIELD(NV_PPBDMA_INTR_0_GPCRC));
    case NVC46F_GP_ENTRY_ENTRY1_OPCODE_PB_CRC:
      return operand == 0 ? Outcome::kContinue : Raise(TS104_FIELD(NV_PPBDMA_INTR_0_PBCRC));
    default: return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_GPENTRY));
  }
}

Pbdma::Outcome Pbdma::StartSegment(uint32_t entry0, uint32_t entry1) {
  const uint64_t entry = (uint64_t{entry1} << 32) | entry0;
  const uint64_t get = (TS104_GET64(NVC46F_GP_ENTRY_ENTRY1_GET_HI, entry) << 32) |
                       (entry0 & TS104_FIELD(NVC46F_GP_ENTRY_ENTRY0_GET));
  const uint64_t end = get + TS104_GET64(NVC46F_GP_ENTRY_ENTRY1_LENGTH, entry) * 4;
  // The segment's last dword may not be the last one that can be named.
  if (end >= kVaEnd) return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_GPENTRY));
  if (TS104_GET64(NVC46F_GP_ENTRY_ENTRY0_FETCH, entry) != 0) {
    if (TS104_GET(NV_RAMFC_SUBDEVICE_STATUS, Word(NV_RAMFC_SUBDEVICE)) == 0) {
      return Outcome::kContinue;
    }
    if (TS104_GET(NV_RAMFC_PB_COUNT_VALUE, Word(NV_RAMFC_PB_COUNT)) != 0) {
      Word(NV_RAMFC_PB_COUNT) = 0;
      return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_PBSEG));
    }
  }
  SetVa(NV_RAMFC_GET, NV_RAMFC_GET_HI, get);
  SetVa(NV_RAMFC_PUT, NV_RAMFC_PUT_HI, end);
  ahead_count_ = 0;
  if (TS104_GET64(NVC46F_GP_ENTRY_ENTRY1_LEVEL, entry) == NVC46F_GP_ENTRY_ENTRY1_LEVEL_MAIN) {
    SetVa(NV_RAMFC_TOP_LEVEL_GET, NV_RAMFC_TOP_LEVEL_GET_HI, get);
    Word(NV_RAMFC_PB_HEADER) &= ~TS104_FIELD(NV_RAMFC_PB_HEADER_LEVEL);
  } else {
    Word(NV_RAMFC_PB_HEADER) |= TS104_FIELD(NV_RAMFC_PB_HEADER_LEVEL);
  }
  return Outcome::kContinue;
}

std::optional<MmuFault> Pbdma::FetchDword(uint64_t va, uint64_t end, uint32_t& dword) {
  if (va < ahead_va_ || va >= ahead_va_ + uint64_t{ahead_count_} * 4) {
    // Not beyond this page: what lies there must not fault before it is needed.
    const uint64_t page_end = (va | 0xfff) + 1;
    const uint64_t bytes = std::min({end - va, page_end - va, uint64_t{sizeof(ahead_)}});
    ahead_count_ = 0;
    const auto words = std::span(ahead_).first(bytes / 4);
    if (auto fault = machine_.mmu.Read(TlbClient::kHub, channel_->space, va,
                                       std::as_writable_bytes(words))) {
      return fault;
    }
    ahead_va_ = va;
    ahead_count_ = static_cast<uint32_t>(words.size());
  }
  dword = ahead_[(va - ahead_va_) / 4];
  return std::nullopt;
}

Pbdma::Outcome Pbdma::StepSegment(uint64_t now) {
  const uint64_t get = Va(NV_RAMFC_GET, NV_RAMFC_GET_HI);
  const uint64_t end = Va(NV_RAMFC_PUT, NV_RAMFC_PUT_HI);
  uint32_t dword = 0;
  if (auto fault = FetchDword(get, end, dword)) return HostFault(*fault, now);
  SetVa(NV_RAMFC_GET, NV_RAMFC_GET_HI, get + 4);
  const uint32_t header = Word(NV_RAMFC_PB_HEADER);
  if (TS104_GET(NV_RAMFC_PB_HEADER_LEVEL, header) == 0) {
    SetVa(NV_RAMFC_TOP_LEVEL_GET, NV_RAMFC_TOP_LEVEL_GET_HI, get + 4);
  }
  const uint32_t count = TS104_GET(NV_RAMFC_PB_COUNT_VALUE, Word(NV_RAMFC_PB_COUNT));
  if (count == 0) return DecodeHeader(dword, now);

  Method method;
  method.address = TS104_GET(NV_RAMFC_PB_HEADER_METHOD, header) << 2;
  method.subchannel = TS104_GET(NV_RAMFC_PB_HEADER_SUBCHANNEL, header);
  method.data = dword;
  Word(NV_RAMFC_PB_COUNT) = count - 1;
  uint32_t type = TS104_GET(NV_RAMFC_PB_HEADER_TYPE, header);
  uint32_t next = method.address >> 2;
  if (type != NVC46F_DMA_SEC_OP_NON_INC_METHOD) ++next;
  if (type == NVC46F_DMA_SEC_OP_ONE_INC) type = NVC46F_DMA_SEC_OP_NON_INC_METHOD;
  Word(NV_RAMFC_PB_HEADER) = MakePbHeader(header, next, method.subchannel, type);
  if (TS104_GET(NV_RAMFC_SUBDEVICE_STATUS, Word(NV_RAMFC_SUBDEVICE)) == 0) {
    return Spent(now, kMethodNs);
  }
  return Hold(method, now);
}

void Pbdma::EndSegment() {
  SetVa(NV_RAMFC_GET, NV_RAMFC_GET_HI, Va(NV_RAMFC_PUT, NV_RAMFC_PUT_HI));
  Word(NV_RAMFC_PB_COUNT) = 0;
}

Pbdma::Outcome Pbdma::BadHeader(uint32_t header) {
  {
    const std::lock_guard lock(machine_.state.mutex);
    machine_.state.Set(NV_PPBDMA_HDR_SHADOW(id_), header);
  }
  EndSegment();
  return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_PBENTRY));
}

Pbdma::Outcome Pbdma::DecodeHeader(uint32_t header, uint64_t now) {
  due_ = now + kMethodNs;
  const uint32_t count = TS104_GET(NVC46F_DMA_METHOD_COUNT, header);
  const uint32_t address = TS104_GET(NVC46F_DMA_METHOD_ADDRESS, header);
  switch (TS104_GET(NVC46F_DMA_SEC_OP, header)) {
    case NVC46F_DMA_SEC_OP_GRP0_USE_TERT: return DecodeTertiary(header);
    case NVC46F_DMA_SEC_OP_INC_METHOD:
      if (address + count > kMethodAddressLimit) return BadHeader(header);
      return StartMethods(header, NVC46F_DMA_SEC_OP_INC_METHOD, count);
    case NVC46F_DMA_SEC_OP_NON_INC_METHOD:
      return StartMethods(header, NVC46F_DMA_SEC_OP_NON_INC_METHOD, count);
    case NVC46F_DMA_SEC_OP_ONE_INC:
      if (address + std::min(count, 2u) > kMethodAddressLimit) return BadHeader(header);
      return StartMethods(header, NVC46F_DMA_SEC_OP_ONE_INC, count);
    case NVC46F_DMA_SEC_OP_IMMD_DATA_METHOD: {
      if (TS104_GET(NV_RAMFC_SUBDEVICE_STATUS, Word(NV_RAMFC_SUBDEVICE)) == 0) {
        return Outcome::kContinue;
      }
      const Method method{address << 2, TS104_GET(NVC46F_DMA_METHOD_SUBCHANNEL, header),
                          TS104_GET(NVC46F_DMA_IMMD_DATA, header)};
      return Hold(method, now);
    }
    case NVC46F_DMA_SEC_OP_END_PB_SEGMENT: EndSegment(); return Outcome::kContinue;
    default: return BadHeader(header);
  }
}

Pbdma::Outcome Pbdma::StartMethods(uint32_t header, uint32_t type, uint32_t count) {
  Word(NV_RAMFC_PB_HEADER) =
      MakePbHeader(Word(NV_RAMFC_PB_HEADER), TS104_GET(NVC46F_DMA_METHOD_ADDRESS, header),
                   TS104_GET(NVC46F_DMA_METHOD_SUBCHANNEL, header), type);
  Word(NV_RAMFC_PB_COUNT) = count;
  // The methods are charged one by one; only a header without any has a price of its own.
  if (count != 0) due_ -= kMethodNs;
  return Outcome::kContinue;
}

Pbdma::Outcome Pbdma::DecodeTertiary(uint32_t header) {
  const uint32_t operation = TS104_GET(NVC46F_DMA_TERT_OP, header);
  if (operation == NVC46F_DMA_TERT_OP_GRP0_INC_METHOD) {
    return header == 0 ? Outcome::kContinue : BadHeader(header);
  }
  uint32_t& subdevice = Word(NV_RAMFC_SUBDEVICE);
  if (TS104_GET(NV_RAMFC_SUBDEVICE_CHANNEL_DMA, subdevice) == 0) return BadHeader(header);
  uint32_t mask = TS104_GET(NVC46F_DMA_SUBDEVICE_MASK, header);
  if (operation == NVC46F_DMA_TERT_OP_GRP0_STORE_SUB_DEV_MASK) {
    subdevice = (subdevice & ~TS104_FIELD(NV_RAMFC_SUBDEVICE_STORED_MASK)) |
                TS104_SET(NV_RAMFC_SUBDEVICE_STORED_MASK, mask);
    return Outcome::kContinue;
  }
  if (operation == NVC46F_DMA_TERT_OP_GRP0_USE_SUB_DEV_MASK) {
    mask = TS104_GET(NV_RAMFC_SUBDEVICE_STORED_MASK, subdevice);
  }
  const bool active = (mask & TS104_GET(NV_RAMFC_SUBDEVICE_ID, subdevice)) != 0;
  subdevice = (subdevice & ~TS104_FIELD(NV_RAMFC_SUBDEVICE_STATUS)) |
              TS104_SET(NV_RAMFC_SUBDEVICE_STATUS, active);
  return Outcome::kContinue;
}

Pbdma::Outcome Pbdma::Hold(const Method& method, uint64_t now) {
  Word(NV_RAMFC_METHOD0) = TS104_SET(NV_RAMFC_METHOD0_ADDR, method.address >> 2) |
                           TS104_SET(NV_RAMFC_METHOD0_SUBCH, method.subchannel) |
                           TS104_SET(NV_RAMFC_METHOD0_VALID, 1);
  Word(NV_RAMFC_DATA0) = method.data;
  return TryHeld(now);
}

Pbdma::Outcome Pbdma::TryHeld(uint64_t now) {
  const uint32_t held = Word(NV_RAMFC_METHOD0);
  const Method method{TS104_GET(NV_RAMFC_METHOD0_ADDR, held) << 2,
                      TS104_GET(NV_RAMFC_METHOD0_SUBCH, held), Word(NV_RAMFC_DATA0)};
  due_ = now + kMethodNs;
  const Outcome outcome = Execute(method, now);
  switch (outcome) {
    case Outcome::kBlocked:
    case Outcome::kAcquireFailed:
    case Outcome::kInterrupt:
    case Outcome::kHostFault: break;  // stays in METHOD0
    default: Word(NV_RAMFC_METHOD0) = 0;
  }
  return outcome;
}

Pbdma::Outcome Pbdma::Execute(const Method& method, uint64_t now) {
  constexpr uint32_t kHostMethods = 0x100;
  if (method.address < kHostMethods && method.address != NVC46F_SET_OBJECT) {
    return ExecuteHost(method, now);
  }
  if (method.subchannel > 4) return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_DEVICE));
  if (method.address == NVC46F_SET_OBJECT) return SetObject(method);
  return ExecuteEngine(method, now);
}

Engine* Pbdma::EngineOf(uint32_t subchannel) const {
  if (engines_.size() == 1) return engines_[0].get();
  if (subchannel == 1 || subchannel == 2) return engines_[0].get();
  return subchannel == 4 ? engines_[1].get() : nullptr;
}

bool Pbdma::EngineBusy() const {
  return std::any_of(engines_.begin(), engines_.end(), [this](const auto& engine) {
    return engine->busy() && engine->HoldsContextOf(channel_->chid);
  });
}

Pbdma::Outcome Pbdma::SetObject(const Method& method) {
  const uint32_t object_class = TS104_GET(NVC46F_SET_OBJECT_NVCLASS, method.data);
  constexpr uint32_t kInlineToMemory = 0xa140;
  bool legal = false;
  if (engines_.size() == 1 || method.subchannel == 4) {
    legal = object_class == NVC5B5_CLASS;
  } else if (method.subchannel == 1) {
    legal = object_class == NVC5C0_CLASS;
  } else if (method.subchannel == 2) {
    legal = object_class == NVC5C0_CLASS || object_class == kInlineToMemory;
  }
  if (legal) return Outcome::kContinue;
  return HceError(method, TS104_FIELD(NV_PPBDMA_INTR_1_HCE_ILLEGAL_CLASS));
}

Pbdma::Outcome Pbdma::ExecuteEngine(const Method& method, uint64_t now) {
  Engine* engine = EngineOf(method.subchannel);
  if (engine == nullptr) {
    return HceError(method, TS104_FIELD(NV_PPBDMA_INTR_1_HCE_ILLEGAL_MTHD));
  }
  if (!engine->enabled()) return Outcome::kBlocked;
  // Changing from one engine of the runlist to the other waits for the work of the first.
  for (const auto& other : engines_) {
    if (other.get() != engine && other->busy() && other->HoldsContextOf(channel_->chid)) {
      return Outcome::kBlocked;
    }
  }
  const EngineResult result = engine->Method(*channel_, method.address, method.data, now);
  switch (result.kind) {
    case EngineResult::Kind::kBusy: return Outcome::kBlocked;
    case EngineResult::Kind::kHceError: return HceError(method, result.hce_bits);
    case EngineResult::Kind::kFault: engine_fault_ = result.fault; return Outcome::kEngineFault;
    default: return Outcome::kContinue;
  }
}

}  // namespace ts104
