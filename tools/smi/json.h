// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The same as documents; schema.json beside this file says what is in them. Names and meanings
// stay, new members may come. What is not known is null.
#pragma once

#include <nlohmann/json.hpp>

#include "model.h"

namespace turnstile_smi {

using Json = nlohmann::ordered_json;

// The table and the report.
Json ToJson(const Host& host);
// -s and -c.
Json TypesToJson(const Host& host, bool creatable_only);
// -u: one sample.
Json UsageToJson(const Host& host);
// sched show.
Json SchedToJson(const Host& host);

// The text of a document; `indent` -1: one line.
std::string Dump(const Json& document, int indent);

}  // namespace turnstile_smi
