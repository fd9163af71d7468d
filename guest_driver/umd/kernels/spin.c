/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_spin_args, .local_bytes = 256)

TS_MAIN(const struct ts104_spin_args *args)
{
  for (uint32_t left = args->rounds; left != 0; --left)
    __asm__ volatile("");
}
