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
#include "core/base/clock.h"

#define MINUTES_MAX 16
#define NOW_S	    1000000 /* of the current boot */

/* What the daemon knows. */
struct boot {
	const char *boot_id;
	int64_t last_s;
};

struct minute {
	uint32_t boot, minute;
	int64_t sum;
};

static struct world {
	int fd;
	pthread_t thread;
	struct boot boot[2];
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

static void reply(uint64_t id, Tracesmith__V1__Reply *message)
{
	uint8_t *data;
	size_t size;

	message->id = id;
	assert_int_equal(ts_frame_pack(&message->base, TS_FRAME_REPLY_MAX, &data, &size), 0);
	assert_int_equal(send(world.fd, data, size, MSG_NOSIGNAL), size);
	free(data);
}

static void say(uint64_t id, const char *text, const int64_t *number, size_t count)
{
	Tracesmith__V1__Reply message = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Rows rows = TRACESMITH__V1__ROWS__INIT;
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT, *one = &row;
	Tracesmith__V1__Value value[8], *values[8];

	for (size_t i = 0; i < count; i++) {
		bool is_text = text && i == 1;

		tracesmith__v1__value__init(&value[i]);
		values[i] = &value[i];
		value[i].value_case = is_text ? TRACESMITH__V1__VALUE__VALUE_TEXT
					      : TRACESMITH__V1__VALUE__VALUE_INTEGER;
		if (is_text)
			value[i].text = (char *)text;
		else
			value[i].integer = number[i];
	}
	row.n_value = count;
	row.value = values;
	rows.n_row = 1;
	rows.row = &one;
	message.body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	message.rows = &rows;
	reply(id, &message);
}

static void answer(const Tracesmith__V1__Request *request)
{
	const Tracesmith__V1__QueryRequest *query = request->query;
	Tracesmith__V1__Reply message = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	int64_t first = INT64_MAX;

	for (size_t i = 0; strcmp(query->name, "ship-boots") == 0 && i < world.boots; i++)
		say(request->id, world.boot[i].boot_id,
		    (int64_t[]){ (int64_t)i + 1, 0, 77, world.boot[i].last_s * NS_PER_S, 8 }, 5);
	for (size_t i = 0; i < world.minutes; i++) {
		const struct minute *minute = &world.minute[i];

		if (minute->boot != query->boot)
			continue;
		if (strcmp(query->name, "ship-sums") == 0 && minute->minute <= query->number &&
		    minute->minute + 59 >= query->number)
			say(request->id, NULL, (int64_t[]){ minute->minute, minute->sum }, 2);
		if (minute->minute >= query->number && minute->minute < first)
			first = minute->minute;
	}
	if ((strcmp(query->name, "ship-first") == 0 || strcmp(query->name, "ship-oldest") == 0) &&
	    first != INT64_MAX)
		say(request->id, NULL, &first, 1);
	message.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	message.done = &done;
	reply(request->id, &message);
}

static void *run_daemon(void *data)
{
	struct ts_frame_reader reader = { .max = TS_FRAME_REQUEST_MAX };
	const uint8_t *bytes;
	size_t size;
	ssize_t n = 1;

	while (n > 0) {
		Tracesmith__V1__Request *request;
		void *room = ts_frame_reader_room(&reader, &size);

		n = recv(world.fd, room, size, 0);
		ts_frame_reader_fill(&reader, n > 0 ? (size_t)n : 0);
		if (ts_frame_reader_next(&reader, &bytes, &size) != 1)
			continue;
		request = tracesmith__v1__request__unpack(NULL, size, bytes);
		answer(request);
		tracesmith__v1__request__free_unpacked(request, NULL);
	}
	ts_frame_reader_done(&reader);
	close(world.fd);
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
	assert_int_equal(next(&gone, false, &plan), PLAN_READY);
	assert_int_equal(plan.about.boot, 2);
	assert_int_equal(plan.lost_s, 60 * ((uint64_t)now - 1 - 1000));
	assert_true(plan.lost_from == plan.lost_to && plan.lost_to == 60 * ((uint64_t)now - 1));
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(minutes_come_once_and_in_order),
		TEST(a_minute_that_has_grown_comes_again),
		TEST(a_former_boot_is_finished_first),
		TEST(what_retention_took_is_told),
		TEST(a_boot_that_is_gone_is_left_behind),
		TEST(what_retention_took_of_former_boots_is_told),
		TEST(numbers_that_no_server_has_are_not_believed),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
