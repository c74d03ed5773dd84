/* Options: reads the options of every verb from the one table in options.h.
 * A verb takes those that it allows, and no other. */
#include "client/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/command.h"
#include "core/base/units.h"

#define NS_PER_S 1000000000ull

static int number_parse(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value;

	if (units_parse_count(text, &value) < 0 || value > max)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* ".25" after the seconds. */
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

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
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

static int read_socket(struct options *options, const char *text)
{
	options->socket = text;
	return *text ? 0 : -EINVAL;
}

static int read_output(struct options *options, const char *text)
{
	options->output = text;
	return *text ? 0 : -EINVAL;
}

static int (*const readers[OPTION_COUNT])(struct options *options, const char *text) = {
	[OPTION_NUMBER_SOCKET] = read_socket,	[OPTION_NUMBER_PID] = read_pid,
	[OPTION_NUMBER_SINCE] = read_since,	[OPTION_NUMBER_UNTIL] = read_until,
	[OPTION_NUMBER_LIMIT] = read_limit,	[OPTION_NUMBER_MIN_AGE] = read_min_age,
	[OPTION_NUMBER_STREAM] = read_stream,	[OPTION_NUMBER_DEVICE] = read_device,
	[OPTION_NUMBER_TIMEOUT] = read_timeout, [OPTION_NUMBER_OUTPUT] = read_output,
};

const struct option_form option_forms[OPTION_COUNT] = {
#define X(id, name, letter, argument, text, ...) { name, letter, argument, text },
	OPTIONS(X)
#undef X
};

/* getopt answers with the letter, or with FIRST_LONG and the number of the option. */
#define FIRST_LONG 256

static void build(uint32_t allowed, const char *verb, struct option *longs, char *letters)
{
	if (!verb)
		*letters++ = '+'; /* the verb ends them */
	*letters++ = ':';
	for (int i = 0; i < OPTION_COUNT; i++) {
		if (!(allowed & 1u << i))
			continue;
		*longs++ = (struct option){ option_forms[i].name, option_forms[i].argument ? 1 : 0,
					    NULL, FIRST_LONG + i };
		if (!option_forms[i].letter)
			continue;
		*letters++ = option_forms[i].letter;
		if (option_forms[i].argument)
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

static int take(struct options *options, int number, const char *text)
{
	if (readers[number] && readers[number](options, text) < 0) {
		complain("'%s' is no %s for --%s", text, option_forms[number].argument,
			 option_forms[number].name);
		return -EINVAL;
	}
	options->given |= 1u << number;
	return 0;
}

int options_parse(struct options *options, uint32_t allowed, const char *verb, int argc,
		  char **argv)
{
	struct option longs[OPTION_COUNT + 1];
	char letters[2 * OPTION_COUNT + 3];
	int found, r;

	build(allowed, verb, longs, letters);
	opterr = 0;
	optind = 0; /* glibc: begin anew */
	while ((found = getopt_long(argc, argv, letters, longs, NULL)) >= 0) {
		if (found == '?' || found == ':') {
			complain("%s '%s': see 'tsctl %s%s--help'",
				 found == ':' ? "A value is missing after" : "There is no option",
				 argv[optind - 1], verb ? verb : "", verb ? " " : "");
			return -EINVAL;
		}
		r = take(options, number_of(found), optarg);
		if (r < 0)
			return r;
	}
	if ((options->given & OPTIONS_TABLE) == OPTIONS_TABLE) {
		complain("There is one form of output: --json or --csv");
		return -EINVAL;
	}
	return optind;
}
