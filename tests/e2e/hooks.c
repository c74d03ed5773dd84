/* hooks.c LIBRARY: a program that puts itself between its calls and the driver, as line by line it
 * is told:
 *   hook FUNCTION mprotect|mem	a jump over its start, after which it does nothing but count
 *   unhook FUNCTION		the bytes that were there
 *   call FUNCTION COUNT		says how often the jump was taken
 *   hold BYTES			memory, in place of what was held
 *   fill COUNT			copies into it
 *   drop			frees it
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  4096ul
#define WORDS 3

static void *driver;
static int taken;
static unsigned long long held, held_bytes;
static unsigned char jump[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
static unsigned char before[sizeof(jump)];

static int hook(void)
{
	taken++;
	return 0;
}

static void *find(const char *name)
{
	void *function = dlsym(driver, name);

	if (!function) {
		fprintf(stderr, "hooks: no function '%s'\n", name);
		exit(1);
	}
	return function;
}

static void write_by_mprotect(void *to, const void *from, size_t size)
{
	void *page = (void *)((unsigned long)to & ~(PAGE - 1));

	if (mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
		perror("hooks: mprotect");
	memcpy(to, from, size);
	mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC);
}

static void write_by_mem(void *to, const void *from, size_t size)
{
	int fd = open("/proc/self/mem", O_WRONLY);

	if (fd < 0 || pwrite(fd, from, size, (off_t)(unsigned long)to) != (ssize_t)size)
		perror("hooks: /proc/self/mem");
	close(fd);
}

static void put(const char *name, const char *how)
{
	void *function = find(name), *to = (void *)hook;

	memcpy(jump + 2, &to, sizeof(to)); /* mov to, %rax; jmp *%rax */
	memcpy(before, function, sizeof(before));
	if (strcmp(how, "mem") == 0)
		write_by_mem(function, jump, sizeof(jump));
	else
		write_by_mprotect(function, jump, sizeof(jump));
}

static void call(const char *name, int count)
{
	int (*function)(long, ...) = (int (*)(long, ...))find(name);

	taken = 0;
	for (int i = 0; i < count; i++)
		function(0, 0l, 0l, 0l, 0l, 0l, 0l, 0l, 0l, 0l, 0l);
}

static void drop(void)
{
	if (held)
		((int (*)(unsigned long long))find("cuMemFree_v2"))(held);
	held = 0;
}

static void hold(unsigned long bytes)
{
	int (*allocate)(unsigned long long *, unsigned long) =
		(int (*)(unsigned long long *, unsigned long))find("cuMemAlloc_v2");

	static void *context;

	if (!context) {
		((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, 0);
		((int (*)(void *))find("cuCtxSetCurrent"))(context);
	}
	drop();
	held_bytes = bytes;
	if (allocate(&held, bytes))
		fprintf(stderr, "hooks: no memory\n");
}

static void fill(int count)
{
	static char from[4096];
	int (*copy)(unsigned long long, const void *, unsigned long, void *) =
		(int (*)(unsigned long long, const void *, unsigned long, void *))find(
			"cuMemcpyHtoDAsync_v2");

	for (int i = 0; i < count; i++)
		copy(held, from, held_bytes < sizeof(from) ? held_bytes : sizeof(from), NULL);
}

int main(int argc, char **argv)
{
	char line[256], *word[WORDS];

	driver = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!driver) {
		fprintf(stderr, "hooks: no driver: %s\n", dlerror());
		return 1;
	}
	((int (*)(unsigned int))find("cuInit"))(0);
	while (printf("ready\n") && fflush(stdout) == 0 && fgets(line, sizeof(line), stdin)) {
		char *rest = line;

		for (int i = 0; i < WORDS; i++)
			word[i] = strtok_r(i ? NULL : line, " \n", &rest) ?: "";
		if (strcmp(word[0], "hook") == 0)
			put(word[1], word[2]);
		else if (strcmp(word[0], "unhook") == 0)
			write_by_mem(find(word[1]), before, sizeof(before));
		else if (strcmp(word[0], "hold") == 0)
			hold((unsigned long)atol(word[1]));
		else if (strcmp(word[0], "fill") == 0)
			fill(atoi(word[1]));
		else if (strcmp(word[0], "drop") == 0)
			drop();
		else
			call(word[1], atoi(word[2]));
		printf("%d ", taken);
	}
	return 0;
}
