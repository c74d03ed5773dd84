/* Words: prints what the Python package has in common with tsctl, as a module of it: how remarks
 * are worded, names and their numbers, paths. The build runs it, so each stands in one place. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/link/wording.h"
#include "proto/event.h"
#include "proto/frame.h"
#include "proto/hello.h"
#include "proto/paths.h"

/* A string literal of Python is one of C, as far as we write them. */
static void put(const char *text)
{
	if (!text) {
		fputs("None", stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

/* A sentence about tsctl itself is none for other programs. Its commands, in quotes, are. */
static bool is_for_others(const char *text)
{
	const char *at = text;

	while (at && (at = strstr(at, "tsctl")) != NULL) {
		if (at == text || at[-1] != '\'')
			return false;
		at++;
	}
	return true;
}

static void put_words(void)
{
	const ProtobufCEnumDescriptor *reasons = &tracesmith__v1__remark__reason__descriptor;

	puts("# reason: its sentence, the same for a recording, arguments from which are options");
	puts("WORDS = {");
	for (unsigned i = 0; i < reasons->n_values; i++) {
		const int reason = reasons->values[i].value;
		const struct wording *wording = wording_find((size_t)reason);

		if (!wording || !is_for_others(wording->text))
			continue;
		printf("    %d: (", reason);
		put(wording->text);
		fputs(", ", stdout);
		put(wording->recording);
		printf(", %d),\n", wording->options_from);
	}
	puts("}");
}

int main(void)
{
	puts("\"\"\"What the package has in common with tsctl. Made by the build.\"\"\"");
	puts("VERSION = \"" TS_VERSION "\"");
	printf("PROTOCOL = %d\nREPLY_MAX = %u\nREQUEST_MAX = %u\n", TS_PROTOCOL, TS_FRAME_REPLY_MAX,
	       TS_FRAME_REQUEST_MAX);
	puts("SOCKET = \"" TS_PATH_CONTROL_SOCKET "\"\nSOCKET_VARIABLE = \"" TS_ENV_SOCKET "\"");
	puts("GROUP = \"" TS_GROUP "\"");
	puts("RECORDS = {");
#define X(bit, id, text) printf("    \"%s\": %d,\n", text, TS_RECORD_##id);
	TS_RECORDS(X)
#undef X
	printf("}\nRECORDS_DEFAULT = %d\n", TS_RECORDS_DEFAULT);
	printf("STACKS = {\"none\": %d, \"sampled\": %d, \"all\": %d}\n", TS_STACKS_NONE,
	       TS_STACKS_SAMPLED, TS_STACKS_ALL);
	printf("BUDGET_NONE = %u\n", TS_BUDGET_NONE);
	put_words();
	return 0;
}
