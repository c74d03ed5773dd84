/* Oom: the numbers of a recording may be anything, so none is trusted to make sense. */
#include "core/store/query/oom.h"

#include "core/leak/shortage.h"

enum oom_argument {
	OOM_BYTES,
	OOM_WANTED,
	OOM_FREE,
	OOM_HELD,
	OOM_OWN,
	OOM_LIVE,
	OOM_RESERVED,
	OOM_PIECES,
	OOM_PIECES_BYTES,
	OOM_PIECE_BYTES,
};

void oom_why(sqlite3_context *context, int count, sqlite3_value **value)
{
	const struct shortage shortage = {
		.bytes = sqlite3_value_int64(value[OOM_BYTES]),
		.wanted_bytes = sqlite3_value_int64(value[OOM_WANTED]),
		.free_bytes = sqlite3_value_int64(value[OOM_FREE]),
		.free_known = sqlite3_value_type(value[OOM_FREE]) != SQLITE_NULL,
		.held_bytes = sqlite3_value_int64(value[OOM_HELD]),
		.own_bytes = sqlite3_value_int64(value[OOM_OWN]),
		.live_bytes = sqlite3_value_int64(value[OOM_LIVE]),
		.reserved_bytes = sqlite3_value_int64(value[OOM_RESERVED]),
		.pieces = sqlite3_value_int64(value[OOM_PIECES]),
		.pieces_bytes = sqlite3_value_int64(value[OOM_PIECES_BYTES]),
		.piece_bytes = sqlite3_value_int64(value[OOM_PIECE_BYTES]),
	};
	char text[SHORTAGE_TEXT_SIZE];

	sqlite3_result_text(context, shortage_text(&shortage, text), -1, SQLITE_TRANSIENT);
}
