// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "shares.h"

#include <algorithm>

namespace turnstile_smi {
namespace {

bool TakesPart(const Vgpu& vgpu) {
  return vgpu.state != State::kUnused && vgpu.state != State::kOpen;
}

uint64_t InstancesOf(const Gpu& gpu, const std::string& type_id) {
  for (const VgpuType& type : gpu.types) {
    if (type.id == type_id) return type.max_instances;
  }
  return 0;
}

// Gives out the whole GPU by weight. Who would get more than its cap gets the cap, and the rest is
// given out anew; each round settles at least one vGPU, so there are at most as many as vGPUs.
void ShareByWeight(std::vector<Vgpu*> open) {
  double left = 1;
  while (!open.empty()) {
    double weights = 0;
    for (const Vgpu* vgpu : open) weights += static_cast<double>(vgpu->weight);
    const auto share = [&](const Vgpu* vgpu) {
      return weights > 0 ? left * static_cast<double>(vgpu->weight) / weights : 0.0;
    };
    const auto cap = [](const Vgpu* vgpu) { return static_cast<double>(vgpu->cap_percent) / 100; };
    const auto capped = std::stable_partition(
        open.begin(), open.end(), [&](const Vgpu* vgpu) { return share(vgpu) <= cap(vgpu); });
    if (capped == open.end()) {
      for (Vgpu* vgpu : open) vgpu->share_ordered = share(vgpu);
      return;
    }
    for (auto it = capped; it != open.end(); ++it) {
      (*it)->share_ordered = cap(*it);
      left = std::max(left - cap(*it), 0.0);
    }
    open.erase(capped, open.end());
  }
}

void SetOrdered(Gpu& gpu) {
  std::vector<Vgpu*> part;
  for (Vgpu& vgpu : gpu.vgpus) {
    vgpu.share_ordered.reset();
    if (TakesPart(vgpu)) part.push_back(&vgpu);
  }
  if (gpu.policy == "weighted" || gpu.policy == "latency") ShareByWeight(part);
  for (Vgpu* vgpu : part) {
    const uint64_t instances = InstancesOf(gpu, vgpu->type);
    if (gpu.policy == "equal_share") vgpu->share_ordered = 1.0 / static_cast<double>(part.size());
    if (gpu.policy == "fixed_share" && instances) {
      vgpu->share_ordered = 1.0 / static_cast<double>(instances);
    }
  }
}

// A vGPU made anew under an old UUID counts from 0.
uint64_t Grown(uint64_t before, uint64_t now) { return now >= before ? now - before : now; }

const Vgpu* Find(const Host& host, const std::string& uuid) {
  for (const Gpu& gpu : host.gpus) {
    for (const Vgpu& vgpu : gpu.vgpus) {
      if (vgpu.uuid == uuid) return &vgpu;
    }
  }
  return nullptr;
}

}  // namespace

void SetShares(Gpu& gpu) {
  SetOrdered(gpu);
  uint64_t total = 0;
  gpu.vgpu_count = gpu.vgpus.size();
  gpu.vram_given_bytes = 0;
  for (const Vgpu& vgpu : gpu.vgpus) {
    total += vgpu.accounts[kGr].run_ns;
    gpu.vram_given_bytes += vgpu.vram_bytes;
  }
  for (Vgpu& vgpu : gpu.vgpus) {
    vgpu.share_measured.reset();
    if (total == 0) continue;
    vgpu.share_measured =
        static_cast<double>(vgpu.accounts[kGr].run_ns) / static_cast<double>(total);
  }
}

void SetUsage(const Host& before, Host& now) {
  const double elapsed = static_cast<double>(Grown(before.time_ns, now.time_ns));
  if (elapsed <= 0) return;
  for (Gpu& gpu : now.gpus) {
    double total = 0;
    gpu.utilisation.emplace();
    for (Vgpu& vgpu : gpu.vgpus) {
      vgpu.usage.reset();
      const Vgpu* old = Find(before, vgpu.uuid);
      if (!old) continue;
      vgpu.usage.emplace();
      vgpu.usage->seconds = elapsed * 1e-9;
      for (size_t i = 0; i < kEngines.size(); ++i) {
        const uint64_t ran = Grown(old->accounts[i].run_ns, vgpu.accounts[i].run_ns);
        vgpu.usage->engines[i] = std::min(static_cast<double>(ran) / elapsed, 1.0);
        (*gpu.utilisation)[i] = std::min((*gpu.utilisation)[i] + vgpu.usage->engines[i], 1.0);
        if (i == kGr) vgpu.usage->share = static_cast<double>(ran);
      }
      total += *vgpu.usage->share;
    }
    for (Vgpu& vgpu : gpu.vgpus) {
      if (!vgpu.usage) continue;
      if (total > 0) {
        *vgpu.usage->share /= total;
      } else {
        vgpu.usage->share.reset();
      }
    }
  }
}

std::optional<double> Utilisation(const Gpu& gpu, size_t engine) {
  return gpu.utilisation ? std::optional<double>((*gpu.utilisation)[engine]) : std::nullopt;
}

std::optional<double> Utilisation(const Vgpu& vgpu, size_t engine) {
  return vgpu.usage ? std::optional<double>(vgpu.usage->engines[engine]) : std::nullopt;
}

std::optional<double> ShareMeasured(const Vgpu& vgpu) {
  return vgpu.usage ? vgpu.usage->share : vgpu.share_measured;
}

}  // namespace turnstile_smi
