/* fuzz_clickhouse: what a server answers to the shipper, in pieces: versions, columns, times,
 * errors. */
#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "client/ship/clickhouse.h"
#include "client/ship/sync.h"
#include "client/ship/tables.h"
#include "core/base/array.h"
#include "core/base/utf8.h"
#include "tests/fuzz/seed.h"

#define SYNC_SECONDS 4
#define SEED_BYTES   (32u << 10)

enum { CHECK, TIME, WALL_OFFSET, INSERT, SYNC, REQUEST, KINDS };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int parcel_file;

/* The server: an answer for each request, of its result, its status, a size and as many bytes. */
static const uint8_t *answers;
static size_t left;

/* The connection is this fuzzer. */
static curl_write_callback on_answer;
static curl_read_callback on_read;
static curl_seek_callback on_seek;
static void *client;
static char *error;
static long status;

static void must(bool holds)
{
	if (!holds)
		abort();
}

#undef curl_easy_setopt
#undef curl_easy_getinfo

CURL *curl_easy_init(void)
{
	return malloc(1);
}

void curl_easy_cleanup(CURL *curl)
{
	free(curl);
}

CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
	va_list ap;

	va_start(ap, option);
	if (option == CURLOPT_WRITEFUNCTION)
		on_answer = va_arg(ap, curl_write_callback);
	else if (option == CURLOPT_READFUNCTION)
		on_read = va_arg(ap, curl_read_callback);
	else if (option == CURLOPT_SEEKFUNCTION)
		on_seek = va_arg(ap, curl_seek_callback);
	else if (option == CURLOPT_WRITEDATA)
		client = va_arg(ap, void *);
	else if (option == CURLOPT_ERRORBUFFER)
		error = va_arg(ap, char *);
	va_end(ap);
	return CURLE_OK;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
	va_list ap;

	must(info == CURLINFO_RESPONSE_CODE);
	va_start(ap, info);
	*va_arg(ap, long *) = status;
	va_end(ap);
	return CURLE_OK;
}

const char *curl_easy_strerror(CURLcode code)
{
	return "failed";
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
	struct curl_slist *one = malloc(sizeof(*one));

	must(one);
	*one = (struct curl_slist){ strdup(text), list };
	return one;
}

void curl_slist_free_all(struct curl_slist *list)
{
	while (list) {
		struct curl_slist *next = list->next;

		free(list->data);
		free(list);
		list = next;
	}
}

char *curl_easy_escape(CURL *curl, const char *text, int size)
{
	return strdup(text);
}

void curl_free(void *text)
{
	free(text);
}

/* A part of what is sent is read, and perhaps once more. */
static void read_sent(uint8_t how)
{
	char bytes[64];

	if (on_read(bytes, 1, sizeof(bytes), client) > sizeof(bytes) || how % 2 == 0)
		return;
	if (on_seek(client, how, SEEK_SET) == CURL_SEEKFUNC_OK)
		(void)on_read(bytes, 1, how % sizeof(bytes), client);
}

static uint8_t next(void)
{
	if (!left)
		return 0;
	left--;
	return *answers++;
}

CURLcode curl_easy_perform(CURL *curl)
{
	static const long statuses[] = { 200, 200, 401, 500, 0 };
	static const CURLcode codes[] = { CURLE_OK,
					  CURLE_COULDNT_CONNECT,
					  CURLE_SSL_CERTPROBLEM,
					  CURLE_PEER_FAILED_VERIFICATION,
					  CURLE_OPERATION_TIMEDOUT,
					  CURLE_RECV_ERROR };
	uint8_t code = next() % ARRAY_SIZE(codes), how;
	size_t size, first;
	char *bytes;

	status = statuses[next() % ARRAY_SIZE(statuses)];
	how = next();
	size = next();
	size = size << 8 | next();
	size = size < left ? size : left;
	first = size * how / 255;
	/* On the heap, where it has an end. */
	bytes = malloc(size + 1);
	must(bytes);
	memcpy(bytes, answers, size);
	answers += size;
	left -= size;
	read_sent(how);
	must(on_answer(bytes, 1, first, client) == first);
	must(on_answer(bytes + first, 1, size - first, client) == size - first);
	if (codes[code] != CURLE_OK)
		snprintf(error, CURL_ERROR_SIZE, "%.*s", (int)size, bytes);
	free(bytes);
	return codes[code];
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
		    struct timespec *remaining)
{
	struct timespec now;

	clock_gettime(clock, &now);
	must(until->tv_nsec >= 0 && until->tv_nsec < 1000000000);
	must(until->tv_sec - now.tv_sec <= 2); /* to the end of its second */
	return 0;
}

static int ask(uint8_t kind, struct clickhouse *server)
{
	struct clickhouse_request request;
	struct offset_exchange exchange;
	struct parcel parcel = { .fd = parcel_file, .compression = COMPRESSION_ZSTD };
	const struct parcel_block block = { .table = "op", .columns = "host", .bytes = 100 };
	static struct offset offset;
	char name[OFFSET_SERVER_BYTES];
	int64_t wall_offset_ns = 0;
	int r;

	switch (kind) {
	case CHECK:
		return clickhouse_check(server);
	case TIME:
		r = clickhouse_time(server, &exchange, name);
		must(r < 0 || (strlen(name) < sizeof(name) && exchange.from_ns >= 0 &&
			       exchange.to_ns >= exchange.from_ns));
		return r;
	case WALL_OFFSET:
		r = clickhouse_wall_offset(server, "boot", &wall_offset_ns);
		must(r == 0 || wall_offset_ns == 0);
		/* Times of a host are added to it. */
		must(wall_offset_ns <= INT64_MAX / 2 && wall_offset_ns >= -(INT64_MAX / 2));
		return r;
	case INSERT:
		return clickhouse_insert(server, &parcel, &block, "token");
	case SYNC:
		offset.count = 0;
		r = sync_round(server, &offset, SYNC_SECONDS);
		return r == 0 || r == -EBADMSG ? sync_round(server, &offset, SYNC_SECONDS) : r;
	case REQUEST:
		r = clickhouse_request(server, 7, &request);
		must(r < 0 || request.seconds <= SETTINGS_WINDOW_MAX_S);
		return r;
	default:
		return 0;
	}
}

static size_t put_answer(uint8_t *to, const char *text, size_t size)
{
	const uint8_t head[] = { 0, 0, 100, (uint8_t)(size >> 8), (uint8_t)size };

	memcpy(to, head, sizeof(head));
	memcpy(to + sizeof(head), text, size);
	return sizeof(head) + size;
}

/* A server that has our tables. */
static void seed_check(const char *directory)
{
	static uint8_t seed[SEED_BYTES];
	size_t size = put_answer(seed, "23.8.1", 6);
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	must(out);
	for (size_t i = 0; i < tables_count; i++) {
		const char *name = tables[i].name;

		fprintf(out, "%s\thost\tLowCardinality(String)\n", name);
		fprintf(out, "%s\tboot\tString\n%s\ttold_ns\tUInt64\n", name, name);
		for (const struct table_column *column = tables[i].column; column->name; column++)
			fprintf(out, "%s\t%s\t%s\n", name, column->name,
				rowbinary_name(column->type));
	}
	fclose(out);
	must(length + size < sizeof(seed) - 8);
	size += put_answer(seed + size, text, length);
	free(text);
	write_seed(directory, 0, CHECK, seed, size);
}

static void seed_one(const char *directory, unsigned int number, uint8_t kind, const char *text)
{
	uint8_t seed[1024];
	size_t size = 0;

	for (int i = 0; i < 8; i++)
		size += put_answer(seed + size, text, strlen(text));
	write_seed(directory, number, kind, seed, size);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");

	must((parcel_file = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
	must(ftruncate(parcel_file, 100) == 0);
	if (!directory)
		return 0;
	seed_check(directory);
	seed_one(directory, 1, CHECK, "2147483647.1");
	seed_one(directory, 2, TIME, "1700000000\tserver\n");
	seed_one(directory, 3, WALL_OFFSET, "1700000000000000000\n");
	seed_one(directory, 4, WALL_OFFSET, "9000000000000000000\n");
	seed_one(directory, 5, INSERT,
		 "Code: 60. DB::Exception: Table x does not exist. (UNKNOWN_TABLE), e.what()");
	seed_one(directory, 6, SYNC, "1700000000\tserver\n");
	seed_one(directory, 7, REQUEST, "9223372036854775807\t1700000000\n");
	return 0;
}

/* The first byte is what is asked, and whether the version is before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct settings settings = { .urls = { "http://one:8123", "http://two:8123" },
				     .url_count = 2,
				     .database = "tracesmith",
				     .user = "default",
				     .host = "it's",
				     .ca_file = "",
				     .certificate_file = "" };
	struct clickhouse *server = NULL;
	const char *why;

	if (size < 1)
		return 0;
	must(clickhouse_new(&settings, &server) == 0);
	answers = data + 1;
	left = size - 1;
	if (data[0] % KINDS != CHECK && data[0] >= KINDS)
		(void)clickhouse_check(server);
	(void)ask(data[0] % KINDS, server);
	why = clickhouse_why(server);
	must(utf8_is_visible(why, strlen(why)));
	clickhouse_free(server);
	return 0;
}
