/* Faulty: preloaded into a program, makes calls fail from its start on.
 * FAULTY_CALLS: "memory", "read" or "write"; FAULTY_NTH: the first that fails; FAULTY_FOR: how many
 * fail from there, 1 without it; FAULTY_SAID: a file that gets the stack of the first. Without
 * FAULTY_NTH none fails, and the file gets the number of each call whose stack is new, as far as it
 * is the program's own and not its libraries'. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAMES_MAX 40
#define SITES_MAX  (1 << 16)

#define EXPORT	   __attribute__((visibility("default")))

enum calls { CALLS_NONE, CALLS_MEMORY, CALLS_READ, CALLS_WRITE };

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

/* CALLS_NONE until main is called. */
static enum calls failing;
static unsigned long nth, until;
static atomic_ulong counted;
static _Atomic uint64_t site[SITES_MAX]; /* hashes of stacks, open addressing */
static int said = -1;
static uintptr_t program_start, program_end;
static int (*program_main)(int argc, char **argv, char **environment);
static _Thread_local bool busy;

static int find_program(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
			continue;
		program_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		program_end = program_start + info->dlpi_phdr[i].p_memsz;
	}
	return 1; /* the first is the program */
}

static bool is_new(void *const *frame, int count)
{
	uint64_t hash = 1, empty;

	for (int i = 0; i < count; i++)
		if ((uintptr_t)frame[i] - program_start < program_end - program_start)
			hash = (hash ^ hash >> 29 ^ (uintptr_t)frame[i]) * 0x9e3779b97f4a7c15;
	for (size_t at = hash % SITES_MAX, tries = 0; tries < SITES_MAX; tries++) {
		empty = 0;
		if (atomic_compare_exchange_strong(&site[at], &empty, hash))
			return true;
		if (empty == hash)
			return false;
		at = (at + 1) % SITES_MAX;
	}
	return false;
}

static void tell(unsigned long number)
{
	void *frame[FRAMES_MAX];
	int count;

	busy = true;
	count = backtrace(frame, FRAMES_MAX);
	if (nth)
		backtrace_symbols_fd(frame, count, said);
	else if (is_new(frame, count))
		dprintf(said, "%lu\n", number);
	busy = false;
}

static bool fails(enum calls calls)
{
	unsigned long number;

	if (calls != failing || busy)
		return false;
	number = atomic_fetch_add(&counted, 1) + 1;
	if (!nth || number == nth)
		tell(number);
	return nth && number >= nth && number < until;
}

EXPORT void *malloc(size_t size)
{
	if (!fails(CALLS_MEMORY))
		return __libc_malloc(size);
	errno = ENOMEM;
	return NULL;
}

EXPORT void *calloc(size_t count, size_t size)
{
	if (!fails(CALLS_MEMORY))
		return __libc_calloc(count, size);
	errno = ENOMEM;
	return NULL;
}

EXPORT void *realloc(void *old, size_t size)
{
	if (!fails(CALLS_MEMORY))
		return __libc_realloc(old, size);
	errno = ENOMEM;
	return NULL;
}

#define FAILING(kind, code, name, parameters, arguments)                                           \
	EXPORT ssize_t name parameters                                                             \
	{                                                                                          \
		static ssize_t(*next) parameters;                                                  \
                                                                                                   \
		if (!next)                                                                         \
			*(void **)&next = dlsym(RTLD_NEXT, #name);                                 \
		if (!fails(kind))                                                                  \
			return next arguments;                                                     \
		errno = code;                                                                      \
		return -1;                                                                         \
	}

FAILING(CALLS_READ, EIO, read, (int fd, void *to, size_t size), (fd, to, size))
FAILING(CALLS_READ, EIO, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
FAILING(CALLS_READ, EIO, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
FAILING(CALLS_READ, EIO, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags))
FAILING(CALLS_WRITE, ENOSPC, write, (int fd, const void *from, size_t size), (fd, from, size))
FAILING(CALLS_WRITE, ENOSPC, pwrite, (int fd, const void *from, size_t size, off_t at),
	(fd, from, size, at))
FAILING(CALLS_WRITE, ENOSPC, pwrite64, (int fd, const void *from, size_t size, off64_t at),
	(fd, from, size, at))
FAILING(CALLS_WRITE, ENOBUFS, send, (int fd, const void *from, size_t size, int flags),
	(fd, from, size, flags))

static enum calls calls_of(const char *name)
{
	if (name && strcmp(name, "memory") == 0)
		return CALLS_MEMORY;
	if (name && strcmp(name, "read") == 0)
		return CALLS_READ;
	return name && strcmp(name, "write") == 0 ? CALLS_WRITE : CALLS_NONE;
}

static int faulty_main(int argc, char **argv, char **environment)
{
	const char *first = getenv("FAULTY_NTH"), *count = getenv("FAULTY_FOR");
	const char *path = getenv("FAULTY_SAID");
	void *frame[1];

	backtrace(frame, 1); /* loads what it needs */
	dl_iterate_phdr(find_program, NULL);
	said = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600) : -1;
	nth = first ? strtoul(first, NULL, 10) : 0;
	until = nth + (count ? strtoul(count, NULL, 10) : 1);
	failing = calls_of(getenv("FAULTY_CALLS"));
	unsetenv("LD_PRELOAD"); /* not what the program starts */
	return program_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
			     void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
			     void *stack_end)
{
	__typeof__(&__libc_start_main) next;

	*(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
	program_main = main;
	return next(faulty_main, argc, argv, init, fini, rtld_fini, stack_end);
}
