// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/sched/fixed_share.h"

namespace turnstile {

namespace {

constexpr uint32_t kUnits = 16;  // of PartitionMap: the smallest type has one

}  // namespace

uint32_t FixedShare::WeightOf(uint32_t function) const {
  return host_.units(base::FunctionId(function));
}

uint32_t FixedShare::WeightOfNobody(const Lane& lane) const {
  uint32_t taken = 0;
  for (uint32_t f = 1; f < host_.functions(); ++f) {
    if (lane.tenants[f].present) taken += WeightOf(f);
  }
  return taken < kUnits ? kUnits - taken : 0;
}

}  // namespace turnstile
