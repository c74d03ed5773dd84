/* Attaching while another thread holds a lock that loading a library takes: our call waits, and the
 * thread that makes it works on. */
#include <dirent.h>
#include <sys/syscall.h>

#include "core/base/array.h"
#include "tests/unit/attach_story.h"

#define ANSWERS 200
#define LOCKED	4

/* Whether a thread of it is traced, and in this system call. */
static bool thread_is_ours_in(pid_t pid, const char *tid, long number)
{
	char path[320], text[256];
	long call = -1;
	int tracer = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, tid);
	file = fopen(path, "re");
	while (file && fgets(text, sizeof(text), file))
		sscanf(text, "TracerPid: %d", &tracer);
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/task/%s/syscall", pid, tid);
	file = fopen(path, "re");
	if (file && fgets(text, sizeof(text), file) && text[0] != 'r')
		call = atol(text);
	if (file)
		fclose(file);
	return tracer && call == number;
}

static bool process_is_ours_in(pid_t pid, long number)
{
	char path[64];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.' && thread_is_ours_in(pid, entry->d_name, number);
	if (dir)
		closedir(dir);
	return found;
}

/* Until our call is under way, and waits. */
static void victim_loads(const struct victim *victim)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;

	while (!process_is_ours_in(victim->pid, SYS_futex))
		if (!fixture_rests(end))
			fail_msg("no call is under way: %s", victim_state(victim));
}

/* And then until the thread has its own turn, in this system call. */
static void victim_has_turn(const struct victim *victim, long number)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;

	victim_loads(victim);
	while (!process_is_ours_in(victim->pid, number))
		if (!fixture_rests(end))
			fail_msg("it has no turn: %s", victim_state(victim));
}

static void victim_is_told(const struct victim *victim, const char *what)
{
	assert_int_equal(send(victim->in, what, 1, MSG_NOSIGNAL), 1);
}

/* Anything can be loaded, and our library goes, once its thread has come, found that nobody is
 * there, and ended: then the main thread is the last one. */
static void victim_is_sound(struct victim *victim)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;
	struct remarks why = { 0 };
	int r;

	if (!victim_does(victim, "o", 'O') || !victim_does(victim, "d", 'D'))
		fail_msg("nothing can be loaded any more: %s", victim_state(victim));
	while (residue_of(victim->pid).threads != 1)
		if (!fixture_rests(end))
			fail_msg("a thread does not end: %s", victim_state(victim));
	r = residue_of(victim->pid).ours ? victim_unload(victim, 0, &why) : 0;
	if (r < 0)
		fail_msg("unload: %d, %s; %s", r, remarks_text(&why), victim_state(victim));
	assert_int_equal(residue_of(victim->pid).ours + residue_of(victim->pid).placed, 0);
	assert_int_equal(victim_end(victim), 0);
}

/* What the program does while our call waits: its thread goes on as if it made none. Whoever has
 * the lock goes on only because the thread does what it is told (g); or while it waits for the
 * loader itself (d). */
static void works_on(const char *mode, bool loads)
{
	struct victim victim = victim_start(mode, NULL);
	pid_t daemon = attach_elsewhere(&victim, ENTRY_STARTS);
	int r;

	victim_loads(&victim);
	for (int k = 0; k < ANSWERS; k++)
		if (!victim_answers(&victim))
			fail_msg("it does not answer: %s", victim_state(&victim));
	victim_is_told(&victim, loads ? "l" : "g");
	if (loads && !victim_does(&victim, "d", 'D'))
		fail_msg("it cannot load: %s", victim_state(&victim));
	r = elsewhere_end(daemon);
	if (r != 0)
		fail_msg("attach: %d; %s", r, victim_state(&victim));
	victim_is_sound(&victim);
}

static void a_thread_that_waits_for_us_with_the_loaders_lock_does_its_own_work(void **state)
{
	for (int i = 0; i < LOCKED; i++) {
		works_on("loader", i % 2);
		works_on("arena", i % 2);
	}
}

/* It ends when our call has. */
static void a_thread_that_ends_while_it_waits_for_us_keeps_no_lock(void **state)
{
	struct victim victim = victim_start("loader_other", NULL);
	pid_t daemon = attach_elsewhere(&victim, ENTRY_STARTS);
	int r;

	victim_has_turn(&victim, SYS_restart_syscall); /* of its poll() */
	victim_is_told(&victim, "e");
	assert_true(victim_answers(&victim));
	victim_is_told(&victim, "g");
	r = elsewhere_end(daemon);
	if (r != 0)
		fail_msg("attach: %d; %s", r, victim_state(&victim));
	victim_is_sound(&victim);
}

/* The call is ended by the next daemon. */
static void a_call_that_was_set_aside_outlives_its_tracer(void **state)
{
	static const char *const modes[] = { "loader", "arena" };

	for (int i = 0; i < LOCKED; i++) {
		struct victim victim = victim_start(modes[i % 2], NULL);
		pid_t daemon = attach_elsewhere(&victim, ENTRY_STARTS);

		victim_has_turn(&victim, SYS_read);
		for (int k = 0; k < i; k++)
			if (!victim_answers(&victim))
				fail_msg("it does not answer: %s", victim_state(&victim));
		kill(daemon, SIGKILL);
		waitpid(daemon, NULL, 0);
		victim_is_told(&victim, "g");
		if (!victim_tidied(&victim))
			fail_msg("nothing was left: %s", victim_state(&victim));
		victim_is_sound(&victim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_that_waits_for_us_with_the_loaders_lock_does_its_own_work),
		cmocka_unit_test(a_thread_that_ends_while_it_waits_for_us_keeps_no_lock),
		cmocka_unit_test(a_call_that_was_set_aside_outlives_its_tracer),
	};

	return story_run(tests, ARRAY_SIZE(tests));
}
