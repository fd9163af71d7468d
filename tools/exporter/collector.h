// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A host's figures in the form that prometheus-cpp serves.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "files.h"
#include "metrics.h"

namespace turnstile_smi {

// Info metrics become gauges of the same samples: Prometheus' text format 0.0.4 has no such type.
prometheus::MetricFamily ToPrometheus(const MetricFamily& family);

// Reads the host anew for each scrape. Has no state besides `files`, so scrapes may come at once.
class HostCollector : public prometheus::Collectable {
 public:
  explicit HostCollector(Files files) : files_(std::move(files)) {}

  // turnstile_driver_up always; 0, and nothing else, while the driver is not loaded.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Files files_;
};

}  // namespace turnstile_smi
