/* Csv: text is quoted only if something in it would end the field. */
#include "client/output/csv.h"

#include <string.h>

#include "core/base/utf8.h"

#define FIELD_ENDS ",\"\r\n"

/* Escapes the next code point of a quoted field, at most doubling the length of what is visible;
 * returns the length. */
static size_t escape(char to[2 * UTF8_LENGTH_MAX], const char **text, size_t *size)
{
	uint32_t code;
	size_t read = utf8_read(*text, *size, &code), length = 0;

	*text += read;
	*size -= read;
	if (utf8_is_control(code) && code != '\n' && code != '\t')
		code = UTF8_REPLACEMENT;
	if (code == '"')
		to[length++] = '"';
	return length + utf8_write(to + length, code);
}

static bool is_formula(const char *text)
{
	return text[0] && strchr("=+-@\t", text[0]);
}

static void print_quoted(FILE *out, const char *text)
{
	char bytes[2 * UTF8_LENGTH_MAX];

	for (size_t size = strlen(text); size > 0;) {
		size_t length = escape(bytes, &text, &size);

		fwrite(bytes, 1, length, out);
	}
}

void csv_print(FILE *out, const char *text, bool spreadsheet)
{
	size_t length = strcspn(text, FIELD_ENDS);

	if (!text[length] && utf8_is_visible(text, length) && !(spreadsheet && is_formula(text)))
		fwrite(text, 1, length, out);
	else
		csv_print_list(out, &(char *){ (char *)text }, 1, 0, spreadsheet);
}

void csv_text(struct out *out, const char *text, bool spreadsheet)
{
	size_t length = strcspn(text, FIELD_ENDS);

	spreadsheet = spreadsheet && is_formula(text);
	if (!text[length] && !spreadsheet) {
		out_bytes(out, text, length);
		return;
	}
	*out->at++ = '"';
	if (spreadsheet)
		*out->at++ = '\'';
	for (size_t size = strlen(text); size > 0;)
		out->at += escape((char *)out->at, &text, &size);
	*out->at++ = '"';
}

void csv_print_list(FILE *out, char *const *text, size_t count, char between, bool spreadsheet)
{
	fputc('"', out);
	if (spreadsheet && count > 0 && is_formula(text[0]))
		fputc('\'', out);
	for (size_t i = 0; i < count; i++) {
		if (i)
			fputc(between, out);
		print_quoted(out, text[i]);
	}
	fputc('"', out);
}
