/* Ship: a parcel is made, sent block by block, and forgotten when all of it has arrived and the
 * cursor says so. Whatever ends the program in between, the next one goes on with the same parcel.
 * What fails is tried again, ever more seldom; nothing is given up. */
#include "client/ship/ship.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ship/clickhouse.h"
#include "client/ship/cursor.h"
#include "client/ship/jobs.h"
#include "client/ship/machine.h"
#include "client/ship/parcel.h"
#include "client/ship/plan.h"
#include "client/ship/source.h"
#include "client/ship/status.h"
#include "client/ship/sync.h"
#include "client/ship/tables.h"
#include "client/ship/window.h"
#include "core/base/clock.h"
#include "core/base/log.h"

#define RETRY_FIRST_S 1
#define RETRY_LAST_S  60
#define LOOK_S	      5 /* for the end of a minute */
#define SAY_AGAIN_S   3600
#define REQUEST_S     60 /* how often it looks what the fleet asks for */

struct ship {
	const struct settings *settings;
	const char *status_path;
	int folder;
	struct source source;
	struct clickhouse *server;
	struct cursor cursor;
	/* As the cursor will be when the parcel has arrived; only of a parcel made by this process:
	 * of another's, the sums are those of the cursor. */
	struct cursor planned;
	struct parcel *parcel; /* NULL: none */
	bool summed;	       /* it has sums that the daemon keeps */
	bool checked;	       /* the server */
	unsigned int retry_s;
	struct status status;
	uint64_t said_ns; /* when the trouble was logged */
	struct machine machine;
	struct offset offset;
	uint64_t sync_ns;    /* when the clocks are compared again */
	uint64_t request_ns; /* when it looks again what the fleet asks for */
};

/* What is wrong now, in one sentence; the same one is logged again after an hour only. */
static int trouble(struct ship *ship, int error, const char *sentence)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	bool same = strncmp(ship->status.trouble, sentence, STATUS_TEXT_BYTES - 1) == 0;

	if (!same || now_ns - ship->said_ns >= SAY_AGAIN_S * NS_PER_S) {
		log_warning("%s; nothing is lost as long as the daemon keeps it", sentence);
		ship->said_ns = now_ns;
	}
	snprintf(ship->status.trouble, sizeof(ship->status.trouble), "%s", sentence);
	return error;
}

static int trouble_of_state(struct ship *ship, int error, const char *what)
{
	char text[STATUS_TEXT_BYTES];

	snprintf(text, sizeof(text), "Cannot %s in the state folder: %s", what, strerror(-error));
	return trouble(ship, error, text);
}

static void tell(struct ship *ship)
{
	struct status *status = &ship->status;
	const struct cursor *cursor = &ship->cursor;
	int64_t until_s = (int64_t)cursor->minute + cursor->wall_offset_ns / (int64_t)NS_PER_S;

	snprintf(status->url, sizeof(status->url), "%s", clickhouse_url(ship->server));
	status->pid = (uint64_t)getpid();
	status->told_time = clock_ns(CLOCK_REALTIME) / NS_PER_S;
	status->until_time = cursor->minutes ? (uint64_t)until_s : 0;
	status->sent_time = cursor->sent_time;
	status->minutes = cursor->minutes;
	status->rows = cursor->rows;
	status->bytes = cursor->bytes;
	status->lost_s = cursor->lost_s;
	status->window_time = cursor->request;
	if (*ship->status_path && status_write(ship->status_path, status) < 0)
		log_debug("Cannot write %s", ship->status_path);
}

static int open_folder(struct ship *ship, const char *state)
{
	if (mkdir(state, 0700) < 0 && errno != EEXIST)
		return log_error_errno(-errno, "Cannot make the state folder %s", state);
	ship->folder = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ship->folder < 0)
		return log_error_errno(-errno, "Cannot open the state folder %s", state);
	if (flock(ship->folder, LOCK_EX | LOCK_NB) < 0) {
		log_error("Another tracesmith-ship uses %s", state);
		return -EBUSY;
	}
	return 0;
}

static int read_state(struct ship *ship, const char *state)
{
	int r = cursor_read(ship->folder, &ship->cursor);

	if (r < 0)
		return log_error_errno(r,
				       "Cannot read the cursor in %s: move it away to ship "
				       "everything again, which doubles nothing",
				       state);
	r = parcel_open(ship->folder, &ship->parcel);
	if (r < 0)
		return log_error_errno(r,
				       "Cannot read the parcel in %s: remove it, and its minute "
				       "is shipped again",
				       state);
	return 0;
}

int ship_new(const struct settings *settings, const char *state, const char *status,
	     struct ship **ret)
{
	_cleanup_(ship_freep) struct ship *ship = calloc(1, sizeof(*ship));
	int r;

	if (!ship)
		return -ENOMEM;
	ship->settings = settings;
	ship->status_path = status;
	settings_left_out(settings, ship->status.left_out, sizeof(ship->status.left_out));
	if (strcmp(settings->jobs, SETTINGS_JOBS_ALL) != 0)
		snprintf(ship->status.jobs, sizeof(ship->status.jobs), "%s", settings->jobs);
	ship->folder = -1;
	ship->retry_s = RETRY_FIRST_S;
	machine_read(&ship->machine);
	r = open_folder(ship, state);
	if (r == 0)
		r = read_state(ship, state);
	if (r == 0)
		r = clickhouse_new(settings, &ship->server);
	if (r < 0)
		return r;
	*ret = TAKE(ship);
	return 0;
}

struct ship *ship_free(struct ship *ship)
{
	if (ship) {
		source_close(&ship->source);
		clickhouse_free(ship->server);
		parcel_free(ship->parcel);
		closep(&ship->folder);
	}
	free(ship);
	return NULL;
}

static int check_server(struct ship *ship)
{
	int r = ship->checked ? 0 : clickhouse_check(ship->server);

	ship->checked = r == 0;
	return r < 0 ? trouble(ship, r, clickhouse_why(ship->server)) : 0;
}

static int open_source(struct ship *ship)
{
	int r = source_open(&ship->source, ship->settings->socket);

	return r < 0 ? trouble(ship, r, ship->source.why) : 0;
}

int ship_check(struct ship *ship)
{
	int r = open_source(ship);

	return r < 0 ? r : check_server(ship);
}

/* A fault of the daemon, or of the server, which is asked in one case. */
static int explain(struct ship *ship, int error)
{
	if (*ship->source.why)
		return trouble(ship, error, ship->source.why);
	if (*clickhouse_why(ship->server))
		return trouble(ship, error, clickhouse_why(ship->server));
	if (error == -EPROTO)
		return trouble(ship, error,
			       "The daemon is of another version than "
			       "tracesmith-ship: restart it if it was upgraded");
	return trouble_of_state(ship, error, "write a parcel");
}

static int make_parcel(struct ship *ship, bool open)
{
	struct parcel_plan plan = plan_start(ship->settings, &ship->machine, &ship->offset);
	int r = open_source(ship);

	if (r < 0)
		return r;
	ship->source.why[0] = '\0';
	clickhouse_forget_why(ship->server);
	ship->planned = ship->cursor;
	/* With other patterns, stacks of other processes: those that came before, too. */
	if (ship->planned.jobs != jobs_mark(ship->settings->jobs))
		ship->planned.known = 0;
	ship->planned.jobs = jobs_mark(ship->settings->jobs);
	r = plan_next(&ship->source, ship->server, &ship->planned, open, &plan);
	if (r == PLAN_WAIT)
		return 1;
	plan.version = ship->source.connection.hello.version;
	plan.clock_known &= plan.current;
	if (r == 0)
		r = parcel_make(ship->folder, &ship->source, &plan);
	if (r < 0)
		return explain(ship, r);
	ship->planned.told_ns = plan.told_ns;
	r = parcel_open(ship->folder, &ship->parcel);
	return r < 0 ? trouble_of_state(ship, r, "read a parcel") : 0;
}

/* What the next parcel starts from. Of a former process's parcel the sums are not known: its
 * minutes are looked at, and shipped, once more. */
static void move_cursor(struct ship *ship)
{
	const struct parcel *parcel = ship->parcel;
	struct cursor *cursor = &ship->cursor;

	if (strcmp(ship->planned.boot_id, parcel->boot_id) == 0 &&
	    ship->planned.told_ns == parcel->told_ns)
		*cursor = ship->planned;
	parcel_move(parcel, cursor);
	cursor->summed += ship->summed;
	cursor->sent_time = clock_ns(CLOCK_REALTIME) / NS_PER_S;
}

/* Sent before, by a process that ended when it had moved the cursor. */
static bool has_arrived(const struct ship *ship)
{
	return strcmp(ship->parcel->boot_id, ship->cursor.boot_id) == 0 &&
	       ship->parcel->told_ns <= ship->cursor.told_ns;
}

static int finish_parcel(struct ship *ship)
{
	int r = 0;

	if (!has_arrived(ship)) {
		struct cursor former = ship->cursor;

		move_cursor(ship);
		r = cursor_write(ship->folder, &ship->cursor);
		if (r < 0) {
			ship->cursor = former;
			return trouble_of_state(ship, r, "write the cursor");
		}
	}
	parcel_remove(ship->folder);
	ship->parcel = parcel_free(ship->parcel);
	ship->summed = false;
	/* Rows are bytes without types: a table that was changed meanwhile would take them for
	 * others. */
	ship->checked = false;
	return 0;
}

/* To the first server that takes it. */
static int insert(struct ship *ship, const struct parcel_block *block, const char *token)
{
	size_t tries = ship->settings->url_count;
	int r;

	do {
		r = ship->checked ? 0 : clickhouse_check(ship->server);
		if (r == 0)
			r = clickhouse_insert(ship->server, ship->parcel, block, token);
		ship->checked = r == 0;
	} while (r < 0 && --tries);
	return r;
}

static bool is_kept(const char *name)
{
	const struct table *table = tables_find(name, strlen(name));

	return table && table->flags & TABLE_KEPT;
}

/* From where it stopped: blocks before have arrived. */
static int send_parcel(struct ship *ship)
{
	struct parcel *parcel = ship->parcel;
	struct parcel_block block;
	char token[512];
	int r = has_arrived(ship) ? 0 : check_server(ship);

	while (r == 0 && !has_arrived(ship)) {
		struct parcel before = *parcel;

		r = parcel_next(parcel, &block);
		if (r < 0)
			return trouble_of_state(ship, r, "read the parcel");
		if (r == 0)
			break;
		snprintf(token, sizeof(token), "%s/%s/%" PRIu64 "/%s/%" PRIu32,
			 ship->settings->host, parcel->boot_id, parcel->told_ns, block.table,
			 block.number);
		r = insert(ship, &block, token);
		if (r < 0) {
			*parcel = before;
			return trouble(ship, r, clickhouse_why(ship->server));
		}
		ship->summed |= is_kept(block.table);
	}
	return r < 0 ? r : finish_parcel(ship);
}

/* Without an answer, what is known of the clock gets less certain, and no more. */
static void keep_time(struct ship *ship)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (now_ns < ship->sync_ns)
		return;
	if (sync_round(ship->server, &ship->offset, SYNC_SECONDS) < 0)
		log_debug("Cannot compare clocks: %s", clickhouse_why(ship->server));
	ship->sync_ns = now_ns + SYNC_S * NS_PER_S;
}

/* 1: there is nothing to do now; a minute that is not over is shipped if `open`. */
static int turn(struct ship *ship, bool open)
{
	int r = ship->parcel ? 0 : check_server(ship);

	if (r == 0 && !ship->parcel) {
		keep_time(ship);
		r = make_parcel(ship, open);
	}
	return r == 0 ? send_parcel(ship) : r;
}

/* Taken up before it starts, so that none starts twice, not even with the next process. */
static void serve(struct ship *ship)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	struct clickhouse_request request;

	if (!ship->settings->windows || !*ship->cursor.boot_id || now_ns < ship->request_ns)
		return;
	ship->request_ns = now_ns + REQUEST_S * NS_PER_S;
	if (clickhouse_request(ship->server, ship->cursor.request, &request) < 0) {
		log_debug("Cannot ask what is wanted: %s", clickhouse_why(ship->server));
		return;
	}
	if (!request.seconds)
		return;
	ship->cursor.request = request.time;
	if (cursor_write(ship->folder, &ship->cursor) < 0)
		return;
	log_info("The fleet asks for the operations of the last %" PRIu64 " s", request.seconds);
	if (window_ship(ship->settings, ship->folder, request.seconds * NS_PER_S) == 0)
		ship->status.windows++;
}

static void be_well(struct ship *ship)
{
	if (*ship->status.trouble)
		log_info("Shipping to %s again", clickhouse_url(ship->server));
	ship->status.trouble[0] = '\0';
	ship->retry_s = RETRY_FIRST_S;
}

/* All that there is, and what there is of the minute that is not over. */
static int run_once(struct ship *ship)
{
	int r;

	do {
		r = turn(ship, false);
	} while (r == 0);
	if (r > 0)
		do { /* again after a minute that has just ended */
			r = turn(ship, true);
		} while (r == 0 && ship->cursor.minute > ship->planned.minute);
	ship->status.retries += r < 0;
	tell(ship);
	return r < 0 ? r : 0;
}

/* Until there may be something to do. Our clock is the daemon's. */
static unsigned int wait_s(const struct ship *ship)
{
	uint64_t now_s = clock_ns(CLOCK_MONOTONIC) / NS_PER_S;
	uint64_t due_s = ship->planned.minute + PARCEL_SECONDS + PLAN_SETTLED_S;

	if (due_s < now_s + LOOK_S || due_s > now_s + 2 * PARCEL_SECONDS)
		return LOOK_S;
	return (unsigned int)(due_s - now_s);
}

int ship_run(struct ship *ship, bool once)
{
	int r;

	log_info("Shipping to %s as host '%s'", clickhouse_url(ship->server), ship->settings->host);
	if (once)
		return run_once(ship);
	for (;;) {
		tell(ship);
		r = turn(ship, false);
		if (r >= 0)
			be_well(ship);
		else
			ship->status.retries++;
		if (r == 0)
			continue;
		if (r > 0)
			serve(ship);
		tell(ship);
		sleep(r < 0 ? ship->retry_s : wait_s(ship));
		if (r < 0)
			ship->retry_s =
				2 * ship->retry_s < RETRY_LAST_S ? 2 * ship->retry_s : RETRY_LAST_S;
	}
}
