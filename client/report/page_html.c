/* Page as HTML: one file, which asks for nothing from outside and runs no script but that of the
 * flame graph, in a frame of its own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/markup.h"
#include "client/report/page.h"
#include "client/report/report_text.h"

#define HEIGHT	       " height=\""
#define HEIGHT_UNKNOWN 600ul
#define POLICY	       "default-src 'none'; style-src 'unsafe-inline'; frame-src data:"

static void begin(FILE *out, const char *title, const char *about)
{
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"" POLICY "\">\n<title>",
	      out);
	markup_text(out, title);
	fprintf(out, "</title>\n<style>\n%s</style></head><body>\n<h1>", report_css);
	markup_text(out, title);
	fputs("</h1>\n<p class=\"faint\">", out);
	markup_text(out, about);
	fputs("</p>\n", out);
}

static void heading(FILE *out, const char *text)
{
	fputs("<h2>", out);
	markup_text(out, text);
	fputs("</h2>\n", out);
}

static void write_text(FILE *out, const char *text)
{
	fputs("<p>", out);
	markup_text(out, text);
	fputs("</p>\n", out);
}

static void finding(FILE *out, const char *text, const char *command, const char *loss)
{
	fputs("<div class=\"finding\"><p>", out);
	markup_text(out, text);
	fputs("</p>", out);
	if (command) {
		fputs("<code>", out);
		markup_text(out, command);
		fputs("</code>", out);
	}
	if (loss) {
		fputs("<p class=\"faint\">", out);
		markup_text(out, loss);
		fputs("</p>", out);
	}
	fputs("</div>\n", out);
}

static void table(FILE *out, const struct report_answer *answer, const size_t *column, size_t count)
{
	fputs("<div class=\"wide\"><table><thead><tr>", out);
	for (size_t i = 0; i < count; i++) {
		fputs(page_is_number(answer, column[i]) ? "<th class=\"n\">" : "<th>", out);
		markup_text(out, answer->column[column[i]]);
		fputs("</th>", out);
	}
	fputs("</tr></thead><tbody>\n", out);
	for (size_t row = 0; row < answer->rows; row++) {
		fputs("<tr>", out);
		for (size_t i = 0; i < count; i++) {
			fputs(page_is_number(answer, column[i]) ? "<td class=\"n\">" : "<td>", out);
			markup_text(out, answer->row[row].cell[column[i]]);
			fputs("</td>", out);
		}
		fputs("</tr>\n", out);
	}
	fputs("</tbody></table></div>\n", out);
}

static void picture(FILE *out, const char *title, const char *svg)
{
	heading(out, title);
	fputs(svg, out);
}

static void write_base64(FILE *out, const char *bytes, size_t size)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size; i += 3) {
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (i + k < size ? (unsigned char)bytes[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			fputc(i + k <= size ? digit[bits >> (18 - 6 * k) & 63] : '=', out);
	}
}

/* Its frame has the height of the picture. */
static void document(FILE *out, const char *title, const char *svg, size_t size)
{
	const char *height = strstr(svg, HEIGHT);

	heading(out, title);
	fprintf(out, "<iframe sandbox=\"allow-scripts\" style=\"height:%lupx\" title=\"",
		height ? strtoul(height + strlen(HEIGHT), NULL, 10) : HEIGHT_UNKNOWN);
	markup_text(out, title);
	fputs("\" src=\"data:image/svg+xml;base64,", out);
	write_base64(out, svg, size);
	fputs("\"></iframe>\n", out);
}

static void end(FILE *out, const char *version)
{
	fputs("<p class=\"faint\">Made by tsctl ", out);
	markup_text(out, version);
	fputs("</p>\n</body></html>\n", out);
}

const struct page_form page_html = { begin, heading, write_text, finding,
				     table, picture, document,	 end };
