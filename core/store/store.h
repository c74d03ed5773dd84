/* store.h: keeps what the model learns in SQLite.
 *
 * The loop adds rows to the open batch (no I/O, no waiting) and commits it a few times a second; a
 * writer thread packs the ops into chunks and writes each batch in one transaction. If the writer
 * is behind, the oldest ops not yet written are dropped and counted; rows of other tables are never
 * dropped while memory lasts. A kill at any moment loses at most what was not committed.
 */
#ifndef TS_STORE_H
#define TS_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/model/core.h"
#include "core/model/frame.h"

/* Shorter exact states are not kept, except waiting and syncing: the ops show them. */
#define STORE_STATE_MIN_NS 20000

struct store;

struct store_config {
	const char *path; /* of the database file */
	const char *boot_id;
	int64_t wall_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint32_t first_id;	/* of processes and commits in a new database, 0 counts as 1 */
	struct function_table functions;
	uint64_t keep_ns;	  /* ops older than this are deleted, 0: never */
	uint64_t keep_bytes;	  /* the database is kept below this, 0: no limit */
	const char *library_code; /* setting FRAME_SETTING; NULL: as it was */
};

/* Of a database that is made at this wall time. A fleet knows processes by host, boot and id, and a
 * shipper what it has by the number of a commit: when the database is deleted or set aside within
 * the boot, the next one must not use the same numbers again. It starts beyond them, as none counts
 * 29 a second for all its life. 31 bits are 4 bytes in a row, and last 2.3 years. */
uint32_t store_first_id(uint64_t wall_ns);

/* Opens or creates the database and starts the writer. A newer schema is refused (-EPROTO), an
 * older one is updated; a file that is too damaged, or no database (-EBADMSG), is left as it is. */
int store_open(const struct store_config *config, struct store **ret);
#define STORE_ASIDE ".damaged"
/* Renames a database of ours that cannot be opened, and its log, to PATH.damaged; the one that was
 * put there before is gone then. -EBADMSG: it is not ours. */
int store_set_aside(const char *path);
/* Commits what is left and waits for the writer, whose last figures store_stats then has. */
void store_stop(struct store *store);
/* Stops and closes. */
struct store *store_free(struct store *store);

/* What a former daemon knew. Called before the first batch. */
struct store_resume {
	uint32_t next_process, next_stream;
	uint64_t next_allocation;
	uint32_t next_oom;
	uint64_t last_ns;    /* last commit of this boot, 0: none */
	uint64_t pending_ns; /* from then on it may lack ops: last_ns or before */
};
int store_resume(struct store *store, struct store_resume *ret);
/* Returns every process of this boot that had not ended; for those still running the caller asks
 * for the rest, the others it reports as ended with store_add_process. */
int store_resume_processes(struct store *store,
			   void (*call)(void *data, const struct core_process *process),
			   void *data);
/* 1: it was being recorded in the exact tier when the former daemon ended, whose sums of exact
 * times are complete up to `ret_since_ns`; 0: it was not. */
int store_resume_collect(struct store *store, uint32_t process, uint64_t *ret_since_ns);
int store_resume_state(struct store *store, uint32_t process, struct core *core);

/* Rows for the open batch. Strings are copied. */
void store_add_op(struct store *store, const struct op *op);
/* Of any type but STACK (store_add_stack). */
void store_add_row(struct store *store, enum core_row type, const void *row);
void store_add_name(struct store *store, uint64_t id, const char *text, size_t length);

/* The same, of a pointer to the struct of the row. */
#define store_add(store, ...) store_add_row(store, core_row_type(__VA_ARGS__), __VA_ARGS__)

/* What the daemon knows of a process in addition to the model. NULL: unknown. */
struct store_process_detail {
	const char *command; /* command line, arguments separated by spaces */
	const char *user;
	const char *cgroup;
	const char *container; /* id, if the cgroup names one */
	const char *variables; /* of its environment: KEY=VALUE in lines */
	bool executed;	       /* another program: what is unknown about it is NULL */
};
void store_add_process_detail(struct store *store, uint32_t process,
			      const struct store_process_detail *detail);

/* The innermost frame first; of more than FRAMES_MAX the outermost are left out. */
struct store_stack {
	uint64_t id;
	uint32_t process;
	const struct frame *frame;
	uint32_t count;
	uint8_t end, linked; /* as in struct ts_stack */
};
void store_add_stack(struct store *store, const struct store_stack *stack);

/* Before a commit: ops that started since then were not added yet, 0: all were; losses were, until
 * `told_ns`. */
void store_pending(struct store *store, uint64_t oldest_ns, uint64_t told_ns);
/* Hands the open batch to the writer. */
void store_commit(struct store *store, uint64_t now_ns);

struct store_stats {
	/* Since the start. Ops offered = written + dropped + held + those that wait. */
	uint64_t ops_written, ops_dropped, rows_dropped, chunks, chunk_bytes;
	uint64_t database_bytes; /* with its WAL */
	bool summed;		 /* its pages have checksums */
	uint64_t queued_batches; /* 0: everything committed is in the database */
	uint64_t written_ns;	 /* everything committed until then is on the disk */
	int last_error;		 /* negative errno: new data is held in memory; 0: it is written */
	uint64_t ops_held;	 /* in memory only, since the disk cannot be written */
};
void store_stats(struct store *store, struct store_stats *ret);

/* Since when committed data is held in memory, since the disk cannot be written; 0: it is written.
 * On any thread. */
uint64_t store_held_since(struct store *store);
/* Nothing is written in between. For readers of what is held, which see unfinished transactions;
 * not for long, and one lock per thread. */
void store_held_lock(struct store *store);
void store_held_unlock(struct store *store);

/* A read-only connection for queries, with the virtual table `op`; for one thread at a time. In SQL
 * now_ns() gives `now_ns`. */
int store_reader_open(const char *path, uint64_t now_ns, sqlite3 **ret);
/* The same, including what the store holds: only in the process that has the store open. */
int store_reader_open_held(const char *path, uint64_t now_ns, sqlite3 **ret);

#endif
