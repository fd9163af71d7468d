/* SPDX-License-Identifier: GPL-2.0-only */
/* A client of ts104.ko with one channel, and what tests of the interface need besides. */
#ifndef TS104_SELFTEST_CLIENT_H
#define TS104_SELFTEST_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "guest_driver/include/uapi/ts104_drm.h"

#define PAGE 4096ull
#define MIB (1ull << 20)
#define RING_VA 0x10000000ull
#define PUSH_VA 0x10010000ull
#define SEM_VA 0x10020000ull
#define DATA_VA 0x200000000ull
#define UNMAPPED_VA 0x300000000ull

/* Of the device under test. */
extern char node_path[64];
extern char pci_name[32];
extern int failures, tests;

/* A VM with a ring, a push buffer and a semaphore page, and a channel in it. */
struct client {
	int fd;
	uint32_t vm, channel, token, put, pushed;
	uint32_t ring_bo, push_bo, sem_bo;
	uint64_t *ring;
	uint32_t *push;
	volatile uint32_t *sem;
	volatile uint32_t *userd, *doorbell;
	uint64_t userd_offset;
};

/* One line of output. */
void check(bool ok, const char *what, ...) __attribute__((format(printf, 2, 3)));
/* An errno, or 0. */
int call(int fd, unsigned long request, void *arg);
void expect(int fd, unsigned long request, void *arg, int want, const char *what);
int64_t now_ns(void);
int find_node(void);
/* A handle, or 0. */
uint32_t gem(int fd, uint64_t size, uint32_t placement);
uint32_t gem_quiet(int fd, uint64_t size, uint32_t placement);
bool write_file(const char *path, const char *text);
bool reset_device(void);
void gem_close(int fd, uint32_t handle);
void *gem_map(int fd, uint32_t handle, uint64_t size, int flags);
int bind_op(int fd, uint32_t vm, struct drm_ts104_bind_op op);
int bind_map(int fd, uint32_t vm, uint64_t va, uint32_t handle, uint64_t offset, uint64_t range);
int bind_unmap(int fd, uint32_t vm, uint64_t va, uint64_t range);
uint64_t param(int fd, uint32_t which);
bool client_init(struct client *c, int fd, uint32_t engine, uint32_t placement);
void client_fini(struct client *c);
void method(struct client *c, uint32_t address, uint32_t data);
void submit(struct client *c, uint32_t first);
void push_release(struct client *c, uint64_t va, uint32_t value);
void release(struct client *c, uint64_t va, uint32_t value);
int wait_value(struct client *c, uint32_t value, int64_t timeout_ms);
struct drm_ts104_channel_status status_of(struct client *c);
int reset_channel(struct client *c);

/* stress.c */
void test_stress(int fd);

#endif /* TS104_SELFTEST_CLIENT_H */
