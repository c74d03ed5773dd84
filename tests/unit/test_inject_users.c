/* Users who take what they get of inject.sock: nobody keeps the others out, nor himself. */
#include "inject_fixture.h"

#include <sys/prctl.h>

#include "daemon/limits.h"

#define GREEDY 54321 /* and the next ones */
#define HONEST 54400

static void become(uid_t uid)
{
	if (seteuid(uid) < 0)
		abort();
}

/* Connections that never say anything. */
static void connect_silently(const struct server *server, uid_t uid, struct library *library,
			     int count)
{
	become(uid);
	for (int i = 0; i < count; i++)
		library[i] = library_connect(server);
	become(0);
}

static void restart(struct server *server)
{
	server_stop(server);
	server_start(server);
	assert_int_equal(chmod(server->directory, 0755), 0);
}

/* A process of that user with the library, which tells the slots of its ring, 0: it was refused. */
static pid_t recorded_start(struct server *server, uid_t uid, uint32_t *ret_slots)
{
	int pipes[2];
	pid_t child;

	assert_int_equal(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
	child = fork();
	if (child == 0) {
		struct ts_welcome welcome = { 0 };
		struct library library;

		become(uid);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* after that, which resets it */
		library = library_connect(server);
		library_hello(&library);
		if (library_read(&library, &welcome, sizeof(welcome)) < 0 ||
		    welcome.message != TS_MESSAGE_WELCOME)
			welcome.slots = 0;
		if (write(pipes[1], &welcome.slots, sizeof(welcome.slots)) < 0)
			abort();
		for (;;)
			pause();
	}
	server_wait(server, read(pipes[0], ret_slots, sizeof(*ret_slots)) == sizeof(*ret_slots));
	close(pipes[0]);
	close(pipes[1]);
	return child;
}

static uint32_t held(const struct server *server, uid_t uid)
{
	return (uint32_t)quota_held(&server->inject->places, uid);
}

static void silent_connections_keep_nobody_out(void **state)
{
	struct server *server = *state;
	struct library silent[12];
	struct inject_stats stats;
	uint32_t slots;
	pid_t child[2];

	if (geteuid())
		skip();
	server->config.max_processes = 16;
	restart(server);
	connect_silently(server, GREEDY, silent, 12);
	server_wait(server, (inject_stats(server->inject, &stats), stats.refused == 4));
	assert_int_equal(held(server, GREEDY), 8);
	child[0] = recorded_start(server, HONEST, &slots);
	assert_int_equal(slots, SLOTS);
	assert_int_equal(held(server, HONEST), 1);
	/* Nor his own programs. */
	child[1] = recorded_start(server, GREEDY, &slots);
	assert_int_equal(slots, SLOTS);
	inject_stats(server->inject, &stats);
	assert_int_equal(stats.processes, 2);
	for (int i = 0; i < 12; i++)
		library_close(&silent[i]);
	child_end(child[0]);
	child_end(child[1]);
	server_wait(server, server->gone == 2 && held(server, GREEDY) == 0);
	assert_int_equal(server->inject->places.used, 0);
}

static void many_users_together_keep_nobody_out(void **state)
{
	struct server *server = *state;
	struct library silent[4][8];
	uint32_t slots;
	pid_t child;

	if (geteuid())
		skip();
	server->config.max_processes = 16;
	restart(server);
	for (uid_t i = 0; i < 4; i++)
		connect_silently(server, GREEDY + i, silent[i], 8);
	server_wait(server, held(server, GREEDY + 3) > 0);
	child = recorded_start(server, HONEST, &slots);
	assert_int_equal(slots, SLOTS);
	assert_true(server->inject->places.used <= 16);
	for (int i = 0; i < 4 * 8; i++)
		library_close(&silent[i / 8][i % 8]);
	child_end(child);
	server_wait(server, server->inject->places.used == 0);
}

static void rings_get_smaller_before_they_are_refused(void **state)
{
	const uint32_t slots[] = { 8192, 4096, 4096 };
	struct server *server = *state;
	pid_t child[3];
	uint32_t got;

	if (geteuid())
		skip();
	server->config.slots = slots[0];
	server->config.max_ring_bytes = 2 * LIMIT_INJECT_RING_PART * ts_ring_bytes(slots[0]);
	restart(server);
	for (int i = 0; i < 3; i++) {
		child[i] = recorded_start(server, GREEDY, &got);
		assert_int_equal(got, slots[i]);
	}
	for (int i = 0; i < 3; i++)
		child_end(child[i]);
	server_wait(server, server->inject->ring_bytes.used == 0);
}

static void one_users_rings_leave_memory_for_anothers(void **state)
{
	struct server *server = *state;
	pid_t child[6];
	uint32_t got;

	if (geteuid())
		skip();
	server->config.slots = LIMIT_INJECT_SLOTS_MIN;
	server->config.max_ring_bytes = 6 * ts_ring_bytes(LIMIT_INJECT_SLOTS_MIN);
	restart(server);
	for (int i = 0; i < 5; i++) {
		child[i] = recorded_start(server, GREEDY, &got);
		assert_int_equal(got, i < 3 ? LIMIT_INJECT_SLOTS_MIN : 0);
	}
	child[5] = recorded_start(server, HONEST, &got);
	assert_int_equal(got, LIMIT_INJECT_SLOTS_MIN);
	for (int i = 0; i < 6; i++)
		child_end(child[i]);
	server_wait(server, server->inject->ring_bytes.used == 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)
	const struct CMUnitTest tests[] = {
		TEST(silent_connections_keep_nobody_out),
		TEST(many_users_together_keep_nobody_out),
		TEST(rings_get_smaller_before_they_are_refused),
		TEST(one_users_rings_leave_memory_for_anothers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
