/* python_fake: a program that looks like CPython 3.12 from outside, with frames as no interpreter
 * has them. It calls the driver named by its argument with each kind, with an allocation of a size
 * of its own, and says which. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORT	    __attribute__((visibility("default")))
#define WORDS	    512
#define TEXT_BYTES  (1 << 20)
#define ASCII_STATE (1u << 2 | 1u << 5 | 1u << 6)
#define FRAMES	    4096

/* By which an interpreter is found. */
EXPORT uint64_t _PyRuntime[WORDS], PyCode_Type[WORDS], PyUnicode_Type[WORDS];
EXPORT const uint64_t Py_Version = 0x030c01f0;
EXPORT void Py_Is(void)
{
}

static uint64_t interpreter[WORDS], thread[WORDS], cframe[4], frame[FRAMES][16], code[4][WORDS],
	lines[64], file[64];
static int (*allocate)(uint64_t *address, size_t size);

static void put_int(uint64_t *at, size_t offset, uint32_t value)
{
	memcpy((char *)at + offset, &value, sizeof(value));
}

static uint64_t *text_of(uint64_t *at, const char *text, size_t length)
{
	at[1] = (uintptr_t)PyUnicode_Type;
	at[2] = length;
	put_int(at, 32, ASCII_STATE);
	memcpy((char *)at + 40, text, length);
	return at;
}

static void put_code(uint64_t *at, const uint64_t *name)
{
	at[0] = 1;
	at[1] = (uintptr_t)PyCode_Type;
	put_int(at, 68, 7);
	at[112 / 8] = (uintptr_t)file;
	at[128 / 8] = (uintptr_t)name;
	at[136 / 8] = (uintptr_t)lines;
}

static void put_frame(uint64_t *at, const void *of, const void *previous)
{
	at[0] = (uintptr_t)of;
	at[1] = (uintptr_t)previous;
	at[7] = (uintptr_t)of + 192;
}

static void call(const char *name, const void *innermost)
{
	static size_t size;
	uint64_t memory;

	cframe[0] = (uintptr_t)innermost;
	size += 512;
	if (allocate(&memory, size) == 0)
		printf("%s %zu\n", name, size);
}

static void make(void)
{
	uint64_t *wide = calloc(1, TEXT_BYTES + 64);
	char *letters = malloc(TEXT_BYTES);
	static uint64_t short_name[16];
	pthread_key_t key;

	memset(letters, 'x', TEXT_BYTES);
	text_of(wide, letters, TEXT_BYTES);
	text_of(short_name, "good", 4);
	text_of(file, "/fake.py", 8);
	put_code(code[0], short_name);
	put_code(code[1], wide);
	put_code(code[2], short_name);
	code[2][1] = (uintptr_t)PyUnicode_Type;
	put_code(code[3], (const void *)16);
	_PyRuntime[40 / 8] = (uintptr_t)interpreter;
	interpreter[72 / 8] = (uintptr_t)thread;
	thread[136 / 8] = (uintptr_t)pthread_self();
	thread[56 / 8] = (uintptr_t)cframe;
	pthread_key_create(&key, NULL);
	pthread_setspecific(key, thread);
}

/* There, as a device's memory is, and not for other processes: the kernel's page of clocks. */
static void *device_memory(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	struct timespec now;
	void *start = NULL;
	char line[512];

	while (file && !start && fgets(line, sizeof(line), file))
		if (strstr(line, "[vvar]"))
			sscanf(line, "%p", &start);
	if (!file || !start)
		exit(1);
	fclose(file);
	clock_gettime(CLOCK_MONOTONIC, &now); /* reads it */
	return start;
}

/* Which frames of Python stand for. */
EXPORT __attribute__((noinline)) void _PyEval_EvalFrameDefault(int more)
{
	if (more)
		_PyEval_EvalFrameDefault(more - 1);
	else
		call("closed-last", frame[2]);
	__asm__ volatile(""); /* no jump instead of a call */
}

static void call_without_code(void)
{
	void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	put_frame(frame[1], (const void *)0xdead000, frame[0]);
	call("nowhere", frame[1]);
	put_frame(frame[1], closed, frame[0]);
	put_frame(frame[2], code[0], frame[1]);
	call("closed", frame[2]);
	put_frame(frame[1], closed, NULL);
	_PyEval_EvalFrameDefault(1);
	put_frame(frame[1], device_memory(), frame[0]);
	call("device", frame[1]);
}

static void call_all(void)
{
	uint64_t *shim = frame[FRAMES - 1];
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	put_frame(frame[0], code[0], NULL);
	call("good", frame[0]);
	put_frame(frame[1], code[0], frame[1]);
	call("endless", frame[1]);
	for (int i = 2; i < 1000; i++)
		put_frame(frame[i], code[0], i < 999 ? frame[i + 1] : NULL);
	call("many", frame[2]);
	put_frame(frame[1], code[1], frame[0]);
	call("wide", frame[1]);
	put_frame(frame[1], code[2], frame[0]);
	call("no-code", frame[1]);
	put_frame(frame[1], code[3], frame[0]);
	call("no-name", frame[1]);
	call_without_code();
	put_frame(frame[1], code[0], (const char *)frame[0] + 1);
	call("crooked", frame[1]);
	put_frame(frame[1], code[0], (const void *)0xffffffff81000000);
	call("kernel", frame[1]);
	/* Behind the frame comes nothing. */
	munmap(page + 4096, 4096);
	put_frame((uint64_t *)(page + 4096 - 72), code[0], NULL);
	call("at-the-end", page + 4096 - 72);
	put_frame(shim, code[0], shim);
	((char *)shim)[70] = 3;
	call("shims", shim);
	call("crooked-first", (const char *)frame[0] + 1);
	thread[56 / 8] = 1;
	call("no-cframe", NULL);
}

int main(int argc, char **argv)
{
	int (*create)(void *context, unsigned int flags, int device);
	int (*init)(unsigned int flags);
	void *driver, *context;

	make();
	driver = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!driver)
		return 1;
	init = dlsym(driver, "cuInit");
	create = dlsym(driver, "cuCtxCreate_v2");
	allocate = dlsym(driver, "cuMemAlloc_v2");
	if (!init || !create || !allocate || init(0) || create(&context, 0, 0))
		return 1;
	puts("ready");
	fflush(stdout);
	getchar();
	call_all();
	puts("end");
	fflush(stdout);
	getchar();
	return 0;
}
