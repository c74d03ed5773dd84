/* test_walk_node: what a call is to PyTorch's autograd, by the thread-local variables of a library
 * that stands for it: which launches belong to a node, and what runs while one does. */
#include "walk_fixture.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/walk_variables.h"

#define RSP	  16
#define RETURN(n) (0x500010 + (n)*0x20) /* return addresses: of each call another stack */
#define STACKS	  24
#define NUMBER_AT 24 /* bytes, in a node */
#define NO_NUMBER UINT64_MAX
#define PASSED	  8

/* As PyTorch has it: what is looked at starts in the middle. */
struct node {
	uint64_t before[NUMBER_AT / 8], number, other[2], thread;
};

static void *library;
static struct walk_variables *(*variables)(void);
static uint32_t module;	      /* number of the library's block */
static uint32_t variables_at; /* in that */
static struct walk_variables *mine;

static int on_object(struct dl_phdr_info *info, size_t size, void *data)
{
	if (!strstr(info->dlpi_name, WALK_VARIABLES))
		return 0;
	module = (uint32_t)info->dlpi_tls_modid;
	variables_at = (uint32_t)((char *)variables() - (char *)info->dlpi_tls_data);
	return 1;
}

static struct ts_python python_of(uint32_t number)
{
	return (struct ts_python){
		.autograd = {
			.module = number,
			.next = variables_at + offsetof(struct walk_variables, next),
			.node = variables_at + offsetof(struct walk_variables, node),
			.thread = variables_at + offsetof(struct walk_variables, thread),
			.number = NUMBER_AT,
		},
	};
}

static void share(uint32_t number)
{
	const struct ts_python python = python_of(number);

	known_add_python(known, &python, false);
}

static int load(void **state)
{
	library = dlopen(WALK_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	*(void **)&variables = dlsym(library, "walk_variables");
	assert_non_null(variables);
	variables(); /* so that this thread has some */
	dl_iterate_phdr(on_object, NULL);
	assert_int_not_equal(module, 0);
	return 0;
}

static int unload(void **state)
{
	dlclose(library);
	return 0;
}

static int setup(void **state)
{
	walk_setup(state);
	stand_on_stack();
	for (size_t i = 0; i < STACKS; i++)
		learn(RETURN(i), ends);
	mine = variables();
	*mine = (struct walk_variables){ .next = 100, .thread = 1 };
	walker.proven = 1; /* where it matters a test says so */
	return 0;
}

/* A call of this thread with the stack of that number. */
static struct walked call(size_t n)
{
	stack[RSP] = RETURN(n);
	return walk_of(thread_id(), &stack[RSP], 0);
}

static uint64_t id_of(size_t n)
{
	return ID(ENTRY, RETURN(n));
}

static void confirm(size_t n)
{
	known_add_id(known, id_of(n));
}

static struct walked call_in(const struct node *node, size_t n)
{
	struct walked walked;

	mine->node = (uint64_t)node;
	walked = call(n);
	mine->node = 0;
	return walked;
}

static void assert_role(const struct walked *walked, uint64_t role, uint64_t first, uint64_t second,
			uint64_t third)
{
	assert_int_equal(walked->role.role, role);
	assert_int_equal(walked->role.word[0], first);
	assert_int_equal(walked->role.word[1], second);
	assert_int_equal(walked->role.word[2], third);
}

static void without_the_library_the_kernel_looks_itself(void **state)
{
	struct walked walked;

	confirm(0);
	walked = call(0);
	assert_role(&walked, TS_STUB_UNKNOWN, 0, 0, 0);
	assert_int_equal(walked.id, id_of(0));
}

static void launch_behind_a_new_node_is_its_own(void **state)
{
	struct walked walked;

	share(module);
	confirm(0);
	walked = call(0);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0); /* nothing is known of before */
	walked = call(0);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
	mine->next++;
	walked = call(0);
	assert_role(&walked, TS_STUB_FORWARD, 1, 101, 100);
	assert_int_equal(walked.id, id_of(0));
	assert_false(walked.is_new);
	walked = call(0);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
}

static void launch_while_a_node_runs_belongs_to_its_forward_call(void **state)
{
	const struct node node = { .number = 100, .thread = 1 };
	uint64_t joined = stack_id_backward(id_of(1), id_of(0), 0);
	struct walked walked;

	share(module);
	confirm(0);
	confirm(1);
	call(0);
	mine->next++;
	call(0);
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(0), 0, 0);
	assert_int_equal(walked.stack, id_of(1));
	assert_int_equal(walked.id, joined);
	assert_true(walked.is_new);
	known_add_id(known, joined);
	walked = call_in(&node, 1);
	assert_int_equal(walked.id, joined);
	assert_false(walked.is_new);
}

/* Those before it had no launch. Only so many are remembered. */
static void nodes_that_a_launch_passed_by_have_its_stack(void **state)
{
	struct node node = { .thread = 1 };
	struct walked walked;

	share(module);
	confirm(0);
	confirm(1);
	call(0);
	mine->next += 12;
	walked = call(0);
	assert_role(&walked, TS_STUB_FORWARD, 1, 112, 100);
	node.number = 111;
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(0), 0, 0);
	for (node.number = 110; node.number >= 111 - PASSED; node.number--) {
		walked = call_in(&node, 1);
		assert_role(&walked, TS_STUB_BACKWARD, id_of(0), 1, 0);
		assert_int_equal(walked.id, stack_id_backward(id_of(1), id_of(0), 1));
	}
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
	assert_int_equal(walked.id, id_of(1));
}

/* Nodes before the last launch but those passed have their own. */
static void launch_passes_no_node_that_has_its_own(void **state)
{
	struct node node = { .number = 100, .thread = 1 };
	struct walked walked;

	share(module);
	confirm(0);
	confirm(1);
	call(0);
	mine->next += 1;
	call(0);
	mine->next += 1;
	call(1);
	walked = call_in(&node, 2);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(0), 0, 0);
	node.number = 101;
	walked = call_in(&node, 2);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(1), 0, 0);
}

/* Its stack is not known here: the kernel's programs have it, and only they can join. */
static void what_the_kernel_has_of_the_forward_pass_it_joins(void **state)
{
	const struct node node = { .number = 100, .thread = 1 };
	struct walked walked;

	share(module);
	confirm(1);
	call(0);
	mine->next++;
	walked = call(0);
	assert_role(&walked, TS_STUB_FORWARD, 1, 101, 100);
	assert_int_equal(walked.id, 0);
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_LOOK_BACK, 1, 100, 0);
	assert_int_equal(walked.stack, id_of(1));
	assert_int_equal(walked.id, 0);
}

static void backward_call_of_an_unknown_stack_goes_to_the_kernel(void **state)
{
	const struct node node = { .number = 100, .thread = 1 };
	struct walked walked;

	share(module);
	confirm(0);
	call(0);
	mine->next++;
	call(0);
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(0), 0, 0);
	assert_int_equal(walked.stack, 0);
	assert_int_equal(walked.id, 0);
}

/* The daemon would not believe it. */
static void forward_stack_that_was_forgotten_is_no_longer_named(void **state)
{
	const struct node node = { .number = 100, .thread = 1 };
	uint64_t forward = id_of(0);
	struct walked walked;

	share(module);
	confirm(0);
	call(0);
	mine->next++;
	call(0);
	forget();
	for (size_t i = 0; i < STACKS; i++)
		learn(RETURN(i), ends);
	confirm(1);
	walked = call_in(&node, 1);
	assert_int_equal(walked.role.role, TS_STUB_NONE);
	assert_int_equal(walked.id, id_of(1));
	assert_false(walked.is_new);
	walked = call_in(&node, 2);
	assert_int_equal(walked.role.role, TS_STUB_NONE);
	assert_int_equal(walked.id, 0);
	/* Both together are known: the daemon has confirmed them. */
	known_add_id(known, stack_id_backward(id_of(1), forward, 0));
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_BACKWARD, forward, 0, 0);
	assert_int_equal(walked.id, stack_id_backward(id_of(1), forward, 0));
}

static void nodes_that_no_call_has_made_have_no_number(void **state)
{
	struct node node = { .number = NO_NUMBER, .thread = 1 };
	struct walked walked;

	share(module);
	confirm(0);
	confirm(1);
	call(0);
	mine->next++;
	call(0);
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
	assert_int_equal(walked.id, id_of(1));
	node.number = 100;
	node.thread = 2; /* another thread's */
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
}

static void thread_without_a_number_has_made_no_node(void **state)
{
	struct walked walked;

	share(module);
	mine->thread = 0;
	call(0);
	mine->next++;
	walked = call(0);
	assert_int_equal(walked.role.role, TS_STUB_NONE);
}

/* Its numbers begin anew, or another thread has had its place. */
static void numbers_that_go_back_are_not_followed(void **state)
{
	struct walked walked;

	share(module);
	call(0);
	mine->next = 50;
	walked = call(0);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
	mine->next = 51;
	walked = call(0);
	assert_role(&walked, TS_STUB_FORWARD, 1, 51, 50);
	walker.thread[thread_id() % WALK_THREADS].tid++;
	mine->next = 52;
	walked = call(0);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
}

/* Of another thread, which never stood on this stack: only its role is known. */
struct other {
	struct walk_role role[3];
	const struct node *node;
	bool touches;
};

static void *run_other(void *data)
{
	struct other *other = data;
	struct walk_variables *own;

	other->role[0] = walk_role(&walker, thread_id());
	if (!other->touches)
		return NULL;
	own = variables();
	*own = (struct walk_variables){ .next = 7, .thread = 2 };
	other->role[0] = walk_role(&walker, thread_id());
	own->next = 9;
	other->role[1] = walk_role(&walker, thread_id());
	own->node = (uint64_t)other->node;
	other->role[2] = walk_role(&walker, thread_id());
	return NULL;
}

static void each_thread_has_its_own_nodes(void **state)
{
	const struct node node = { .number = 100, .thread = 1 };
	struct other other = { .node = &node, .touches = true };
	pthread_t thread;

	share(module);
	confirm(0);
	call(0);
	mine->next++;
	call(0);
	assert_int_equal(pthread_create(&thread, NULL, run_other, &other), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(other.role[0].role, TS_STUB_NONE);
	assert_int_equal(other.role[1].role, TS_STUB_FORWARD);
	assert_int_equal(other.role[1].word[0], 2);
	assert_int_equal(other.role[1].word[1], 9);
	assert_int_equal(other.role[1].word[2], 7);
	/* The backward pass has threads of its own. */
	assert_int_equal(other.role[2].role, TS_STUB_BACKWARD);
	assert_int_equal(other.role[2].word[0], id_of(0));
}

static void thread_that_never_used_the_library_has_no_variables(void **state)
{
	struct other other = { .touches = false };
	pthread_t thread;

	share(module);
	assert_int_equal(pthread_create(&thread, NULL, run_other, &other), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(other.role[0].role, TS_STUB_NONE);
}

static void library_that_no_thread_has_seen_has_no_variables(void **state)
{
	struct walked walked;

	share(1u << 20);
	walked = call(0);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
}

static void until_a_node_was_found_none_is_believed_to_be_there(void **state)
{
	const struct node node = { .number = 100, .thread = 1 };
	static const struct node empty;
	uint64_t nowhere[] = { 8, (uint64_t)pages, at_word(WORDS) - 8, UINT64_MAX - 8, 1ull << 62 };
	struct walked walked;

	share(module);
	walker.proven = 0;
	confirm(0);
	confirm(1);
	call(0);
	mine->next++;
	call(0);
	for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
		walked = call_in((const struct node *)nowhere[i], 1);
		assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
		assert_int_equal(walked.id, id_of(1));
	}
	/* Memory of zeros, or of others, is no node. */
	walked = call_in(&empty, 1);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
	assert_int_equal(walker.proven, 0);
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(0), 0, 0);
	assert_int_equal(walker.proven, 1);
}

/* What it may do to find out. */
static bool copies_what_is_there(void)
{
	uint64_t last = at_word(WORDS) - 8, word[2];

	stack[WORDS - 2] = 5;
	stack[WORDS - 1] = 6;
	return light_copy(last - 8, word, 2) && word[0] == 5 && word[1] == 6 &&
	       light_copy(last - 4, word, 1) && word[0] == 6ull << 32 &&
	       !light_copy(last, word, 2) && !light_copy(last + 4, word, 1) &&
	       !light_copy(0, word, 1) && !light_copy((uint64_t)pages, word, 1) &&
	       !light_copy(UINT64_MAX - 7, word, 1) && !light_copy(1ull << 62, word, 1);
}

/* A program that is killed for what it does not do itself. */
static int filter_calls(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Also once the process has got a filter, since it was asked about. */
static void what_is_not_there_is_not_copied(void **state)
{
	int status;
	pid_t pid;

	assert_true(light_hook_prepare());
	assert_true(copies_what_is_there());
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (filter_calls() < 0)
			_exit(2);
		/* Not by _exit(): a sanitizer has more to do there. */
		syscall(SYS_exit_group, copies_what_is_there() ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Two keys in one place: whoever comes later has it. */
static void node_whose_place_was_taken_is_forgotten(void **state)
{
	struct node node = { .number = 100, .thread = 1 };
	struct walked walked;

	share(module);
	confirm(0);
	confirm(1);
	call(0);
	mine->next++;
	call(0);
	mine->next = 100 + WALK_NODES;
	call(1);
	mine->next++;
	call(1);
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_NONE, 0, 0, 0);
	node.number += WALK_NODES;
	walked = call_in(&node, 1);
	assert_role(&walked, TS_STUB_BACKWARD, id_of(1), 0, 0);
}

int main(void)
{
#define OWN(function) cmocka_unit_test_setup_teardown(function, setup, walk_teardown)
	const struct CMUnitTest tests[] = {
		OWN(without_the_library_the_kernel_looks_itself),
		OWN(launch_behind_a_new_node_is_its_own),
		OWN(launch_while_a_node_runs_belongs_to_its_forward_call),
		OWN(nodes_that_a_launch_passed_by_have_its_stack),
		OWN(launch_passes_no_node_that_has_its_own),
		OWN(what_the_kernel_has_of_the_forward_pass_it_joins),
		OWN(backward_call_of_an_unknown_stack_goes_to_the_kernel),
		OWN(forward_stack_that_was_forgotten_is_no_longer_named),
		OWN(nodes_that_no_call_has_made_have_no_number),
		OWN(thread_without_a_number_has_made_no_node),
		OWN(numbers_that_go_back_are_not_followed),
		OWN(each_thread_has_its_own_nodes),
		OWN(thread_that_never_used_the_library_has_no_variables),
		OWN(library_that_no_thread_has_seen_has_no_variables),
		OWN(until_a_node_was_found_none_is_believed_to_be_there),
		OWN(what_is_not_there_is_not_copied),
		OWN(node_whose_place_was_taken_is_forgotten),
	};
#undef OWN

	return cmocka_run_group_tests_name("walk_node", tests, load, unload);
}
