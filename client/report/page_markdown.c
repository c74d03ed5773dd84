/* Page as Markdown (GitHub's, with tables), without pictures. */
#include "client/report/markup.h"
#include "client/report/page.h"

static void line(FILE *out, const char *before, const char *text)
{
	fputs(before, out);
	markup_cell(out, text);
	fputs("\n\n", out);
}

static void begin(FILE *out, const char *title, const char *about)
{
	line(out, "# ", title);
	line(out, "", about);
}

static void heading(FILE *out, const char *text)
{
	line(out, "\n## ", text);
}

static void write_text(FILE *out, const char *text)
{
	line(out, "", text);
}

static void finding(FILE *out, const char *text, const char *command, const char *loss)
{
	fputs("- ", out);
	markup_cell(out, text);
	if (command) {
		fputs(" ", out);
		markup_code(out, command);
	}
	if (loss) {
		fputs(" (", out);
		markup_cell(out, loss);
		fputs(")", out);
	}
	fputc('\n', out);
}

static void table(FILE *out, const struct report_answer *answer, const size_t *column, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fputs("| ", out);
		markup_cell(out, answer->column[column[i]]);
		fputc(' ', out);
	}
	fputs("|\n", out);
	for (size_t i = 0; i < count; i++)
		fputs(page_is_number(answer, column[i]) ? "|--:" : "|---", out);
	fputs("|\n", out);
	for (size_t row = 0; row < answer->rows; row++) {
		for (size_t i = 0; i < count; i++) {
			fputs("| ", out);
			markup_cell(out, answer->row[row].cell[column[i]]);
			fputc(' ', out);
		}
		fputs("|\n", out);
	}
	fputc('\n', out);
}

static void end(FILE *out, const char *version)
{
	fprintf(out, "\nMade by tsctl %s\n", version);
}

const struct page_form page_markdown = {
	.begin = begin,
	.heading = heading,
	.text = write_text,
	.finding = finding,
	.table = table,
	.end = end,
};
