/* Replay: plays the state machines of a window and sends their changes. The chunks come from one
 * snapshot, in the order of an index; besides overlapping ops, one batch and the names in use are
 * held. No time limit: the reader sets the pace. */
#include "core/replay/replay.h"

#include <errno.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/utf8.h"
#include "core/limits.h"
#include "core/sbt/sbt.h"
#include "core/store/chunk_data.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"

#define BATCH_CHANGES 512
#define NAMES_BYTES   (1 << 20)
#define FUNCTIONS_MAX UINT16_MAX

#define CHUNKS_SQL                                                                                 \
	"SELECT first_ns, " CHUNK_DATA(                                                            \
		"id") " FROM chunk"                                                                \
		      " WHERE boot = :boot AND first_ns < :until AND last_ns >= :since"            \
		      " AND (:pid IS NULL OR process IN"                                           \
		      " (SELECT id FROM process WHERE boot = :boot AND pid = :pid))"               \
		      " ORDER BY first_ns, last_ns"

/* Those of what is played, by number (sbt.h). */
#define COLUMNS (0x3ffu | 1u << 13 | 1u << 24 | 1u << 25)

struct play {
	struct answer *answer;
	const Tracesmith__V1__ReplayRequest *request;
	struct replay *replay;
	struct sbt_codec *codec;
	struct op *op;
	uint64_t from_ns, until_ns; /* of the ops */
	sqlite3_stmt *pid_stmt, *name_stmt;
	struct map pid;	 /* by process, plus 1: 0 is unknown */
	struct map name; /* texts in `names` */
	struct arena names, fixed;
	uint8_t *effect;
	const char **function;
	uint32_t function_count;
	Tracesmith__V1__Changes__Change change[BATCH_CHANGES];
	Tracesmith__V1__Changes__Change *batch[BATCH_CHANGES];
	size_t count, bytes;
};

static void play_free(struct play *play)
{
	if (!play)
		return;
	replay_free(play->replay);
	sbt_codec_free(play->codec);
	sqlite3_finalize(play->pid_stmt);
	sqlite3_finalize(play->name_stmt);
	map_clear(&play->pid);
	map_clear(&play->name);
	arena_clear(&play->names);
	arena_clear(&play->fixed);
	free(play->op);
	free(play);
}

CLEANUP_DEFINE(struct play, play_free)

static int play_send(struct play *play)
{
	Tracesmith__V1__Changes changes = TRACESMITH__V1__CHANGES__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	int r = 0;

	if (play->count) {
		changes.n_change = play->count;
		changes.change = play->batch;
		reply.body_case = TRACESMITH__V1__REPLY__BODY_CHANGES;
		reply.changes = &changes;
		r = answer_send(play->answer, &reply);
	}
	play->count = play->bytes = 0;
	if (play->names.total > NAMES_BYTES) {
		map_clear(&play->name);
		arena_clear(&play->names);
	}
	return r;
}

static const char *keep_text(struct arena *arena, sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);
	size_t size = text ? (size_t)sqlite3_column_bytes(stmt, column) : 0;
	char *kept = arena_get(arena, 3 * size + 1);

	if (kept)
		utf8_clean(kept, text ? text : "", size);
	return kept;
}

static int load_functions(struct play *play)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t count = 0;
	int step,
		r = sql_query_integer(play->answer->db, "SELECT max(id) + 1 FROM function", &count);

	if (r == 0)
		r = answer_prepare(play->answer, "SELECT id, effect, name FROM function", &stmt);
	if (r < 0)
		return r;
	play->function_count = count < 0	       ? 0
			       : count > FUNCTIONS_MAX ? FUNCTIONS_MAX
						       : (uint32_t)count;
	play->effect = arena_get(&play->fixed, play->function_count);
	play->function = arena_get(&play->fixed, play->function_count * sizeof(*play->function));
	if (!play->effect || !play->function)
		return -ENOMEM;
	memset(play->effect, EFFECT_NONE, play->function_count);
	memset(play->function, 0, play->function_count * sizeof(*play->function));
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		int64_t fn = sqlite3_column_int64(stmt, 0);

		if (fn < 0 || fn >= play->function_count)
			continue;
		play->effect[fn] = (uint8_t)sqlite3_column_int64(stmt, 1);
		play->function[fn] = keep_text(&play->fixed, stmt, 2);
		if (!play->function[fn])
			return -ENOMEM;
	}
	return step == SQLITE_DONE ? 0 : answer_fail_sqlite(play->answer);
}

/* 0: unknown. */
static int find_pid(struct play *play, uint32_t process, uint32_t *ret)
{
	struct map_key key = { process, 0 };
	uintptr_t known = (uintptr_t)map_get(&play->pid, key);
	int64_t pid = 0;
	int r;

	if (!known) {
		sql_bind(play->pid_stmt, process);
		r = sql_integer(play->pid_stmt, &pid);
		known = (uintptr_t)(uint32_t)pid + 1;
		if (r < 0 || map_put(&play->pid, key, (void *)known) < 0)
			return r < 0 ? r : -ENOMEM;
	}
	*ret = (uint32_t)(known - 1);
	return 0;
}

/* NULL: unknown. */
static int find_name(struct play *play, uint64_t id, const char **ret)
{
	struct map_key key = { id, 0 };
	const char *text = map_get(&play->name, key);
	int step;

	if (!text) {
		sql_bind(play->name_stmt, (int64_t)id);
		step = sqlite3_step(play->name_stmt);
		if (step == SQLITE_ROW)
			text = keep_text(&play->names, play->name_stmt, 0);
		else
			text = arena_text(&play->names, "", 0);
		sqlite3_reset(play->name_stmt);
		if (step != SQLITE_ROW && step != SQLITE_DONE)
			return answer_fail_sqlite(play->answer);
		if (!text || map_put(&play->name, key, (void *)text) < 0)
			return -ENOMEM;
	}
	*ret = *text ? text : NULL;
	return 0;
}

static int name_op(struct play *play, const struct replay_op *op, const char **ret)
{
	const char *name = replay_copy_name(op);
	int r = !name && op->name ? find_name(play, op->name, &name) : 0;

	if (r == 0 && !name && op->fn < play->function_count)
		name = play->function[op->fn];
	*ret = name ? name : "";
	return r;
}

static bool is_wanted(const struct play *play, const struct replay_change *change)
{
	const Tracesmith__V1__ReplayRequest *request = play->request;

	if (request->stream && change->stream != request->stream)
		return false;
	return !request->device_given_case || change->device == (int64_t)request->device;
}

static int on_change(void *data, const struct replay_change *change)
{
	struct play *play = data;
	Tracesmith__V1__Changes__Change *to = &play->change[play->count];
	const char *name = "";
	int r;

	if (!is_wanted(play, change))
		return 0;
	tracesmith__v1__changes__change__init(to);
	to->time_ns = change->time_ns;
	to->op = change->number;
	to->stream = change->stream;
	to->device = change->device;
	to->machine = (Tracesmith__V1__Changes__Machine)change->machine;
	to->from = (Tracesmith__V1__Changes__State)change->from;
	to->to = (Tracesmith__V1__Changes__State)change->to;
	to->bounds = change->bounds;
	r = find_pid(play, change->process, &to->pid);
	if (r == 0 && change->op) {
		to->tid = change->op->tid;
		to->kind = (char *)replay_kind_name(change->op);
		r = name_op(play, change->op, &name);
		to->name = (char *)name;
	}
	if (r < 0)
		return r;
	play->answer->rows++;
	play->bytes += strlen(name);
	if (++play->count < BATCH_CHANGES && play->bytes < ANSWER_BATCH_BYTES)
		return 0;
	return play_send(play);
}

static int explain(struct play *play, int error)
{
	if (error == -E2BIG)
		return answer_fail(play->answer, REASON(BUSY_WINDOW), NULL);
	if (error == -EBADMSG || error == -ENODATA)
		return answer_fail(play->answer, REASON(DAMAGED_CHUNK), NULL);
	return error;
}

/* As many of them as are in the window, or just before. */
static size_t keep_window(const struct play *play, size_t count)
{
	struct op *op = play->op;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns = op[i].end_ns > op[i].start_ns ? op[i].end_ns : op[i].start_ns;

		if (op[i].flags & OP_EXACT && op[i].gpu_end_ns > end_ns)
			end_ns = op[i].gpu_end_ns;
		if (op[i].start_ns < play->until_ns && end_ns >= play->from_ns)
			op[kept++] = op[i];
	}
	return kept;
}

static int play_chunk(struct play *play, sqlite3_stmt *stmt)
{
	const struct query_job *job = play->answer->job;
	uint64_t first_ns = (uint64_t)sqlite3_column_int64(stmt, 0);
	const void *data = sqlite3_column_blob(stmt, 1);
	struct sbt_info info;
	int r;

	if (!data)
		return 0; /* damaged, and counted */
	r = sbt_decode(play->codec, data, (size_t)sqlite3_column_bytes(stmt, 1), COLUMNS, play->op,
		       &info);
	if (r == 0)
		r = replay_ops(play->replay, play->op, keep_window(play, info.count), first_ns);
	/* A window without any change to report takes long, too. */
	if (r == 0 && job->cancelled(job->data))
		r = -ECANCELED;
	return r;
}

static int play_chunks(struct play *play)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	struct answer *answer = play->answer;
	int step, r = answer_prepare(answer, CHUNKS_SQL, &stmt);

	if (r < 0)
		return r;
	answer_bind(stmt, ":boot", true, answer->boot);
	answer_bind(stmt, ":since", true, (int64_t)play->from_ns);
	answer_bind(stmt, ":until", true, (int64_t)play->until_ns);
	answer_bind(stmt, ":pid", answer->window.pid, answer->window.pid);
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		r = play_chunk(play, stmt);
		if (r < 0)
			return explain(play, r);
	}
	if (step != SQLITE_DONE)
		return answer_fail_sqlite(answer);
	r = replay_end(play->replay);
	return r < 0 ? explain(play, r) : play_send(play);
}

static int play_new(struct answer *answer, const Tracesmith__V1__ReplayRequest *request,
		    struct play **ret)
{
	_cleanup_(play_freep) struct play *play = calloc(1, sizeof(*play));
	int r;

	if (!play)
		return -ENOMEM;
	play->answer = answer;
	play->request = request;
	for (size_t i = 0; i < BATCH_CHANGES; i++)
		play->batch[i] = &play->change[i];
	play->op = calloc(SBT_OPS_MAX, sizeof(*play->op));
	if (!play->op || sbt_codec_new(&play->codec) < 0)
		return -ENOMEM;
	r = load_functions(play);
	if (r == 0)
		r = answer_prepare(answer, "SELECT pid FROM process WHERE id = ?", &play->pid_stmt);
	if (r == 0)
		r = answer_prepare(answer, "SELECT text FROM name WHERE id = ?", &play->name_stmt);
	if (r == 0)
		r = replay_new(play->effect, play->function_count, on_change, play, &play->replay);
	if (r < 0)
		return r;
	*ret = TAKE(play);
	return 0;
}

static void set_window(struct play *play)
{
	const Tracesmith__V1__ReplayRequest *request = play->request;
	struct answer_window *window = &play->answer->window;
	uint64_t since_ns = request->since_ns, until_ns = request->until_ns;

	window->pid = request->pid;
	window->since_ns = since_ns;
	if (until_ns && until_ns < window->until_ns)
		window->until_ns = until_ns;
	play->from_ns = since_ns > REPLAY_BEFORE_NS ? since_ns - REPLAY_BEFORE_NS : 0;
	play->until_ns = window->until_ns;
	replay_window(play->replay, since_ns, until_ns ? until_ns : UINT64_MAX);
}

int run_replay(struct answer *answer, const Tracesmith__V1__ReplayRequest *request)
{
	_cleanup_(play_freep) struct play *play = NULL;
	int r;

	if (request->since_ns && request->until_ns && request->since_ns > request->until_ns)
		return answer_fail(answer, REASON(BAD_WINDOW), NULL);
	r = answer_check_pid(answer, request->pid);
	if (r == 0)
		r = play_new(answer, request, &play);
	if (r < 0)
		return r;
	answer->deadline_ns = 0;
	set_window(play);
	r = play_chunks(play);
	return r < 0 ? r : answer_done(answer, false);
}
