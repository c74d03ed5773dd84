/* Sentence: fills a pattern of ours with arguments of anybody's. */
#include "core/base/sentence.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

struct sentence {
	const char *const *argument;
	size_t count;
};

static const char *argument_of(const struct sentence *sentence, const char *place)
{
	size_t number = (size_t)(place[1] - '1');

	return number < sentence->count ? sentence->argument[number] : "";
}

static bool is_place(const char *at, const char *end)
{
	return end - at >= 3 && at[0] == '{' && at[1] >= '1' && at[1] <= '9' && at[2] == '}';
}

static bool is_complete(const struct sentence *sentence, const char *at, const char *end)
{
	for (; at < end; at++)
		if (is_place(at, end) && !argument_of(sentence, at)[0])
			return false;
	return true;
}

static void put(const struct sentence *sentence, const char *at, const char *end, FILE *out)
{
	const char *close;

	while (at < end) {
		if (is_place(at, end)) {
			fputs(argument_of(sentence, at), out);
			at += 3;
			continue;
		}
		close = *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
		if (!close) {
			fputc(*at++, out);
			continue;
		}
		if (is_complete(sentence, at, close))
			put(sentence, at + 1, close, out);
		at = close + 1;
	}
}

char *sentence_fill(const char *pattern, const char *const *argument, size_t count)
{
	const struct sentence sentence = { .argument = argument, .count = count };
	char *text = NULL;
	size_t size;
	FILE *out = text_open(&text, &size);

	if (!out)
		return NULL;
	put(&sentence, pattern, pattern + strlen(pattern), out);
	if (text_close(out) == 0)
		return text;
	free(text);
	return NULL;
}
