/* Clickhouse: libcurl, and ClickHouse's words for what is wrong, in ours. */
#include "client/ship/clickhouse.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ship/tables.h"
#include "client/ship/why.h"
#include "core/base/array.h"
#include "core/base/clock.h"

#define CONNECT_S	   10L
#define SILENCE_S	   60L /* without a byte */
#define REQUEST_S	   300L
#define ANSWER_MAX	   (256u << 10) /* the columns of all tables are 10 KiB */
#define SAID_BYTES	   300		/* of what the server says */

#define WALL_OFFSET_MAX_NS (INT64_MAX / 2) /* year 2116; times of a host are added to it */

/* Versions as major * 1000 + minor. */
#define KNOWS_ASYNC 21000
#define KNOWS_TOKEN 22002
#define KNOWS_NOW64 22003

/* "Code: N" of its errors. */
enum {
	CODE_NO_COLUMN = 16,
	CODE_NO_TABLE = 60,
	CODE_NO_DATABASE = 81,
	CODE_READ_ONLY = 164, /* the user */
	CODE_UNKNOWN_USER = 192,
	CODE_WRONG_PASSWORD = 193,
	CODE_PASSWORD = 194,
	CODE_NOT_ENOUGH_SPACE = 243,
	CODE_ACCESS = 497,
	CODE_AUTHENTICATION = 516,
};

struct clickhouse {
	const struct settings *settings;
	CURL *curl;
	struct curl_slist *headers;
	size_t url; /* of the settings */
	int version;
	char why[WHY_BYTES];
	char error[CURL_ERROR_SIZE];
	char *answer;
	size_t answer_size;
	/* The block that is read. */
	int fd;
	uint64_t from, at, left;
};

const char *clickhouse_why(const struct clickhouse *server)
{
	return server->why;
}

void clickhouse_forget_why(struct clickhouse *server)
{
	server->why[0] = '\0';
}

const char *clickhouse_url(const struct clickhouse *server)
{
	return server->settings->urls[server->url];
}

static size_t on_answer(char *bytes, size_t one, size_t size, void *data)
{
	struct clickhouse *server = data;
	size_t room = ANSWER_MAX - server->answer_size;
	size_t taken = size < room ? size : room;

	memcpy(server->answer + server->answer_size, bytes, taken);
	server->answer_size += taken;
	server->answer[server->answer_size] = '\0';
	return size;
}

static size_t on_read(char *bytes, size_t one, size_t size, void *data)
{
	struct clickhouse *server = data;
	size_t wanted = size < server->left ? size : (size_t)server->left;
	ssize_t n = pread(server->fd, bytes, wanted, (off_t)server->at);

	if (n < 0 || (wanted && !n))
		return CURL_READFUNC_ABORT;
	server->at += (uint64_t)n;
	server->left -= (uint64_t)n;
	return (size_t)n;
}

/* A connection that was kept open may turn out to be gone after a part was written. */
static int on_seek(void *data, curl_off_t offset, int origin)
{
	struct clickhouse *server = data;
	uint64_t to = server->from + (uint64_t)offset;

	if (origin != SEEK_SET || offset < 0 || to > server->at + server->left)
		return CURL_SEEKFUNC_FAIL;
	server->left = server->at + server->left - to;
	server->at = to;
	return CURL_SEEKFUNC_OK;
}

static int add_header(struct clickhouse *server, const char *name, const char *value)
{
	struct curl_slist *list;
	char *line;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		return -ENOMEM;
	list = curl_slist_append(server->headers, line);
	explicit_bzero(line, strlen(line));
	free(line);
	if (!list)
		return -ENOMEM;
	server->headers = list;
	return 0;
}

static int set_headers(struct clickhouse *server)
{
	const struct settings *settings = server->settings;
	int r = add_header(server, "X-ClickHouse-User", settings->user);

	/* Without a wait for "100 Continue", and as bytes. */
	if (r == 0)
		r = add_header(server, "Expect", "");
	if (r == 0)
		r = add_header(server, "Content-Type", "application/octet-stream");
	if (r == 0 && *settings->password)
		r = add_header(server, "X-ClickHouse-Key", settings->password);
	return r;
}

static void set_options(struct clickhouse *server)
{
	const struct settings *settings = server->settings;
	CURL *curl = server->curl;

	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, server->error);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, REQUEST_S);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, server);
	curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(curl, CURLOPT_READDATA, server);
	curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
	curl_easy_setopt(curl, CURLOPT_SEEKDATA, server);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "tracesmith-ship/" TS_VERSION);
	if (*settings->ca_file)
		curl_easy_setopt(curl, CURLOPT_CAINFO, settings->ca_file);
	if (*settings->certificate_file) {
		curl_easy_setopt(curl, CURLOPT_SSLCERT, settings->certificate_file);
		curl_easy_setopt(curl, CURLOPT_SSLKEY, settings->key_file);
	}
}

struct clickhouse *clickhouse_free(struct clickhouse *server)
{
	if (server) {
		curl_easy_cleanup(server->curl);
		curl_slist_free_all(server->headers);
		free(server->answer);
	}
	free(server);
	return NULL;
}

int clickhouse_new(const struct settings *settings, struct clickhouse **ret)
{
	_cleanup_(clickhouse_freep) struct clickhouse *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->settings = settings;
	server->fd = -1;
	server->answer = malloc(ANSWER_MAX + 1);
	server->curl = curl_easy_init();
	if (!server->answer || !server->curl)
		return -ENOMEM;
	r = set_headers(server);
	if (r < 0)
		return r;
	set_options(server);
	*ret = TAKE(server);
	return 0;
}

/* Whether it is about how the server is reached, so that another one may be better. */
static int explain_curl(struct clickhouse *server, CURLcode code)
{
	const char *said = *server->error ? server->error : curl_easy_strerror(code);
	const char *url = clickhouse_url(server);

	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return why_fail(server->why, -EKEYREJECTED,
				"The certificate of %s is not trusted: %s", url, said);
	case CURLE_SSL_CERTPROBLEM:
		return why_fail(server->why, -EKEYREJECTED,
				"Our own certificate or key cannot be used: %s", said);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
		return why_fail(server->why, -ECONNREFUSED, "No server answers at %s: %s", url,
				said);
	case CURLE_OPERATION_TIMEDOUT:
		return why_fail(server->why, -ETIMEDOUT, "The server at %s does not answer in time",
				url);
	default:
		return why_fail(server->why, -EIO, "The connection to %s failed: %s", url, said);
	}
}

/* The first line of what it says, without the rest of what only its developers read. */
static const char *said(const struct clickhouse *server, char text[SAID_BYTES])
{
	/* DB::Exception, DB::ErrnoException, Coordination::Exception … */
	const char *from = strstr(server->answer, "Exception: ");
	const char *end;

	from = from ? from + strlen("Exception: ") : server->answer;
	end = strstr(from, ", e.what()");
	snprintf(text, SAID_BYTES, "%.*s", end ? (int)(end - from) : (int)strcspn(from, "\r\n"),
		 from);
	return text;
}

static int explain_answer(struct clickhouse *server, long status)
{
	const char *at = strstr(server->answer, "Code: "), *url = clickhouse_url(server);
	int code = at ? atoi(at + strlen("Code: ")) : 0;
	char text[SAID_BYTES];

	switch (code) {
	case CODE_UNKNOWN_USER:
	case CODE_WRONG_PASSWORD:
	case CODE_PASSWORD:
	case CODE_AUTHENTICATION:
		return why_fail(server->why, -EACCES,
				"%s does not accept user '%s' with this password", url,
				server->settings->user);
	case CODE_ACCESS:
	case CODE_READ_ONLY:
		return why_fail(server->why, -EACCES, "User '%s' may not insert at %s: %s",
				server->settings->user, url, said(server, text));
	case CODE_NO_DATABASE:
	case CODE_NO_TABLE:
	case CODE_NO_COLUMN:
		return why_fail(server->why, -ENOENT,
				"The tables at %s are not ours, run 'tsctl fleet init': %s", url,
				said(server, text));
	case CODE_NOT_ENOUGH_SPACE:
		return why_fail(server->why, -ENOSPC, "The disk of %s is full: %s", url,
				said(server, text));
	default:
		break;
	}
	/* Which of its errors that is depends on what it was about to write. */
	if (strstr(server->answer, "No space left on device"))
		return why_fail(server->why, -ENOSPC, "The disk of %s is full: %s", url,
				said(server, text));
	if (status == 401 || status == 403)
		return why_fail(server->why, -EACCES,
				"%s does not accept user '%s' with this password", url,
				server->settings->user);
	if (!code)
		return why_fail(server->why, -EPROTO,
				"%s answers with HTTP status %ld: it is not ClickHouse", url,
				status);
	return why_fail(server->why, -EREMOTEIO, "%s says: %s", url, said(server, text));
}

/* The answer is in server->answer. */
static int run(struct clickhouse *server, const char *url)
{
	CURLcode code;
	long status = 0;

	server->answer_size = 0;
	server->answer[0] = server->error[0] = '\0';
	curl_easy_setopt(server->curl, CURLOPT_URL, url);
	code = curl_easy_perform(server->curl);
	if (code != CURLE_OK)
		return explain_curl(server, code);
	curl_easy_getinfo(server->curl, CURLINFO_RESPONSE_CODE, &status);
	return status == 200 ? 0 : explain_answer(server, status);
}

static int ask(struct clickhouse *server, const char *statement)
{
	curl_easy_setopt(server->curl, CURLOPT_HTTPHEADER, server->headers);
	curl_easy_setopt(server->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(server->curl, CURLOPT_POSTFIELDS, statement);
	curl_easy_setopt(server->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(statement));
	return run(server, clickhouse_url(server));
}

/* In quotes of ClickHouse's; NULL: no memory. */
static char *quote(const char *text)
{
	char *quoted = malloc(2 * strlen(text) + 1), *at = quoted;

	for (; quoted && *text; text++) {
		if (*text == '\'' || *text == '\\')
			*at++ = '\\';
		*at++ = *text;
	}
	if (quoted)
		*at = '\0';
	return quoted;
}

int clickhouse_wall_offset(struct clickhouse *server, const char *boot_id, int64_t *ret)
{
	_cleanup_(freep) char *host = quote(server->settings->host), *boot = quote(boot_id);
	_cleanup_(freep) char *statement = NULL;
	int64_t told_ns;
	int r;

	if (!host || !boot ||
	    asprintf(&statement,
		     "SELECT wall_offset_ns FROM %s.host WHERE host = '%s' AND boot = '%s'"
		     " ORDER BY told_ns DESC LIMIT 1",
		     server->settings->database, host, boot) < 0) {
		statement = NULL;
		return why_fail(server->why, -ENOMEM, "Not enough memory");
	}
	r = ask(server, statement);
	if (r < 0)
		return r == -ENOENT ? -EREMOTEIO : r;
	if (sscanf(server->answer, "%" SCNd64, &told_ns) != 1 || told_ns > WALL_OFFSET_MAX_NS ||
	    told_ns < -WALL_OFFSET_MAX_NS)
		return -ENOENT;
	*ret = told_ns;
	return 0;
}

int clickhouse_request(struct clickhouse *server, uint64_t after, struct clickhouse_request *ret)
{
	_cleanup_(freep) char *host = quote(server->settings->host), *statement = NULL;
	int64_t seconds, time;
	int r;

	/* All of them with one window, by the server's clock alone. */
	if (!host ||
	    asprintf(
		    &statement,
		    "SELECT max(toInt64(toUnixTimestamp(now())) - toUnixTimestamp(time) + seconds),"
		    " toInt64(max(toUnixTimestamp(time))) FROM %s.request WHERE host = '%s'"
		    " AND time > toDateTime(%" PRIu64 ") AND time >= now() - %d"
		    " AND time <= now() FORMAT TabSeparatedRaw",
		    server->settings->database, host, after, SETTINGS_WINDOW_MAX_S) < 0) {
		statement = NULL;
		return why_fail(server->why, -ENOMEM, "Not enough memory");
	}
	r = ask(server, statement);
	if (r < 0)
		return r;
	if (sscanf(server->answer, "%" SCNd64 "\t%" SCNd64, &seconds, &time) != 2)
		return why_fail(server->why, -EPROTO, "%s does not say what is asked for",
				clickhouse_url(server));
	if (seconds > SETTINGS_WINDOW_MAX_S)
		seconds = SETTINGS_WINDOW_MAX_S;
	ret->seconds = seconds < 0 ? 0 : (uint64_t)seconds;
	ret->time = time < 0 ? 0 : (uint64_t)time;
	return 0;
}

int clickhouse_time(struct clickhouse *server, struct offset_exchange *ret,
		    char name[OFFSET_SERVER_BYTES])
{
	bool exact = server->version >= KNOWS_NOW64;
	const char *statement =
		exact ? "SELECT toUnixTimestamp64Nano(now64(9)), hostName() FORMAT TabSeparatedRaw"
		      : "SELECT toUnixTimestamp(now()), hostName() FORMAT TabSeparatedRaw";
	int64_t told;
	int at = 0, r;

	ret->sent_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
	r = ask(server, statement);
	ret->got_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
	if (r < 0)
		return r;
	if (sscanf(server->answer, "%" SCNd64 "\t%n", &told, &at) != 1 || !at || told < 0 ||
	    told > (exact ? INT64_MAX / 2 : UINT32_MAX))
		return why_fail(server->why, -EPROTO, "%s does not say what time it is",
				clickhouse_url(server));
	snprintf(name, OFFSET_SERVER_BYTES, "%.*s", (int)strcspn(server->answer + at, "\n"),
		 server->answer + at);
	ret->from_ns = exact ? told : told * (int64_t)NS_PER_S;
	ret->to_ns = exact ? told : ret->from_ns + (int64_t)NS_PER_S + OFFSET_TICK_NS;
	return 0;
}

/* Its type without what changes nothing of its bytes. */
static bool is_type(const char *type, size_t size, const char *wanted)
{
	static const char low[] = "LowCardinality(";
	size_t length = strlen(wanted);

	if (strncmp(type, low, strlen(low)) == 0) {
		type += strlen(low);
		size -= strlen(low) + 1;
	}
	return size >= length && strncmp(type, wanted, length) == 0 &&
	       (size == length || type[length] == '(');
}

/* 0: it is there; 1: it has another type; -ENOENT. The answer has lines of table, name and type. */
static int find_column(const char *answer, const char *table, const char *name, const char *type)
{
	size_t table_size = strlen(table), name_size = strlen(name);

	for (const char *line = answer; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *at = line;

		if (strncmp(at, table, table_size) != 0 || at[table_size] != '\t')
			continue;
		at += table_size + 1;
		if (strncmp(at, name, name_size) != 0 || at[name_size] != '\t')
			continue;
		at += name_size + 1;
		return is_type(at, strcspn(at, "\n"), type) ? 0 : 1;
	}
	return -ENOENT;
}

static int check_column(struct clickhouse *server, const struct table *table, const char *name,
			const char *type)
{
	const char *database = server->settings->database;
	int r = find_column(server->answer, table->name, name, type);

	if (r == -ENOENT)
		return why_fail(server->why, r, "%s has no %s.%s.%s: run 'tsctl fleet init'",
				clickhouse_url(server), database, table->name, name);
	if (r > 0)
		return why_fail(server->why, -ENOENT,
				"%s.%s.%s at %s is not %s: somebody changed the table by hand",
				database, table->name, name, clickhouse_url(server), type);
	return 0;
}

static int check_tables(struct clickhouse *server)
{
	_cleanup_(freep) char *statement = NULL;
	int r;

	if (asprintf(&statement,
		     "SELECT table, name, type FROM system.columns WHERE database = '%s'"
		     " FORMAT TabSeparatedRaw",
		     server->settings->database) < 0) {
		statement = NULL;
		return why_fail(server->why, -ENOMEM, "Not enough memory");
	}
	r = ask(server, statement);
	for (size_t i = 0; r == 0 && i < tables_count; i++) {
		const struct table_column *column = tables[i].column;

		r = check_column(server, &tables[i], "host", "String");
		if (r == 0)
			r = check_column(server, &tables[i], "boot", "String");
		if (r == 0)
			r = check_column(server, &tables[i], "told_ns", "UInt64");
		for (; r == 0 && column->name; column++)
			r = check_column(server, &tables[i], column->name,
					 rowbinary_name(column->type));
	}
	if (r == 0 && server->settings->windows)
		r = check_column(server, &(struct table){ .name = "request" }, "seconds", "UInt32");
	return r;
}

static int check_version(struct clickhouse *server)
{
	int major, minor, r = ask(server, "SELECT version()");

	if (r < 0)
		return r;
	if (sscanf(server->answer, "%4d.%3d", &major, &minor) != 2)
		return why_fail(server->why, -EPROTO, "%s is not ClickHouse",
				clickhouse_url(server));
	server->version = major * 1000 + minor;
	return 0;
}

int clickhouse_check(struct clickhouse *server)
{
	int r = 0;

	for (size_t tries = 0; tries < server->settings->url_count; tries++) {
		r = check_version(server);
		if (r == 0)
			return check_tables(server);
		server->url = (server->url + 1) % server->settings->url_count;
	}
	return r;
}

/* To be freed; NULL: no memory. */
static char *make_url(struct clickhouse *server, const struct parcel_block *block,
		      const char *token)
{
	_cleanup_(freep) char *statement = NULL;
	char *url = NULL, *query, *name, quorum[64] = "", *deduplicate = NULL;
	const struct settings *settings = server->settings;

	if (asprintf(&statement, "INSERT INTO %s.%s (%s) FORMAT RowBinary", settings->database,
		     block->table, block->columns) < 0) {
		statement = NULL;
		return NULL;
	}
	query = curl_easy_escape(server->curl, statement, 0);
	name = curl_easy_escape(server->curl, token, 0);
	if (settings->quorum)
		snprintf(quorum, sizeof(quorum), "&insert_quorum=%" PRIu64, settings->quorum);
	if (name && asprintf(&deduplicate, "&insert_deduplication_token=%s", name) < 0)
		deduplicate = NULL;
	if (query && deduplicate &&
	    asprintf(&url, "%s/?query=%s&insert_distributed_sync=1%s%s%s", clickhouse_url(server),
		     query, quorum, server->version >= KNOWS_ASYNC ? "&async_insert=0" : "",
		     server->version >= KNOWS_TOKEN ? deduplicate : "") < 0)
		url = NULL;
	curl_free(query);
	curl_free(name);
	free(deduplicate);
	return url;
}

int clickhouse_insert(struct clickhouse *server, const struct parcel *parcel,
		      const struct parcel_block *block, const char *token)
{
	_cleanup_(freep) char *url = make_url(server, block, token);
	struct curl_slist encoding = { .next = server->headers };
	int r;

	if (!url)
		return why_fail(server->why, -ENOMEM, "Not enough memory");
	encoding.data =
		(char *)(parcel->compression == COMPRESSION_ZSTD ? "Content-Encoding: zstd"
								 : "Content-Encoding: gzip");
	server->fd = parcel->fd;
	server->from = server->at = block->offset;
	server->left = block->bytes;
	curl_easy_setopt(server->curl, CURLOPT_HTTPHEADER,
			 parcel->compression == COMPRESSION_NONE ? server->headers : &encoding);
	curl_easy_setopt(server->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(server->curl, CURLOPT_POSTFIELDS, NULL);
	curl_easy_setopt(server->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)block->bytes);
	r = run(server, url);
	curl_easy_setopt(server->curl, CURLOPT_HTTPHEADER, server->headers);
	/* Another one may have a disk that is not full, or reach the rest of the cluster. */
	if (r < 0)
		server->url = (server->url + 1) % server->settings->url_count;
	return r;
}
