// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "collector.h"

#include <cstdlib>

#include "reader.h"

namespace turnstile_smi {

prometheus::MetricFamily ToPrometheus(const MetricFamily& family) {
  const bool counter = family.kind == MetricFamily::Kind::kCounter;
  prometheus::MetricFamily out;
  out.name = family.SampleName();
  out.help = family.help;
  out.type = counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const MetricFamily::Sample& sample : family.samples) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
    // Prometheus keeps doubles, so this is where the 64 bits of a counter end.
    const double value = std::strtod(sample.value.c_str(), nullptr);
    (counter ? metric.counter.value : metric.gauge.value) = value;
    out.metric.push_back(std::move(metric));
  }
  return out;
}

std::vector<prometheus::MetricFamily> HostCollector::Collect() const {
  const Host host = ReadHost(files_);
  MetricFamily up = {"turnstile_driver_up",
                     MetricFamily::Kind::kGauge,
                     "",
                     "1: the driver turnstile is loaded.",
                     {}};
  up.samples.push_back({{}, host.driver_loaded ? "1" : "0"});
  std::vector<prometheus::MetricFamily> families = {ToPrometheus(up)};
  if (!host.driver_loaded) return families;
  for (const MetricFamily& family : HostMetrics(host)) {
    if (!family.samples.empty()) families.push_back(ToPrometheus(family));
  }
  return families;
}

}  // namespace turnstile_smi
