/* What the library goes by when it walks a stack that the daemon knows, where something is not as
 * usual: another daemon comes, a descriptor has its parent's number, memory is no node. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/light.h"

#define PAGE	    4096
#define STACK_BYTES (64 << 10)
#define SEED	    0x5eed
#define ENTRY	    0x401000

static struct walker walker;

/* One that no page of is ever in want, as the daemon makes it. */
static int shared_new(uint32_t version, int seals)
{
	int fd = memfd_create("test_walk_odd", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(struct ts_walk)), 0);
	assert_int_equal(pwrite(fd, &version, sizeof(version), offsetof(struct ts_walk, version)),
			 sizeof(version));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static const struct ts_walk *walk_taken(uint32_t version, int seals)
{
	int fd = shared_new(version, seals);

	light_walk(fd);
	close(fd);
	return light_gate->walker.shared;
}

/* Light mode wants a driver to be near. */
static void *map_driver(void)
{
	char directory[] = "/tmp/test_walk_odd.XXXXXX", path[64];
	void *at;
	int fd;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/libcuda.so.1", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	unlink(path);
	rmdir(directory);
	return at;
}

static void what_a_daemon_knew_goes_with_it(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	void *driver = map_driver();
	struct ts_light light;

	if (driver == MAP_FAILED)
		skip(); /* files in /tmp are not executable here */
	assert_true(light_start(true, &light));
	assert_string_equal(light.text, "");
	assert_null(walk_taken(TS_WALK_VERSION, 0));
	assert_null(walk_taken(TS_WALK_VERSION + 1, seals));
	assert_non_null(walk_taken(TS_WALK_VERSION, seals));
	light_gate->walker.proven = 1;
	light_suspend();
	assert_null(light_gate->walker.shared);
	assert_true(light_start(true, &light));
	assert_null(light_gate->walker.shared);
	assert_non_null(walk_taken(TS_WALK_VERSION, seals));
	assert_int_equal(light_gate->walker.proven, 0);
	assert_true(light_stop());
	munmap(driver, PAGE);
}

/* As a child that a handler has forked off in the middle of a walk finds it. */
static void emptied_walker_knows_nothing(void **state)
{
	static const struct ts_light_call call = { .entry = ENTRY, .frame = TS_LIGHT_SAVED };
	const struct walk_role forward = { .role = TS_STUB_FORWARD };
	uint64_t saved[TS_LIGHT_SAVED + 1] = { 0 }, id = 1;
	struct walked walked;

	memset(&walker, 0, sizeof(walker));
	walk_call(&walker, &call, saved, 1, &walked);
	assert_int_equal(walked.id, 0);
	assert_int_equal(walked.role.role, TS_STUB_UNKNOWN);
	assert_false(walk_python(&walker, 1, true, &id));
	assert_int_equal(walk_role(&walker, 1).role, TS_STUB_UNKNOWN);
	walk_keep(&walker, &forward, 1);
}

static struct ts_walk shared;
static struct walked in_coroutine;

/* Its caller's rule says that it is the outermost one. */
static void walk_in_coroutine(void)
{
	static const struct ts_light_call call = { .entry = ENTRY, .frame = TS_LIGHT_SAVED };
	uint64_t saved[TS_LIGHT_SAVED + 1] = { [TS_LIGHT_SAVED] = ENTRY + 1 };

	walk_call(&walker, &call, saved, (uint32_t)getpid() + 1, &in_coroutine);
}

static void *find_place(void *data)
{
	walk_find_place(data);
	return NULL;
}

/* Who forks by a system call of his own has the parent's number in his descriptor, where the main
 * thread's stack is all from 0 on. */
static void coroutine_of_who_has_another_number_is_left_alone(void **state)
{
	/* Below the descriptor, as the heap is. */
	static _Alignas(16) char stack[STACK_BYTES];
	const struct rule ends = { .kind = RULE_END };
	ucontext_t here, there;
	pthread_t thread;

	memset(&walker, 0, sizeof(walker));
	shared = (struct ts_walk){ .seed = SEED, .depth = TS_STACK_FRAMES_MAX };
	shared.rule[walk_rule_set(ENTRY + 1)][0] =
		(struct ts_walk_rule){ ENTRY + 1, rule_pack(ends, (uint16_t)(ENTRY + 1)) };
	walker.shared = &shared;
	assert_int_equal(pthread_create(&thread, NULL, find_place, &walker.place), 0);
	pthread_join(thread, NULL);
	assert_true(walker.place.block);
	assert_true((uint64_t)stack < walk_thread_pointer());
	assert_int_equal(getcontext(&there), 0);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, walk_in_coroutine, 0);
	in_coroutine.found = 1;
	assert_int_equal(swapcontext(&here, &there), 0);
	assert_int_equal(in_coroutine.found, 0);
}

/* One block of thread-local variables, by the vector of glibc that has it. */
static _Thread_local struct {
	uint64_t next, node, thread;
} variables;

static uint32_t module_of(const void *variable)
{
	uint64_t vector = walk_load(walk_thread_pointer() + 8);
	uint64_t blocks = walk_load(vector - 16);

	for (uint32_t module = 1; module <= blocks; module++) {
		uint64_t block = walk_load(vector + 16ull * module);

		if ((uint64_t)variable - block < PAGE)
			return module;
	}
	return 0;
}

/* All of it is 0, as is the place in a table where nothing was put yet. */
static void memory_that_is_no_node_proves_nothing(void **state)
{
	static const uint64_t nothing[TS_AUTOGRAD_WORDS];
	struct ts_autograd *at = &shared.python.autograd;
	uint32_t module = module_of(&variables);
	uint64_t block;

	if (!module)
		skip();
	memset(&walker, 0, sizeof(walker));
	light_hook_prepare();
	block = walk_load(walk_load(walk_thread_pointer() + 8) + 16ull * module);
	shared = (struct ts_walk){ .seed = SEED };
	at->module = module;
	at->next = (uint32_t)((uint64_t)&variables.next - block);
	at->node = (uint32_t)((uint64_t)&variables.node - block);
	at->thread = (uint32_t)((uint64_t)&variables.thread - block);
	walker.shared = &shared;
	variables.node = (uint64_t)nothing;
	assert_int_equal(walk_role(&walker, 1).role, TS_STUB_NONE);
	assert_int_equal(walker.proven, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_daemon_knew_goes_with_it),
		cmocka_unit_test(emptied_walker_knows_nothing),
		cmocka_unit_test(coroutine_of_who_has_another_number_is_left_alone),
		cmocka_unit_test(memory_that_is_no_node_proves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
