// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Everything of the interpreter that is off the fast path: caches, slow memory, CSRs.
#include "sm/interpreter.h"

#include <algorithm>

#include "sm/float_ops.h"
#include "sm/interpreter_inline.h"

namespace sm {
namespace {

constexpr uint32_t kCsrFflags = 0x001;
constexpr uint32_t kCsrFrm = 0x002;
constexpr uint32_t kCsrFcsr = 0x003;
constexpr uint32_t kCsrCycle = 0xc00;
constexpr uint32_t kCsrTime = 0xc01;
constexpr uint32_t kCsrInstret = 0xc02;

Dim3 ThreadIndex(const ThreadState& thread) {
  return {thread.tid[0], thread.tid[1], thread.tid[2]};
}

}  // namespace

const char* ExceptionKindName(ExceptionKind kind) {
  switch (kind) {
    case ExceptionKind::kNone: return "none";
    case ExceptionKind::kIllegalInstruction: return "illegal instruction";
    case ExceptionKind::kBreakpoint: return "breakpoint";
    case ExceptionKind::kMisalignedAtomic: return "misaligned atomic";
    case ExceptionKind::kMisalignedPc: return "misaligned program counter";
    case ExceptionKind::kUnknownCall: return "unknown call";
    case ExceptionKind::kTrap: return "trap";
    case ExceptionKind::kSharedOutOfRange: return "shared address out of range";
    case ExceptionKind::kLocalOutOfRange: return "local address out of range";
    case ExceptionKind::kBadBarrier: return "bad barrier";
    case ExceptionKind::kBarrierDeadlock: return "barrier deadlock";
  }
  return "unknown";
}

Interpreter::Interpreter() : code_(PublishHandlers()) {}

const void* const* Interpreter::PublishHandlers() {
  Execute(nullptr, nullptr);
  return handlers_;
}

void Interpreter::Bind(uint64_t context_id, SmMemory& memory) {
  const uint64_t generation = memory.generation();
  const bool same = memory_ == &memory && context_id_ == context_id && generation_ == generation;
  memory_ = &memory;
  context_id_ = context_id;
  generation_ = generation;
  if (same) return;
  tlb_.Flush();
  InvalidateCode();
}

void Interpreter::InvalidateCode() {
  code_.Flush();
  jump_cache_.fill(nullptr);
}

RunExit Interpreter::Run(ThreadState& thread, const CtaView& view, uint64_t& budget) {
  thread_ = &thread;
  view_ = &view;
  shared_ = view.shared;
  local_ = view.local;
  shared_memory_ = view.shared_memory;
  local_memory_ = view.local_memory;
  EnterRounding();
  auto left = static_cast<int64_t>(std::min<uint64_t>(budget, INT32_MAX));
  const auto given = static_cast<uint64_t>(left);
  const RunExit exit = Execute(&thread, &left);
  const uint64_t retired = given - static_cast<uint64_t>(left);
  budget -= retired;
  thread.instret += retired;
  CollectFlags();
  if (host_rounding_changed_) HostFloat::SetRounding(kRoundNearestEven);
  host_rounding_changed_ = false;
  if (exit == RunExit::kStop) {
    stop_.pc = thread.pc;
    stop_.sm = view.sm;
    stop_.cta = view.cta;
    stop_.thread = ThreadIndex(thread);
  }
  return exit;
}

Block* Interpreter::Lookup(uint64_t pc, bool& flushed) {
  if ((pc & 3) != 0) {
    Raise(ExceptionKind::kMisalignedPc, pc, 0);
    return nullptr;
  }
  Block*& cached = jump_cache_[pc / 4 % kJumpCacheEntries];
  if (cached != nullptr && cached->pc == pc && cached->dynamic_is_slow == dynamic_is_slow_) {
    return cached;
  }
  Block* block = code_.Find(pc, dynamic_is_slow_);
  if (block == nullptr) {
    uint8_t fault_type = 0;
    const Block* const decoded =
        code_.Decode(*memory_, pc, dynamic_is_slow_, CodeCache::kMaxBlockInstructions, fault_type);
    if (decoded == nullptr) {
      RaiseFault(pc, Access::kFetch, fault_type);
      return nullptr;
    }
    block = code_.Insert(*decoded, flushed);
    if (flushed) jump_cache_.fill(nullptr);
  }
  cached = block;
  return block;
}

Block* Interpreter::DecodeShort(uint64_t pc, int64_t budget) {
  uint8_t fault_type = 0;
  Block* const block =
      code_.Decode(*memory_, pc, dynamic_is_slow_, static_cast<uint32_t>(budget), fault_type);
  if (block == nullptr) RaiseFault(pc, Access::kFetch, fault_type);
  return block;
}

uint32_t Interpreter::ReadInstruction(uint64_t pc) {
  std::array<std::byte, 4> bytes{};
  const Translation translation = memory_->Translate(pc, Access::kFetch);
  if (translation.kind == Translation::Kind::kPage) {
    std::memcpy(bytes.data(), translation.page + (pc & kPageMask), bytes.size());
  } else if (translation.kind == Translation::Kind::kSlow && !memory_->ReadSlow(pc, bytes)) {
    return 0;
  }
  return std::bit_cast<uint32_t>(bytes);
}

void Interpreter::Raise(ExceptionKind kind, uint64_t address, uint64_t code) {
  stop_ = {};
  stop_.exception = kind;
  stop_.address = address;
  stop_.code = code;
}

void Interpreter::RaiseFault(uint64_t va, Access access, uint8_t fault_type) {
  stop_ = {};
  stop_.address = va;
  stop_.access = access;
  stop_.fault_type = fault_type;
}

// --- Slow memory ---

bool Interpreter::OutsideWindows(uint64_t va) {
  if (shared_.Covers(va)) {
    Raise(ExceptionKind::kSharedOutOfRange, va, 0);
    return false;
  }
  if (local_.Covers(va)) {
    Raise(ExceptionKind::kLocalOutOfRange, va, 0);
    return false;
  }
  return true;
}

bool Interpreter::Reach(uint64_t va, Access access, std::byte*& host) {
  const Translation translation = memory_->Translate(va, access);
  if (translation.kind == Translation::Kind::kFault) {
    RaiseFault(va, access, translation.fault_type);
    return false;
  }
  host = nullptr;
  if (translation.kind == Translation::Kind::kPage) {
    tlb_.Insert(va, access, translation.page);
    host = translation.page + (va & kPageMask);
  }
  return true;
}

// `va` is GMMU memory: windows were looked at before. A misaligned access may touch two pages;
// both are asked before anything moves, so that a fault leaves no trace.
bool Interpreter::LoadSlow(uint64_t va, std::byte* data, uint64_t size) {
  const uint64_t first = std::min(size, kPageSize - (va & kPageMask));
  std::array<std::byte*, 2> hosts{};
  if (!Reach(va, Access::kRead, hosts[0])) return false;
  if (first < size && !Reach(va + first, Access::kRead, hosts[1])) return false;
  uint64_t done = 0;
  for (std::byte* const host : hosts) {
    const uint64_t part = done == 0 ? first : size - first;
    if (part == 0) break;
    if (host != nullptr) {
      std::memcpy(data + done, host, part);
    } else if (!memory_->ReadSlow(va + done, {data + done, part})) {
      RaiseFault(va + done, Access::kRead, kFaultTypeRegionViolation);
      return false;
    }
    done += part;
  }
  return true;
}

bool Interpreter::StoreSlow(uint64_t va, const std::byte* data, uint64_t size) {
  const uint64_t first = std::min(size, kPageSize - (va & kPageMask));
  std::array<std::byte*, 2> hosts{};
  if (!Reach(va, Access::kWrite, hosts[0])) return false;
  if (first < size && !Reach(va + first, Access::kWrite, hosts[1])) return false;
  uint64_t done = 0;
  for (std::byte* const host : hosts) {
    const uint64_t part = done == 0 ? first : size - first;
    if (part == 0) break;
    if (host != nullptr) {
      std::memcpy(host, data + done, part);
    } else if (!memory_->WriteSlow(va + done, {data + done, part})) {
      RaiseFault(va + done, Access::kWrite, kFaultTypeRegionViolation);
      return false;
    }
    done += part;
  }
  return true;
}

// --- CSRs ---

void Interpreter::CollectFlags() { thread_->fcsr |= HostFloat::TakeFlags(); }

void Interpreter::EnterRounding() {
  const uint32_t frm = thread_->frm();
  dynamic_is_slow_ = frm > kRoundUp;
  const uint32_t host_mode = dynamic_is_slow_ ? kRoundNearestEven : frm;
  if (host_mode == kRoundNearestEven && !host_rounding_changed_) return;
  HostFloat::SetRounding(host_mode);
  host_rounding_changed_ = host_mode != kRoundNearestEven;
}

bool Interpreter::ResolveRounding(uint32_t field, uint32_t& mode) const {
  mode = field == kRoundDynamic ? thread_->frm() : field;
  return mode <= kRoundNearestMaxMagnitude;
}

bool Interpreter::FpSlow(const Op& op) {
  const auto packed = static_cast<uint32_t>(op.imm);
  const auto operation = static_cast<FpOperation>(packed & 0xff);
  uint32_t mode = 0;
  if (!ResolveRounding(packed >> 8, mode)) return false;
  const bool from_integer = operation >= FpOperation::kCvtSW && operation <= FpOperation::kCvtDLu;
  const uint64_t a = from_integer ? thread_->x[op.rs1] : thread_->f[op.rs1];
  CollectFlags();
  if (host_rounding_changed_) HostFloat::SetRounding(kRoundNearestEven);
  thread_->f[op.rd] =
      RoundedOperation(operation, a, thread_->f[op.rs2], thread_->f[op.rs3], mode, thread_->fcsr);
  if (host_rounding_changed_) HostFloat::SetRounding(thread_->frm());
  return true;
}

uint64_t Interpreter::ReadId(uint32_t index) const {
  const Launch& launch = *view_->launch;
  switch (index) {
    case 0: return thread_->tid[0];
    case 1: return thread_->tid[1];
    case 2: return thread_->tid[2];
    case 3: return view_->cta.x;
    case 4: return view_->cta.y;
    case 5: return view_->cta.z;
    case 6: return launch.cta.x;
    case 7: return launch.cta.y;
    case 8: return launch.cta.z;
    case 9: return launch.grid.x;
    case 10: return launch.grid.y;
    case 11: return launch.grid.z;
    case 12: return thread_->linear_tid;
    case 13: return view_->sm;
    default: return memory_->TimeNs();
  }
}

bool Interpreter::ReadCsr(uint32_t csr, uint64_t retired, uint64_t& value) {
  switch (csr) {
    case kCsrFflags:
      CollectFlags();
      value = thread_->fcsr & 0x1f;
      return true;
    case kCsrFrm: value = thread_->frm(); return true;
    case kCsrFcsr:
      CollectFlags();
      value = thread_->fcsr;
      return true;
    case kCsrCycle: value = view_->start_cycle + retired; return true;
    case kCsrTime: value = memory_->TimeNs(); return true;
    case kCsrInstret: value = thread_->instret + retired; return true;
    default:
      if (csr < kCsrIdFirst || csr > kCsrIdLast) return false;
      value = ReadId(csr - kCsrIdFirst);
      return true;
  }
}

void Interpreter::WriteCsr(uint32_t csr, uint64_t value) {
  CollectFlags();  // those raised so far belong to before the write
  const auto byte = static_cast<uint8_t>(value);
  switch (csr) {
    case kCsrFflags:
      thread_->fcsr = static_cast<uint8_t>((thread_->fcsr & 0xe0) | (byte & 0x1f));
      break;
    case kCsrFrm:
      thread_->fcsr = static_cast<uint8_t>((thread_->fcsr & 0x1f) | (byte & 7) << 5);
      break;
    default: thread_->fcsr = byte; break;
  }
  EnterRounding();
}

bool Interpreter::AccessCsr(const Op& op, uint64_t retired) {
  const auto csr = static_cast<uint32_t>(op.imm);
  const uint32_t funct3 = op.rs2;
  const uint64_t operand = (funct3 & 4) != 0 ? op.rs1 : thread_->x[op.rs1];
  const bool writes = (funct3 & 3) == 1 || op.rs1 != 0;
  if (writes && (csr >> 10) == 3) return false;  // 0xc00-0xfff are read only
  uint64_t old_value = 0;
  if (!ReadCsr(csr, retired, old_value)) return false;
  if (writes) {
    switch (funct3 & 3) {
      case 1: WriteCsr(csr, operand); break;
      case 2: WriteCsr(csr, old_value | operand); break;
      default: WriteCsr(csr, old_value & ~operand); break;
    }
  }
  thread_->x[op.rd] = old_value;
  return true;
}

}  // namespace sm
