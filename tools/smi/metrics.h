// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A host's figures as metrics: for OpenMetrics text, and for the exporter, which serves them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model.h"

namespace turnstile_smi {

// All samples of one name. Counters of a vGPU begin at 0 when it is made.
struct MetricFamily {
  enum class Kind { kGauge, kCounter, kInfo };
  struct Sample {
    std::vector<std::pair<std::string, std::string>> labels;
    std::string value;  // a decimal number, exact
  };

  std::string name;  // with its unit and without _total or _info
  Kind kind;
  std::string unit;  // "": none
  std::string help;
  std::vector<Sample> samples;

  // As the samples are called: name_total, name_info or name.
  std::string SampleName() const;
};

std::vector<MetricFamily> HostMetrics(const Host& host);

// OpenMetrics 1.0 text, for a scraper or node_exporter's textfile collector. Ends with "# EOF".
std::string OpenMetrics(const std::vector<MetricFamily>& families);

// A label's value with '\', '"' and newline escaped.
std::string EscapeLabel(std::string_view value);

}  // namespace turnstile_smi
