/* command.h: the verbs of tsctl. A verb is a row of the table in command.c and a file
 * verbs/<verb>.c. */
#ifndef TS_CLIENT_COMMAND_H
#define TS_CLIENT_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/base/complain.h"
#include "client/base/options.h"

/* As arguments_max: the arguments are another program's command line. */
#define ARGUMENTS_FOREIGN INT_MAX

struct command {
	const char *name;
	const char *arguments; /* after the options in the usage line, or "" */
	const char *summary;   /* one line of `tsctl help` */
	option_set options;    /* OPTION_ bits that it accepts */
	int arguments_min, arguments_max;
	const char *help; /* further help and examples, ends with a newline */
	/* `argument`: what is left after the options. Returns an exit_status. */
	int (*run)(const struct options *options, int count, char **argument);
};

extern const struct command command_table[]; /* ends with a row without a name */

const struct command *command_find(const char *name);
void command_usage(const struct command *command);

int cmd_status(const struct options *options, int count, char **argument);
int cmd_ps(const struct options *options, int count, char **argument);
int cmd_top(const struct options *options, int count, char **argument);
int cmd_run(const struct options *options, int count, char **argument);
int cmd_attach(const struct options *options, int count, char **argument);
int cmd_detach(const struct options *options, int count, char **argument);
int cmd_query(const struct options *options, int count, char **argument);
int cmd_oom(const struct options *options, int count, char **argument);
int cmd_cost(const struct options *options, int count, char **argument);
int cmd_budget(const struct options *options, int count, char **argument);
int cmd_stack(const struct options *options, int count, char **argument);
int cmd_sql(const struct options *options, int count, char **argument);
int cmd_ship(const struct options *options, int count, char **argument);
int cmd_info(const struct options *options, int count, char **argument);
int cmd_graph(const struct options *options, int count, char **argument);
int cmd_view(const struct options *options, int count, char **argument);
int cmd_record(const struct options *options, int count, char **argument);
int cmd_export(const struct options *options, int count, char **argument);
int cmd_plot(const struct options *options, int count, char **argument);
int cmd_report(const struct options *options, int count, char **argument);
int cmd_diff(const struct options *options, int count, char **argument);
int cmd_replay(const struct options *options, int count, char **argument);
int cmd_serve(const struct options *options, int count, char **argument);
int cmd_fleet(const struct options *options, int count, char **argument);
int cmd_answer(const struct options *options, int count, char **argument);
int cmd_version(const struct options *options, int count, char **argument);
int cmd_help(const struct options *options, int count, char **argument);

#endif
