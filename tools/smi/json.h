// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The same as documents; schema.json beside this file says what is in them. Names and meanings
// stay, new members may come. What is not known is null.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

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

// The beginning of a document of this kind, as schema.json calls it.
Json NewDocument(const char* kind);
// null for what is not known, and for an empty text.
Json OrNull(std::optional<double> value);
Json OrNull(const std::string& text);

// The text of a document; `indent` -1: one line.
std::string Dump(const Json& document, int indent);

}  // namespace turnstile_smi
