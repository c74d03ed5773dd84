/* Attaching: running programs, which must not notice. */

#include <inttypes.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "core/base/array.h"
#include "daemon/attach/freeze.h"
#include "tests/unit/attach_story.h"

#define CYCLES		20
#define ROUNDS		4
#define WAITS_CYCLES_MS 150 /* in a call of 400 ms, or later on a busy machine */
#define SAMPLES		20
#define SAMPLE_US	2000
#define KILLS		80
#define FREEZES		100

/* What is there at the least: a busy program has more for moments. */
static struct residue settled_residue_of(pid_t pid)
{
	struct residue least = residue_of(pid);

	for (int i = 0; i < SAMPLES; i++) {
		struct residue now = residue_of(pid);

		if (now.mappings < least.mappings)
			least.mappings = now.mappings;
		if (now.descriptors < least.descriptors)
			least.descriptors = now.descriptors;
		usleep(SAMPLE_US);
	}
	return least;
}

static void cycles_leave_nothing(const char *mode, const char *alone, bool threads_change)
{
	struct victim victim = victim_start(mode, alone);
	struct residue before, after;
	struct attach_result result;
	bool grew = true;

	cycle(&victim, &result); /* the C library keeps a thread's stack */
	after = settled_residue_of(victim.pid);
	/* A program that allocates gets stacks and arenas of its own, up to a number; what a cycle
	 * leaves behind comes in every round. */
	for (int round = 0; grew && round < ROUNDS; round++) {
		before = after;
		for (int i = 0; i < CYCLES; i++)
			cycle(&victim, &result);
		after = settled_residue_of(victim.pid);
		if (after.ours || (!threads_change && (after.threads != before.threads ||
						       after.descriptors != before.descriptors)))
			fail_msg("%s, and before %s; %s", residue_text(after), residue_text(before),
				 victim_state(&victim));
		grew = after.mappings >= before.mappings + CYCLES / 2 ||
		       after.descriptors >= before.descriptors + CYCLES / 2;
	}
	if (grew)
		fail_msg("grows in every round, to %s from %s; %s", residue_text(after),
			 residue_text(before), victim_state(&victim));
	assert_int_equal(victim_end(&victim), 0);
}

static void a_program_of_one_sleeping_thread_is_as_it_was(void **state)
{
	cycles_leave_nothing("read", NULL, false);
}

static void a_program_of_one_computing_thread_keeps_its_registers(void **state)
{
	cycles_leave_nothing("vectors", "alone", false);
}

static void computing_threads_keep_their_registers(void **state)
{
	cycles_leave_nothing("vectors", NULL, false);
}

static void a_thread_that_allocates_all_the_time_is_left_in_peace(void **state)
{
	cycles_leave_nothing("malloc", "alone", true);
}

static void a_thread_that_forks_all_the_time_is_left_in_peace(void **state)
{
	cycles_leave_nothing("fork", NULL, true);
}

static void a_thread_with_descriptors_of_its_own_is_left_in_peace(void **state)
{
	cycles_leave_nothing("own_files", NULL, false);
}

static void a_loader_that_is_never_free_is_waited_for(void **state)
{
	struct victim victim = victim_start("dlopen", NULL);
	struct attach_result result;

	for (int i = 0; i < 3; i++)
		cycle(&victim, &result);
	assert_int_equal(residue_of(victim.pid).ours, 0);
	assert_int_equal(victim_end(&victim), 0);
}

static void no_signal_of_a_storm_is_lost(void **state)
{
	cycles_leave_nothing("signals", "alone", true);
	cycles_leave_nothing("signals", NULL, false);
}

static void a_program_that_does_everything_is_as_it_was(void **state)
{
	cycles_leave_nothing("chaos", NULL, true);
}

/* The system call that its main thread is in, -1: it runs. */
static long victim_call(const struct victim *victim)
{
	char path[64], text[64];
	long found = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", victim->pid);
	file = fopen(path, "re");
	if (file && fgets(text, sizeof(text), file) && text[0] != 'r')
		found = atol(text);
	if (file)
		fclose(file);
	return found;
}

static void victim_waits(const struct victim *victim, long number)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;

	while (victim_call(victim) != number)
		if (!fixture_rests(end))
			fail_msg("is not in call %ld: %s", number, victim_state(victim));
}

/* The library comes and goes some times while the call waits. `signal_waits`: the system call that
 * only a signal ends; 0: it ends by itself, or at a byte. */
static void call_waits_on(const char *name, long signal_waits)
{
	struct victim victim = victim_start(name, NULL);
	struct attach_result result;
	uint64_t end = fixture_now_ms() + WAITS_CYCLES_MS;
	int status, count = 0;

	do
		cycle(&victim, &result);
	while (++count < 3 && fixture_now_ms() < end);
	if (signal_waits) {
		victim_waits(&victim, signal_waits);
		kill(victim.pid, SIGUSR1);
	}
	status = victim_end(&victim);
	if (status)
		fail_msg("%s: %d", name, status);
}

static void calls_with_a_time_wait_that_long(void **state)
{
	static const char *const names[] = { "nanosleep", "clock_nanosleep", "poll",	  "ppoll",
					     "select",	  "futex",	     "condition", "wait4" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		call_waits_on(names[i], 0);
}

/* The kernel does not tell how long they waited: they may wait longer, and never end early. */
static void calls_that_the_kernel_would_end_wait_on(void **state)
{
	static const char *const names[] = { "epoll_time", "recv_time", "sigtimedwait" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		call_waits_on(names[i], 0);
}

static void calls_that_wait_for_data_get_it(void **state)
{
	call_waits_on("read", 0);
	call_waits_on("recv", 0);
	call_waits_on("epoll", 0);
}

static void calls_that_wait_for_a_signal_get_it(void **state)
{
	call_waits_on("pause", SYS_pause);
	call_waits_on("sigsuspend", SYS_rt_sigsuspend);
	call_waits_on("epoll_signal", SYS_epoll_wait);
}

/* Forbidden, or not there: said aloud. */
static bool has_uring(void)
{
	char params[256] = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 1, params);

	if (fd < 0)
		print_message("skipped: io_uring_setup: %s\n", strerror(errno));
	close(fd);
	return fd >= 0;
}

static void completions_are_waited_for_on(void **state)
{
	if (!has_uring())
		skip();
	call_waits_on("uring", 0);
	call_waits_on("uring_worker", 0);
	call_waits_on("uring_time", 0);
	call_waits_on("uring_signal", SYS_io_uring_enter);
}

static void write_of_which_nothing_is_written_waits_on(void **state)
{
	call_waits_on("pipe", 0);
}

/* All threads at once, and not in time: those that come to stop later are let go as they were. */
static void call_of_a_process_that_stops_too_late_waits_on(void **state)
{
	struct victim victim = victim_start("epoll", NULL);
	struct freeze freeze;
	int status, late = 0;

	for (int i = 0; i < FREEZES; i++) {
		int r;

		victim_waits(&victim, SYS_epoll_wait);
		r = freeze_stop(victim.pid, 0, &freeze);
		if (r == 0)
			freeze_release(&freeze);
		else
			assert_int_equal(r, -EAGAIN);
		late += r < 0;
	}
	print_message("%d of %d were too late\n", late, FREEZES);
	status = victim_end(&victim);
	if (status)
		fail_msg("epoll: %d", status);
}

/* Where no other thread can be had, and it goes on as if nobody had asked. */
static void is_refused_while_it_waits(const char *name, long number, const char *said)
{
	struct victim victim = victim_start(name, NULL);
	int status;

	victim_waits(&victim, number);
	refuses(&victim, true, -EAGAIN, said);
	status = victim_end(&victim);
	if (status)
		fail_msg("%s: %d", name, status);
}

static void call_that_would_end_half_done_is_named(void **state)
{
	is_refused_while_it_waits("pipe_large", SYS_write, "('attach_target') of process");
	is_refused_while_it_waits("pipe_large", SYS_write,
				  "waits in write(), which would end half done if it was stopped: "
				  "try again when what it writes is read");
	if (has_uring())
		is_refused_while_it_waits("uring_submit", SYS_io_uring_enter,
					  "waits in io_uring_enter()");
}

/* In the middle of an attach: the call must neither wait on nor miss its handler. */
static void a_signal_during_the_stop_ends_the_call(void **state)
{
	static const char *const names[] = { "pause", "sigsuspend", "epoll_signal" };
	static const long numbers[] = { SYS_pause, SYS_rt_sigsuspend, SYS_epoll_wait };

	for (int i = 0; i < 60; i++) {
		struct victim victim = victim_start(names[i % 3], NULL);
		pid_t daemon;
		int r;

		victim_waits(&victim, numbers[i % 3]);
		daemon = attach_elsewhere(&victim, ENTRY_STARTS);
		usleep((useconds_t)(i * 70));
		kill(victim.pid, SIGUSR1);
		r = elsewhere_end(daemon);
		if (r != 0 && r != -ESRCH)
			fail_msg("attach %d: %d; %s", i, r, victim_state(&victim));
		assert_int_equal(victim_end(&victim), 0);
	}
}

static void a_second_attach_is_refused_and_a_parked_library_started_again(void **state)
{
	struct victim victim = victim_start("read", NULL);
	uint64_t end = fixture_now_ms() + DEADLINE_MS;
	struct attach_result first, second;
	struct remarks why = { 0 };

	assert_int_equal(victim_attach(&victim, ENTRY_STARTS, &first, &why), 0);
	assert_false(first.loaded_before);
	assert_true(fixture_hears(first.socket, TS_MESSAGE_HELLO));
	refuses(&victim, false, -EALREADY, "already");
	assert_true(fixture_dismiss(first.socket));
	close(first.socket);
	while (residue_of(victim.pid).threads > 1)
		assert_true(fixture_rests(end));
	assert_int_equal(victim_attach(&victim, ENTRY_STARTS, &second, &why), 0);
	assert_true(second.loaded_before);
	assert_int_equal(second.handle, first.handle);
	assert_true(fixture_hears(second.socket, TS_MESSAGE_HELLO));
	assert_true(fixture_dismiss(second.socket));
	close(second.socket);
	assert_int_equal(victim_unload(&victim, second.handle, &why), 0);
	assert_int_equal(residue_of(victim.pid).ours, 0);
	assert_int_equal(attach_unload(victim.pid, 0, second.handle, &why), -ENOEXEC);
	remarks_clear(&why);
	assert_int_equal(victim_end(&victim), 0);
}

/* Its tracer is killed while it is inside the call, which only ends after that: it finds its way
 * back alone, and nobody takes the memory away before. */
static void a_program_survives_the_death_of_the_daemon(void **state)
{
	static const char *const modes[][2] = { { "vectors", "alone" }, { "read", NULL } };

	for (int i = 0; i < 8; i++) {
		struct victim victim = victim_start(modes[i % 2][0], modes[i % 2][1]);
		_cleanup_(remarks_clear) struct remarks why = { 0 };
		pid_t daemon = attach_elsewhere(&victim, ENTRY_OUTLIVES);
		uint64_t end = fixture_now_ms() + DEADLINE_MS;
		int status, r;

		while (!residue_of(victim.pid).placed) /* until then it sleeps for itself */
			if (!fixture_rests(end))
				fail_msg("nothing is placed: %s", victim_state(&victim));
		victim_waits(&victim, SYS_clock_nanosleep);
		kill(daemon, SIGKILL);
		waitpid(daemon, &status, 0);
		if (!WIFSIGNALED(status))
			fail_msg("attach ended before: %#x; %s", status, victim_state(&victim));
		r = attach_tidy(victim.pid, 0, &why);
		if (r != 1)
			fail_msg("tidy %d: %d, %s; %s", i, r, remarks_text(&why) ?: "",
				 victim_state(&victim));
		assert_int_equal(victim_end(&victim), 0);
	}
}

/* The thread that worked for the daemon is the program's again: it has its signals. Before, it may
 * be on its way to make what is to be tidied up. */
static void victim_is_back(const struct victim *victim)
{
	uint64_t blocked = ~0ull;
	char path[64], line[256];
	FILE *file;

	if (!victim_answers(victim))
		fail_msg("the program does not come back: %s", victim_state(victim));
	snprintf(path, sizeof(path), "/proc/%d/status", victim->pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "SigBlk: %" SCNx64, &blocked);
	if (file)
		fclose(file);
	assert_int_equal(blocked, 0);
}

/* What the next daemon does with it. The library, if it has started, stays for its own connection,
 * and goes when that ends. Returns whether there was something. */
static bool next_daemon_tidies(const struct victim *victim, struct residue before)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	uint64_t end = fixture_now_ms() + DEADLINE_MS;
	struct residue now;
	bool found;
	int r = 0;

	victim_is_back(victim);
	found = victim_tidied(victim);
	do {
		now = residue_of(victim->pid);
	} while ((now.descriptors > before.descriptors || now.threads > before.threads) &&
		 fixture_rests(end));
	if (now.threads != before.threads || now.descriptors != before.descriptors)
		fail_msg("%s, and before %s; %s", residue_text(now), residue_text(before),
			 victim_state(victim));
	assert_false(victim_tidied(victim));
	if (now.ours)
		r = victim_unload(victim, 0, &why);
	if (r < 0)
		fail_msg("unload: %d, %s; %s", r, remarks_text(&why), victim_state(victim));
	now = residue_of(victim->pid);
	if (now.ours || now.placed)
		fail_msg("%s; %s", residue_text(now), victim_state(victim));
	return found;
}

/* Wherever it is: each stop has its moments. */
static void a_program_survives_the_death_of_the_daemon_at_any_moment(void **state)
{
	static const char *const modes[][2] = { { "vectors", "alone" }, { "read", NULL } };
	const char *kills = getenv("TS_KILLS"); /* tests/soak/kills has more */
	int tidied = 0, count = kills ? atoi(kills) : KILLS;

	for (int i = 0; i < count; i++) {
		struct victim victim = victim_start(modes[i % 2][0], modes[i % 2][1]);
		struct residue before = residue_of(victim.pid);
		pid_t daemon = attach_elsewhere(&victim, ENTRY_STARTS);

		usleep((useconds_t)(300 + i % KILLS * 37));
		kill(daemon, SIGKILL);
		waitpid(daemon, NULL, 0);
		tidied += next_daemon_tidies(&victim, before);
		assert_int_equal(victim_end(&victim), 0);
	}
	print_message("%d of %d had to be tidied\n", tidied, count);
}

static void a_program_killed_in_the_middle_is_told_and_not_kept(void **state)
{
	for (int i = 0; i < 60; i++) {
		struct victim victim = victim_start(i % 2 ? "chaos" : "read", NULL);
		pid_t daemon = attach_elsewhere(&victim, ENTRY_STARTS);
		int r;

		usleep((useconds_t)(i * 100));
		kill(victim.pid, SIGKILL);
		r = elsewhere_end(daemon);
		if (r != 0 && r != -ESRCH)
			fail_msg("attach %d: %d; %s", i, r, victim_state(&victim));
		assert_int_equal(victim_end(&victim), 1000 + SIGKILL);
	}
}

static void a_program_in_a_pid_namespace_is_attached_to(void **state)
{
	struct victim outer;
	char path[64], text[32] = "";
	struct attach_result result;
	FILE *file;

	assert_int_equal(unshare(CLONE_NEWPID), 0);
	outer = victim_start("read", NULL);
	snprintf(path, sizeof(path), "/proc/self/ns/pid");
	setns(open(path, O_RDONLY | O_CLOEXEC), CLONE_NEWPID);
	snprintf(path, sizeof(path), "grep NSpid /proc/%d/status", outer.pid);
	file = popen(path, "r");
	assert_non_null(fgets(text, sizeof(text), file));
	pclose(file);
	assert_non_null(strstr(text, "\t1\n"));
	cycle(&outer, &result);
	assert_int_equal(victim_end(&outer), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_of_one_sleeping_thread_is_as_it_was),
		cmocka_unit_test(a_program_of_one_computing_thread_keeps_its_registers),
		cmocka_unit_test(computing_threads_keep_their_registers),
		cmocka_unit_test(a_thread_that_allocates_all_the_time_is_left_in_peace),
		cmocka_unit_test(a_thread_that_forks_all_the_time_is_left_in_peace),
		cmocka_unit_test(a_thread_with_descriptors_of_its_own_is_left_in_peace),
		cmocka_unit_test(a_loader_that_is_never_free_is_waited_for),
		cmocka_unit_test(no_signal_of_a_storm_is_lost),
		cmocka_unit_test(a_program_that_does_everything_is_as_it_was),
		cmocka_unit_test(calls_with_a_time_wait_that_long),
		cmocka_unit_test(calls_that_the_kernel_would_end_wait_on),
		cmocka_unit_test(calls_that_wait_for_data_get_it),
		cmocka_unit_test(calls_that_wait_for_a_signal_get_it),
		cmocka_unit_test(completions_are_waited_for_on),
		cmocka_unit_test(write_of_which_nothing_is_written_waits_on),
		cmocka_unit_test(call_of_a_process_that_stops_too_late_waits_on),
		cmocka_unit_test(call_that_would_end_half_done_is_named),
		cmocka_unit_test(a_signal_during_the_stop_ends_the_call),
		cmocka_unit_test(a_second_attach_is_refused_and_a_parked_library_started_again),
		cmocka_unit_test(a_program_survives_the_death_of_the_daemon),
		cmocka_unit_test(a_program_survives_the_death_of_the_daemon_at_any_moment),
		cmocka_unit_test(a_program_killed_in_the_middle_is_told_and_not_kept),
		cmocka_unit_test(a_program_in_a_pid_namespace_is_attached_to),
	};

	return story_run(tests, ARRAY_SIZE(tests));
}
