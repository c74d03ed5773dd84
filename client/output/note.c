/* Note: prints the notes that the daemon adds to an answer, for people and for programs. */
#include "client/output/note.h"

#include <stdio.h>

#include "client/output/json.h"
#include "proto/event.h"

void notes_text(size_t count, char **note)
{
	for (size_t i = 0; i < count; i++)
		printf("Note: %s\n", note[i]);
}

void notes_json(size_t count, char **note)
{
	fputs("\"notes\":[", stdout);
	for (size_t i = 0; i < count; i++) {
		if (i)
			putchar(',');
		json_string(stdout, note[i]);
	}
	putchar(']');
}

void records_json(uint32_t records)
{
	const char *comma = "";

	putchar('[');
#define X(bit, id, name)                                                                           \
	if (records & TS_RECORD_##id) {                                                            \
		printf("%s\"%s\"", comma, name);                                                   \
		comma = ",";                                                                       \
	}
	TS_RECORDS(X)
#undef X
	putchar(']');
}
