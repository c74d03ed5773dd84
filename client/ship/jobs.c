/* Jobs: asked anew for each parcel, as the daemon forgets and learns. */
#include "client/ship/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/ship/identity.h"
#include "client/ship/settings.h"
#include "core/base/glob.h"
#include "core/base/vector.h"

#define NO_JOB "-"

bool jobs_fit(const char *patterns, const char *job)
{
	char pattern[SETTINGS_LINE_BYTES + 2], text[IDENTITY_TEXT_BYTES + 2];
	size_t size;

	/* glob.h finds a pattern anywhere, so both get the same ends. */
	snprintf(text, sizeof(text), "\n%s\n", *job ? job : NO_JOB);
	for (;; patterns += size) {
		patterns += strspn(patterns, SETTINGS_SEPARATORS);
		size = strcspn(patterns, SETTINGS_SEPARATORS);
		if (!size)
			return false;
		snprintf(pattern, sizeof(pattern), "\n%.*s\n", (int)size, patterns);
		if (glob_find(pattern, text))
			return true;
	}
}

struct asking {
	const char *patterns;
	struct jobs *jobs;
};

static int take_process(void *data, const Tracesmith__V1__Row *row)
{
	const struct asking *asking = data;
	struct jobs *jobs = asking->jobs;
	struct identity found;

	if (row->n_value != 3)
		return -EPROTO;
	if (VECTOR_ROOM(jobs->process, jobs->room, jobs->count + 1) < 0)
		return -ENOMEM;
	identity_find(source_text(row->value[1]), source_text(row->value[2]), &found);
	jobs->process[jobs->count++] = (struct jobs_process){
		.id = source_integer(row->value[0]),
		.sent = jobs_fit(asking->patterns, found.job),
	};
	return 0;
}

int jobs_ask(struct source *source, const char *patterns, uint32_t boot, struct jobs *ret)
{
	struct source_about about = { .boot = boot };
	struct asking asking = { patterns, ret };
	int r = 1;

	*ret = (struct jobs){ .all = strcmp(patterns, SETTINGS_JOBS_ALL) == 0 };
	while (r > 0 && !ret->all) {
		r = source_ask(source, "ship-job", &about, take_process, &asking);
		if (ret->count)
			about.after = ret->process[ret->count - 1].id;
	}
	return r < 0 ? r : 0;
}

static int order(const void *id, const void *process)
{
	int64_t a = *(const int64_t *)id, b = ((const struct jobs_process *)process)->id;

	return (a > b) - (a < b);
}

enum jobs_result jobs_find(const struct jobs *jobs, int64_t process)
{
	const struct jobs_process *found;

	if (jobs->all || !process)
		return JOBS_SENT;
	found = jobs->count ? bsearch(&process, jobs->process, jobs->count, sizeof(*found), order)
			    : NULL;
	if (!found)
		return JOBS_UNKNOWN;
	return found->sent ? JOBS_SENT : JOBS_LEFT_OUT;
}

void jobs_done(struct jobs *jobs)
{
	free(jobs->process);
	*jobs = (struct jobs){ 0 };
}

uint64_t jobs_mark(const char *patterns)
{
	return XXH3_64bits(patterns, strlen(patterns));
}
