/* tsctl budget: gives a process another budget for the probes, and says which one holds now. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/argument.h"
#include "client/link/link.h"
#include "client/output/note.h"
#include "client/verbs/command.h"
#include "core/base/units.h"

#define PPM_PERCENT 1e4

/* "5%" into parts per million, "none" into 0, "default" into neither. */
static int read_share(const char *text, Tracesmith__V1__BudgetRequest *ret)
{
	if (strcmp(text, "none") == 0)
		return 0;
	if (strcmp(text, "default") == 0) {
		ret->reset = true;
		return 0;
	}
	if (budget_parse(text, &ret->budget_ppm) == 0)
		return 0;
	complain("'%s' is not a budget: give a share above 0%% and below 100%%, e.g. 5%% or 0.5%%, "
		 "or "
		 "'none', or 'default'",
		 text);
	return -EINVAL;
}

static const char *share_text(char text[UNITS_TEXT_SIZE], uint32_t ppm)
{
	if (ppm)
		snprintf(text, UNITS_TEXT_SIZE, "%.4g %%", ppm / PPM_PERCENT);
	else
		snprintf(text, UNITS_TEXT_SIZE, "none");
	return text;
}

static void write_text(uint32_t pid, bool reset, const Tracesmith__V1__BudgetReply *budget)
{
	char text[UNITS_TEXT_SIZE], setting[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE];

	printf("Budget of process %u: %s", pid, share_text(text, budget->budget_ppm));
	share_text(setting, budget->setting_ppm);
	if (budget->for_ns)
		printf(" for %s, then %s\n", units_nanoseconds(time, (int64_t)budget->for_ns),
		       setting);
	else
		puts(reset ? ", as in the settings" : "");
	notes_text(budget->n_note, budget->note);
}

static void write_json(uint32_t pid, const Tracesmith__V1__BudgetReply *budget)
{
	printf("{\"pid\":%u,\"budget\":", pid);
	printf(budget->budget_ppm ? "%" PRIu32 : "null", budget->budget_ppm);
	printf(",\"for_ns\":");
	printf(budget->for_ns ? "%" PRIu64 : "null", budget->for_ns);
	printf(",\"setting\":");
	printf(budget->setting_ppm ? "%" PRIu32 "," : "null,", budget->setting_ppm);
	notes_json(budget->n_note, budget->note);
	puts("}");
}

int cmd_budget(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__BudgetRequest budget = TRACESMITH__V1__BUDGET_REQUEST__INIT;

	if (argument_pid(argument[0], &budget.pid) < 0 || read_share(argument[1], &budget) < 0)
		return EXIT_USAGE;
	if (budget.reset && (options->given & OPTION(FOR))) {
		complain("'default' is the budget of the settings, which stays: leave out --for");
		return EXIT_USAGE;
	}
	budget.for_ns = options->for_ns;
	if (link_open(options, &link) < 0 ||
	    link_single(link, &budget.base, TRACESMITH__V1__REPLY__BODY_BUDGET, &reply) < 0)
		return EXIT_FAILED;
	if (options->given & OPTION(JSON))
		write_json(budget.pid, reply->budget);
	else
		write_text(budget.pid, budget.reset, reply->budget);
	return EXIT_DONE;
}
