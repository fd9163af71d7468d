// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ts104/regs.h"

char node_path[64];
char pci_name[32];
int failures, tests;

void check(bool ok, const char *what, ...)
{
	va_list args;

	tests++;
	failures += !ok;
	printf("%s ", ok ? "ok  " : "FAIL");
	va_start(args, what);
	vprintf(what, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

int call(int fd, unsigned long request, void *arg)
{
	while (ioctl(fd, request, arg)) {
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

void expect(int fd, unsigned long request, void *arg, int want, const char *what)
{
	int got = call(fd, request, arg);

	check(got == want, "%s: %s", what, got ? strerrorname_np(got) : "0");
}

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int find_node(void)
{
	char link[128], target[256];
	int i;

	for (i = 128; i < 192; i++) {
		struct drm_version version = {};
		char name[16] = "";
		ssize_t length;
		int fd;

		snprintf(node_path, sizeof(node_path), "/dev/dri/renderD%d", i);
		fd = open(node_path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		version.name = name;
		version.name_len = sizeof(name) - 1;
		if (call(fd, DRM_IOCTL_VERSION, &version) || strcmp(name, "ts104")) {
			close(fd);
			continue;
		}
		snprintf(link, sizeof(link), "/sys/class/drm/renderD%d/device", i);
		length = readlink(link, target, sizeof(target) - 1);
		if (length > 0) {
			target[length] = 0;
			snprintf(pci_name, sizeof(pci_name), "%s", strrchr(target, '/') + 1);
		}
		return fd;
	}
	return -1;
}

uint32_t gem_quiet(int fd, uint64_t size, uint32_t placement)
{
	struct drm_ts104_gem_create create = { .size = size, .placement = placement };

	return call(fd, DRM_IOCTL_TS104_GEM_CREATE, &create) ? 0 : create.handle;
}

uint32_t gem(int fd, uint64_t size, uint32_t placement)
{
	uint32_t handle = gem_quiet(fd, size, placement);

	if (!handle)
		printf("     no buffer of %llu bytes\n", (unsigned long long)size);
	return handle;
}

bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

bool reset_device(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", pci_name);
	return write_file(path, "1");
}

void gem_close(int fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	call(fd, DRM_IOCTL_GEM_CLOSE, &args);
}

void *gem_map(int fd, uint32_t handle, uint64_t size, int flags)
{
	struct drm_ts104_gem_mmap_offset map = { .handle = handle };

	if (call(fd, DRM_IOCTL_TS104_GEM_MMAP_OFFSET, &map))
		return MAP_FAILED;
	return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, map.offset);
}

int bind_op(int fd, uint32_t vm, struct drm_ts104_bind_op op)
{
	struct drm_ts104_vm_bind bind = {
		.vm_id = vm,
		.op_count = 1,
		.ops = (uintptr_t)&op,
	};

	return call(fd, DRM_IOCTL_TS104_VM_BIND, &bind);
}

int bind_map(int fd, uint32_t vm, uint64_t va, uint32_t handle, uint64_t offset,
		    uint64_t range)
{
	return bind_op(fd, vm, (struct drm_ts104_bind_op){ .handle = handle, .bo_offset = offset,
							    .va = va, .range = range });
}

int bind_unmap(int fd, uint32_t vm, uint64_t va, uint64_t range)
{
	return bind_op(fd, vm, (struct drm_ts104_bind_op){ .op = DRM_TS104_BIND_UNMAP, .va = va,
							    .range = range });
}

uint64_t param(int fd, uint32_t which)
{
	struct drm_ts104_get_param args = { .param = which };

	return call(fd, DRM_IOCTL_TS104_GET_PARAM, &args) ? 0 : args.value;
}

bool client_init(struct client *c, int fd, uint32_t engine, uint32_t placement)
{
	struct drm_ts104_vm_create vm = {};
	struct drm_ts104_channel_create ch = {
		.engine = engine,
		.ring_va = RING_VA,
		.ring_order = 5,
	};

	memset(c, 0, sizeof(*c));
	c->fd = fd;
	if (call(fd, DRM_IOCTL_TS104_VM_CREATE, &vm))
		return false;
	c->vm = ch.vm_id = vm.vm_id;
	c->ring_bo = gem(fd, PAGE, placement);
	c->push_bo = gem(fd, PAGE, placement);
	c->sem_bo = gem(fd, PAGE, placement);
	c->ring = gem_map(fd, c->ring_bo, PAGE, MAP_SHARED);
	c->push = gem_map(fd, c->push_bo, PAGE, MAP_SHARED);
	c->sem = gem_map(fd, c->sem_bo, PAGE, MAP_SHARED);
	if (c->ring == MAP_FAILED || c->push == MAP_FAILED || c->sem == MAP_FAILED)
		return false;
	if (bind_map(fd, c->vm, RING_VA, c->ring_bo, 0, PAGE) ||
	    bind_map(fd, c->vm, PUSH_VA, c->push_bo, 0, PAGE) ||
	    bind_map(fd, c->vm, SEM_VA, c->sem_bo, 0, PAGE))
		return false;
	if (call(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch))
		return false;
	c->channel = ch.channel_id;
	c->token = ch.token;
	c->userd_offset = ch.userd_offset;
	c->userd = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, ch.userd_offset);
	c->doorbell = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, ch.doorbell_offset);
	return c->userd != MAP_FAILED && c->doorbell != MAP_FAILED;
}

void client_fini(struct client *c)
{
	struct drm_ts104_channel_destroy ch = { .channel_id = c->channel };
	struct drm_ts104_vm_destroy vm = { .vm_id = c->vm };

	munmap((void *)c->userd, PAGE);
	munmap((void *)c->doorbell, PAGE);
	munmap(c->ring, PAGE);
	munmap(c->push, PAGE);
	munmap((void *)c->sem, PAGE);
	call(c->fd, DRM_IOCTL_TS104_CHANNEL_DESTROY, &ch);
	call(c->fd, DRM_IOCTL_TS104_VM_DESTROY, &vm);
	gem_close(c->fd, c->ring_bo);
	gem_close(c->fd, c->push_bo);
	gem_close(c->fd, c->sem_bo);
}

void method(struct client *c, uint32_t address, uint32_t data)
{
	/* SEC_OP 1 (incrementing), count 1, sub-channel 0. */
	c->push[c->pushed++ % 1024] = 1u << 29 | 1u << 16 | address >> 2;
	c->push[c->pushed++ % 1024] = data;
}

/* Everything pushed since the entry before becomes one GP entry. */
void submit(struct client *c, uint32_t first)
{
	uint64_t va = PUSH_VA + first % 1024 * 4;

	c->ring[c->put % 32] = va | (uint64_t)(c->pushed - first) << 42;
	c->put++;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	c->userd[NV_USERD_GP_PUT / 4] = c->put % 32;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	c->doorbell[NV_USERMODE_NOTIFY_CHANNEL_PENDING / 4] = c->token;
}

void push_release(struct client *c, uint64_t va, uint32_t value)
{
	method(c, NVC46F_SEM_ADDR_LO, (uint32_t)va);
	method(c, NVC46F_SEM_ADDR_HI, va >> 32);
	method(c, NVC46F_SEM_PAYLOAD_LO, value);
	method(c, NVC46F_SEM_PAYLOAD_HI, 0);
	method(c, NVC46F_SEM_EXECUTE, NVC46F_SEM_EXECUTE_OPERATION_RELEASE);
	method(c, NVC46F_NON_STALL_INTERRUPT, 0);
}

void release(struct client *c, uint64_t va, uint32_t value)
{
	uint32_t first = c->pushed;

	if (first % 1024 > 1000)
		first = c->pushed = (first / 1024 + 1) * 1024;
	push_release(c, va, value);
	submit(c, first);
}

int wait_value(struct client *c, uint32_t value, int64_t timeout_ms)
{
	struct drm_ts104_wait wait = {
		.handle = c->sem_bo,
		.value = value,
		.deadline_ns = now_ns() + timeout_ms * 1000000,
		.channel_id = c->channel,
	};

	return call(c->fd, DRM_IOCTL_TS104_WAIT, &wait);
}

struct drm_ts104_channel_status status_of(struct client *c)
{
	struct drm_ts104_channel_status status = { .channel_id = c->channel };

	call(c->fd, DRM_IOCTL_TS104_CHANNEL_STATUS, &status);
	return status;
}

int reset_channel(struct client *c)
{
	struct drm_ts104_channel_reset reset = { .channel_id = c->channel };

	c->put = 0;
	c->pushed = 0;
	return call(c->fd, DRM_IOCTL_TS104_CHANNEL_RESET, &reset);
}
