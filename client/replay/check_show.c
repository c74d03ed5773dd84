/* Replay check, output: a summary, and each stream and thread that differs, with some operations
 * before and after the difference. */
#include "client/replay/check_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/output/json.h"
#include "core/base/utf8.h"

#define BEFORE	     3 /* operations */
#define AFTER	     3
#define FRAMES_SHOWN 16
#define LANES_SHOWN  8	 /* without --limit */
#define WIDTH_PLAIN  140 /* if not on a terminal */
#define WIDTH_NUMBER 10
#define COLUMN_LEAST 20

static int column_width(void)
{
	struct winsize size;
	int width = WIDTH_PLAIN;

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		width = size.ws_col;
	width = (width - WIDTH_NUMBER) / 2;
	return width < COLUMN_LEAST ? COLUMN_LEAST : width;
}

/* As many of its columns as fit, padded with blanks. */
static void put_column(const char *text, int width)
{
	size_t size = strlen(text);
	char bytes[UTF8_LENGTH_MAX];
	uint32_t code;

	for (size_t i = 0; i < size && width > 0; width--) {
		i += utf8_read(text + i, size - i, &code);
		if (code < 0x20 || (code >= 0x7f && code < 0xa0))
			code = UTF8_REPLACEMENT;
		if (width == 1 && i < size)
			code = 0x2026; /* … */
		fwrite(bytes, 1, utf8_write(bytes, code), stdout);
	}
	printf("%*s", width, "");
}

static uint32_t context_begin(const struct check_lane *lane)
{
	return lane->at > BEFORE ? lane->at - BEFORE : 0;
}

static uint32_t context_end(const struct check_lane *lane)
{
	uint32_t most = lane->count[0] > lane->count[1] ? lane->count[0] : lane->count[1];

	return most - lane->at > AFTER ? lane->at + AFTER + 1 : most;
}

static void show_context(const struct replay_check_shown *shown, const struct check_lane *lane)
{
	char text[REPLAY_CHECK_TEXT];
	int width = column_width();

	for (uint32_t at = context_begin(lane); at < context_end(lane); at++) {
		printf("%c%7u ", at == lane->at ? '>' : ' ', at + 1);
		replay_check_item(shown, 0, lane, at, text);
		put_column(text, width);
		printf(" ");
		replay_check_item(shown, 1, lane, at, text);
		put_column(text, width);
		printf("\n");
	}
}

static void show_stack(const struct meta_stack *stack)
{
	uint32_t shown = stack->count < FRAMES_SHOWN ? stack->count : FRAMES_SHOWN;

	for (uint32_t i = 0; i < shown; i++) {
		printf("          ");
		put_column(stack->frame[i]->function->text, WIDTH_PLAIN);
		printf("\n");
	}
	if (shown < stack->count)
		printf("          and %u more\n", stack->count - shown);
}

static bool same_stack(const struct meta_stack *a, const struct meta_stack *b)
{
	if (!a || !b || a->count != b->count)
		return a == b;
	for (uint32_t i = 0; i < a->count; i++)
		if (strcmp(a->frame[i]->function->text, b->frame[i]->function->text) != 0)
			return false;
	return true;
}

static void show_stacks(const struct replay_check_shown *shown, const struct check_lane *lane)
{
	const struct meta_stack *stack[2] = { replay_check_stack(shown, 0, lane, lane->at),
					      replay_check_stack(shown, 1, lane, lane->at) };

	if (same_stack(stack[0], stack[1])) {
		if (stack[0]) {
			printf("  called from, in both:\n");
			show_stack(stack[0]);
		}
		return;
	}
	for (int side = 0; side < 2; side++) {
		if (!stack[side])
			continue;
		printf("  called from, in %c:\n", "AB"[side]);
		show_stack(stack[side]);
	}
}

static void show_lane(const struct replay_check_shown *shown, const struct check_lane *lane)
{
	char why[3 * REPLAY_CHECK_TEXT];

	replay_check_why(shown, lane, why);
	printf("\n%s %u of process %u: ", lane->thread ? "Thread" : "Stream", lane->number,
	       lane->process);
	put_column(why, (int)strlen(why));
	printf("\n");
	show_context(shown, lane);
	show_stacks(shown, lane);
}

static uint32_t count_lanes(const struct check *check, bool thread)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < check->lane_count; i++)
		count += check->lane[i].thread == thread;
	return count;
}

static void show_summary(const struct replay_check_shown *shown)
{
	const struct check *check = shown->check;

	printf("A is %s, B is %s.\n", shown->path[0], shown->path[1]);
	printf("%s: %u processes, %u streams, %u threads, %" PRIu64
	       " operations and calls are the same",
	       check->different ? "They differ" : "They did the same", check->process_count[0],
	       count_lanes(check, false), count_lanes(check, true), check->compared);
	if (check->different > 0)
		printf(", up to where %u streams and threads diverge", check->different);
	printf(".\n");
	if (check->durations > 0)
		printf("The durations of %" PRIu64
		       " operations differ by %.2f %% at the median, %.2f %%"
		       " at the 99th percentile.\n",
		       check->durations, check->p50_ppm / 1e4, check->p99_ppm / 1e4);
}

void replay_check_text(const struct replay_check_shown *shown)
{
	const struct check *check = shown->check;
	uint32_t count = 0;

	show_summary(shown);
	for (uint32_t i = 0; i < check->lane_count; i++)
		if (check->lane[i].what != CHECK_SAME && count++ < LANES_SHOWN)
			show_lane(shown, &check->lane[i]);
	if (count > LANES_SHOWN)
		printf("\nand %u more (--json shows all)\n", count - LANES_SHOWN);
}

static void json_stack(const char *name, const struct meta_stack *stack)
{
	printf(",\"%s\":[", name);
	for (uint32_t i = 0; stack && i < stack->count; i++) {
		if (i)
			putchar(',');
		json_string(stdout, stack->frame[i]->function->text);
	}
	putchar(']');
}

static void json_item(const struct replay_check_shown *shown, int side,
		      const struct check_lane *lane, uint32_t at)
{
	char text[REPLAY_CHECK_TEXT];

	printf(",\"%c\":", "ab"[side]);
	if (at >= lane->count[side]) {
		fputs("null", stdout);
		return;
	}
	replay_check_item(shown, side, lane, at, text);
	json_string(stdout, text);
}

static void json_lane(const struct replay_check_shown *shown, const struct check_lane *lane)
{
	static const char *const what[] = {
		[CHECK_SAME] = "same",	 [CHECK_MISSING] = "missing",
		[CHECK_FIELD] = "field", [CHECK_DEPENDENCY] = "dependency",
		[CHECK_END] = "end",	 [CHECK_DURATION] = "duration",
	};
	char why[3 * REPLAY_CHECK_TEXT];

	printf("{\"process\":%u,\"%s\":%u,\"what\":\"%s\",\"operation\":%u,\"field\":",
	       lane->process, lane->thread ? "thread" : "stream", lane->number, what[lane->what],
	       lane->at + 1);
	if (lane->what == CHECK_FIELD)
		json_string(stdout, check_field_name(lane->field));
	else
		fputs("null", stdout);
	replay_check_why(shown, lane, why);
	fputs(",\"text\":", stdout);
	json_string(stdout, why);
	printf(",\"a_count\":%u,\"b_count\":%u,\"context\":[", lane->count[0], lane->count[1]);
	for (uint32_t at = context_begin(lane); at < context_end(lane); at++) {
		printf("%s\n{\"operation\":%u", at > context_begin(lane) ? "," : "", at + 1);
		json_item(shown, 0, lane, at);
		json_item(shown, 1, lane, at);
		putchar('}');
	}
	putchar(']');
	json_stack("a_stack", replay_check_stack(shown, 0, lane, lane->at));
	json_stack("b_stack", replay_check_stack(shown, 1, lane, lane->at));
	putchar('}');
}

void replay_check_json(const struct replay_check_shown *shown)
{
	const struct check *check = shown->check;
	uint32_t count = 0;

	fputs("{\"a\":", stdout);
	json_string(stdout, shown->path[0]);
	fputs(",\"b\":", stdout);
	json_string(stdout, shown->path[1]);
	printf(",\"same\":%s,\"processes\":%u,\"streams\":%u,\"threads\":%u,\"compared\":%" PRIu64
	       ",\"different\":%u,\"durations\":%" PRIu64 ",\"p50_ppm\":%u,\"p99_ppm\":%u",
	       check->different ? "false" : "true", check->process_count[0],
	       count_lanes(check, false), count_lanes(check, true), check->compared,
	       check->different, check->durations, check->p50_ppm, check->p99_ppm);
	fputs(",\"differences\":[", stdout);
	for (uint32_t i = 0; i < check->lane_count; i++) {
		if (check->lane[i].what == CHECK_SAME)
			continue;
		fputs(count++ > 0 ? ",\n" : "\n", stdout);
		json_lane(shown, &check->lane[i]);
	}
	fputs("]}\n", stdout);
}
