/* Pattern: checks an expression before the C library compiles it. Syntax errors are left to the
 * library, which explains them better. */
#include "client/output/pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"

struct scan {
	const char *at;
	bool refers; /* references to earlier groups */
	/* Per open group: its size so far. The last is repeated next. */
	uint64_t places[PATTERN_BYTES_MAX + 1];
	uint64_t last;
	size_t depth;
};

/* Bounded so that the next product cannot overflow. */
static uint64_t bounded(uint64_t places)
{
	return places < UINT32_MAX ? places : UINT32_MAX;
}

static void add(struct scan *scan, uint64_t places)
{
	scan->last = bounded(places);
	scan->places[scan->depth] = bounded(scan->places[scan->depth] + scan->last);
}

static void repeat(struct scan *scan, uint64_t times)
{
	scan->places[scan->depth] -= scan->last;
	add(scan, scan->last * bounded(times ? times : 1));
}

/* Skips a bracket expression, from after the '['. A ']' at its start does not end it, nor do those
 * of [:alpha:], [.x.] and [=x=]. */
static void skip_set(struct scan *scan)
{
	const char *at = scan->at + (*scan->at == '^');

	at += *at == ']';
	while (*at && *at != ']') {
		char of = at[0] == '[' && at[1] && strchr(":.=", at[1]) ? at[1] : '\0';
		const char end[] = { of, ']', '\0' };
		const char *behind = of ? strstr(at + 2, end) : NULL;

		at = behind ? behind + 2 : at + 1;
	}
	scan->at = at + (*at == ']');
}

/* Parses after the '{': "3}", "3,}", ",3}" or "1,3}"; anything else repeats nothing. */
static void read_interval(struct scan *scan)
{
	const char *at = scan->at;
	char *end;
	uint64_t least = 0, most;

	if (*at >= '0' && *at <= '9') {
		least = strtoull(at, &end, 10);
		at = end;
	}
	most = least;
	if (*at == ',') {
		at++;
		most = bounded(least) + 1; /* the other characters repeat the group */
		if (*at >= '0' && *at <= '9') {
			most = strtoull(at, &end, 10);
			at = end;
		}
	}
	if (*at != '}' || at == scan->at) {
		add(scan, 1);
		return;
	}
	scan->at = at + 1;
	repeat(scan, most > least ? most : least);
}

static void close_group(struct scan *scan)
{
	uint64_t places = scan->places[scan->depth];

	if (scan->depth == 0) {
		add(scan, 1);
		return;
	}
	scan->depth--;
	add(scan, places);
}

static void scan_one(struct scan *scan, char c)
{
	switch (c) {
	case '\\':
		scan->refers |= *scan->at >= '1' && *scan->at <= '9';
		scan->at += *scan->at != '\0';
		add(scan, 1);
		break;
	case '[':
		skip_set(scan);
		add(scan, 1);
		break;
	case '(':
		scan->places[++scan->depth] = 1;
		scan->last = 0;
		break;
	case ')':
		close_group(scan);
		break;
	case '{':
		read_interval(scan);
		break;
	case '+':
		repeat(scan, 2); /* once, then any number of times */
		break;
	case '*':
	case '?':
		break;
	default:
		add(scan, 1);
	}
}

static const char *refuse(const char *text)
{
	struct scan scan = { .at = text };
	char c;

	if (strlen(text) > PATTERN_BYTES_MAX)
		return "it is longer than 256 bytes";
	while ((c = *scan.at)) {
		scan.at++;
		scan_one(&scan, c);
	}
	while (scan.depth > 0)
		close_group(&scan);
	if (scan.refers)
		return "back references (\\1) may take forever";
	if (scan.places[0] > PATTERN_PLACES_MAX)
		return "it expands to more than 1000 characters";
	return NULL;
}

int pattern_compile(const char *text, int flags, regex_t *ret, char why[PATTERN_WHY_BYTES])
{
	const char *refused = refuse(text);
	int code;

	if (refused) {
		snprintf(why, PATTERN_WHY_BYTES, "%s", refused);
		return -EINVAL;
	}
	code = regcomp(ret, text, REG_EXTENDED | REG_NOSUB | flags);
	if (code == 0)
		return 0;
	if (code == REG_ESPACE)
		complain_memory(); /* no fault of the pattern's */
	regerror(code, ret, why, PATTERN_WHY_BYTES);
	return -EINVAL;
}
