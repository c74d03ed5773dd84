/* Held: reads an iterator, whose program looks at the locks without taking them. A lock is kept if
 * it is never seen free, and not because ever others take it. */
#include "daemon/probe/held.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "bpf/held.h"
#include "core/base/time.h"
#include "daemon/broker/broker.h"

#define ROUNDS	    20
#define ROUND_US    5000
#define CHANGES_MAX 5 /* of who took the lock last */
#define KNOWN_NS    (300 * NS_PER_MS)

enum { LINK, LOOKS /* map of who asks what */, FDS };

struct held {
	atomic_int holders;
	int fd[FDS];
};

struct held_file {
	atomic_int holders;
	struct held *held;
	int fd;
	/* Of the last look that found somebody: */
	_Atomic uint64_t known_ns;
	_Atomic uint32_t pid;
	/* The kernel's work on it: */
	atomic_int begun;
	_Atomic uint64_t since_ns;
};

struct suspects {
	uint32_t count;
	struct suspect {
		struct held_process process;
		uint32_t changes;
	} suspect[HELD_MAX];
};

struct held *held_new(struct broker *broker)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held || broker_held(broker, held->fd) < 0) {
		free(held);
		return NULL;
	}
	held->holders = 1;
	return held;
}

struct held *held_free(struct held *held)
{
	if (!held || atomic_fetch_sub(&held->holders, 1) > 1)
		return NULL;
	for (size_t i = 0; i < FDS; i++)
		close(held->fd[i]);
	free(held);
	return NULL;
}

int held_file_new(struct held *held, int fd, struct held_file **ret)
{
	struct held_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (file->fd < 0) {
		free(file);
		return -errno;
	}
	file->holders = 1;
	file->held = held;
	if (held)
		atomic_fetch_add(&held->holders, 1);
	*ret = file;
	return 0;
}

struct held_file *held_file_ref(struct held_file *file)
{
	atomic_fetch_add(&file->holders, 1);
	return file;
}

struct held_file *held_file_unref(struct held_file *file)
{
	if (!file || atomic_fetch_sub(&file->holders, 1) > 1)
		return NULL;
	held_free(file->held);
	close(file->fd);
	free(file);
	return NULL;
}

/* False: it could not be seen this time. */
static bool look(const struct held *held, const void *mapped, struct held_look *ret)
{
	const uint32_t reader = (uint32_t)syscall(SYS_gettid);
	_cleanup_(closep) int fd = bpf_iter_create(held->fd[LINK]);
	char byte;
	bool good;

	*ret = (struct held_look){ .address = (uint64_t)(uintptr_t)mapped };
	if (fd < 0 || bpf_map_update_elem(held->fd[LOOKS], &reader, ret, BPF_ANY) < 0)
		return false;
	good = read(fd, &byte, 1) == 0 && bpf_map_lookup_elem(held->fd[LOOKS], &reader, ret) == 0 &&
	       ret->done;
	bpf_map_delete_elem(held->fd[LOOKS], &reader);
	return good && ret->count <= HELD_MAX;
}

static const struct held_process *find(const struct held_look *now, uint64_t memory)
{
	for (uint32_t i = 0; i < now->count; i++)
		if (now->process[i].memory == memory)
			return &now->process[i];
	return NULL;
}

static void suspect_all(struct suspects *suspects, const struct held_look *now)
{
	suspects->count = now->count;
	for (uint32_t i = 0; i < now->count; i++)
		suspects->suspect[i] = (struct suspect){ .process = now->process[i] };
}

static void clear_some(struct suspects *suspects, const struct held_look *now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < suspects->count; i++) {
		struct suspect one = suspects->suspect[i];
		const struct held_process *process = find(now, one.process.memory);

		if (!process)
			continue;
		one.changes += process->owner != one.process.owner;
		one.process = *process;
		if (one.changes <= CHANGES_MAX)
			suspects->suspect[kept++] = one;
	}
	suspects->count = kept;
}

/* The kernel finds the others by our mapping of the file. */
static bool find_keeper(const struct held *held, const void *mapped, uint32_t *ret_pid)
{
	struct suspects suspects = { 0 };
	struct held_look now;
	bool seen = false;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (i)
			usleep(ROUND_US);
		if (!look(held, mapped, &now))
			continue;
		if (seen)
			clear_some(&suspects, &now);
		else
			suspect_all(&suspects, &now);
		seen = true;
		if (!suspects.count)
			return false;
	}
	*ret_pid = suspects.suspect[0].process.pid;
	return seen;
}

bool held_file_is(struct held_file *file)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t pid = 0;
	void *mapped;
	bool is;

	if (!file || !file->held)
		return false;
	if (file->known_ns && uv_hrtime() - file->known_ns < (uint64_t)KNOWN_NS)
		return true;
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file->fd, 0);
	if (mapped == MAP_FAILED)
		return false;
	is = find_keeper(file->held, mapped, &pid);
	munmap(mapped, size);
	file->pid = pid;
	file->known_ns = is ? uv_hrtime() : 0;
	return is;
}

uint32_t held_file_pid(const struct held_file *file)
{
	return file->pid;
}

void held_file_begin(struct held_file *file)
{
	if (atomic_fetch_add(&file->begun, 1) == 0)
		file->since_ns = uv_hrtime();
}

void held_file_end(struct held_file *file)
{
	file->since_ns = uv_hrtime();
	atomic_fetch_sub(&file->begun, 1);
}

uint64_t held_file_since_ns(const struct held_file *file)
{
	return file->begun ? file->since_ns : 0;
}
