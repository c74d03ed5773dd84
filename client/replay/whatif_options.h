/* whatif_options.h: the what-ifs of the options, and what they change in a plan. */
#ifndef TS_CLIENT_WHATIF_OPTIONS_H
#define TS_CLIENT_WHATIF_OPTIONS_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/base/options.h"
#include "client/trace/meta.h"
#include "core/plan/plan.h"

#define WHATIF_OPTIONS_MAX (2 * OPTIONS_LIST_MAX + 6)
#define WHATIF_OPTION_TEXT 512

enum whatif_what { WHAT_KERNEL, WHAT_COPY, WHAT_SET, WHAT_CALL, WHAT_HOST, WHAT_COUNT };

struct whatif_option {
	enum option_number option;
	char text[WHATIF_OPTION_TEXT]; /* as given: "--scale kernel=gemm:0.5" */
	enum whatif_what what;	       /* of --scale and --drop, as the next two */
	double factor;
	regex_t *name;		 /* NULL: all of the kind */
	uint64_t from_ns, to_ns; /* of --graph, since the start of the recording */
	int64_t changed;	 /* works, or calls */
};

struct whatif_options {
	struct whatif_option change[WHATIF_OPTIONS_MAX];
	uint32_t count;
};

/* In the order of application. -EINVAL: one is invalid; the error was printed. */
int whatif_options_parse(const struct options *options, struct whatif_options *ret);
void whatif_options_done(struct whatif_options *changes);
/* Errors are printed. -ENOENT: one matches nothing. */
int whatif_options_apply(struct whatif_options *changes, const struct options *options,
			 const struct meta *meta, uint64_t begin_ns, struct plan *plan);

#endif
