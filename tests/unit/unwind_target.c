/* unwind_target DIRECTORY [DRIVER [reload COUNT|flood COUNT|scribble COUNT|children]]: a program of
 * traps for who unwinds it; it dumps its stack in each. With a driver it allocates memory there,
 * too, prints how much, which is different each time, and the process that did, and goes through
 * the traps again for each line that it reads. reload: only loads other libraries at the same
 * address, and keeps the last one; flood: only compiles new code; scribble: only calls while a
 * return address below is written over; children: only they call, each until it reads a line, once
 * more for each 'a'. */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/unit/unwind_dump.h"

#define NOINLINE   __attribute__((noinline))
#define KEPT	   __asm__ volatile("" ::: "memory") /* the call before it is no jump */
#define STACK_SIZE 65536

static const char *directory, *driver_path, *self, *name;
static size_t size;	     /* of the last allocation */
static uint64_t interrupted; /* the stack below a handler with one of its own */
static volatile int failed;

static int (*init)(unsigned int flags);
static int (*create)(void **context, unsigned int flags, int device);
static int (*allocate)(uint64_t *address, size_t size);
static int (*set_current)(void *context);
static void *context;

static NOINLINE void dump(void)
{
	uint64_t address;

	failed |= unwind_dump(directory, name, interrupted);
	if (!allocate)
		return;
	size += 4096;
	set_current(context); /* of this thread */
	failed |= allocate(&address, size);
	printf("%s %zu %d\n", name, size, (int)getpid());
	KEPT;
}

static void open_driver(const char *path)
{
	void *driver = dlopen(path, RTLD_NOW);

	init = driver ? dlsym(driver, "cuInit") : NULL;
	create = driver ? dlsym(driver, "cuCtxCreate_v2") : NULL;
	set_current = driver ? dlsym(driver, "cuCtxSetCurrent") : NULL;
	allocate = driver ? dlsym(driver, "cuMemAlloc_v2") : NULL;
	driver_path = path;
	failed |= !init || !create || !allocate || !set_current;
}

/* Once in a family: a child of who has done so cannot. */
static void use_driver(void)
{
	failed |= init(0) || create(&context, 0, 0);
}

static NOINLINE void plain(void)
{
	name = "plain";
	dump();
	KEPT;
}

static void on_signal(int number, siginfo_t *info, void *data)
{
	const ucontext_t *from = data;

	interrupted = (uint64_t)from->uc_mcontext.gregs[REG_RSP];
	dump();
	KEPT;
}

static NOINLINE void signals(const char *which, int flags)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags };

	name = which;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	interrupted = 0;
	KEPT;
}

/* Its first instruction fails. What is before it has no rule, so its address is not to be taken for
 * one that a call returns to. */
void illegal(void);
__asm__(".text\n	.skip 64, 0x90\n.globl illegal\n.type illegal, @function\nillegal:\n"
	"	.cfi_startproc\n	ud2\n	ret\n	.cfi_endproc\n.size illegal, . - "
	"illegal\n");

static sigjmp_buf after;

static void on_fault(int number, siginfo_t *info, void *data)
{
	on_signal(number, info, data);
	siglongjmp(after, 1);
}

static NOINLINE void fault(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	name = "fault";
	sigaction(SIGILL, &action, NULL);
	if (!sigsetjmp(after, 1))
		illegal();
	interrupted = 0;
}

static NOINLINE int variable(int n)
{
	volatile char bytes[n];

	bytes[0] = 1;
	name = "variable";
	dump();
	return bytes[0];
}

/* Aligns its stack, and has one of variable size on top: its frame is found through memory. */
static NOINLINE int aligned(int n)
{
	__attribute__((aligned(64))) volatile float vector[16];
	volatile char *bytes = alloca((size_t)n);

	bytes[0] = 1;
	for (int i = 0; i < 16; i++)
		vector[i] = (float)i;
	name = "aligned";
	dump();
	return bytes[0] + (int)vector[3];
}

static NOINLINE int large(void)
{
	volatile char bytes[20000];

	bytes[0] = 1;
	name = "large";
	dump();
	return bytes[0];
}

static int compare(const void *a, const void *b)
{
	name = "callback";
	dump();
	return 0;
}

static void *thread(void *data)
{
	name = "thread";
	dump();
	return data;
}

static NOINLINE int deep(int n)
{
	int sum;

	if (n == 0) {
		name = "deep";
		dump();
		return 0;
	}
	sum = deep(n - 1) + 1;
	KEPT;
	return sum;
}

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
	name = "coroutine";
	dump();
	KEPT;
}

static NOINLINE void coroutines(void)
{
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = malloc(STACK_SIZE);
	coroutine_context.uc_stack.ss_size = STACK_SIZE;
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);
	swapcontext(&main_context, &coroutine_context);
}

static NOINLINE void after_longjmp(void)
{
	static jmp_buf place;

	if (!setjmp(place))
		longjmp(place, 1);
	name = "longjmp";
	dump();
	KEPT;
}

/* Each has a page of its own, which is not used for anything else. */
static NOINLINE void call_compiled(const char *which, const uint8_t *code, size_t size,
				   uint8_t **page)
{
	if (!*page)
		*page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*page == MAP_FAILED) {
		failed = 1;
		return;
	}
	name = which;
	memcpy(*page, code, size);
	((void (*)(void (*)(void))) * page)(dump);
	KEPT;
}

/* Calls its argument; no .eh_frame knows it. */
void unknown(void (*function)(void));
__asm__(".text\n.globl unknown\n.type unknown, @function\nunknown:\n"
	"	sub $24, %rsp\n	xor %ebp, %ebp\n	call *%rdi\n	add $24, %rsp\n"
	"	mov saved_rbp(%rip), %rbp\n	ret\n"
	".size unknown, . - unknown\n.skip 64, 0x90\n");
extern uint64_t saved_rbp;
uint64_t saved_rbp;

static NOINLINE void call_unknown(void)
{
	name = "unknown";
	__asm__ volatile("mov %%rbp, %0" : "=m"(saved_rbp));
	unknown(dump);
	KEPT;
}

static void compiled(void)
{
	static const uint8_t linked[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	static const uint8_t bare[] = { 0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3 };
	static uint8_t *linked_page, *bare_page;

	/* push and mov %rbp first; %rbp is 0 */
	call_compiled("compiled", linked, sizeof(linked), &linked_page);
	call_compiled("compiled-bare", bare, sizeof(bare), &bare_page);
}

static void (*kept)(void (*)(void)); /* of the library that stays */

static NOINLINE void reload(const char *which, const char *library, bool keep)
{
	void *loaded = dlopen(library, RTLD_NOW);
	void (*call)(void (*)(void)) = loaded ? dlsym(loaded, "call_back") : NULL;

	name = which;
	if (call)
		call(dump);
	else
		failed = 1;
	if (keep)
		kept = call;
	else
		dlclose(loaded);
}

/* The last one stays, and is called once more each time: whoever is slow finds at least that. */
static NOINLINE void reloads(int count)
{
	if (kept) {
		name = "reload-again";
		kept(dump);
		return;
	}
	for (int i = 0; i < count && !failed; i++) {
		reload("reload-1000", "libunwind_reload_1000.so", false);
		reload("reload-4000", "libunwind_reload_4000.so", i == count - 1);
	}
}

static NOINLINE void allocate_once(void)
{
	uint64_t address;

	failed |= allocate(&address, 4096);
	KEPT;
}

/* Each call is from a page of its own, and nothing leads out of it. */
static NOINLINE void flood(int count)
{
	static const uint8_t bare[] = { 0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3 };
	uint8_t *code = mmap(NULL, (size_t)count * 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED) {
		failed = 1;
		return;
	}
	set_current(context);
	for (int i = 0; i < count; i++) {
		memcpy(code + (size_t)i * 4096, bare, sizeof(bare));
		((void (*)(void (*)(void)))(code + (size_t)i * 4096))(allocate_once);
	}
}

/* Where the library that was loaded last was. */
static void replace(const char *library)
{
	static void *loaded;

	if (loaded)
		dlclose(loaded);
	loaded = dlopen(library, RTLD_NOW);
	kept = loaded ? dlsym(loaded, "call_back") : NULL;
	if (!kept)
		_exit(1);
}

static NOINLINE void call_until_seen(const char *which)
{
	char answer;

	do {
		name = which;
		kept(dump);
		fflush(stdout);
	} while (read(STDIN_FILENO, &answer, 1) == 1 && answer == 'a');
}

static void await(pid_t pid)
{
	int status;

	failed |= waitpid(pid, &status, 0) != pid || status;
}

static NOINLINE void forks(const char *which, const char *then)
{
	pid_t pid = fork();

	if (pid == 0) {
		use_driver();
		call_until_seen(which);
		replace("libunwind_reload_4000.so");
		call_until_seen(then);
		_exit(failed);
	}
	await(pid);
}

/* The child is on its parent's stack, which waits, and then another program with its id. */
static NOINLINE void vforks(const char *which, const char *then)
{
	pid_t pid = vfork();

	if (pid == 0) {
		call_until_seen(which);
		execl(self, self, directory, driver_path, "executed", then, (char *)NULL);
		_exit(127);
	}
	await(pid);
	call_until_seen("parent");
}

static NOINLINE void executed(const char *which)
{
	size = 1 << 24; /* none of those that the process has had */
	replace("libunwind_reload_4000.so");
	use_driver();
	call_until_seen(which);
}

static void *forks_in_thread(void *data)
{
	forks("thread-fork", "thread-fork-reload");
	return NULL;
}

static void *vforks_in_thread(void *data)
{
	set_current(context);
	vforks("thread-vfork", "thread-executed");
	return NULL;
}

static void in_thread(void *(*function)(void *data))
{
	pthread_t id;

	if (pthread_create(&id, NULL, function, NULL) == 0)
		pthread_join(id, NULL);
	else
		failed = 1;
}

static void children(void)
{
	replace("libunwind_reload_1000.so");
	forks("fork", "fork-reload");
	in_thread(forks_in_thread);
	use_driver();
	call_until_seen("before");
	vforks("vfork", "executed");
	in_thread(vforks_in_thread);
}

static atomic_bool stop;
static uintptr_t true_return;

/* The true address, none, nothing's, the kernel's, data's, and all sorts of code's. */
static uintptr_t doubtful_return(uint32_t i)
{
	const uintptr_t addresses[] = {
		true_return,
		0,
		1,
		UINTPTR_MAX,
		(uintptr_t)&stop,
		(uintptr_t)plain + i % 64,
		(uintptr_t)qsort + i * 2654435761u % 65536,
	};

	return addresses[i % (sizeof(addresses) / sizeof(addresses[0]))];
}

static void *scribble(void *data)
{
	volatile uintptr_t *frame = data;

	for (uint32_t i = 0; !stop; i++) {
		frame[0] = doubtful_return(i / 7);
		frame[1] = doubtful_return(i);
	}
	return NULL;
}

/* Its return address, and what it has saved of its caller's, are right again before it returns. */
static NOINLINE void scribbles(int count)
{
	volatile uintptr_t *frame = __builtin_frame_address(0);
	const uintptr_t saved = frame[0];
	pthread_t id;

	true_return = frame[1];
	stop = false;
	set_current(context);
	if (pthread_create(&id, NULL, scribble, (void *)frame) != 0) {
		failed = 1;
		return;
	}
	for (int i = 0; i < count; i++) {
		frame[1] = doubtful_return((uint32_t)i);
		allocate_once();
	}
	stop = true;
	pthread_join(id, NULL);
	frame[0] = saved;
	frame[1] = true_return;
	failed |= unwind_dump(directory, "scribble", 0);
	KEPT;
}

static NOINLINE void traps(int n)
{
	int numbers[] = { 3, 1, 2 };
	pthread_t id;

	plain();
	signals("signal", 0);
	signals("signal-stack", SA_ONSTACK);
	fault();
	variable(50 + n);
	aligned(70 + n);
	large();
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	if (pthread_create(&id, NULL, thread, NULL) == 0)
		pthread_join(id, NULL);
	deep(60);
	coroutines();
	after_longjmp();
	compiled();
	call_unknown();
}

static void go_through(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[3] : "";
	int count = argc > 4 ? atoi(argv[4]) : 0;

	if (!strcmp(what, "reload"))
		reloads(count);
	else if (!strcmp(what, "flood"))
		flood(count);
	else if (!strcmp(what, "scribble"))
		scribbles(count);
	else if (!strcmp(what, "children"))
		children();
	else
		traps(argc);
}

int main(int argc, char **argv)
{
	stack_t stack = { .ss_sp = malloc(STACK_SIZE), .ss_size = STACK_SIZE };

	if (argc < 2)
		return 2;
	self = argv[0];
	directory = argv[1];
	if (argc > 2)
		open_driver(argv[2]);
	if (failed)
		return failed;
	if (argc > 4 && !strcmp(argv[3], "executed")) {
		executed(argv[4]);
		return failed;
	}
	if (argc > 2 && (argc == 3 || strcmp(argv[3], "children") != 0))
		use_driver();
	if (failed)
		return failed;
	sigaltstack(&stack, NULL);
	do {
		go_through(argc, argv);
		printf("end\n");
		fflush(stdout);
	} while (argc > 2 && getchar() == '\n');
	return failed;
}
