/* test_walk_thread: the library's walk over the real frames of this program, which have frame
 * pointers: on its main thread, on others, and on stacks that are no thread's own. */
#include "walk_fixture.h"

#include <alloca.h>
#include <execinfo.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <ucontext.h>

#define FRAMES	    64
#define STACK_BYTES (4 << 20) /* with a sanitizer a thread wants more than usual */
#define FAR_BYTES   (512 << 10)

/* Of the last call. */
static struct {
	struct walked walked;
	uint64_t frame[FRAMES]; /* as glibc's unwinder has them, from the function's on */
	uint32_t count;
} call;

void walk_enter(void);
void on_enter(const uint64_t *saved);

/* A function as it is in light mode: saves what its site saves, and calls the hook. */
__asm__(".pushsection .text\n"
	".globl walk_enter\n"
	".hidden walk_enter\n"
	".type walk_enter,@function\n"
	"walk_enter:\n"
	".cfi_startproc\n"
	"push %rax; pushfq; push %rdi; push %rsi; push %rdx; push %rcx\n"
	"push %r8; push %r9; push %r10; push %r11; push %rbx; push %rbp\n"
	"mov %rsp,%rdi\n"
	"sub $8,%rsp\n"
	".cfi_adjust_cfa_offset 104\n"
	"call on_enter\n"
	"add $104,%rsp\n"
	".cfi_adjust_cfa_offset -104\n"
	"ret\n"
	".cfi_endproc\n"
	".size walk_enter,.-walk_enter\n"
	".popsection");

/* What is above on_enter(), from walk_enter() on. */
static void take_frames(void)
{
	void *frame[FRAMES];
	int count = backtrace(frame, FRAMES), at = 0;
	uint64_t code = (uint64_t)walk_enter;

	while (at < count && (uint64_t)frame[at] - code > 64)
		at++;
	call.frame[0] = code;
	call.count = 1;
	while (++at < count)
		call.frame[call.count++] = (uint64_t)frame[at];
}

__attribute__((visibility("hidden"))) void on_enter(const uint64_t *saved)
{
	const struct ts_light_call own = { .entry = (uint64_t)walk_enter, .frame = TS_LIGHT_SAVED };

	take_frames();
	walk_call(&walker, &own, saved, thread_id(), &call.walked);
}

/* walk_enter(), three functions, and who calls them. */
#define CALLED	  5
#define OWN_FRAME __attribute__((noinline))

static OWN_FRAME int inner(int depth)
{
	walk_enter();
	return depth + 1;
}

static OWN_FRAME int middle(int depth)
{
	volatile char room[200];

	room[depth] = 1;
	return inner(depth) + room[depth];
}

static OWN_FRAME int outer(int depth)
{
	volatile char room[3000];

	room[depth] = 2;
	return middle(depth) + room[depth];
}

/* From one place, so that each walk has the frames of the one before. */
static OWN_FRAME void walk(void)
{
	volatile int depth = 0;

	depth = outer(depth);
}

/* The rules, by what the unwinder says: each has saved RBP and set it, and the last is the end. The
 * id of the stack; 0: it is not one of these. */
static uint64_t learn_frames(void)
{
	const struct rule pushed = { RULE_RBP, RULE_RBP_AT_CFA, -2, 2 };

	if (call.count < CALLED)
		return 0;
	for (size_t i = 1; i < CALLED - 1; i++)
		learn(call.frame[i], pushed);
	learn(call.frame[CALLED - 1], ends);
	return stack_id_of(seed, call.frame, CALLED, TS_END_COMPLETE);
}

/* Whoever is not on the main thread may not fail there. */
static void *walk_once(void *data)
{
	walk();
	return NULL;
}

static void *walk_and_learn(void *data)
{
	uint64_t *expected = data;

	walk();
	*expected = learn_frames();
	walk();
	return NULL;
}

static void assert_walks(void)
{
	uint64_t expected;

	walk_and_learn(&expected);
	assert_int_not_equal(expected, 0);
	assert_int_equal(call.walked.found, expected);
}

static void *find_place(void *data)
{
	walk_find_place(data);
	return NULL;
}

/* On a thread of its own, as the library does it. */
static int setup(void **state)
{
	pthread_t thread;

	walk_setup(state);
	assert_int_equal(pthread_create(&thread, NULL, find_place, &walker.place), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return 0;
}

static void place_is_that_of_this_process(void **state)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0);

	assert_int_equal(walker.place.main_tid, getpid());
	assert_in_range(here, walker.place.main_low, walker.place.main_top);
	assert_int_not_equal(walker.place.block, 0);
	assert_int_equal(walker.place.size, walker.place.block + 8);
	assert_null(walker.place.initialized);
	assert_int_equal(walker.place.is_main, 0);
}

static void frames_of_the_main_thread_are_walked(void **state)
{
	assert_walks();
	assert_int_equal(walker.place.grown, 0);
}

static void run_thread(pthread_attr_t *attr, void *(*run)(void *), void *data)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, attr, run, data), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void frames_of_another_thread_are_walked(void **state)
{
	uint64_t expected = 0;

	run_thread(NULL, walk_and_learn, &expected);
	assert_int_not_equal(expected, 0);
	assert_int_equal(call.walked.found, expected);
	/* Where its stack is was not found out. */
	walker.place.block = 0;
	run_thread(NULL, walk_once, NULL);
	assert_int_equal(call.walked.found, 0);
}

/* The program's own memory, with pages around it that nobody may touch. */
static void frames_on_a_stack_of_the_programs_are_walked(void **state)
{
	size_t bytes = STACK_BYTES + 2 * PAGE;
	uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	uint64_t expected = 0;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE), 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, at + PAGE, STACK_BYTES), 0);
	run_thread(&attr, walk_and_learn, &expected);
	pthread_attr_destroy(&attr);
	munmap(at, bytes);
	assert_int_not_equal(expected, 0);
	assert_int_equal(call.walked.found, expected);
}

/* By rules that would lead far above: nothing but the thread's own stack is read. */
static void *walk_far(void *data)
{
	const int32_t far[] = { 1, 1000, STACK_BYTES / 8, RULE_CFA_MAX };

	walk();
	for (size_t i = 0; i < ARRAY_SIZE(far); i++)
		for (uint8_t kind = RULE_RSP; kind <= RULE_AT_RBP; kind++) {
			const struct rule rule = { kind, RULE_RBP_AT_RBP, INT16_MAX, far[i] };

			forget();
			for (size_t k = 1; k < CALLED; k++)
				learn(call.frame[k], rule);
			walk();
		}
	return NULL;
}

static void rules_lead_nowhere_above_a_threads_stack(void **state)
{
	size_t bytes = STACK_BYTES + 2 * PAGE;
	uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE), 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, at + PAGE, STACK_BYTES), 0);
	run_thread(&attr, walk_far, NULL);
	pthread_attr_destroy(&attr);
	munmap(at, bytes);
}

static ucontext_t before, coroutine;

static void walk_in_coroutine(void)
{
	walk_and_learn(&(uint64_t){ 0 });
}

static void *run_coroutine(void *data)
{
	static uint8_t *own;

	own = own ? own : malloc(STACK_BYTES);
	assert_non_null(own);
	assert_int_equal(getcontext(&coroutine), 0);
	coroutine.uc_stack.ss_sp = own;
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = &before;
	makecontext(&coroutine, walk_in_coroutine, 0);
	assert_int_equal(swapcontext(&before, &coroutine), 0);
	return NULL;
}

/* The rules for all its frames are known. */
static void stack_of_a_coroutine_is_left_alone(void **state)
{
	call.walked.found = 1;
	run_coroutine(NULL);
	assert_int_equal(call.walked.found, 0);
	call.walked.found = 1;
	run_thread(NULL, run_coroutine, NULL);
	assert_int_equal(call.walked.found, 0);
}

/* Deeper than this thread has ever been. */
static __attribute__((noinline)) void walk_below(size_t bytes)
{
	volatile char *room = alloca(bytes);
	uint64_t low = walker.place.main_low;

	for (size_t i = bytes; i >= PAGE; i -= PAGE)
		room[i - PAGE] = 1;
	assert_true((uint64_t)room < low);
	walk_and_learn(&(uint64_t){ 0 });
	assert_int_equal(call.walked.found, 0);
	assert_int_equal(walker.place.grown, 1);
	walker.place.grown = 0;
	walk_find_low(&walker.place);
	assert_true(walker.place.main_low <= (uint64_t)room);
	assert_walks();
	assert_int_equal(walker.place.grown, 0);
}

static void main_stack_may_have_grown(void **state)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0);
	size_t bytes = here - walker.place.main_low + FAR_BYTES;
	struct rlimit limit;

	getrlimit(RLIMIT_STACK, &limit);
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes + 2 * FAR_BYTES)
		skip();
	walk_below(bytes);
}

int main(void)
{
#define OWN(function) cmocka_unit_test_setup_teardown(function, setup, walk_teardown)
	const struct CMUnitTest tests[] = {
		OWN(place_is_that_of_this_process),
		OWN(frames_of_the_main_thread_are_walked),
		OWN(frames_of_another_thread_are_walked),
		OWN(frames_on_a_stack_of_the_programs_are_walked),
		OWN(rules_lead_nowhere_above_a_threads_stack),
		OWN(stack_of_a_coroutine_is_left_alone),
		OWN(main_stack_may_have_grown),
	};
#undef OWN

	return cmocka_run_group_tests_name("walk_thread", tests, NULL, NULL);
}
