/* finding.h: what stands out in the answers, in sentences. */
#ifndef TS_CLIENT_REPORT_FINDING_H
#define TS_CLIENT_REPORT_FINDING_H

#include <stdint.h>
#include <stdio.h>

#include "client/report/answer.h"
#include "client/report/page.h"
#include "client/report/section.h"

/* Kernels whose launches a graph would save, if they are short. */
#define FINDING_TINY_COUNT 1000

struct finding_facts {
	const struct report_answer *answer; /* SECTION_COUNT */
	const char *where;  /* the options of a command about the same: "--file 'run.sbt'" */
	const char *file;   /* the same if it is a recording, or "" */
	const char *replay; /* the same for tsctl replay */
	uint64_t window_ns;
	/* With all launches as CUDA graphs, as the emulator predicts; 0: not known. */
	uint64_t recorded_ns, predicted_ns;
};

void findings_write(const struct finding_facts *facts, const struct page_form *form, FILE *out);

#endif
