// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/sched/policy.h"

#include "core/sched/best_effort.h"
#include "core/sched/equal_share.h"
#include "core/sched/fixed_share.h"
#include "core/sched/latency.h"
#include "core/sched/weighted.h"

namespace turnstile {

namespace {

template <typename P>
base::Result<base::UniquePtr<Policy>> Make(RunlistHost& host) {
  TS_TRY(auto policy, base::MakeUnique<P>(host));
  TS_TRY_STATUS(policy->Init());
  return base::Result<base::UniquePtr<Policy>>(base::UniquePtr<Policy>(policy.release()));
}

struct Entry {
  const char* name;
  base::Result<base::UniquePtr<Policy>> (*make)(RunlistHost& host);
};

constexpr Entry kPolicies[] = {
    {BestEffort::kName, Make<BestEffort>}, {EqualShare::kName, Make<EqualShare>},
    {FixedShare::kName, Make<FixedShare>}, {Weighted::kName, Make<Weighted>},
    {Latency::kName, Make<Latency>},
};

bool Equal(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

}  // namespace

const char* PolicyName(uint32_t index) {
  return index < sizeof(kPolicies) / sizeof(kPolicies[0]) ? kPolicies[index].name : nullptr;
}

base::Result<base::UniquePtr<Policy>> MakePolicy(const char* name, RunlistHost& host) {
  for (const Entry& entry : kPolicies) {
    if (Equal(entry.name, name)) return entry.make(host);
  }
  return base::Status::kInvalidArgument;
}

}  // namespace turnstile
