/* Shortage: first what the device lacked, then what lay free inside of what the framework holds,
 * then what others hold. Only what is known is said. */
#include "core/leak/shortage.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/units.h"

/* What others hold is worth mentioning from this part of what was lacking. */
#define OTHERS_PART 2

struct sentence {
	char *text;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct sentence *sentence, const char *format,
						      ...)
{
	size_t room = SHORTAGE_TEXT_SIZE - sentence->used;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(sentence->text + sentence->used, room, format, ap);
	va_end(ap);
	if (n > 0)
		sentence->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* What the driver was asked for, or else the framework. */
static int64_t asked(const struct shortage *shortage)
{
	return shortage->bytes > 0 ? shortage->bytes : shortage->wanted_bytes;
}

static int64_t missing(const struct shortage *shortage)
{
	int64_t bytes = asked(shortage);

	if (!shortage->free_known || bytes <= shortage->free_bytes)
		return 0;
	return bytes - shortage->free_bytes;
}

static void add_device(struct sentence *sentence, const struct shortage *shortage)
{
	char bytes[UNITS_TEXT_SIZE], rest[UNITS_TEXT_SIZE];

	if (missing(shortage))
		add(sentence, "%s more of the device's memory (%s were free)",
		    units_bytes(bytes, missing(shortage)), units_bytes(rest, shortage->free_bytes));
	else if (shortage->free_known && asked(shortage) > 0)
		add(sentence,
		    "%s in one piece, or without a limit of the program's: %s of the device's "
		    "memory were free",
		    units_bytes(bytes, asked(shortage)), units_bytes(rest, shortage->free_bytes));
	else if (asked(shortage) > 0)
		add(sentence, "up to %s more of the device's memory (how much was free is unknown)",
		    units_bytes(bytes, asked(shortage)));
	else
		add(sentence, "more of the device's memory: how much is unknown");
}

/* What would have been enough, had it been in one piece. */
static void add_pieces(struct sentence *sentence, const struct shortage *shortage)
{
	char bytes[UNITS_TEXT_SIZE], piece[UNITS_TEXT_SIZE];
	int64_t cached = shortage->reserved_bytes - shortage->live_bytes;

	if (!shortage->wanted_bytes)
		return;
	if (shortage->pieces && shortage->pieces_bytes >= shortage->wanted_bytes)
		add(sentence, ", or no fragmentation: %s lie free in %lld pieces of at most %s",
		    units_bytes(bytes, shortage->pieces_bytes), (long long)shortage->pieces,
		    units_bytes(piece, shortage->piece_bytes));
	else if (!shortage->pieces && cached >= shortage->wanted_bytes)
		add(sentence,
		    ", or no fragmentation: %s are reserved and not live, in pieces that are too "
		    "small",
		    units_bytes(bytes, cached));
}

static void add_others(struct sentence *sentence, const struct shortage *shortage)
{
	char bytes[UNITS_TEXT_SIZE];
	int64_t others = shortage->held_bytes - shortage->own_bytes, lack = missing(shortage);

	if (others <= 0 || others < (lack ? lack : asked(shortage)) / OTHERS_PART)
		return;
	add(sentence, "; other processes hold %s", units_bytes(bytes, others));
}

static int64_t sane(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

const char *shortage_text(const struct shortage *given, char text[SHORTAGE_TEXT_SIZE])
{
	struct sentence sentence = { .text = text };
	const struct shortage shortage = {
		.bytes = sane(given->bytes),
		.wanted_bytes = sane(given->wanted_bytes),
		.free_bytes = sane(given->free_bytes),
		.free_known = given->free_known,
		.held_bytes = sane(given->held_bytes),
		.own_bytes = sane(given->own_bytes),
		.live_bytes = sane(given->live_bytes),
		.reserved_bytes = sane(given->reserved_bytes),
		.pieces = sane(given->pieces),
		.pieces_bytes = sane(given->pieces_bytes),
		.piece_bytes = sane(given->piece_bytes),
	};

	add_device(&sentence, &shortage);
	add_pieces(&sentence, &shortage);
	add_others(&sentence, &shortage);
	return text;
}
