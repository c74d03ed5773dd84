/* unwind_dump: a library that a program, or Python, calls to show its stack. Without frame
 * pointers, as are the libraries that matter. */
#include "tests/unit/unwind_dump.h"

#include <execinfo.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096

/* As far as it is mapped. */
static uint64_t copy(uint64_t at, uint8_t *to)
{
	uint64_t done = 0;

	while (at && done < DUMP_STACK) {
		uint64_t part = PAGE - (at + done) % PAGE;
		struct iovec into = { to + done,
				      part < DUMP_STACK - done ? part : DUMP_STACK - done };
		struct iovec from = { (void *)(at + done), into.iov_len };

		if (process_vm_readv(getpid(), &into, 1, &from, 1, 0) != (ssize_t)into.iov_len)
			break;
		done += into.iov_len;
	}
	return done;
}

static int save(const char *directory, const char *name, const void *bytes, size_t size)
{
	char path[512];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	if (!file)
		return -1;
	r = fwrite(bytes, size, 1, file) == 1 ? 0 : -1;
	return fclose(file) ? -1 : r;
}

static int save_maps(const char *directory)
{
	static char text[1 << 20];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t size = 0;
	ssize_t n;

	while ((n = read(fd, text + size, sizeof(text) - size)) > 0)
		size += (size_t)n;
	close(fd);
	return save(directory, "maps", text, size);
}

__attribute__((noinline)) int unwind_dump(const char *directory, const char *name, uint64_t other)
{
	struct unwind_dump *dump = calloc(1, sizeof(*dump));
	void *frame[DUMP_FRAMES];
	int r;

	if (!dump)
		return -1;
	dump->frames = (uint32_t)backtrace(frame, DUMP_FRAMES);
	memcpy(dump->frame, frame, dump->frames * sizeof(frame[0]));
	__asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
			 : "=&r"(dump->pc), "=&r"(dump->sp), "=&r"(dump->bp));
	dump->size = copy(dump->sp, dump->stack);
	dump->other = other;
	dump->other_size = copy(other, dump->other_stack);
	r = save(directory, name, dump, sizeof(*dump));
	free(dump);
	return r ? r : save_maps(directory);
}
