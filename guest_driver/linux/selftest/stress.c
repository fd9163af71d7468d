// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stress: several processes with two threads each that share a file, doing whatever comes, partly
 * nonsense, while the device is reset now and then. The test is that they end, that nobody is
 * killed, that no VRAM is lost, and what the kernel log says afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define PROCESSES 3
#define BUFFERS 12
#define WINDOW (64 * MIB)

struct stress {
	int fd;
	uint32_t vm;
	int64_t end_ns;
	unsigned int seed;
};

static unsigned int roll(struct stress *s, unsigned int sides)
{
	return rand_r(&s->seed) % sides;
}

static void touch(struct stress *s, uint32_t handle, uint64_t size)
{
	volatile uint32_t *cpu = gem_map(s->fd, handle, size, MAP_SHARED);
	unsigned int i;

	if (cpu == MAP_FAILED)
		return;
	for (i = 0; i < 64; i++)
		cpu[roll(s, size / 4)] += i;
	munmap((void *)cpu, size);
}

static void nonsense(struct stress *s)
{
	/* Every ioctl of ours, some that are none, with arguments of random words. */
	unsigned int nr = DRM_COMMAND_BASE + roll(s, 14);
	uint64_t args[8];
	unsigned int i;

	for (i = 0; i < 8; i++) {
		args[i] = (uint64_t)roll(s, 1u << 16) << roll(s, 48);
		if (roll(s, 3) == 0)
			args[i] = roll(s, 4);
	}
	/* A random WAIT may name a deadline in years. */
	if (nr == DRM_COMMAND_BASE + DRM_TS104_WAIT)
		args[3] = 0;
	call(s->fd, _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, nr, roll(s, 65)), args);
}

static void work(struct stress *s)
{
	struct client c;
	unsigned int i;

	if (client_init(&c, s->fd, roll(s, 2), roll(s, 2))) {
		for (i = 1; i < 10; i++) {
			release(&c, roll(s, 20) ? SEM_VA : UNMAPPED_VA, i);
			if (roll(s, 4) && wait_value(&c, i, 200))
				break;
		}
		if (roll(s, 2))
			reset_channel(&c);
	}
	client_fini(&c);
}

static void *stress_thread(void *arg)
{
	struct stress *s = arg;
	uint32_t handles[BUFFERS] = {};
	uint64_t sizes[BUFFERS];
	unsigned int i;
	uint64_t va;

	while (now_ns() < s->end_ns) {
		i = roll(s, BUFFERS);
		va = DATA_VA + roll(s, WINDOW / PAGE) * PAGE;
		switch (roll(s, 8)) {
		case 0:
			if (!handles[i]) {
				sizes[i] = (roll(s, 1024) + 1) * PAGE;
				handles[i] = gem_quiet(s->fd, sizes[i], roll(s, 2));
			} else {
				gem_close(s->fd, handles[i]);
				handles[i] = 0;
			}
			break;
		case 1:
		case 2:
		case 3:
			if (handles[i])
				bind_map(s->fd, s->vm, va, handles[i], 0, sizes[i]);
			break;
		case 4:
			bind_unmap(s->fd, s->vm, va, (roll(s, 600) + 1) * PAGE);
			break;
		case 5:
			if (handles[i])
				touch(s, handles[i], sizes[i]);
			break;
		case 6:
			nonsense(s);
			break;
		case 7:
			if (!roll(s, 4))
				work(s);
			break;
		}
	}
	return NULL;
}

static int stress_process(unsigned int seed, int64_t end_ns)
{
	struct drm_ts104_vm_create vm;
	struct stress s[2];
	pthread_t threads[2];
	int i;

	/* A VM that a reset has made useless is replaced a few times. */
	while (now_ns() < end_ns) {
		memset(&vm, 0, sizeof(vm));
		memset(s, 0, sizeof(s));
		s[0].fd = open(node_path, O_RDWR | O_CLOEXEC);
		if (s[0].fd < 0)
			return 1;
		call(s[0].fd, DRM_IOCTL_TS104_VM_CREATE, &vm);
		s[0].vm = vm.vm_id;
		s[0].seed = seed++;
		s[0].end_ns = now_ns() + 700000000;
		s[1] = s[0];
		s[1].seed = seed += 1000;
		for (i = 0; i < 2; i++)
			if (pthread_create(&threads[i], NULL, stress_thread, &s[i]))
				return 2;
		for (i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		close(s[0].fd);
	}
	return 0;
}

void test_stress(int fd)
{
	const char *seconds = getenv("STRESS_SECONDS");
	int64_t end_ns = now_ns() + (seconds ? atoi(seconds) : 10) * 1000000000ll;
	uint64_t free_before = param(fd, DRM_TS104_PARAM_VRAM_FREE);
	pid_t pids[PROCESSES];
	int i, status, resets = 0;
	bool good = true;

	for (i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(stress_process(1234 + i * 100000, end_ns));
	}
	while (now_ns() < end_ns) {
		usleep(1500000);
		resets += reset_device();
	}
	for (i = 0; i < PROCESSES; i++) {
		waitpid(pids[i], &status, 0);
		good &= WIFEXITED(status) && !WEXITSTATUS(status);
	}
	check(good, "stress: all processes end well, %d resets meanwhile", resets);
	for (i = 0; i < 50 && param(fd, DRM_TS104_PARAM_VRAM_FREE) != free_before; i++)
		usleep(20000);
	check(param(fd, DRM_TS104_PARAM_VRAM_FREE) == free_before, "all VRAM is free again");
}
