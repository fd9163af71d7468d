// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a guest may do that owns its GPU and means harm: beside its own driver, which goes on, it
 * writes random values to registers, doorbells and all over VRAM, where page tables, instance
 * blocks, runlists and contexts are. For tests of the host: the guest itself may be lost afterwards.
 *
 * Usage: ts104-flood SECONDS SEED     (root; a kernel booted with iomem=relaxed)
 * The last line says what was done. Exit status: 0, or 2 when the GPU cannot be reached.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ts104/regs.h"

/* Offsets of BAR0 in which something is: half of the accesses go there. */
static const struct {
	uint32_t first, bytes;
} areas[] = {
	{ 0x0, 0x2000 },	/* PMC, PBUS */
	{ 0x2000, 0x2000 },	/* PFIFO */
	{ 0x40000, 0x6000 },	/* PBDMAs */
	{ 0x100000, 0x2000 },	/* MMU */
	{ 0x700000, 0x1000 },	/* PRAMIN */
	{ 0x800000, 0x11000 },	/* channels, doorbell */
	{ 0xb80000, 0x40000 },	/* virtual function: interrupts, fault buffers, invalidate */
};

struct bar {
	volatile uint32_t *words;
	uint64_t bytes;
};

static uint64_t state;

static uint64_t roll(uint64_t sides)
{
	/* xorshift64 */
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % sides;
}

/* Small numbers, addresses, single bits, all ones, anything. */
static uint32_t value(void)
{
	switch (roll(5)) {
	case 0:
		return (uint32_t)roll(32);
	case 1:
		return (uint32_t)roll(1u << 20) << 4;
	case 2:
		return 1u << roll(32);
	case 3:
		return ~0u;
	default:
		return (uint32_t)roll(1ull << 32);
	}
}

static uint32_t register_offset(void)
{
	size_t i = roll(sizeof(areas) / sizeof(areas[0]));

	if (roll(2))
		return (uint32_t)roll(TS104_PCI_BAR0_SIZE) & ~3u;
	return areas[i].first + ((uint32_t)roll(areas[i].bytes) & ~3u);
}

static struct bar map_bar(const char *device, int index)
{
	struct bar bar = {};
	struct stat status;
	char path[512];
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/resource%d", device, index);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &status))
		return bar;
	at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return bar;
	bar.words = at;
	bar.bytes = (uint64_t)status.st_size;
	return bar;
}

static bool is_ts104(const char *device)
{
	char path[512], text[16] = "";
	unsigned int id;
	FILE *file;

	snprintf(path, sizeof(path), "%s/device", device);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	return sscanf(text, "%x", &id) == 1 && id == TS104_PCI_DEVICE_ID;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One of each kind in turn, so that what is broken in VRAM is met by the engines soon. */
static void misbehave(struct bar regs, struct bar vram, uint64_t *count)
{
	/* The driver's structures are at the ends of VRAM: half of the stores go to the first MiB. */
	uint64_t limit = roll(2) ? vram.bytes : 1u << 20;
	uint32_t offset = register_offset();
	unsigned int i;

	if (roll(4))
		regs.words[offset / 4] = value();
	else
		(void)regs.words[offset / 4];
	for (i = 0; i < 8; i++)
		vram.words[roll(limit) / 4] = value();
	for (i = 0; i < 8; i++)
		regs.words[(0x810000 + NV_USERMODE_NOTIFY_CHANNEL_PENDING) / 4] = value();
	*count += 17;
}

int main(int argc, char **argv)
{
	struct bar regs = {}, vram = {};
	uint64_t count = 0;
	glob_t found = {};
	double end;
	size_t i;

	if (argc != 3) {
		fprintf(stderr, "usage: ts104-flood SECONDS SEED\n");
		return 2;
	}
	end = now() + atof(argv[1]);
	state = strtoull(argv[2], NULL, 0) * 2 + 1;
	glob("/sys/bus/pci/devices/*", 0, NULL, &found);
	for (i = 0; i < found.gl_pathc && !regs.words; i++) {
		if (!is_ts104(found.gl_pathv[i]))
			continue;
		regs = map_bar(found.gl_pathv[i], TS104_PCI_BAR0_INDEX);
		vram = map_bar(found.gl_pathv[i], TS104_PCI_BAR1_INDEX);
	}
	globfree(&found);
	if (!regs.words || !vram.words) {
		fprintf(stderr, "ts104-flood: no TS104 whose registers can be mapped\n");
		return 2;
	}
	while (now() < end)
		misbehave(regs, vram, &count);
	printf("ts104-flood: %" PRIu64 " accesses\n", count);
	return 0;
}
