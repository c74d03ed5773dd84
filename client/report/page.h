/* page.h: the parts of a report, written as HTML or as Markdown. All text is escaped. */
#ifndef TS_CLIENT_REPORT_PAGE_H
#define TS_CLIENT_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "client/report/answer.h"

struct page_form {
	void (*begin)(FILE *out, const char *title, const char *about);
	void (*heading)(FILE *out, const char *text);
	void (*text)(FILE *out, const char *text);
	/* A sentence, the command that shows more, and what is missing from that; NULL: none. */
	void (*finding)(FILE *out, const char *text, const char *command, const char *loss);
	/* The listed columns (their numbers) of an answer with rows. */
	void (*table)(FILE *out, const struct report_answer *answer, const size_t *column,
		      size_t count);
	/* The SVG is whole and trusted; NULL: the form has no pictures. */
	void (*picture)(FILE *out, const char *title, const char *svg);
	/* The same of a document with a script of its own, which gets an isolated frame. */
	void (*document)(FILE *out, const char *title, const char *svg, size_t size);
	void (*end)(FILE *out, const char *version);
};

extern const struct page_form page_html, page_markdown;

/* Whether numbers of the column are aligned to the right. */
bool page_is_number(const struct report_answer *answer, size_t column);

#endif
