/* markup.h: text of other programs in HTML, SVG and Markdown: never markup, never a control. */
#ifndef TS_CLIENT_REPORT_MARKUP_H
#define TS_CLIENT_REPORT_MARKUP_H

#include <stdio.h>

/* As text or as the value of an attribute of HTML and SVG. */
void markup_text(FILE *out, const char *text);
/* In a cell of a table of Markdown. */
void markup_cell(FILE *out, const char *text);
/* As code of Markdown, on one line. */
void markup_code(FILE *out, const char *text);

#endif
