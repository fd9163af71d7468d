// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/address_space.h"

namespace guest {

using base::Status;

Status AddressSpace::Init() {
  TS_TRY_STATUS(mutex_.Init(TSG_RANK_VM));
  base::MutexGuard guard(mutex_);
  TS_TRY_STATUS(table_.Init());
  // The page may have been another address space's root before.
  dirty_ = true;
  return Status::kOk;
}

AddressSpace::~AddressSpace() {
  // Init may have failed; without the lock, because there may be none and nobody else is here.
  if (!table_.ready()) return;
  // Empty tables first: a host that shadows them lets go of the memory behind them. Whether or not
  // something changed since the last flush: the next owner of the root's page must not meet old
  // translations.
  (void)table_.Unmap(0, TSG_VA_LIMIT);
  if (!device_.os().lost()) (void)device_.InvalidateTlb(table_.root());
}

Status AddressSpace::Map(uint64_t va, std::span<const tsg_extent> extents, uint32_t flags) {
  base::MutexGuard guard(mutex_);
  dirty_ = true;
  return table_.Map(va, extents, flags);
}

Status AddressSpace::Unmap(uint64_t va, uint64_t size) {
  base::MutexGuard guard(mutex_);
  dirty_ = true;
  return table_.Unmap(va, size);
}

Status AddressSpace::Flush() {
  base::MutexGuard guard(mutex_);
  if (!dirty_) return Status::kOk;
  if (!device_.os().lost()) TS_TRY_STATUS(device_.InvalidateTlb(table_.root()));
  dirty_ = false;
  table_.ReleaseRetired();
  return Status::kOk;
}

base::Result<tsg_extent> AddressSpace::Translate(uint64_t va, uint32_t* flags) {
  base::MutexGuard guard(mutex_);
  return table_.Translate(va, flags);
}

uint64_t AddressSpace::TableBytes() const {
  base::MutexGuard guard(mutex_);
  return table_.table_bytes();
}

}  // namespace guest
