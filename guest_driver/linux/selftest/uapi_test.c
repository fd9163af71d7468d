// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test of ts104.ko's interface on a machine with a TS104: what is refused and how, mappings,
 * bindings, submission from user space, faults, reset and unbind while files are open.
 *
 * Usage: uapi_test [TEST...]     (root; "reset", "stress", "remove" take the device from everybody else)
 * One line per check; exit status 1 if one failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ts104/regs.h"

#include "client.h"

static void test_params(int fd)
{
	struct drm_ts104_get_param bad = { .param = 99 };
	struct drm_ts104_get_param pad = { .pad = 1 };
	uint64_t before;

	check(param(fd, DRM_TS104_PARAM_UAPI_VERSION) == 1, "UAPI version 1");
	check(param(fd, DRM_TS104_PARAM_CHIP_ID) == 0x164, "chip id 0x164");
	check(param(fd, DRM_TS104_PARAM_VRAM_SIZE) >= 4 * MIB, "VRAM of %llu MiB",
	      (unsigned long long)param(fd, DRM_TS104_PARAM_VRAM_SIZE) >> 20);
	before = param(fd, DRM_TS104_PARAM_GPU_TIME);
	usleep(2000);
	check(param(fd, DRM_TS104_PARAM_GPU_TIME) > before + 1000000, "GPU time goes on");
	expect(fd, DRM_IOCTL_TS104_GET_PARAM, &bad, EINVAL, "unknown param");
	expect(fd, DRM_IOCTL_TS104_GET_PARAM, &pad, EINVAL, "param with padding set");
}

static void test_gem(int fd)
{
	uint64_t vram = param(fd, DRM_TS104_PARAM_VRAM_SIZE);
	uint64_t free_before = param(fd, DRM_TS104_PARAM_VRAM_FREE);
	struct drm_ts104_gem_create create = {};
	struct drm_ts104_gem_mmap_offset offset = { .handle = 0xdead };
	uint32_t placement, handle;
	volatile uint32_t *cpu;
	uint64_t i, dirty;

	expect(fd, DRM_IOCTL_TS104_GEM_CREATE, &create, EINVAL, "buffer of size 0");
	create.size = ~0ull;
	expect(fd, DRM_IOCTL_TS104_GEM_CREATE, &create, EINVAL, "buffer of size 2^64-1");
	create.size = vram + PAGE;
	expect(fd, DRM_IOCTL_TS104_GEM_CREATE, &create, ENOSPC, "buffer larger than VRAM");
	create = (struct drm_ts104_gem_create){ .size = 1ull << 48, .placement = 1 };
	expect(fd, DRM_IOCTL_TS104_GEM_CREATE, &create, ENOMEM, "buffer larger than the machine");
	create = (struct drm_ts104_gem_create){ .size = PAGE, .placement = 2 };
	expect(fd, DRM_IOCTL_TS104_GEM_CREATE, &create, EINVAL, "unknown placement");
	create = (struct drm_ts104_gem_create){ .size = PAGE, .flags = 1 };
	expect(fd, DRM_IOCTL_TS104_GEM_CREATE, &create, EINVAL, "unknown flag");
	expect(fd, DRM_IOCTL_TS104_GEM_MMAP_OFFSET, &offset, ENOENT, "unknown handle");

	for (placement = 0; placement < 2; placement++) {
		const char *where = placement ? "sysmem" : "VRAM";

		handle = gem(fd, 3 * MIB, placement);
		cpu = gem_map(fd, handle, 3 * MIB, MAP_SHARED);
		check(cpu != MAP_FAILED, "%s is mapped", where);
		for (i = 0, dirty = 0; i < 3 * MIB / 4; i++)
			dirty += cpu[i] != 0;
		check(!dirty, "%s is zeroed", where);
		for (i = 0; i < 3 * MIB / 4; i += 1024)
			cpu[i] = 0x12340000 + i;
		munmap((void *)cpu, 3 * MIB);
		cpu = gem_map(fd, handle, 3 * MIB, MAP_SHARED);
		/* The mapping in two pieces. */
		munmap((char *)cpu + MIB, MIB);
		check(cpu[1024] == 0x12340000 + 1024 &&
		      cpu[2 * MIB / 4 + 2048] == 0x12340000 + 2 * MIB / 4 + 2048,
		      "%s keeps what was written, also behind a hole in the mapping", where);
		munmap((void *)cpu, MIB);
		munmap((char *)cpu + 2 * MIB, MIB);
		gem_close(fd, handle);
		handle = gem(fd, 3 * MIB, placement);
		cpu = gem_map(fd, handle, 3 * MIB, MAP_SHARED);
		check(!cpu[1024], "%s is zeroed when handed out again", where);
		check(gem_map(fd, handle, 3 * MIB, MAP_PRIVATE) == MAP_FAILED,
		      "private mapping of %s refused", where);
		check(gem_map(fd, handle, 4 * MIB, MAP_SHARED) == MAP_FAILED,
		      "mapping beyond the end of %s refused", where);
		munmap((void *)cpu, 3 * MIB);
		gem_close(fd, handle);
	}
	check(param(fd, DRM_TS104_PARAM_VRAM_FREE) == free_before, "all VRAM is free again");
}

static void test_vm(int fd)
{
	struct drm_ts104_vm_create create = { .flags = 1 };
	struct drm_ts104_vm_destroy destroy = { .vm_id = 77 };
	struct drm_ts104_vm_bind bind = { .op_count = 0 };
	uint64_t free_before = param(fd, DRM_TS104_PARAM_VRAM_FREE);
	struct drm_ts104_bind_op *ops;
	uint32_t handle, vm, other, i;

	expect(fd, DRM_IOCTL_TS104_VM_CREATE, &create, EINVAL, "VM with an unknown flag");
	expect(fd, DRM_IOCTL_TS104_VM_DESTROY, &destroy, ENOENT, "unknown VM");
	create.flags = 0;
	expect(fd, DRM_IOCTL_TS104_VM_CREATE, &create, 0, "VM created");
	bind.vm_id = vm = create.vm_id;
	expect(fd, DRM_IOCTL_TS104_VM_BIND, &bind, EINVAL, "bind without ops");
	bind.op_count = 1025;
	expect(fd, DRM_IOCTL_TS104_VM_BIND, &bind, E2BIG, "bind with 1025 ops");
	bind.op_count = 1;
	bind.ops = 8;
	expect(fd, DRM_IOCTL_TS104_VM_BIND, &bind, EFAULT, "bind with ops at a wild pointer");

	handle = gem(fd, 4 * MIB, DRM_TS104_PLACEMENT_VRAM);
	other = gem(fd, 4 * MIB, DRM_TS104_PLACEMENT_SYSMEM);
	check(bind_map(fd, vm, DATA_VA + 1, handle, 0, PAGE) == EINVAL, "misaligned address");
	check(bind_map(fd, vm, DATA_VA, handle, 0, PAGE + 1) == EINVAL, "misaligned range");
	check(bind_map(fd, vm, DATA_VA, handle, 0, 0) == EINVAL, "empty range");
	check(bind_map(fd, vm, DATA_VA, handle, 4 * MIB, PAGE) == EINVAL, "beyond the buffer");
	check(bind_map(fd, vm, DATA_VA, handle, PAGE, 4 * MIB) == EINVAL, "across its end");
	check(bind_map(fd, vm, DATA_VA, handle, -PAGE, PAGE) == EINVAL, "offset that wraps");
	check(bind_map(fd, vm, 1ull << 49, handle, 0, PAGE) == EINVAL, "address 2^49");
	check(bind_map(fd, vm, (1ull << 49) - PAGE, handle, 0, 2 * PAGE) == EINVAL, "across 2^49");
	check(bind_map(fd, vm, (1ull << 49) - PAGE, handle, 0, PAGE) == 0, "the last page");
	check(bind_map(fd, vm, DATA_VA, 999, 0, PAGE) == ENOENT, "unknown buffer");
	check(bind_op(fd, vm, (struct drm_ts104_bind_op){ .op = 9, .range = PAGE }) == EINVAL,
	      "unknown op");

	check(!bind_map(fd, vm, DATA_VA, handle, 0, 4 * MIB), "4 MiB of VRAM bound");
	check(!bind_map(fd, vm, DATA_VA + MIB, other, 0, MIB), "1 MiB replaced in its middle");
	check(!bind_unmap(fd, vm, DATA_VA + 64 * 1024, PAGE), "one page unbound from a large one");
	check(!bind_map(fd, vm, DATA_VA, other, MIB, 3 * MIB), "3 MiB over all that");
	check(!bind_unmap(fd, vm, 0, 1ull << 49), "everything unbound");
	check(!bind_unmap(fd, vm, 0, 1ull << 49), "nothing unbound");

	ops = calloc(1024, sizeof(*ops));
	for (i = 0; i < 1024; i++)
		ops[i] = (struct drm_ts104_bind_op){ .handle = other, .va = DATA_VA + i * 2 * PAGE,
						      .range = PAGE, .bo_offset = i * PAGE };
	ops[1000].handle = 999;
	bind = (struct drm_ts104_vm_bind){ .vm_id = vm, .op_count = 1024, .ops = (uintptr_t)ops };
	expect(fd, DRM_IOCTL_TS104_VM_BIND, &bind, ENOENT, "1024 ops, number 1000 bad");
	check(bind.completed == 1000, "1000 of them are done");
	free(ops);

	/* Buffers outlive their handles as long as they are bound. */
	gem_close(fd, handle);
	gem_close(fd, other);
	destroy.vm_id = vm;
	expect(fd, DRM_IOCTL_TS104_VM_DESTROY, &destroy, 0, "VM destroyed with bindings");
	check(param(fd, DRM_TS104_PARAM_VRAM_FREE) == free_before, "all VRAM is free again");
}

static void test_channel_args(int fd)
{
	struct drm_ts104_channel_create ch = { .ring_va = RING_VA, .ring_order = 5 };
	struct drm_ts104_channel_destroy destroy = { .channel_id = 55 };
	struct drm_ts104_vm_destroy vm_destroy = {};
	struct drm_ts104_channel_status status = { .channel_id = 55 };
	struct drm_ts104_channel_reset reset = { .channel_id = 55 };
	struct client c;
	int fd2;

	expect(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch, ENOENT, "channel in an unknown VM");
	expect(fd, DRM_IOCTL_TS104_CHANNEL_DESTROY, &destroy, ENOENT, "unknown channel destroyed");
	expect(fd, DRM_IOCTL_TS104_CHANNEL_STATUS, &status, ENOENT, "unknown channel's status");
	expect(fd, DRM_IOCTL_TS104_CHANNEL_RESET, &reset, ENOENT, "unknown channel's reset");

	check(client_init(&c, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_SYSMEM),
	      "channel on a copy engine");
	ch.vm_id = c.vm;
	ch.ring_order = 17;
	expect(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch, EINVAL, "ring of 2^17 entries");
	ch.ring_order = 10;
	expect(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch, EINVAL, "ring that is not wholly bound");
	ch.ring_order = 5;
	ch.ring_va = 1ull << 40;
	expect(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch, EINVAL, "ring at 2^40");
	ch.ring_va = RING_VA + 4;
	expect(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch, EINVAL, "misaligned ring");
	ch.ring_va = RING_VA;
	ch.engine = 2;
	expect(fd, DRM_IOCTL_TS104_CHANNEL_CREATE, &ch, EINVAL, "unknown engine");
	vm_destroy.vm_id = c.vm;
	expect(fd, DRM_IOCTL_TS104_VM_DESTROY, &vm_destroy, EBUSY, "VM with a channel destroyed");

	fd2 = open(node_path, O_RDWR | O_CLOEXEC);
	check(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd2, c.userd_offset) ==
	      MAP_FAILED && errno == EACCES, "USERD of another file");
	close(fd2);
	check(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000) == MAP_FAILED,
	      "two pages of the doorbell");
	check(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0x10000) == MAP_FAILED,
	      "doorbell mapped privately");
	client_fini(&c);
}

static void test_submit(int fd, uint32_t engine, uint32_t placement)
{
	struct client c;
	uint32_t i;
	int error = 0;

	check(client_init(&c, fd, engine, placement), "client on engine %u, placement %u", engine,
	      placement);
	check(wait_value(&c, 1, 20) == ETIME, "nothing submitted: the wait times out");
	for (i = 1; i <= 200 && !error; i++) {
		release(&c, SEM_VA, i);
		error = wait_value(&c, i, 10000);
	}
	check(!error, "200 submissions, each waited for (%u: %s)", i - 1,
	      error ? strerrorname_np(error) : "ok");
	check(c.sem[0] == 200, "semaphore is %u", c.sem[0]);
	check(!status_of(&c).kind, "no error");
	client_fini(&c);
}

static void test_wait_args(int fd)
{
	struct client c;
	struct drm_ts104_wait wait = { .handle = 999 };

	client_init(&c, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_VRAM);
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, ENOENT, "wait on an unknown buffer");
	wait.handle = c.sem_bo;
	wait.channel_id = 999;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, ENOENT, "wait on an unknown channel");
	wait.channel_id = 0;
	wait.offset = 2;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, EINVAL, "wait on a misaligned word");
	wait.offset = PAGE;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, EINVAL, "wait beyond the buffer");
	wait.offset = 4;
	wait.flags = DRM_TS104_WAIT_64BIT;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, EINVAL, "wait on a misaligned 64-bit word");
	wait.flags = 0;
	wait.value = 1ull << 32;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, EINVAL, "32-bit wait for a 33-bit value");
	wait.value = 1;
	wait.deadline_ns = INT64_MIN;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, ETIME, "deadline before the beginning of time");
	wait.value = 0xffffffff;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, 0, "0 is circularly past 0xffffffff");
	wait.value = 0;
	wait.offset = 8;
	wait.flags = DRM_TS104_WAIT_64BIT;
	expect(fd, DRM_IOCTL_TS104_WAIT, &wait, 0, "64-bit wait for what is there");
	client_fini(&c);
}

static void test_errors(int fd)
{
	struct drm_ts104_channel_status status;
	struct client good, bad;
	int error;

	client_init(&good, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_VRAM);
	client_init(&bad, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_VRAM);

	release(&bad, UNMAPPED_VA, 1);
	error = wait_value(&bad, 1, 10000);
	check(error == EIO, "wait of a channel that faults: %s",
	      error ? strerrorname_np(error) : "0");
	status = status_of(&bad);
	check(status.kind == DRM_TS104_ERROR_MMU_FAULT && status.va == UNMAPPED_VA &&
	      status.count == 1, "MMU fault at 0x%llx (kind %u, type %u, access %u, engine %u)",
	      (unsigned long long)status.va, status.kind, status.type, status.access,
	      status.engine);
	release(&good, SEM_VA, 7);
	check(!wait_value(&good, 7, 10000), "the other channel goes on");
	check(!status_of(&good).kind, "and has no error");

	check(!reset_channel(&bad), "channel reset");
	release(&bad, SEM_VA, 3);
	check(!wait_value(&bad, 3, 10000) && !status_of(&bad).kind, "and works again");

	/* MEM_OP of a channel without privilege. */
	method(&bad, NVC46F_MEM_OP_D, NVC46F_MEM_OP_D_OPERATION_MMU_TLB_INVALIDATE << 27);
	push_release(&bad, SEM_VA, 4);
	submit(&bad, bad.pushed - 14);
	error = wait_value(&bad, 4, 10000);
	status = status_of(&bad);
	check(error == EIO && status.kind == DRM_TS104_ERROR_PBDMA,
	      "TLB invalidate without privilege: PBDMA error (%s, kind %u, INTR_0 %x)",
	      error ? strerrorname_np(error) : "0", status.kind, status.type);
	release(&good, SEM_VA, 8);
	check(!wait_value(&good, 8, 10000), "the other channel goes on");
	check(!reset_channel(&bad), "channel reset");
	release(&bad, SEM_VA, 5);
	check(!wait_value(&bad, 5, 10000), "and works again");
	client_fini(&bad);
	client_fini(&good);
}

/* A binding that is gone is gone for the GPU, too. */
static void test_unbind_is_seen(int fd)
{
	uint32_t handle = gem(fd, 2 * MIB, DRM_TS104_PLACEMENT_VRAM);
	struct drm_ts104_channel_status status;
	struct client c;

	client_init(&c, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_VRAM);
	bind_map(fd, c.vm, DATA_VA, handle, 0, 2 * MIB);
	release(&c, DATA_VA + 0x1000, 1);
	release(&c, SEM_VA, 1);
	check(!wait_value(&c, 1, 10000), "write through a 2 MiB binding");
	bind_unmap(fd, c.vm, DATA_VA + 0x1000, PAGE);
	release(&c, DATA_VA + 0x2000, 1);
	release(&c, SEM_VA, 2);
	check(!wait_value(&c, 2, 10000), "its other pages stay when one is unbound");
	release(&c, DATA_VA + 0x1000, 1);
	check(wait_value(&c, 3, 10000) == EIO, "the unbound one faults");
	status = status_of(&c);
	check(status.va == DATA_VA + 0x1000, "at its address 0x%llx",
	      (unsigned long long)status.va);
	client_fini(&c);
	gem_close(fd, handle);
}

static void test_killed_process(int fd)
{
	uint64_t free_before = param(fd, DRM_TS104_PARAM_VRAM_FREE);
	int status, i;
	pid_t pid = fork();

	if (!pid) {
		int own = open(node_path, O_RDWR | O_CLOEXEC);
		struct client c;
		uint32_t n;

		if (!client_init(&c, own, DRM_TS104_ENGINE_COMPUTE, DRM_TS104_PLACEMENT_VRAM))
			_exit(1);
		for (n = 1;; n++) {
			release(&c, SEM_VA, n);
			if (wait_value(&c, n, 5000))
				_exit(2);
		}
	}
	usleep(300000);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status), "process killed while its channel runs");
	for (i = 0; i < 50 && param(fd, DRM_TS104_PARAM_VRAM_FREE) != free_before; i++)
		usleep(20000);
	check(param(fd, DRM_TS104_PARAM_VRAM_FREE) == free_before, "its VRAM is free again");
}

static void test_fdinfo(int fd)
{
	char path[64], line[128], all[2048] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "drm-", 4) && strlen(all) + strlen(line) < sizeof(all))
			strcat(all, line);
	}
	if (file)
		fclose(file);
	printf("%s", all);
	check(strstr(all, "drm-driver:\tts104") && strstr(all, "drm-client-id") &&
	      strstr(all, "drm-engine-compute") && strstr(all, "drm-total-vram") &&
	      strstr(all, "drm-resident-system"), "fdinfo has the usual keys");
	check(!strstr(all, "drm-engine-copy:\t0 ns"), "copy engine time was counted");
}

static void test_reset(int fd)
{
	uint32_t vram = gem(fd, PAGE, DRM_TS104_PLACEMENT_VRAM);
	uint32_t sys = gem(fd, PAGE, DRM_TS104_PLACEMENT_SYSMEM);
	volatile uint32_t *vram_cpu = gem_map(fd, vram, PAGE, MAP_SHARED);
	volatile uint32_t *sys_cpu = gem_map(fd, sys, PAGE, MAP_SHARED);
	struct client old, new;

	client_init(&old, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_SYSMEM);
	release(&old, SEM_VA, 1);
	wait_value(&old, 1, 10000);
	*vram_cpu = *sys_cpu = 0x55;
	check(reset_device(), "function reset while in use");
	check(status_of(&old).kind == DRM_TS104_ERROR_DEVICE_LOST, "the channel is lost");
	check(wait_value(&old, 2, 1000) == EIO, "waiting on it ends");
	check(bind_map(fd, old.vm, DATA_VA, sys, 0, PAGE) == EIO, "its VM is lost");
	*vram_cpu += 1;
	check(*vram_cpu != 0x56, "VRAM of before is gone, but can be touched");
	check(*sys_cpu == 0x55, "system memory keeps its contents");
	check(client_init(&new, fd, DRM_TS104_ENGINE_COPY, DRM_TS104_PLACEMENT_VRAM),
	      "a new channel in the same file");
	release(&new, SEM_VA, 1);
	check(!wait_value(&new, 1, 10000), "which works");
	check(bind_map(fd, new.vm, DATA_VA, vram, 0, PAGE) == EIO, "lost VRAM cannot be bound");
	check(!bind_map(fd, new.vm, DATA_VA, sys, 0, PAGE), "system memory can");
	client_fini(&old);
	client_fini(&new);
	munmap((void *)vram_cpu, PAGE);
	munmap((void *)sys_cpu, PAGE);
	gem_close(fd, vram);
	gem_close(fd, sys);
}

static void test_remove(int fd)
{
	uint32_t vram = gem(fd, PAGE, DRM_TS104_PLACEMENT_VRAM);
	volatile uint32_t *cpu = gem_map(fd, vram, PAGE, MAP_SHARED);
	struct drm_ts104_get_param args = {};
	struct client c;
	int i, again;

	client_init(&c, fd, DRM_TS104_ENGINE_COMPUTE, DRM_TS104_PLACEMENT_SYSMEM);
	release(&c, SEM_VA, 1);
	wait_value(&c, 1, 10000);
	*cpu = 1;
	check(write_file("/sys/bus/pci/drivers/ts104/unbind", pci_name),
	      "driver unbound while in use");
	expect(fd, DRM_IOCTL_TS104_GET_PARAM, &args, ENODEV, "param");
	*cpu += 1;
	*c.doorbell = c.token;
	release(&c, SEM_VA, 2);
	check(true, "mappings can still be touched");
	check(write_file("/sys/bus/pci/drivers/ts104/bind", pci_name), "driver bound again");
	client_fini(&c);
	munmap((void *)cpu, PAGE);
	close(fd);

	for (i = 0, again = -1; i < 100 && again < 0; i++) {
		usleep(20000);
		again = find_node();
	}
	check(again >= 0, "a new render node is there");
	if (again >= 0) {
		test_submit(again, DRM_TS104_ENGINE_COMPUTE, DRM_TS104_PLACEMENT_VRAM);
		close(again);
	}
}

static void test_submits(int fd)
{
	uint32_t engine, placement;

	for (engine = 0; engine < 2; engine++)
		for (placement = 0; placement < 2; placement++)
			test_submit(fd, engine, placement);
}

static const struct {
	const char *name;
	void (*run)(int fd);
} all_tests[] = {
	{ "params", test_params },
	{ "gem", test_gem },
	{ "vm", test_vm },
	{ "channel-args", test_channel_args },
	{ "wait-args", test_wait_args },
	{ "submit", test_submits },
	{ "errors", test_errors },
	{ "unbind-is-seen", test_unbind_is_seen },
	{ "killed-process", test_killed_process },
	{ "fdinfo", test_fdinfo },
	{ "reset", test_reset },
	{ "stress", test_stress },
	{ "remove", test_remove },	/* closes the file: last */
};

int main(int argc, char **argv)
{
	int fd = find_node();
	size_t i;
	int a;

	if (fd < 0) {
		fprintf(stderr, "uapi_test: no render node of driver ts104\n");
		return 1;
	}
	for (i = 0; i < sizeof(all_tests) / sizeof(all_tests[0]); i++) {
		bool wanted = argc < 2;

		for (a = 1; a < argc; a++)
			wanted |= !strcmp(argv[a], all_tests[i].name);
		if (wanted)
			all_tests[i].run(fd);
	}
	printf("uapi_test: %d passed, %d failed\n", tests - failures, failures);
	return failures != 0;
}
