/* Inject: whatever a library in someone else's process does, its records arrive and nothing else
 * happens to us. */
#include <dirent.h>
#include <pthread.h>

#include "daemon/limits.h"
#include "tests/unit/inject_fixture.h"

static void a_library_gets_a_sealed_ring_and_its_records_arrive(void **state)
{
	const int seals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	struct server *server = *state;
	struct library library;
	struct inject_stats stats;

	server->settings.records = 77;
	library = library_start(server);
	assert_int_equal(library.welcome.slots, SLOTS);
	assert_int_equal(library.welcome.settings.records, 77);
	assert_int_equal(fcntl(library.ring_fd, F_GET_SEALS) & seals, seals);
	assert_int_equal(server->pid, getpid());
	assert_int_equal(server->uid, getuid());
	assert_string_equal(server->hello.version, "test");
	assert_true(inject_has(server->inject, (uint32_t)getpid()));
	for (uint64_t i = 0; i < 5000; i++)
		while (library_put(&library, i) < 0)
			server_turn(server);
	server_wait(server, server->records == 5000);
	assert_true(server->in_order);
	assert_int_equal(server->last.tid, 12);
	inject_stats(server->inject, &stats);
	assert_int_equal(stats.records, 5000);
	assert_int_equal(stats.bytes, 5000 * TS_EVENT_SIZE);
	assert_int_equal(stats.processes, 1);
	library_close(&library);
	server_wait(server, server->gone == 1);
	assert_false(inject_has(server->inject, (uint32_t)getpid()));
}

static void a_quiet_ring_costs_nothing_until_it_is_woken(void **state)
{
	struct server *server = *state;
	struct library library = library_start(server);

	for (uint64_t i = 0; i < 5; i++) {
		server_wait(server, library.ring.head->reader_idle);
		assert_true(list_empty(&server->inject->awake));
		assert_false(uv_is_active((uv_handle_t *)&server->turn.timer) && i > 0);
		assert_int_equal(library_put(&library, i), 0);
		library_wake(&library);
		server_wait(server, server->records == i + 1);
	}
	server_wait(server, !uv_is_active((uv_handle_t *)&server->inject->sweep));
	library_close(&library);
}

static void what_the_daemon_refuses_is_told_in_a_sentence(void **state)
{
	struct server *server = *state;
	struct library library = library_connect(server);
	struct ts_refused refused;

	server->refuse = "Not this one.";
	library_hello(&library);
	server_wait(server, library_has_message(&library));
	assert_int_equal(library_read(&library, &refused, sizeof(refused)), sizeof(refused));
	assert_int_equal(refused.message, TS_MESSAGE_REFUSED);
	assert_string_equal(refused.text, "Not this one.");
	assert_int_equal(library_read(&library, &refused, sizeof(refused)), 0);
	library_close(&library);
	assert_int_equal(server->gone, 0);
}

static void another_protocol_is_refused_before_anybody_is_asked(void **state)
{
	const struct ts_hello hello = { .message = TS_MESSAGE_HELLO,
					.protocol = 99,
					.version = "9\n\xff" };
	struct server *server = *state;
	struct library library = library_connect(server);
	struct ts_refused refused;

	library_send(&library, &hello, sizeof(hello));
	server_wait(server, library_has_message(&library));
	assert_int_equal(library_read(&library, &refused, sizeof(refused)), sizeof(refused));
	assert_non_null(strstr(refused.text, "speaks protocol 99"));
	for (const char *c = refused.text; *c; c++)
		assert_true(*c >= ' ' && *c < 0x7f);
	assert_int_equal(server->hellos, 0);
	library_close(&library);
}

static void a_process_has_one_connection_and_a_new_one_follows_the_old(void **state)
{
	const struct ts_state bye = { .message = TS_MESSAGE_STATE, .state = TS_LIBRARY_GONE };
	struct server *server = *state;
	struct library first = library_start(server), second = library_connect(server);
	struct ts_refused refused;

	library_hello(&second);
	server_wait(server, library_has_message(&second));
	assert_int_equal(library_read(&second, &refused, sizeof(refused)), sizeof(refused));
	assert_non_null(strstr(refused.text, "already connected to the daemon"));
	library_close(&second);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(library_put(&first, i), 0);
	library_send(&first, &bye, sizeof(bye));
	library_close(&first);
	second = library_start(server);
	assert_int_equal(server->hellos, 2);
	assert_int_equal(server->gone, 1);
	assert_int_equal(server->records_at_gone, 100);
	assert_int_equal(server->state.state, TS_LIBRARY_GONE);
	library_close(&second);
}

static void settings_states_and_detach_go_through(void **state)
{
	const struct ts_settings settings = { .budget_ppm = 30000 };
	const struct ts_light_walks walks = { TS_MESSAGE_WALKS, 7, 1234 };
	struct ts_state say = { .message = TS_MESSAGE_STATE, .state = TS_LIBRARY_PAUSED };
	struct server *server = *state;
	struct library library = library_start(server);
	struct ts_refused detach;
	uint32_t pid = (uint32_t)getpid();

	assert_int_equal(inject_settings(server->inject, pid, &settings), 0);
	assert_int_equal(library_read(&library, &library.welcome, sizeof(library.welcome)),
			 sizeof(library.welcome));
	assert_int_equal(library.welcome.message, TS_MESSAGE_SETTINGS);
	assert_int_equal(library.welcome.settings.budget_ppm, 30000);
	memset(say.text, 'x', sizeof(say.text)); /* has no end */
	library_send(&library, &say, sizeof(say));
	server_wait(server, server->states == 1);
	assert_int_equal(strlen(server->state.text), TS_HELLO_TEXT - 1);
	library_send(&library, &walks, sizeof(walks));
	server_wait(server, server->walks.count == 7 && server->walks.ns == 1234);
	assert_int_equal(inject_detach(server->inject, pid), 0);
	assert_int_equal(library_read(&library, &detach, sizeof(detach)), sizeof(detach));
	assert_int_equal(detach.message, TS_MESSAGE_DETACH);
	library_close(&library);
	server_wait(server, server->gone == 1);
	assert_int_equal(inject_detach(server->inject, pid), -ENOENT);
	assert_int_equal(inject_settings(server->inject, pid, &settings), -ENOENT);
}

static void expect_closed(struct server *server, struct library *library)
{
	uint8_t message[512];

	server_wait(server, library_has_message(library));
	assert_int_equal(library_read(library, message, sizeof(message)), 0);
	library_close(library);
}

static void short_foreign_and_too_many_messages_end_the_connection(void **state)
{
	const struct ts_hello hello = { .message = TS_MESSAGE_HELLO,
					.protocol = TS_HELLO_PROTOCOL };
	const struct ts_state say = { .message = TS_MESSAGE_STATE };
	const struct ts_light_walks walks = { .message = TS_MESSAGE_WALKS };
	const uint32_t foreign[32] = { 4711 };
	struct server *server = *state;
	struct library library;
	ssize_t sent;

	library = library_connect(server);
	library_send(&library, &hello, sizeof(hello) - 1);
	expect_closed(server, &library);
	library = library_connect(server);
	library_send(&library, "", 0);
	expect_closed(server, &library);
	library = library_connect(server);
	library_send(&library, &say, sizeof(say));
	expect_closed(server, &library);
	library = library_connect(server);
	library_send(&library, foreign, sizeof(foreign));
	expect_closed(server, &library);
	library = library_connect(server);
	library_send(&library, &walks, sizeof(walks));
	expect_closed(server, &library);
	assert_int_equal(server->hellos, 0);
	library = library_start(server);
	library_send(&library, &walks, sizeof(walks) - 1);
	expect_closed(server, &library);
	library = library_start(server);
	library_send(&library, &hello, sizeof(hello));
	expect_closed(server, &library);
	library = library_start(server);
	do { /* until it is hung up on */
		sent = send(library.fd, &say, sizeof(say), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EAGAIN)
			server_turn(server);
	} while (sent > 0 || errno == EAGAIN);
	server_wait(server, server->gone == 3);
	assert_true(server->states <= LIMIT_INJECT_MESSAGES_PER_S * 2);
	library_close(&library);
}

static void who_says_nothing_is_hung_up_on(void **state)
{
	struct server *server = *state;
	struct library library;

	server_stop(server);
	server->config.hello_ms = 50;
	server_start(server);
	library = library_connect(server);
	expect_closed(server, &library);
	server_wait(server, !uv_is_active((uv_handle_t *)&server->inject->sweep));
}

static void put_and_die(struct server *server, struct library *library)
{
	uint64_t at;

	library_map(library);
	for (uint64_t i = 0; i < 600; i++)
		library_put(library, i);
	ts_ring_begin(&library->ring, 3, &at);
	for (uint64_t i = 600; i < 900; i++)
		library_put(library, i);
	kill(getpid(), SIGKILL);
}

static void what_a_killed_process_left_in_its_ring_is_read(void **state)
{
	struct server *server = *state;
	pid_t child = child_start(server, put_and_die);

	server_wait(server, server->gone == 1);
	assert_int_equal(server->records_at_gone, 900);
	assert_true(server->in_order);
	assert_int_equal(server->stuck, 3);
	assert_int_equal(server->pid, child);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void leave_a_child_and_die(struct server *server, struct library *library)
{
	struct ts_event event = { .kind = TS_EVENT_KERNEL };

	library_map(library);
	event.result = fork();
	if (event.result == 0) {
		/* Holds the socket; the ring tells its pid. */
		for (;;)
			pause();
	}
	ts_ring_put(&library->ring, &event, sizeof(event));
	kill(getpid(), SIGKILL);
}

static void a_process_has_ended_though_a_child_of_it_holds_the_socket(void **state)
{
	struct server *server = *state;
	pid_t child = child_start(server, leave_a_child_and_die);

	server_wait(server, server->gone == 1);
	assert_int_equal(server->records_at_gone, 1);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(server->last.result > 1);
	kill(server->last.result, SIGKILL);
}

/* Its thread may have lost its processor; what others saw later does not overtake it. */
static void what_is_behind_a_slot_in_the_making_is_not_read_yet(void **state)
{
	struct server *server = *state;
	struct library library = library_start(server);
	const struct ts_event event = { .kind = TS_EVENT_KERNEL };
	uint64_t at = 0, before_ns;
	struct peer *peer;

	assert_int_equal(ts_ring_begin(&library.ring, 1, &at), 0);
	library_put(&library, 1);
	peer = inject_find(server->inject, server->pid);
	before_ns = uv_hrtime();
	turn_look(&server->turn);
	assert_true(peer->lane.done_ns < before_ns);
	memcpy(ts_ring_slot(&library.ring, at), &event, sizeof(event));
	ts_ring_publish(&library.ring, at, 0);
	turn_look(&server->turn);
	assert_true(peer->lane.done_ns > before_ns);
	assert_int_equal(server->records, 2);
	assert_true(server->in_order);
	library_close(&library);
}

/* It is not given up because nobody looked for a while: its thread may have stood still, too. */
static void a_daemon_that_did_not_run_gives_up_no_slot(void **state)
{
	struct server *server = *state;
	struct library library = library_start(server);
	const struct ts_event event = { .kind = TS_EVENT_KERNEL };
	uint64_t at = 0;

	assert_int_equal(ts_ring_begin(&library.ring, 1, &at), 0);
	turn_look(&server->turn);
	usleep(600000);
	for (int i = 0; i < 2; i++) {
		uv_update_time(server->inject->loop);
		turn_look(&server->turn);
	}
	assert_int_equal(server->stuck, 0);
	memcpy(ts_ring_slot(&library.ring, at), &event, sizeof(event));
	ts_ring_publish(&library.ring, at, 0);
	turn_look(&server->turn);
	assert_int_equal(server->records, 1);
	library_close(&library);
}

static void a_slot_that_never_comes_is_passed_over_in_a_running_process(void **state)
{
	struct server *server = *state;
	struct library library = library_start(server);
	uint64_t at = 0, start;

	library_put(&library, 0);
	assert_int_equal(ts_ring_begin(&library.ring, 2, &at), 0);
	library_put(&library, 1);
	start = uv_hrtime();
	server_wait(server, server->records == 2);
	assert_true(uv_hrtime() - start > 400000000);
	assert_int_equal(server->stuck, 2);
	server_wait(server, library.ring.head->reader_idle);
	library_close(&library);
}

static void what_found_no_room_is_told_once_and_no_nonsense_is(void **state)
{
	struct server *server = *state;
	struct library library = library_start(server);
	uint64_t number = 0;

	while (library_put(&library, number) == 0)
		number++;
	assert_int_equal(number, SLOTS);
	ts_ring_drop(&library.ring, 7);
	server_wait(server, server->records == number);
	assert_int_equal(server->no_room, 7);
	ts_ring_drop(&library.ring, 3);
	library.ring.head->reader_idle = 0;
	server_wait(server, server->no_room == 10);
	library.ring.head->dropped = UINT64_MAX / 2;
	library_put(&library, number++);
	server_wait(server, server->records == number);
	library.ring.head->dropped = 5;
	library_put(&library, number++);
	server_wait(server, server->records == number);
	assert_int_equal(server->no_room, 10);
	library_close(&library);
}

static void stay(struct server *server, struct library *library)
{
	struct ts_welcome welcome;

	while (library_read(library, &welcome, sizeof(welcome)) > 0)
		;
	for (;;)
		pause();
}

static void there_are_so_many_processes_of_one_user_and_no_more(void **state)
{
	struct server *server = *state;
	struct library library;
	struct inject_stats stats = { 0 };
	pid_t child[2];

	server_stop(server);
	server->config.max_processes = 4;
	server_start(server);
	child[0] = child_start(server, stay);
	child[1] = child_start(server, stay);
	server_wait(server, server->hellos == 2);
	library = library_connect(server);
	expect_closed(server, &library);
	inject_stats(server->inject, &stats);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.processes, 2);
	child_end(child[0]);
	server_wait(server, server->gone == 1);
	library = library_start(server);
	library_close(&library);
	child_end(child[1]);
}

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void thousands_of_connections_leave_nothing_behind(void **state)
{
	struct server *server = *state;
	struct library library = library_start(server);
	int before = count_descriptors();

	for (int i = 0; i < 3000; i++) {
		struct library other = library_connect(server);

		if (i % 3 == 0)
			library_hello(&other); /* refused: there is one already */
		library_close(&other);
		if (i % 50 == 0)
			server_turn(server);
	}
	server_wait(server, list_last(&server->inject->peers, struct peer, link) ==
				    list_first(&server->inject->peers, struct peer, link));
	server_wait(server, count_descriptors() == before);
	library_put(&library, 0);
	library_wake(&library);
	server_wait(server, server->records == 1);
	library_close(&library);
}

static void a_hundred_new_rings_in_turn_leave_nothing_behind(void **state)
{
	struct server *server = *state;
	int before = count_descriptors();

	for (uint64_t i = 0; i < 100; i++) {
		struct library library = library_start(server);

		library_put(&library, i);
		library_close(&library);
		server_wait(server, server->gone == i + 1);
		assert_int_equal(server->records, i + 1);
	}
	server_wait(server, count_descriptors() == before);
}

static void a_socket_is_adopted_when_it_is_the_processes_own(void **state)
{
	struct server *server = *state;
	struct library library = { .ring_fd = -1, .wake_fd = -1 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(inject_adopt(server->inject, pair[0], (uint32_t)getppid()), -EPERM);
	assert_int_equal(inject_adopt(server->inject, pair[0], (uint32_t)getpid()), 0);
	library.fd = pair[1];
	library_hello(&library);
	server_wait(server, library_has_message(&library));
	library_map(&library);
	library_put(&library, 0);
	intake_reach(server->turn.intake, uv_hrtime());
	assert_int_equal(server->records, 1);
	library_close(&library);
	server_wait(server, server->gone == 1);
}

static void a_library_that_is_put_in_and_dies_at_once_is_told(void **state)
{
	struct server *server = *state;
	struct library came;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(inject_adopt(server->inject, pair[0], (uint32_t)getpid()), 0);
	close(pair[1]);
	server_wait(server, server->unheard == 1);
	assert_int_equal(server->pid, getpid());
	/* Not one that came by itself: nobody waits for it. */
	came = library_connect(server);
	server_wait(server, !list_empty(&server->inject->peers));
	library_close(&came);
	server_wait(server, list_empty(&server->inject->peers));
	assert_int_equal(server->unheard, 1);
	assert_int_equal(server->gone, 0);
}

static void a_stale_socket_is_replaced_and_a_living_one_is_not(void **state)
{
	struct server *server = *state;
	struct inject *other = NULL;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat there;
	int fd;

	strcpy(address.sun_path, server->path);
	assert_int_equal(stat(server->path, &there), 0);
	assert_int_equal(there.st_mode & 07777, 0666);
	assert_int_equal(inject_new(&server->loop, server->turn.intake, &server->config,
				    &server_callbacks, server, &other),
			 -EADDRINUSE);
	assert_null(other);
	server_stop(server);
	assert_int_equal(access(server->path, F_OK), -1);
	fd = open(server->path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(inject_new(&server->loop, server->turn.intake, &server->config,
				    &server_callbacks, server, &other),
			 -EEXIST);
	assert_int_equal(unlink(server->path), 0);
	close(fd);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	server_start(server);
}

struct scribbler {
	struct library library;
	bool stop;
};

static void *scribble(void *data)
{
	struct scribbler *scribbler = data;
	const struct ts_ring *ring = &scribbler->library.ring;
	uint64_t x = 88172645463325252ull;

	while (!__atomic_load_n(&scribbler->stop, __ATOMIC_RELAXED)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		ring->head->claimed = x % 3 ? ring->head->taken + x % SLOTS : x;
		ring->word[x % SLOTS] =
			ts_ring_done(ring->head->taken + x % 64) | (x % 5 ? 0 : TS_RING_PASS);
		*(uint64_t *)ts_ring_slot(ring, x) = x % 2 ? TS_EVENT_NAME | x << 32 : x;
	}
	return NULL;
}

/* Where threads may race by design, no sanitizer of threads is asked. */
static void a_library_that_scribbles_over_its_ring_hurts_nobody(void **state)
{
	struct server *server = *state;
	struct scribbler scribbler = { library_start(server), false };
	uint64_t until = uv_hrtime() + 500000000;
	pthread_t thread;

#ifdef __SANITIZE_THREAD__
	library_close(&scribbler.library);
	skip();
#endif
	assert_int_equal(pthread_create(&thread, NULL, scribble, &scribbler), 0);
	while (uv_hrtime() < until)
		server_turn(server);
	__atomic_store_n(&scribbler.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	library_close(&scribbler.library);
	server_wait(server, server->gone == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)
		TEST(a_library_gets_a_sealed_ring_and_its_records_arrive),
		TEST(a_quiet_ring_costs_nothing_until_it_is_woken),
		TEST(what_the_daemon_refuses_is_told_in_a_sentence),
		TEST(another_protocol_is_refused_before_anybody_is_asked),
		TEST(a_process_has_one_connection_and_a_new_one_follows_the_old),
		TEST(settings_states_and_detach_go_through),
		TEST(short_foreign_and_too_many_messages_end_the_connection),
		TEST(who_says_nothing_is_hung_up_on),
		TEST(what_a_killed_process_left_in_its_ring_is_read),
		TEST(a_process_has_ended_though_a_child_of_it_holds_the_socket),
		TEST(what_is_behind_a_slot_in_the_making_is_not_read_yet),
		TEST(a_daemon_that_did_not_run_gives_up_no_slot),
		TEST(a_slot_that_never_comes_is_passed_over_in_a_running_process),
		TEST(what_found_no_room_is_told_once_and_no_nonsense_is),
		TEST(there_are_so_many_processes_of_one_user_and_no_more),
		TEST(thousands_of_connections_leave_nothing_behind),
		TEST(a_hundred_new_rings_in_turn_leave_nothing_behind),
		TEST(a_socket_is_adopted_when_it_is_the_processes_own),
		TEST(a_library_that_is_put_in_and_dies_at_once_is_told),
		TEST(a_stale_socket_is_replaced_and_a_living_one_is_not),
		TEST(a_library_that_scribbles_over_its_ring_hurts_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
