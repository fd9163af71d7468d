// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The targets: each builds its world, lets the input loose in it, and ends the process when
// something that must hold does not. Deterministic: one input, one run.
#pragma once

#include "fuzz/input.h"

namespace fuzz {

void FuzzCsr(Input& input);
void FuzzPageTables(Input& input);
void FuzzChannels(Input& input);
void FuzzPushBuffer(Input& input);
void FuzzPrograms(Input& input);
void FuzzVfio(Input& input);
void FuzzRig(Input& input);

}  // namespace fuzz
