/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refuses to run in a QEMU for which the plugin was not compiled.
 *
 * A device compiled against other headers would read and write QEMU's structures at the wrong places.
 * Called from class_init, before the first instance exists. Ends the process with status 1 and one
 * line that names what differs. In-tree builds (no TS104_PLUGIN) need no guard.
 */
#ifndef TS104_ABI_GUARD_H
#define TS104_ABI_GUARD_H

#include "qom/object.h"

#ifdef TS104_PLUGIN
void ts104_abi_guard(ObjectClass *klass);
#else
static inline void ts104_abi_guard(ObjectClass *klass)
{
}
#endif

#endif
