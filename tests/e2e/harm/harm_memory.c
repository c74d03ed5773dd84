/* Harm, memory: code that is made at run time, a program that checks the driver's code, or counts
 * what it has. */
#include "harm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS	  200
#define CODES	  64
#define CODE_SIZE 64 /* of a function that is looked at */
#define BLOCKS	  512

/* mov $number, %eax; ret */
static int made(int number)
{
	unsigned char code[] = { 0xb8, 0, 0, 0, 0, 0xc3 };
	unsigned char *at =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int result;

	if (at == MAP_FAILED)
		return -1;
	memcpy(code + 1, &number, sizeof(number));
	memcpy(at, code, sizeof(code));
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	result = ((int (*)(void))(void *)at)();
	munmap(at, 4096);
	return result;
}

static void makes_code(void)
{
	int wrong = 0;

	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		for (int i = 0; i < CODES * 10; i++) {
			wrong += made(i) != i;
			harm_light(1);
		}
		harm_hold(place);
	}
	harm_say("wrong: %d", wrong);
}

static uint64_t sum_of(const void *code)
{
	const unsigned char *byte = code;
	uint64_t sum = 14695981039346656037u;

	for (int i = 0; i < CODE_SIZE; i++)
		sum = (sum ^ byte[i]) * 1099511628211u;
	return sum;
}

static uint64_t sum_of_driver(void)
{
	return sum_of((void *)cuda.cuLaunchKernel) ^ sum_of((void *)cuda.cuMemAlloc_v2) ^
	       sum_of((void *)cuda.cuEventRecord);
}

/* The driver's functions are what they were, as some protections want to know. */
static void checks_code(void)
{
	uint64_t first;

	harm_begin();
	first = sum_of_driver();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		harm_hold(place);
		harm_say("the driver's code: %s than at first",
			 sum_of_driver() == first ? "no other" : "other");
	}
	harm_say("its first byte: %02x", *(const unsigned char *)(void *)cuda.cuLaunchKernel);
}

/* A copy of a function's first instruction and a jump behind it, as those make who put a hook on
 * it: the call that goes past the hook runs the copy. */
static void runs_a_copy(void)
{
	const unsigned char *function;
	unsigned char code[] = { 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
	const unsigned char *behind;
	unsigned char *copy;

	harm_begin();
	function = (const unsigned char *)(void *)cuda.cuEventQuery;
	behind = function + 1;
	code[0] = function[0];
	if (code[0] != 0x55 && code[0] != 0xcc)
		harm_skip("no push at the start of a function");
	memcpy(code + 3, &behind, sizeof(behind)); /* mov behind, %rax; jmp *%rax */
	copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, code, sizeof(code));
	mprotect(copy, 4096, PROT_READ | PROT_EXEC);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_say("by the copy: %d", ((int (*)(handle))(void *)copy)(NULL));
		harm_work(ROUNDS);
		harm_hold(place);
	}
}

static _Atomic int hooked;

static int hook(handle event)
{
	(void)event;
	hooked++;
	return 600; /* not ready */
}

/* A jump over the start of a function of the driver, to one of the program's, as those write who
 * stand between a program and its driver. */
static void hooks_the_driver(void)
{
	unsigned char code[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
	unsigned char *function, *page;
	void *to = (void *)hook;

	harm_begin();
	function = (unsigned char *)(void *)cuda.cuEventQuery;
	memcpy(code + 2, &to, sizeof(to)); /* mov to, %rax; jmp *%rax */
	page = (unsigned char *)((uintptr_t)function & ~4095ul);
	mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy(function, code, sizeof(code));
	mprotect(page, 8192, PROT_READ | PROT_EXEC);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		for (int i = 0; i < ROUNDS; i++)
			cuda.cuEventQuery(NULL);
		harm_say("hooked: %d", hooked);
		harm_hold(place);
	}
}

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

static int lines(const char *path, const char *what)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	int count = 0;

	while (file && fgets(line, sizeof(line), file))
		count += strstr(line, what) != NULL;
	if (file)
		fclose(file);
	return count;
}

/* Leak checks of test suites do that. */
static void counts_itself(void)
{
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		harm_say("descriptors %d, threads %d, executable mappings %d",
			 entries("/proc/self/fd"), entries("/proc/self/task"),
			 lines("/proc/self/maps", "r-xp"));
		harm_hold(place);
	}
}

/* All kinds of sizes, on two threads, with the driver's calls between: what an allocator must be
 * right about. */
static void *allocates(void *data)
{
	static _Thread_local unsigned char *block[BLOCKS];
	unsigned int seed = 7;

	if (!harm_enter())
		return NULL;
	while (!harm_may_leave(HARM_LATE)) {
		for (int i = 0; i < BLOCKS; i++) {
			seed = seed * 1103515245u + 12345u;
			free(block[i]);
			block[i] = malloc(1 + (seed >> 16) % 20000);
			memset(block[i], (int)seed, 1);
		}
		harm_light(10);
		harm_nap(1000);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	return data;
}

static void allocator(void)
{
	pthread_t thread[2];

	harm_begin();
	for (int i = 0; i < 2; i++)
		harm_start(&thread[i], allocates, NULL);
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

const struct harm_case harm_memory[] = {
	{ "makes-code", makes_code },
	{ "checks-code", checks_code },
	{ "runs-a-copy", runs_a_copy },
	{ "hooks-the-driver", hooks_the_driver },
	{ "counts-itself", counts_itself },
	{ "allocator", allocator },
	{ NULL, NULL },
};
