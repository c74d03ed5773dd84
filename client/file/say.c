/* Say: a sentence for each reason (core/base/sentence.h). */
#include "client/file/say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/sentence.h"

#define NUMBER_SIZE 24

/* {1} path, {2} error, {3} byte, {4} count, {5} name, {6} others, empty if there are none. */
static const char *const sentences[] = {
	[FILE_NO_MEMORY] = "Not enough memory",
	[FILE_UNOPENED] = "Cannot open '{1}': {2}",
	[FILE_DIRECTORY] = "'{1}' is not a recording: it is a directory",
	[FILE_SPECIAL] = "'{1}' is not a recording: it is not a regular file",
	[FILE_FOREIGN] = "'{1}' is not an .sbt file",
	[FILE_HEADLESS] = "'{1}' is truncated within its first bytes: nothing can be read "
			  "from it",
	[FILE_NEWER] = "'{1}' has a newer format version: update tsctl",
	[FILE_UNREADABLE] = "Cannot read '{1}': {2}",
	[FILE_TOO_LARGE] = "'{1}' holds too much data, or TMPDIR is full",
	[FILE_UNLOADABLE] = "Cannot load '{1}' into a database: {2}",
	[FILE_BAD_BLOCK] = "'{1}' is damaged at byte {3}",
	[FILE_BAD_TEXT] = "'{1}' is damaged at byte {3}: '{5}' is text",
	[FILE_BAD_NUMBER] = "'{1}' is damaged at byte {3}: '{5}' is a number",
	[FILE_BAD_ROW] = "'{1}' is damaged at byte {3}: a row of '{5}' is incomplete",

	[FILE_UNKNOWN_NAMES] = "'{1}' has '{5}'[ and {6} more], which this tsctl "
			       "does not know: update tsctl",
	[FILE_NO_END] = "'{1}' has no end: its writer was stopped, or is still writing",
	[FILE_CUT_OFF] =
		"'{1}' is truncated: using the data up to byte {3}, not the last {4} bytes",
	[FILE_DAMAGED] =
		"'{1}' is damaged at byte {3}: using the data before it, not the last {4} bytes",
	[FILE_LOST_OPS] = "'{1}' is damaged at byte {3}[ and in {6} more places]: {4} operations "
			  "are missing there",
};

void say_remark(void *data, const struct file_remark *remark)
{
	char byte[NUMBER_SIZE], count[NUMBER_SIZE], others[NUMBER_SIZE] = "";
	const char *const argument[] = {
		data,  strerror(-remark->error),	 byte,
		count, remark->name ? remark->name : "", others,
	};
	_cleanup_(freep) char *text = NULL;

	snprintf(byte, sizeof(byte), "%" PRIu64, remark->byte);
	snprintf(count, sizeof(count), "%" PRIu64, remark->count);
	if (remark->others > 0)
		snprintf(others, sizeof(others), "%" PRIu64, remark->others);
	text = sentence_fill(sentences[remark->reason], argument, ARRAY_SIZE(argument));
	if (text)
		complain("%s", text);
	else
		complain_memory();
}
