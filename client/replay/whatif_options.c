/* What-if options: parses what-ifs and applies them. WHAT is a kind, "kernel", "copy", "set",
 * "call" or "host" (between the calls). A regular expression after '=' may select some of it: by
 * the name of the kernel, the direction of the copy, the function called. */
#include "client/replay/whatif_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/pattern.h"
#include "client/trace/show.h"
#include "core/base/array.h"
#include "core/base/units.h"
#include "core/plan/whatif.h"

/* From the end of a kernel to the start of the next in its graph, on an H200. Source:
 * docs/measurements.md, "Predictions" */
#define GRAPH_GAP_NS 80

static const char *const what_names[WHAT_COUNT] = { "kernel", "copy", "set", "call", "host" };

/* --- parsing --- */

static int parse_name(struct whatif_option *change, const char *pattern, const char *given)
{
	regex_t *name = calloc(1, sizeof(*name));
	char why[PATTERN_WHY_BYTES];
	int r;

	if (!name)
		return complain_memory(), -ENOMEM;
	r = pattern_compile(pattern, change->what == WHAT_COPY ? REG_ICASE : 0, name, why);
	if (r == 0) {
		change->name = name;
		return 0;
	}
	free(name);
	complain("'%s' has an invalid regular expression after '=': %s", given, why);
	return -EINVAL;
}

static int parse_what(struct whatif_option *change, const char *text, const char *given)
{
	const char *equal = strchr(text, '=');
	size_t length = equal ? (size_t)(equal - text) : strlen(text);

	for (change->what = 0; change->what < WHAT_COUNT; change->what++)
		if (strlen(what_names[change->what]) == length &&
		    strncmp(text, what_names[change->what], length) == 0)
			break;
	if (change->what == WHAT_COUNT) {
		complain("'%s' names no target: use kernel, copy, set, call or host, where needed "
			 "with =REGEX",
			 given);
		return -EINVAL;
	}
	if (!equal)
		return 0;
	if (change->what == WHAT_HOST || change->what == WHAT_SET) {
		complain("'%s': a %s has no name to match", given, what_names[change->what]);
		return -EINVAL;
	}
	return parse_name(change, equal + 1, given);
}

static bool is_zero(const char *text)
{
	return *text && !text[strspn(text, "0.")] && strchr(text, '0');
}

/* WHAT:FACTOR; a name may contain colons, too. */
static int parse_scale(struct whatif_option *change, const char *given)
{
	const char *colon = strrchr(given, ':');
	char what[WHATIF_OPTION_TEXT];

	if (colon && is_zero(colon + 1)) {
		complain("'%s': the factor must be above 0; use --drop to remove things", given);
		return -EINVAL;
	}
	if (!colon || factor_parse(colon + 1, &change->factor) < 0) {
		complain("'%s' lacks a factor above 0: use WHAT:FACTOR, e.g. 'kernel=gemm:0.5'",
			 given);
		return -EINVAL;
	}
	if ((size_t)(colon - given) >= sizeof(what)) {
		complain("'%.40s...' is too long", given);
		return -EINVAL;
	}
	memcpy(what, given, (size_t)(colon - given));
	what[colon - given] = '\0';
	return parse_what(change, what, given);
}

static int parse_drop(struct whatif_option *change, const char *given)
{
	int r = parse_what(change, given, given);

	if (r == 0 && change->what == WHAT_HOST) {
		complain("Cannot drop host: use '--scale host:FACTOR' with a small factor");
		return -EINVAL;
	}
	return r;
}

/* "FROM..TO", both optional. */
static int parse_window(struct whatif_option *change, const char *given)
{
	const char *dots = given ? strstr(given, "..") : NULL;
	char from[64];
	int r = 0;

	change->to_ns = UINT64_MAX;
	if (!given)
		return 0;
	if (!dots || (size_t)(dots - given) >= sizeof(from)) {
		r = -EINVAL;
	} else {
		memcpy(from, given, (size_t)(dots - given));
		from[dots - given] = '\0';
		if (*from)
			r = units_parse_duration(from, &change->from_ns);
		if (r == 0 && dots[2])
			r = units_parse_duration(dots + 2, &change->to_ns);
	}
	if (r == 0 && change->from_ns < change->to_ns)
		return 0;
	complain("'%s' is not a window: use FROM..TO, e.g. 1.5s..2s or 500ms..10m", given);
	return -EINVAL;
}

static int check_count(uint64_t count, uint32_t most, const char *of)
{
	if (count > 0 && count <= most)
		return 0;
	complain("Use 1 to %u %s", most, of);
	return -EINVAL;
}

static int parse_one(struct whatif_option *change, const struct options *options, const char *given)
{
	switch (change->option) {
	case OPTION_NUMBER_SCALE:
		return parse_scale(change, given);
	case OPTION_NUMBER_DROP:
		return parse_drop(change, given);
	case OPTION_NUMBER_GRAPH:
		return parse_window(change, given);
	case OPTION_NUMBER_STREAMS:
		return check_count(options->streams, WHATIF_STREAMS_MAX, "streams");
	case OPTION_NUMBER_DEVICES:
		return check_count(options->devices, WHATIF_DEVICES_MAX, "devices");
	default:
		return 0;
	}
}

static int add(struct whatif_options *changes, const struct options *options,
	       enum option_number option, const char *given)
{
	struct whatif_option *change = &changes->change[changes->count++];
	char time[UNITS_TEXT_SIZE];

	*change = (struct whatif_option){ .option = option };
	if (option == OPTION_NUMBER_COPY_BANDWIDTH)
		snprintf(change->text, sizeof(change->text), "--%s %gx", option_forms[option].name,
			 options->copy_bandwidth);
	else if (option == OPTION_NUMBER_LAUNCH_LATENCY)
		snprintf(change->text, sizeof(change->text), "--%s %s", option_forms[option].name,
			 units_nanoseconds(time, (int64_t)options->launch_latency_ns));
	else if (option == OPTION_NUMBER_STREAMS || option == OPTION_NUMBER_DEVICES)
		snprintf(change->text, sizeof(change->text), "--%s %" PRIu64,
			 option_forms[option].name,
			 option == OPTION_NUMBER_STREAMS ? options->streams : options->devices);
	else
		snprintf(change->text, sizeof(change->text), "--%s%s%s", option_forms[option].name,
			 given ? option == OPTION_NUMBER_GRAPH ? "=" : " " : "",
			 given ? given : "");
	return parse_one(change, options, given);
}

int whatif_options_parse(const struct options *options, struct whatif_options *ret)
{
	static const enum option_number singles[] = {
		OPTION_NUMBER_COPY_BANDWIDTH, OPTION_NUMBER_LAUNCH_LATENCY, OPTION_NUMBER_NO_SYNC,
		OPTION_NUMBER_GRAPH,	      OPTION_NUMBER_STREAMS,	    OPTION_NUMBER_DEVICES,
	};
	int r = 0;

	ret->count = 0;
	for (uint32_t i = 0; r == 0 && i < options->drop.count; i++)
		r = add(ret, options, OPTION_NUMBER_DROP, options->drop.text[i]);
	for (uint32_t i = 0; r == 0 && i < options->scale.count; i++)
		r = add(ret, options, OPTION_NUMBER_SCALE, options->scale.text[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(singles); i++)
		if (options->given & UINT64_C(1) << singles[i])
			r = add(ret, options, singles[i],
				singles[i] == OPTION_NUMBER_GRAPH ? options->graph : NULL);
	return r;
}

void whatif_options_done(struct whatif_options *changes)
{
	for (uint32_t i = 0; i < changes->count; i++)
		if (changes->change[i].name) {
			regfree(changes->change[i].name);
			free(changes->change[i].name);
		}
}

/* --- applying --- */

/* Texts are stored once, so each is matched only once. */
struct choice {
	const struct meta *meta;
	const struct whatif_option *change;
	int8_t *known; /* per text: 0 not yet known, 1 matches, -1 does not */
};

static bool choose_text(struct choice *choice, const struct meta_text *text)
{
	int8_t *known;

	if (!choice->change->name)
		return true;
	if (!text)
		return false;
	known = &choice->known[text->number];
	if (*known == 0)
		*known = regexec(choice->change->name, text->text, 0, NULL, 0) == 0 ? 1 : -1;
	return *known > 0;
}

static bool choose(void *data, const struct op *op)
{
	struct choice *choice = data;

	switch (choice->change->what) {
	case WHAT_KERNEL:
		return (op->kind == OP_LAUNCH || op->kind == OP_KERNEL) &&
		       choose_text(choice, show_work_name(choice->meta, op));
	case WHAT_COPY:
		return op->kind == OP_COPY && choose_text(choice, show_work_name(choice->meta, op));
	case WHAT_SET:
		return op->kind == OP_SET;
	case WHAT_CALL:
		return choose_text(choice, show_call_name(choice->meta, op));
	default:
		return false;
	}
}

static int64_t scale(const struct whatif_option *change, const struct whatif_match *match,
		     struct plan *plan)
{
	if (change->what == WHAT_HOST)
		return whatif_scale_host(plan, change->factor);
	if (change->what == WHAT_CALL)
		return whatif_scale_calls(plan, match, change->factor);
	return whatif_scale(plan, match, change->factor);
}

static int64_t apply_one(const struct whatif_option *change, const struct options *options,
			 const struct whatif_match *match, uint64_t begin_ns, struct plan *plan)
{
	uint64_t to_ns =
		change->to_ns < UINT64_MAX - begin_ns ? begin_ns + change->to_ns : UINT64_MAX;

	switch (change->option) {
	case OPTION_NUMBER_SCALE:
		return scale(change, match, plan);
	case OPTION_NUMBER_DROP:
		return whatif_drop(plan, match);
	case OPTION_NUMBER_COPY_BANDWIDTH:
		return whatif_copy_bandwidth(plan, options->copy_bandwidth);
	case OPTION_NUMBER_LAUNCH_LATENCY:
		return whatif_launch_latency(plan, options->launch_latency_ns);
	case OPTION_NUMBER_NO_SYNC:
		return whatif_no_sync(plan);
	case OPTION_NUMBER_GRAPH:
		return whatif_graph(plan, begin_ns + change->from_ns, to_ns, GRAPH_GAP_NS);
	case OPTION_NUMBER_STREAMS:
		return whatif_streams(plan, (uint32_t)options->streams);
	case OPTION_NUMBER_DEVICES:
		return whatif_devices(plan, (uint32_t)options->devices);
	default:
		return -EINVAL;
	}
}

/* Why a what-if changes nothing, so that the prediction would equal the recording. */
static const char *nothing(enum option_number option)
{
	switch (option) {
	case OPTION_NUMBER_NO_SYNC:
		return "changes nothing: no thread waits for the device more than once";
	case OPTION_NUMBER_COPY_BANDWIDTH:
		return "changes nothing: no copy between host and device has exact times";
	case OPTION_NUMBER_GRAPH:
		return "changes nothing: no thread launches two operations there without a wait "
		       "between them";
	case OPTION_NUMBER_STREAMS:
		return "changes nothing: there are already as many streams, or their work cannot "
		       "be spread, since all of it follows one copy to the device";
	case OPTION_NUMBER_DEVICES:
		return "changes nothing: there are no more streams to distribute";
	default:
		return "matches nothing in the recording";
	}
}

int whatif_options_apply(struct whatif_options *changes, const struct options *options,
			 const struct meta *meta, uint64_t begin_ns, struct plan *plan)
{
	for (uint32_t i = 0; i < changes->count; i++) {
		struct whatif_option *change = &changes->change[i];
		_cleanup_(freep) int8_t *known = calloc(meta->text_count + 1ul, 1);
		struct choice choice = { meta, change, known };
		struct whatif_match match = { choose, &choice };

		if (!known)
			return complain_memory(), -ENOMEM;
		change->changed = apply_one(change, options, &match, begin_ns, plan);
		if (change->changed < 0) {
			complain("Cannot apply '%s': %s", change->text,
				 strerror((int)-change->changed));
			return (int)change->changed;
		}
		if (change->changed == 0) {
			complain("'%s' %s", change->text, nothing(change->option));
			return -ENOENT;
		}
	}
	return 0;
}
