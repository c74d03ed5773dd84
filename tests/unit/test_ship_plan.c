/* Which minute is shipped next: each once, those that have grown again, of former boots too. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "client/ship/plan.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "tests/unit/ship_daemon.h"

#define MINUTES_MAX 16
#define BOOTS_MAX   100
#define NOW_S	    1000000 /* of the current boot */

/* What the daemon knows. */
struct boot {
	char boot_id[CURSOR_BOOT_BYTES];
	int64_t last_s;
};

struct minute {
	uint32_t boot, minute;
	int64_t sum;
};

static struct world {
	int fd;
	pthread_t thread;
	struct boot boot[BOOTS_MAX];
	size_t boots;
	struct minute minute[MINUTES_MAX];
	size_t minutes;
} world;

static struct settings settings = { .host = (char *)"host", .user = (char *)"default" };
static struct source source;
static struct clickhouse *server;
static int listening;
static pthread_t answering;
static const char *said;
static char url[64];

static void say(uint64_t id, const int64_t *number, size_t count)
{
	Tracesmith__V1__Value value[2];

	for (size_t i = 0; i < count; i++)
		value[i] = integer_value(number[i]);
	reply_row(world.fd, id, value, count);
}

static void say_boot(uint64_t id, const struct boot *boot)
{
	Tracesmith__V1__Value value[] = {
		integer_value(boot - world.boot + 1),
		text_value(boot->boot_id),
		integer_value(77),
		integer_value(boot->last_s * NS_PER_S),
		integer_value(8),
	};

	reply_row(world.fd, id, value, ARRAY_SIZE(value));
}

static bool answer(void *data, const Tracesmith__V1__Request *request)
{
	const Tracesmith__V1__QueryRequest *query = request->query;
	int64_t first = INT64_MAX;

	for (size_t i = 0; strcmp(query->name, "ship-boots") == 0 && i < world.boots; i++)
		say_boot(request->id, &world.boot[i]);
	for (size_t i = 0; i < world.minutes; i++) {
		const struct minute *minute = &world.minute[i];

		if (minute->boot != query->boot)
			continue;
		if (strcmp(query->name, "ship-sums") == 0 && minute->minute <= query->number &&
		    minute->minute + 59 >= query->number)
			say(request->id, (int64_t[]){ minute->minute, minute->sum }, 2);
		if (minute->minute >= query->number && minute->minute < first)
			first = minute->minute;
	}
	if ((strcmp(query->name, "ship-first") == 0 || strcmp(query->name, "ship-oldest") == 0) &&
	    first != INT64_MAX)
		say(request->id, &first, 1);
	reply_done(world.fd, request->id);
	return true;
}

static void *run_daemon(void *data)
{
	serve(world.fd, answer, NULL);
	return NULL;
}

/* A ClickHouse that says the same to everything; as a rule it knows nothing of the host. */
static void *run_server(void *data)
{
	char bytes[4096];
	int fd;

	while ((fd = accept(listening, NULL, NULL)) >= 0) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n > 0)
			n = dprintf(fd,
				    "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n"
				    "Connection: close\r\n\r\n%s",
				    strlen(said), said);
		shutdown(fd, SHUT_WR);
		while (recv(fd, bytes, sizeof(bytes), 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

static int setup(void **state)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int pair[2];

	world = (struct world){ .boot = { { "aaaa", 0 }, { "bbbb", 0 } }, .boots = 1 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	world.fd = pair[1];
	source = (struct source){ .open = true };
	connection_init(&source.connection, pair[0]);
	source.connection.hello.now_ns = NOW_S * NS_PER_S + clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(pthread_create(&world.thread, NULL, run_daemon, NULL), 0);
	listening = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listening, 8), 0);
	getsockname(listening, (struct sockaddr *)&address, &size);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	said = "";
	settings.urls[0] = url;
	settings.url_count = 1;
	settings.certificate_file = settings.ca_file = (char *)"";
	settings.database = (char *)"tracesmith";
	assert_int_equal(pthread_create(&answering, NULL, run_server, NULL), 0);
	return clickhouse_new(&settings, &server);
}

static int teardown(void **state)
{
	source_close(&source);
	pthread_join(world.thread, NULL);
	shutdown(listening, SHUT_RDWR);
	pthread_join(answering, NULL);
	close(listening);
	clickhouse_free(server);
	return 0;
}

/* Moves the clock of the daemon, whose hello is the later of the two. */
static void set_now(uint64_t second)
{
	source.connection.hello.now_ns = second * NS_PER_S;
}

static void add(uint32_t boot, uint32_t minute, int64_t sum)
{
	world.minute[world.minutes++] = (struct minute){ boot, minute, sum };
}

static int next(struct cursor *cursor, bool open, struct parcel_plan *plan)
{
	*plan = (struct parcel_plan){ .settings = &settings };
	return plan_next(&source, server, cursor, open, plan);
}

/* As when a parcel has arrived. */
static void arrived(struct cursor *cursor, const struct parcel_plan *plan)
{
	cursor->minute = 60 * (uint64_t)plan->about.minute + (plan->open ? 0 : 60);
	cursor->told_ns = plan->told_ns;
	cursor->rows++;
}

static uint64_t expect_minute(struct cursor *cursor, uint32_t boot, uint32_t minute)
{
	struct parcel_plan plan;

	assert_int_equal(next(cursor, false, &plan), PLAN_READY);
	assert_int_equal(plan.about.boot, boot);
	assert_int_equal(plan.about.minute, minute);
	assert_false(plan.open);
	assert_int_equal(plan.again_count, 0);
	arrived(cursor, &plan);
	assert_true(plan.lost_s == plan.lost_to - plan.lost_from);
	return plan.lost_s;
}

/* The machine may be up for longer than the daemon of the test says. */
static uint32_t now_minute(void)
{
	return (uint32_t)(source_now_ns(&source) / NS_PER_S / 60);
}

static void minutes_come_once_and_in_order(void **state)
{
	struct cursor cursor = { 0 }, hurried;
	struct parcel_plan plan;
	uint32_t now = now_minute();

	add(1, now - 100, 5);
	add(1, now - 98, 5);
	add(1, now - 3, 5);
	set_now(60 * (uint64_t)now + 30);
	world.boot[0].last_s = 60 * (int64_t)now + 29;
	expect_minute(&cursor, 1, now - 100);
	/* Empty ones are left out until it is up to date. */
	expect_minute(&cursor, 1, now - 98);
	expect_minute(&cursor, 1, now - 3);
	expect_minute(&cursor, 1, now - 2);
	expect_minute(&cursor, 1, now - 1);
	assert_int_equal(next(&cursor, false, &plan), PLAN_WAIT);
	/* What there is of the minute that is not over, as often as one likes. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(next(&cursor, true, &plan), PLAN_READY);
		assert_true(plan.open);
		assert_int_equal(plan.about.minute, now);
		assert_true(plan.told_ns > cursor.told_ns);
		arrived(&cursor, &plan);
	}
	/* When it has just ended, with what there is of the next one. */
	set_now(60 * (uint64_t)now + 62);
	assert_int_equal(next(&cursor, false, &plan), PLAN_WAIT);
	hurried = cursor;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(next(&hurried, true, &plan), PLAN_READY);
		assert_int_equal(plan.open, i);
		assert_int_equal(plan.about.minute, now + i);
		arrived(&hurried, &plan);
	}
	/* It is over when the daemon has written it, or does not for too long. */
	set_now(60 * (uint64_t)now + 80);
	assert_int_equal(next(&cursor, false, &plan), PLAN_WAIT);
	world.boot[0].last_s = 60 * (int64_t)now + 61;
	expect_minute(&cursor, 1, now);
	set_now(60 * (uint64_t)now + 180);
	expect_minute(&cursor, 1, now + 1);
}

static void a_minute_that_has_grown_comes_again(void **state)
{
	struct cursor cursor = { 0 };
	struct parcel_plan plan;
	uint32_t now = now_minute();

	add(1, now - 5, 50);
	add(1, now - 4, 40);
	set_now(60 * (uint64_t)now + 30);
	world.boot[0].last_s = 60 * (int64_t)now + 29;
	expect_minute(&cursor, 1, now - 5);
	expect_minute(&cursor, 1, now - 4);
	world.minute[0].sum++;
	world.minute[1].sum--; /* retention takes it away */
	add(1, now - 20, 1);   /* one that started before all others has returned */
	assert_int_equal(next(&cursor, false, &plan), PLAN_READY);
	assert_int_equal(plan.about.minute, now - 3);
	assert_int_equal(plan.again_count, 2);
	assert_int_equal(plan.again[0] + plan.again[1], now - 5 + now - 20);
	arrived(&cursor, &plan);
	expect_minute(&cursor, 1, now - 2); /* and not once more */
}

static void numbers_that_no_server_has_are_not_believed(void **state)
{
	int64_t offset_ns = 0;

	said = "1700000000000000000\n";
	assert_int_equal(clickhouse_wall_offset(server, "aaaa", &offset_ns), 0);
	assert_int_equal(offset_ns, 1700000000000000000);
	said = "9000000000000000000\n";
	assert_int_equal(clickhouse_wall_offset(server, "aaaa", &offset_ns), -ENOENT);
	said = "-9000000000000000000\n";
	assert_int_equal(clickhouse_wall_offset(server, "aaaa", &offset_ns), -ENOENT);
	assert_int_equal(offset_ns, 1700000000000000000);
	said = "2147483647.1";
	assert_int_equal(clickhouse_check(server), -EPROTO);
}

static void a_former_boot_is_finished_first(void **state)
{
	struct cursor cursor = { .boot_id = "aaaa", .wall_offset_ns = 5, .minute = 60 * 50000 };
	struct parcel_plan plan;
	uint32_t now = now_minute();

	world.boots = 2;
	world.boot[0].last_s = 60 * 50002 + 7; /* longer up than this one may be */
	world.boot[1].last_s = 60 * (int64_t)now + 29;
	add(1, 50000, 1);
	add(1, 50002, 1);
	add(2, 0, 1); /* in its first minute */
	set_now(60 * (uint64_t)now + 30);
	expect_minute(&cursor, 1, 50000);
	assert_int_equal(next(&cursor, false, &plan), PLAN_READY);
	assert_int_equal(plan.about.minute, 50002);
	assert_int_equal(plan.wall_offset_ns, 5);
	assert_true(plan.now_ns == (uint64_t)world.boot[0].last_s * NS_PER_S);
	arrived(&cursor, &plan);
	expect_minute(&cursor, 2, 0);
	assert_string_equal(cursor.boot_id, "bbbb");
	assert_int_equal(cursor.wall_offset_ns, 77);
}

static void what_retention_took_is_told(void **state)
{
	uint32_t now = now_minute();
	struct cursor cursor = { .boot_id = "aaaa",
				 .rows = 1,
				 .minute = 60 * ((uint64_t)now - 500) };
	struct cursor idle = cursor; /* of which none were sent */

	cursor.summed = 1;
	add(1, now - 100, 5);
	add(1, now - 90, 5);
	set_now(60 * (uint64_t)now + 30);
	world.boot[0].last_s = 60 * (int64_t)now + 29;
	assert_int_equal(expect_minute(&cursor, 1, now - 100), 400 * 60);
	assert_int_equal(expect_minute(&cursor, 1, now - 90), 0);
	assert_int_equal(expect_minute(&idle, 1, now - 100), 0);
}

/* Of a boot that is still known, up to its end; of one that is not, up to the next, by wall time.
 */
static void what_retention_took_of_former_boots_is_told(void **state)
{
	uint32_t now = now_minute();
	struct cursor cursor = { .boot_id = "aaaa", .rows = 1, .minute = 60 * 50000 };
	struct cursor gone = cursor;
	struct parcel_plan plan;

	cursor.summed = 1;
	gone = cursor;
	memcpy(gone.boot_id, "gone", 5);
	gone.wall_offset_ns = -60 * (int64_t)(49000 * NS_PER_S);
	world.boots = 2;
	world.boot[0].last_s = 60 * 50002 + 7;
	world.boot[1].last_s = 60 * (int64_t)now + 29;
	add(2, now - 1, 1);
	set_now(60 * (uint64_t)now + 30);
	assert_int_equal(next(&cursor, false, &plan), PLAN_READY);
	assert_int_equal(plan.about.boot, 2);
	assert_int_equal(plan.lost_s, 127);
	/* The seconds are those of the other boot. */
	assert_true(plan.lost_from == plan.lost_to && plan.lost_to == 60 * ((uint64_t)now - 1));
	assert_int_equal(next(&gone, false, &plan), PLAN_READY);
	assert_int_equal(plan.about.boot, 2);
	assert_int_equal(plan.lost_s, 60 * ((uint64_t)now - 1 - 1000));
	assert_true(plan.lost_from == plan.lost_to && plan.lost_to == 60 * ((uint64_t)now - 1));
}

/* As when another process has sent the first minute of the boot, which has nothing but a gap. */
static void what_was_sent_of_a_former_boot_is_none_of_the_next(void **state)
{
	struct cursor cursor = { .boot_id = "bbbb", .minute = 60, .summed = 1 };
	uint32_t now = now_minute();

	cursor_enter(&cursor, world.boot[0].boot_id, 77, 60 * ((uint64_t)now - 21));
	add(1, now - 1, 1);
	set_now(60 * (uint64_t)now + 30);
	world.boot[0].last_s = 60 * (int64_t)now + 29;
	assert_int_equal(expect_minute(&cursor, 1, now - 1), 0);
}

static void a_boot_that_is_gone_is_left_behind(void **state)
{
	uint32_t now = now_minute();
	struct cursor cursor = { .boot_id = "long ago", .minute = 60 };

	add(1, now - 7, 5);
	set_now(60 * (uint64_t)now + 30);
	world.boot[0].last_s = 60 * (int64_t)now + 29;
	expect_minute(&cursor, 1, now - 7);
}

static void no_boot_is_left_out(void **state)
{
	struct cursor cursor = { 0 };
	uint32_t now = now_minute();

	world.boots = BOOTS_MAX;
	for (uint32_t i = 0; i < BOOTS_MAX; i++) {
		snprintf(world.boot[i].boot_id, sizeof(world.boot[i].boot_id), "boot %u", i);
		world.boot[i].last_s = 60 * (int64_t)now + 29;
	}
	add(1, now - 7, 5);
	add(2, now - 7, 5);
	add(BOOTS_MAX, now - 7, 5);
	set_now(60 * (uint64_t)now + 30);
	expect_minute(&cursor, 1, now - 7);
	expect_minute(&cursor, 2, now - 7);
	expect_minute(&cursor, BOOTS_MAX, now - 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(minutes_come_once_and_in_order),
		TEST(a_minute_that_has_grown_comes_again),
		TEST(a_former_boot_is_finished_first),
		TEST(what_retention_took_is_told),
		TEST(a_boot_that_is_gone_is_left_behind),
		TEST(what_was_sent_of_a_former_boot_is_none_of_the_next),
		TEST(no_boot_is_left_out),
		TEST(what_retention_took_of_former_boots_is_told),
		TEST(numbers_that_no_server_has_are_not_believed),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
