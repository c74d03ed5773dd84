/* Markup: what has a meaning in the target is escaped, what no reader sees becomes U+FFFD. */
#include "client/report/markup.h"

#include <stdint.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/utf8.h"

struct escape {
	char from;
	const char *to;
};

static const struct escape in_html[] = {
	{ '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&#39;" },
};

/* HTML within Markdown is markup as well. */
static const struct escape in_markdown[] = {
	{ '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '|', "\\|" }, { '\\', "\\\\" },
	{ '`', "\\`" },	  { '*', "\\*" },  { '_', "\\_" },  { '[', "\\[" }, { ']', "\\]" },
	{ '!', "\\!" },	  { '~', "\\~" },  { '#', "\\#" },
};

static const char *find(const struct escape *escape, size_t count, uint32_t code)
{
	for (size_t i = 0; i < count; i++)
		if ((uint32_t)escape[i].from == code)
			return escape[i].to;
	return NULL;
}

static void write(FILE *out, const char *text, const struct escape *escape, size_t count)
{
	char bytes[UTF8_LENGTH_MAX];
	uint32_t code;

	for (size_t size = strlen(text); size > 0;) {
		size_t length = utf8_read(text, size, &code);
		const char *to = find(escape, count, code);

		if (utf8_is_control(code) || code == 0xfffe || code == 0xffff)
			code = UTF8_REPLACEMENT;
		if (to) {
			fputs(to, out);
		} else {
			size_t bytes_used = utf8_write(bytes, code);

			fwrite(bytes, 1, bytes_used, out);
		}
		text += length;
		size -= length;
	}
}

void markup_text(FILE *out, const char *text)
{
	write(out, text, in_html, ARRAY_SIZE(in_html));
}

void markup_cell(FILE *out, const char *text)
{
	write(out, text, in_markdown, ARRAY_SIZE(in_markdown));
}

void markup_code(FILE *out, const char *text)
{
	static const struct escape none[] = { { '`', "'" } };

	fputc('`', out);
	write(out, text, none, ARRAY_SIZE(none));
	fputc('`', out);
}
