/* Test cupti hazards: subscribers, detaching, other clocks, and what goes wrong. What ends the
 * process, or needs an environment of its own, is a scenario in a process of its own. */
#include "test_cupti.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CBID_LAUNCH 307
#define KERNELS	    200

static const char *program_path;
static struct {
	uint32_t enters, exits, correlation, resources;
	int finalized;
	bool finalize_enter, finalize_exit;
} heard;

static void on_callback(void *user, uint32_t domain, uint32_t id, const void *data)
{
	const struct cupti_callback *call = data;

	(void)id;
	assert_ptr_equal(user, &heard);
	if (domain == CUPTI_DOMAIN_RESOURCE) {
		heard.resources++;
		return;
	}
	assert_string_equal(call->name, "cuLaunchKernel");
	if (call->site == CUPTI_SITE_ENTER) {
		heard.enters++;
		*call->data = 99;
		heard.correlation = call->correlation;
		if (heard.finalize_enter)
			heard.finalized = cuptiFinalize();
		return;
	}
	heard.exits++;
	assert_int_equal(*call->data, 99);
	assert_int_equal(call->correlation, heard.correlation);
	assert_int_equal(*(CUresult *)call->result, 0);
	if (heard.finalize_exit)
		heard.finalized = cuptiFinalize();
}

static void *subscribe(void)
{
	void *subscriber;

	memset(&heard, 0, sizeof(heard));
	heard.finalized = -1;
	OK(cuptiSubscribe(&subscriber, on_callback, &heard));
	return subscriber;
}

static void there_is_one_subscriber(void **state)
{
	void *first = subscribe(), *second;
	CUstream made;

	(void)state;
	FAILS(cuptiSubscribe(&second, on_callback, NULL), CUPTI_E_MULTIPLE_SUBSCRIBERS);
	assert_int_equal(CUPTI_E_MULTIPLE_SUBSCRIBERS, 39);
	launch(stream);
	assert_int_equal(heard.enters, 0);
	OK(cuptiEnableCallback(1, first, CUPTI_DOMAIN_DRIVER, CBID_LAUNCH));
	OK(cuptiEnableDomain(1, first, CUPTI_DOMAIN_RESOURCE));
	launch(stream);
	OK(cuStreamCreate(&made, 0));
	assert_int_equal(heard.enters, 1);
	assert_int_equal(heard.exits, 1);
	assert_int_equal(heard.resources, 1);
	OK(cuptiUnsubscribe(first));
	launch(stream);
	assert_int_equal(heard.enters, 1);
	FAILS(cuptiUnsubscribe(first), CUPTI_E_INVALID_PARAMETER);
	OK(cuptiSubscribe(&second, on_callback, &heard));
	OK(cuStreamDestroy_v2(made));
}

static void detaching_is_safe_at_the_end_of_a_call(void **state)
{
	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	OK(cuptiEnableCallback(1, subscribe(), CUPTI_DOMAIN_DRIVER, CBID_LAUNCH));
	heard.finalize_exit = true;
	launch(stream);
	assert_int_equal(heard.finalized, CUPTI_OK);
	assert_int_equal(client.requested, client.completed);
	client_clear();
	launch(stream);
	assert_int_equal(heard.enters, 1);
	/* And from anew */
	client_register();
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(0));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 1);
}

static void detaching_within_a_call_is_refused(void **state)
{
	(void)state;
	OK(cuptiEnableCallback(1, subscribe(), CUPTI_DOMAIN_DRIVER, CBID_LAUNCH));
	heard.finalize_enter = true;
	launch(stream);
	assert_int_equal(heard.finalized, CUPTI_E_INVALID_OPERATION);
}

static void *wait_for_stream(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(context));
	OK(cuStreamSynchronize(stream));
	return NULL;
}

static void detaching_while_another_is_in_a_call_is_refused(void **state)
{
	uint64_t deadline = client_clock() + 5000000000u;
	pthread_t id;
	int r;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	gate_close(stream);
	OK(pthread_create(&id, NULL, wait_for_stream, NULL));
	do {
		r = cuptiFinalize();
		if (r == CUPTI_OK)
			OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	} while (r == CUPTI_OK && client_clock() < deadline && usleep(1000) == 0);
	gate_open();
	OK(pthread_join(id, NULL));
	/* The thread may have been in its call before we were attached again. */
	assert_true(r == CUPTI_E_INVALID_OPERATION || client_clock() >= deadline);
}

static void without_a_clock_of_ours_times_are_real(void **state)
{
	struct timespec now;
	uint64_t stamp;

	(void)state;
	OK(cuptiGetTimestamp(&stamp));
	assert_true(stamp <= client_clock());
	OK(cuptiFinalize());
	client_register();
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	OK(cuptiFinalize()); /* the clock is forgotten as well */
	client_register();
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(0));
	clock_gettime(CLOCK_REALTIME, &now);
	stamp = client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->kernel.start;
	assert_true(stamp / 1000000000 <= (uint64_t)now.tv_sec + 1);
	assert_true(stamp / 1000000000 + 10 >= (uint64_t)now.tv_sec);
}

static void names_and_numbers_are_answered(void **state)
{
	const char *text;
	uint32_t number;
	uint64_t wide;
	size_t size = sizeof(wide);

	(void)state;
	OK(cuptiGetVersion(&number));
	assert_true(FAKE_CUPTI_MAJOR >= 13 ? number == 130001 : number < 130000);
	OK(cuptiGetCallbackName(CUPTI_DOMAIN_DRIVER, CBID_LAUNCH, &text));
	assert_string_equal(text, "cuLaunchKernel");
	FAILS(cuptiGetCallbackName(CUPTI_DOMAIN_DRIVER, 999, &text), CUPTI_E_INVALID_PARAMETER);
	OK(cuptiGetResultString(39, &text));
	assert_string_equal(text, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
	OK(cuptiActivityGetAttribute(0, &size, &wide));
	FAILS(cuptiActivityFlushAll(0) ? CUPTI_E_INVALID_OPERATION : CUPTI_OK, CUPTI_OK);
}

/* --- scenarios --- */

/* Runs ourselves for one scenario. Gives the wait status; *out is what it printed, cut. */
static int scenario(const char *name, const char *version, const char *odd, char *out, size_t size)
{
	int fds[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	OK(pipe(fds));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		/* A scenario leaves to its end what it has. */
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		if (version)
			setenv("FAKE_CUPTI_VERSION", version, 1);
		if (odd)
			setenv("FAKE_CUPTI_ODD", odd, 1);
		execl(program_path, program_path, name, NULL);
		_exit(127);
	}
	close(fds[1]);
	while (used + 1 < size && (n = read(fds[0], out + used, size - 1 - used)) > 0)
		used += (size_t)n;
	out[used] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_aborts(const char *name, const char *version, const char *why)
{
	char out[1024];
	int status = scenario(name, version, NULL, out, sizeof(out));

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(out, why));
}

static void what_hangs_or_crashes_is_loud(void **state)
{
	char out[1024];

	(void)state;
	assert_aborts("fork", NULL, "forked child");
	assert_aborts("refuse", "22", "bufferRequested gave NULL");
	assert_int_equal(scenario("refuse", "27", NULL, out, sizeof(out)), 0);
	assert_aborts("finalize", "20", "while a thread is in a call");
	assert_aborts("finalize-graph", "20", "after a graph launch");
	assert_int_equal(scenario("finalize-graph", "24", NULL, out, sizeof(out)), 0);
}

static void at_exit_it_may_be_gone(void **state)
{
	char out[1024];

	(void)state;
	assert_int_equal(scenario("exit", NULL, "", out, sizeof(out)), 0);
	assert_string_equal(out, "flush 0, 1 kernels\n");
	assert_int_equal(scenario("exit", NULL, "gone", out, sizeof(out)), 0);
	assert_string_equal(out, "flush 15, 0 kernels\n");
}

/* What the scenario "count" says of its kernels. */
struct counted {
	unsigned int kernels, zero, reversed, twice, unordered, unknown, dropped, first_ms,
		spent_ms;
};

static struct counted count(const char *odd)
{
	struct counted c;
	char out[1024];

	assert_int_equal(scenario("count", NULL, odd, out, sizeof(out)), 0);
	assert_int_equal(sscanf(out, "%u %u %u %u %u %u %u %u %u", &c.kernels, &c.zero, &c.reversed,
				&c.twice, &c.unordered, &c.unknown, &c.dropped, &c.first_ms,
				&c.spent_ms),
			 9);
	return c;
}

static void odd_records_are_as_asked(void **state)
{
	struct counted c = count("");

	(void)state;
	assert_int_equal(c.kernels, KERNELS);
	assert_int_equal(c.zero + c.reversed + c.twice + c.unordered + c.unknown + c.dropped, 0);
	assert_int_equal(count("zero").zero, KERNELS / 50);
	assert_int_equal(count("reversed").reversed, KERNELS / 50);
	assert_int_equal(count("duplicate").twice, KERNELS / 50);
	assert_true(count("shuffle").unordered > KERNELS / 4);
	assert_int_equal(count("shuffle").kernels, KERNELS);
	assert_true(count("unknown").unknown >= KERNELS / 20);
	c = count("drop=10");
	assert_int_equal(c.kernels, KERNELS - KERNELS / 10);
	assert_int_equal(c.dropped, KERNELS / 10);
	assert_true(count("late=300").first_ms >= 300);
	assert_true(count("slow=100000").spent_ms >= KERNELS / 10);
}

static int scenario_count(void)
{
	struct counted c = { 0 };
	uint64_t start = client_clock(), deadline;
	size_t dropped = 0;

	client.buffer_bytes = 8 * sizeof(struct cupti_kernel);
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	if (getenv("FAKE_CUPTI_ODD") && strstr(getenv("FAKE_CUPTI_ODD"), "slow"))
		OK(cuptiActivityEnableDriverApi(CBID_LAUNCH, 1));
	for (int i = 0; i < KERNELS; i++)
		launch(stream);
	c.spent_ms = (unsigned int)((client_clock() - start) / 1000000);
	OK(cuStreamSynchronize(stream));
	deadline = client_clock() + 60000000000u;
	while ((client.requested != client.completed || !client.completed) &&
	       client_clock() < deadline) {
		OK(cuptiActivityFlushAll(0));
		if (!c.first_ms && client_kind(CUPTI_KIND_CONCURRENT_KERNEL))
			c.first_ms = (unsigned int)((client_clock() - start) / 1000000);
		usleep(1000);
	}
	if (!c.first_ms)
		c.first_ms = (unsigned int)((client_clock() - start) / 1000000);
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	c.dropped = (unsigned int)dropped;
	for (size_t i = 0; i < client.count; i++) {
		const struct cupti_kernel *k = &client.got[i].kernel;

		c.unknown += client.got[i].kind == CUPTI_KIND_ODD;
		if (client.got[i].kind != CUPTI_KIND_CONCURRENT_KERNEL)
			continue;
		c.kernels++;
		c.zero += k->start == 0 && k->end == 0;
		c.reversed += k->start > k->end;
		for (size_t j = 0; j < i; j++)
			c.twice += client.got[j].kind == client.got[i].kind &&
				   client.got[j].kernel.correlation == k->correlation;
		c.unordered += i && client.got[i - 1].kind == client.got[i].kind &&
			       client.got[i - 1].kernel.correlation > k->correlation;
	}
	if (c.twice)
		c.unordered = 0;
	printf("%u %u %u %u %u %u %u %u %u\n", c.kernels, c.zero, c.reversed, c.twice, c.unordered,
	       c.unknown, c.dropped, c.first_ms, c.spent_ms);
	return 0;
}

static int scenario_fork(void)
{
	uint64_t stamp;
	int status;
	pid_t pid;

	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		cuptiGetTimestamp(&stamp);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		abort();
	return 0;
}

static int scenario_finalize(bool graph)
{
	CUgraphExec exec;
	CUgraph made;

	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	if (!graph) {
		OK(cuptiEnableCallback(1, subscribe(), CUPTI_DOMAIN_DRIVER, CBID_LAUNCH));
		heard.finalize_enter = true;
		launch(stream);
		return 0;
	}
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(stream);
	OK(cuStreamEndCapture(stream, &made));
	OK(cuGraphInstantiateWithFlags(&exec, made, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	return cuptiFinalize();
}

static void say_flush(void)
{
	int r = cuptiActivityFlushAll(0);

	printf("flush %d, %zu kernels\n", r, client_kind(CUPTI_KIND_CONCURRENT_KERNEL));
	fflush(stdout);
}

int run_scenario(const char *name)
{
	if (strcmp(name, "exit") == 0)
		atexit(say_flush);
	if (cupti_up(NULL))
		return 1;
	if (strcmp(name, "count") == 0)
		return scenario_count();
	if (strcmp(name, "fork") == 0)
		return scenario_fork();
	if (strncmp(name, "finalize", 8) == 0)
		return scenario_finalize(name[8] == '-');
	if (strcmp(name, "exit") == 0) {
		OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
		launch(stream);
		return cuStreamSynchronize(stream);
	}
	if (strcmp(name, "refuse") == 0) {
		client.refuse = true;
		OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
		launch(stream);
		return 0;
	}
	return 2;
}

int run_hazard_tests(const char *program)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cupti_up, cupti_down)
		TEST(there_is_one_subscriber),
		TEST(detaching_is_safe_at_the_end_of_a_call),
		TEST(detaching_within_a_call_is_refused),
		TEST(detaching_while_another_is_in_a_call_is_refused),
		TEST(without_a_clock_of_ours_times_are_real),
		TEST(names_and_numbers_are_answered),
		cmocka_unit_test(what_hangs_or_crashes_is_loud),
		cmocka_unit_test(at_exit_it_may_be_gone),
		cmocka_unit_test(odd_records_are_as_asked),
	};

	program_path = program;
	return cmocka_run_group_tests_name("hazards", tests, NULL, NULL);
}
