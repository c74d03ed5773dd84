/* Options: parses the options of every verb, from the one table in options.h. A verb accepts the
 * options it allows, and no others. */
#include "client/base/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/base/complain.h"
#include "core/base/array.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "proto/event.h"
#include "proto/hello.h"

#define WORD_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define PPM_PER_PERCENT 10000
#define FACTOR_MAX	1e6
#define COUNT_MAX	1024

static int number_parse(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value;

	if (units_parse_count(text, &value) < 0 || value > max)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* The ".25" after the seconds. */
static int64_t fraction_parse(const char **text)
{
	int64_t ns = 0, unit = NS_PER_S / 10;
	const char *p = *text;

	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
			ns += (*p - '0') * unit;
	*text = p;
	return ns;
}

static int clock_parse(const char *text, struct moment *ret)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					     "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d" };
	int64_t fraction_ns;
	struct tm tm;
	const char *end;
	time_t seconds;

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		memset(&tm, 0, sizeof(tm));
		tm.tm_isdst = -1;
		end = strptime(text, forms[i], &tm);
		if (!end)
			continue;
		fraction_ns = fraction_parse(&end);
		seconds = strcmp(end, "Z") == 0 ? timegm(&tm) : mktime(&tm);
		if ((*end && strcmp(end, "Z") != 0) || seconds < 0)
			continue;
		*ret = (struct moment){ .ns = seconds * (int64_t)NS_PER_S + fraction_ns };
		return 0;
	}
	return -EINVAL;
}

int moment_parse(const char *text, struct moment *ret)
{
	uint64_t ns;

	if (strcmp(text, "now") == 0) {
		*ret = (struct moment){ .ago = true };
		return 0;
	}
	if (units_parse_duration(text, &ns) == 0) {
		*ret = (struct moment){ .ago = true, .ns = ns };
		return 0;
	}
	return clock_parse(text, ret);
}

static const struct {
	const char *name;
	uint32_t bits;
} record_names[] = {
#define X(bit, id, text) { text, TS_RECORD_##id },
	TS_RECORDS(X)
#undef X
		{ "all", TS_RECORDS_ALL },
	{ "default", TS_RECORDS_DEFAULT },
};

static uint32_t record_bits(const char *name, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(record_names); i++)
		if (strlen(record_names[i].name) == size &&
		    memcmp(record_names[i].name, name, size) == 0)
			return record_names[i].bits;
	return 0;
}

int records_parse(const char *text, uint32_t *ret)
{
	uint32_t records = *text == '+' || *text == '-' ? TS_RECORDS_DEFAULT : 0, bits;
	bool more = true, less;
	size_t size;

	for (; more; text += size + more) {
		less = *text == '-';
		text += *text == '+' || less;
		size = strcspn(text, ",");
		more = text[size] == ',';
		bits = record_bits(text, size);
		if (!bits)
			return -EINVAL;
		records = less ? records & ~bits : records | bits;
	}
	if (!records)
		return -EINVAL;
	*ret = records;
	return 0;
}

void records_text(uint32_t records, char text[RECORDS_TEXT_MAX])
{
	size_t at = 0;

	text[0] = '\0';
#define X(bit, id, name)                                                                           \
	if (records & TS_RECORD_##id)                                                              \
		at += snprintf(text + at, RECORDS_TEXT_MAX - at, "%s" name, at ? ", " : "");
	TS_RECORDS(X)
#undef X
}

int share_parse(const char *text, uint32_t *ret_ppm)
{
	char *end;
	double percent;

	if (text[strspn(text, "0123456789.%")])
		return -EINVAL;
	percent = strtod(text, &end);
	if (strcmp(end, "%") != 0 || percent * PPM_PER_PERCENT < 1 || percent > 100)
		return -EINVAL;
	*ret_ppm = (uint32_t)(percent * PPM_PER_PERCENT + 0.5);
	return 0;
}

int budget_parse(const char *text, uint32_t *ret_ppm)
{
	uint32_t ppm;

	if (share_parse(text, &ppm) < 0 || ppm >= 100 * PPM_PER_PERCENT)
		return -EINVAL;
	*ret_ppm = ppm;
	return 0;
}

int share_or_none_parse(const char *text, uint32_t *ret_ppm)
{
	if (strcmp(text, "0") != 0 && strcmp(text, "0%") != 0)
		return share_parse(text, ret_ppm);
	*ret_ppm = 0;
	return 0;
}

int factor_parse(const char *text, double *ret)
{
	char *end;
	double factor;

	if (text[strspn(text, "0123456789.x")])
		return -EINVAL;
	factor = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "x") != 0) || factor <= 0 || factor > FACTOR_MAX)
		return -EINVAL;
	*ret = factor;
	return 0;
}

static const char *const stacks_names[] = {
	[TS_STACKS_DEFAULT] = "default",
	[TS_STACKS_NONE] = "none",
	[TS_STACKS_SAMPLED] = "sampled",
	[TS_STACKS_ALL] = "all",
};

const char *stacks_text(uint32_t stacks)
{
	return stacks <= TS_STACKS_ALL ? stacks_names[stacks] : "unknown";
}

static int read_records(struct options *options, const char *text)
{
	return records_parse(text, &options->records);
}

static int read_stacks(struct options *options, const char *text)
{
	for (uint32_t i = TS_STACKS_NONE; i <= TS_STACKS_ALL; i++) {
		if (strcmp(text, stacks_names[i]) != 0)
			continue;
		options->stacks = i;
		return 0;
	}
	return -EINVAL;
}

static int read_budget(struct options *options, const char *text)
{
	options->budget_ppm = TS_BUDGET_NONE;
	return strcmp(text, "none") == 0 ? 0 : budget_parse(text, &options->budget_ppm);
}

static int read_wait(struct options *options, const char *text)
{
	options->wait_ns = 0;
	return text ? units_parse_duration(text, &options->wait_ns) : 0;
}

static int read_csv(struct options *options, const char *text)
{
	options->spreadsheet = text;
	return text && strcmp(text, "spreadsheet") != 0 ? -EINVAL : 0;
}

static int read_pid(struct options *options, const char *text)
{
	int r = number_parse(text, INT_MAX, &options->pid);

	return r == 0 && options->pid == 0 ? -EINVAL : r;
}

static int read_stream(struct options *options, const char *text)
{
	return number_parse(text, UINT32_MAX, &options->stream);
}

static int read_device(struct options *options, const char *text)
{
	return number_parse(text, INT16_MAX, &options->device);
}

static int read_limit(struct options *options, const char *text)
{
	return number_parse(text, INT64_MAX, &options->limit);
}

static int read_since(struct options *options, const char *text)
{
	return moment_parse(text, &options->since);
}

static int read_until(struct options *options, const char *text)
{
	return moment_parse(text, &options->until);
}

static int read_min_age(struct options *options, const char *text)
{
	return units_parse_duration(text, &options->min_age_ns);
}

static int read_timeout(struct options *options, const char *text)
{
	return units_parse_duration(text, &options->timeout_ns);
}

static int read_for(struct options *options, const char *text)
{
	int r = units_parse_duration(text, &options->for_ns);

	return r == 0 && options->for_ns == 0 ? -EINVAL : r;
}

static int read_by(struct options *options, const char *text)
{
	options->by = text;
	return 0;
}

static int read_from(struct options *options, const char *text)
{
	return units_parse_duration(text, &options->from_ns);
}

static int read_to(struct options *options, const char *text)
{
	return units_parse_duration(text, &options->to_ns);
}

static int read_duration(struct options *options, const char *text)
{
	options->until_eof = strcmp(text, "eof") == 0;
	if (options->until_eof)
		return 0;
	return units_parse_duration(text, &options->duration_ns);
}

static int read_launch_latency(struct options *options, const char *text)
{
	return units_parse_duration(text, &options->launch_latency_ns);
}

static int read_fail_over(struct options *options, const char *text)
{
	return share_parse(text, &options->fail_over_ppm);
}

static int read_tolerance(struct options *options, const char *text)
{
	return share_or_none_parse(text, &options->tolerance_ppm);
}

static int read_speed(struct options *options, const char *text)
{
	options->speed = 0;
	return strcmp(text, "max") == 0 ? 0 : factor_parse(text, &options->speed);
}

static int read_copy_bandwidth(struct options *options, const char *text)
{
	return factor_parse(text, &options->copy_bandwidth);
}

static int read_count(const char *text, uint64_t *ret)
{
	int r = number_parse(text, COUNT_MAX, ret);

	return r == 0 && *ret == 0 ? -EINVAL : r;
}

static int read_streams(struct options *options, const char *text)
{
	return read_count(text, &options->streams);
}

static int read_devices(struct options *options, const char *text)
{
	return read_count(text, &options->devices);
}

static int read_list(struct option_list *list, const char *text)
{
	if (!*text || list->count == OPTIONS_LIST_MAX)
		return -EINVAL;
	list->text[list->count++] = text;
	return 0;
}

static int read_scale(struct options *options, const char *text)
{
	return read_list(&options->scale, text);
}

static int read_drop(struct options *options, const char *text)
{
	return read_list(&options->drop, text);
}

static int read_graph(struct options *options, const char *text)
{
	options->graph = text;
	return 0;
}

/* Those whose value is any text but "". */
static const struct {
	int number;
	size_t offset;
} texts[] = {
	{ OPTION_NUMBER_SOCKET, offsetof(struct options, socket) },
	{ OPTION_NUMBER_OUTPUT, offsetof(struct options, output) },
	{ OPTION_NUMBER_FILE, offsetof(struct options, file) },
	{ OPTION_NUMBER_KERNEL, offsetof(struct options, kernel) },
	{ OPTION_NUMBER_USER, offsetof(struct options, user) },
	{ OPTION_NUMBER_NAME, offsetof(struct options, name) },
	{ OPTION_NUMBER_SORT, offsetof(struct options, sort) },
	{ OPTION_NUMBER_COLUMNS, offsetof(struct options, columns) },
	{ OPTION_NUMBER_LISTEN, offsetof(struct options, listen) },
	{ OPTION_NUMBER_TOKEN, offsetof(struct options, token) },
	{ OPTION_NUMBER_TLS, offsetof(struct options, tls) },
	{ OPTION_NUMBER_URL, offsetof(struct options, url) },
	{ OPTION_NUMBER_PASSWORD_FILE, offsetof(struct options, password_file) },
	{ OPTION_NUMBER_JOB, offsetof(struct options, job) },
	{ OPTION_NUMBER_HOST, offsetof(struct options, host) },
};

static int read_text(struct options *options, int number, const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (texts[i].number != number)
			continue;
		*(const char **)((char *)options + texts[i].offset) = text;
		return *text ? 0 : -EINVAL;
	}
	return 0;
}

static int read_rank(struct options *options, const char *text)
{
	return number_parse(text, INT32_MAX, &options->rank);
}

static int read_cluster(struct options *options, const char *text)
{
	options->cluster = text; /* becomes a part of statements */
	return *text && !text[strspn(text, WORD_CHARACTERS)] ? 0 : -EINVAL;
}

static int (*const readers[OPTION_COUNT])(struct options *options, const char *text) = {
	[OPTION_NUMBER_PID] = read_pid,
	[OPTION_NUMBER_SINCE] = read_since,
	[OPTION_NUMBER_UNTIL] = read_until,
	[OPTION_NUMBER_LIMIT] = read_limit,
	[OPTION_NUMBER_MIN_AGE] = read_min_age,
	[OPTION_NUMBER_STREAM] = read_stream,
	[OPTION_NUMBER_DEVICE] = read_device,
	[OPTION_NUMBER_TIMEOUT] = read_timeout,
	[OPTION_NUMBER_FOR] = read_for,
	[OPTION_NUMBER_RECORDS] = read_records,
	[OPTION_NUMBER_STACKS] = read_stacks,
	[OPTION_NUMBER_BY] = read_by,
	[OPTION_NUMBER_BUDGET] = read_budget,
	[OPTION_NUMBER_WAIT] = read_wait,
	[OPTION_NUMBER_CSV] = read_csv,
	[OPTION_NUMBER_DURATION] = read_duration,
	[OPTION_NUMBER_FROM] = read_from,
	[OPTION_NUMBER_TO] = read_to,
	[OPTION_NUMBER_SPEED] = read_speed,
	[OPTION_NUMBER_SCALE] = read_scale,
	[OPTION_NUMBER_DROP] = read_drop,
	[OPTION_NUMBER_STREAMS] = read_streams,
	[OPTION_NUMBER_DEVICES] = read_devices,
	[OPTION_NUMBER_GRAPH] = read_graph,
	[OPTION_NUMBER_LAUNCH_LATENCY] = read_launch_latency,
	[OPTION_NUMBER_FAIL_OVER] = read_fail_over,
	[OPTION_NUMBER_TOLERANCE] = read_tolerance,
	[OPTION_NUMBER_COPY_BANDWIDTH] = read_copy_bandwidth,
	[OPTION_NUMBER_RANK] = read_rank,
	[OPTION_NUMBER_CLUSTER] = read_cluster,
};

const struct option_form option_forms[OPTION_COUNT] = {
#define X(id, name, letter, argument, text, ...) { name, letter, argument, text },
	OPTIONS(X)
#undef X
};

/* getopt returns the letter, or FIRST_LONG plus the number of the option. */
#define FIRST_LONG 256

static int argument_kind(const char *argument)
{
	if (!argument)
		return no_argument;
	return *argument == '[' ? optional_argument : required_argument;
}

static void build(option_set allowed, bool ends, struct option *longs, char *letters)
{
	if (ends)
		*letters++ = '+'; /* stop at the first other argument */
	*letters++ = ':';
	for (int i = 0, kind; i < OPTION_COUNT; i++) {
		if (!(allowed & OPTION_BIT(i)))
			continue;
		kind = argument_kind(option_forms[i].argument);
		*longs++ = (struct option){ option_forms[i].name, kind, NULL, FIRST_LONG + i };
		if (!option_forms[i].letter)
			continue;
		*letters++ = option_forms[i].letter;
		if (kind == required_argument)
			*letters++ = ':';
	}
	*longs = (struct option){ 0 };
	*letters = '\0';
}

static int number_of(int found)
{
	for (int i = 0; i < OPTION_COUNT; i++)
		if (found == FIRST_LONG + i ||
		    (option_forms[i].letter && found == option_forms[i].letter))
			return i;
	return 0;
}

static int refuse(const struct option_form *form, const char *text)
{
	static const struct {
		const char *key, *needs; /* by name of the option or of its argument */
	} kinds[] = {
		{ "streams", "a number from 1 to 1024" },
		{ "devices", "a number from 1 to 1024" },
		{ "DURATION", "a duration, e.g. " UNITS_DURATION_EXAMPLES },
		{ "[DURATION]", "a duration, e.g. " UNITS_DURATION_EXAMPLES },
		{ "TIME", "a duration, e.g. " UNITS_DURATION_EXAMPLES },
		{ "WHEN", "a time, e.g. 10s, 5m or 2h (ago), now, or 2024-05-31T13:00:00" },
		{ "budget", "a share above 0% and below 100%, e.g. 3% or 0.5%, or 'none'" },
		{ "PERCENT", "a percentage, e.g. 5% or 0.5%" },
		{ "PID", "a process ID, e.g. 4711" },
		{ "N", "a whole number" },
		{ "ID", "a stream ID, e.g. 7" },
		{ "LIST", "a list of records, e.g. kernels,copies or +syncs" },
		{ "WHICH", "none, sampled or all" },
		{ "[FOR]", "no value, or 'spreadsheet'" },
		{ "CLUSTER", "a name of letters, digits and _" },
		{ "X", "a speed, e.g. 0.1, 10 or max" },
		{ "FACTOR", "a factor above 0, e.g. 2x" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(form->argument, kinds[i].key) != 0 &&
		    strcmp(form->name, kinds[i].key) != 0)
			continue;
		complain("--%s needs %s (got '%s')", form->name, kinds[i].needs, text);
		return -EINVAL;
	}
	complain("Invalid --%s '%s': %s", form->name, text, form->text);
	return -EINVAL;
}

int options_take(struct options *options, int number, const char *text)
{
	int r = readers[number] ? readers[number](options, text) : read_text(options, number, text);

	if (r < 0)
		return refuse(&option_forms[number], text);
	options->given |= OPTION_BIT(number);
	return 0;
}

static int check(const struct options *options)
{
	static const struct {
		option_set pair;
		const char *sentence;
	} alternatives[] = {
		{ OPTIONS_TABLE, "--json and --csv exclude each other" },
		{ OPTIONS_BY & ~OPTION(BY), "--by-stack and --by-stream exclude each other" },
		{ OPTIONS_BY & ~OPTION(BY_STREAM), "--by and --by-stack exclude each other" },
		{ OPTIONS_BY & ~OPTION(BY_STACK), "--by and --by-stream exclude each other" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(alternatives); i++) {
		if ((options->given & alternatives[i].pair) != alternatives[i].pair)
			continue;
		complain("%s", alternatives[i].sentence);
		return -EINVAL;
	}
	return 0;
}

/* Number of arguments after the "--", which getopt removes. */
static int count_after(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return argc - i - 1;
	return -1;
}

int options_parse(struct options *options, option_set allowed, const char *verb, bool foreign,
		  int argc, char **argv)
{
	struct option longs[OPTION_COUNT + 1];
	char letters[2 * OPTION_COUNT + 3], letter[] = "-?";
	int found, r;

	options->after = count_after(argc, argv);
	build(allowed, !verb || foreign, longs, letters);
	opterr = 0;
	optind = 0; /* glibc: start over */
	while ((found = getopt_long(argc, argv, letters, longs, NULL)) >= 0) {
		if (found == '?' || found == ':') {
			letter[1] = (char)optopt;
			complain("%s '%s': see 'tsctl %s%s--help'",
				 found == ':' ? "Missing value after" : "Unknown option",
				 optopt > 0 && optopt < FIRST_LONG ? letter : argv[optind - 1],
				 verb ? verb : "", verb ? " " : "");
			return -EINVAL;
		}
		r = options_take(options, number_of(found), optarg);
		if (r < 0)
			return r;
	}
	r = check(options);
	return r < 0 ? r : optind;
}
