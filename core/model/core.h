/* core.h: the trace model. Events go in, finished ops and changes of state come out.
 *
 * The model is pure: no I/O, no clock, no threads, no locks; time comes as an argument
 * (CLOCK_MONOTONIC nanoseconds). It hands its results to the sink, at once (processes, streams,
 * stacks, ops as they finish) or at a checkpoint (allocations that outlived it, memory totals,
 * rollups, losses). What a sink gets is valid during the call only. Ids of processes, streams and
 * allocations are the model's own, count up, and are never reused: after a restart core_config says
 * where to continue.
 */
#ifndef TS_CORE_H
#define TS_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/collective_row.h"
#include "core/model/function.h"
#include "core/model/loss_row.h"
#include "core/model/oom_row.h"
#include "core/model/op.h"
#include "proto/event.h"

struct core;

#define EXIT_UNKNOWN (-1) /* still running, or its exit status is unknown */

struct core_process {
	uint32_t id;
	uint32_t pid;
	uint32_t ns_pid;
	uint32_t ppid;
	uint32_t uid;
	uint32_t user;	   /* who answers for it: its uid, or the owner of its user namespace */
	int32_t exit_code; /* as wait(2) gives it, or EXIT_UNKNOWN */
	uint64_t started_ticks; /* CLOCK_BOOTTIME at its start in units of 10 ms, as in /proc */
	uint64_t cgroup;
	uint64_t first_ns; /* first seen */
	uint64_t exit_ns;  /* 0: running */
	bool executed;	   /* reported again because it now runs another program */
	bool light;	   /* our library in it reports its hot calls */
	char comm[TS_COMM_SIZE];
};

struct core_stream {
	uint32_t id, process;
	uint64_t handle; /* 0: the default stream of the context; 2: of the thread; 3: only its
			    number is known */
	uint64_t context;
	uint64_t created_ns;   /* 0: before tracing started */
	uint64_t destroyed_ns; /* 0: not yet */
	uint32_t tid;	       /* of a per-thread default stream, else 0 */
	uint32_t number;       /* CUPTI's, 0: unknown */
	int16_t device;
	bool non_blocking;
};

struct core_allocation {
	uint64_t id;
	uint64_t address;
	uint64_t bytes;
	uint64_t start_ns; /* when the call started */
	uint64_t end_ns;   /* when it returned */
	uint64_t stack_id;
	uint64_t context; /* 0: none, or unknown */
	uint32_t process, tid;
	uint32_t handles;	  /* the program's references to it; 0: only mappings keep it */
	uint64_t physical;	  /* for a mapping: the id of what it maps */
	uint64_t requested_bytes; /* of a framework's block: of `bytes`; 0: unknown */
	uint16_t fn;
	uint8_t kind; /* enum memory_kind */
	bool gone;    /* freed: its row is to be deleted */
	int16_t device;
};

struct core_memory {
	uint32_t process;
	int16_t device;
	uint8_t kind;
	uint64_t live_bytes, live_count, peak_bytes;
	/* Of the live blocks of which it is known: what was asked for, and what they have beyond.
	 */
	uint64_t requested_bytes, rounding_bytes;
};

#define CORE_AGES 65
/* What becomes of the memory that a stack allocates: a verdict (core/leak/verdict.h) and its
 * reasons.
 */
struct core_growth {
	uint64_t stack_id;
	uint32_t process;
	uint16_t fn;
	uint8_t kind; /* enum memory_kind */
	int16_t device;
	uint8_t verdict;	    /* enum verdict_kind */
	uint8_t confidence;	    /* percent */
	uint64_t since_ns;	    /* watched without a gap */
	uint64_t ready_ns;	    /* when there will be a verdict, 0: there is one */
	uint64_t told_ns, birth_ns; /* of the verdict, and of the last allocation before it */
	uint64_t allocations, frees;
	uint64_t usual_ns;		     /* most that is freed is younger */
	uint64_t kept, kept_bytes, grows_ns; /* blocks that grew older, and the first one's birth */
	uint64_t bytes_per_hour;
	uint64_t bytes_per_step; /* 0: unknown */
	int64_t laplace_ppm;
	/* For the next daemon: */
	uint64_t peak_bytes;
	uint64_t last_ns;	    /* of the last allocation or free */
	uint64_t calls, last_calls; /* of the process: at told_ns, and at last_ns */
	char ages[CORE_AGES];	    /* frees by age, see core/leak/history.h */
};

/* Sums over the calls of one second that differ only in time and size. Rows with `freed` count
 * freed memory, under the stack and function that allocated it. */
struct core_rollup {
	uint64_t second; /* CLOCK_MONOTONIC */
	uint64_t stack_id;
	uint32_t process;
	uint32_t stream; /* id, for ops that have one */
	int32_t result;
	uint16_t fn;
	uint8_t kind, detail;
	int16_t device;
	bool freed;
	uint64_t calls, timed; /* timed: calls whose return was seen */
	uint64_t captured;     /* of the calls: recorded into a graph, so they did nothing yet */
	uint64_t total_ns, min_ns, max_ns;
	uint64_t bytes; /* moved or allocated; not counting failed or captured calls */
};

#define WORK_DELAYS 11 /* see work_delay() below */

/* What a device did in one second, added up over work that differs only in time; only OP_EXACT ops.
 * Durations are counted in buckets, each at most 1/16 wide (work_bucket below), so that percentiles
 * can be computed without the ops. */
struct core_work {
	uint64_t second;   /* in which it ended */
	uint64_t name;	   /* of kernels */
	uint64_t stack_id; /* of the call */
	uint32_t process;
	uint32_t stream; /* id */
	uint32_t graph;
	uint16_t bucket;
	uint8_t kind; /* OP_KERNEL (also of launches), OP_COPY, OP_SET; OP_GRAPH: a launch of one */
	uint8_t detail; /* copy_kind; of OP_GRAPH enum work_graph */
	int16_t device;
	uint64_t count, total_ns, min_ns, max_ns, bytes;
	uint64_t delay_ns; /* total, from the start of the calls to the start on the device */
	/* How many of these took how long; only for totals, so not stored. */
	uint32_t delays[WORK_DELAYS];
};

/* A graph was recorded as a whole; or it lasted from the first to the last of its parts, which have
 * rows of their own. */
enum work_graph { WORK_GRAPH_WHOLE = 0, WORK_GRAPH_PARTS = 1 };

/* How long in a second a device of a process was in one state with this many running. Rows that
 * differ only in ns add up; all rows of a device together are the time that it was watched. */
struct core_busy {
	uint64_t second;
	uint64_t ns;
	uint32_t process;
	int16_t device;
	uint8_t state;	 /* enum op_state */
	uint8_t kernels; /* that ran, 15: or more */
	uint8_t copies;	 /* and sets */
};

/* Windows, that started in a second, in which the hot calls of a process were watched, with the
 * time around them (core/price/watch.h). Rows add up. */
struct core_watch {
	uint64_t second;
	uint32_t process;
	uint8_t part; /* enum price_part */
	uint64_t windows, watched_ns, all_ns;
	uint64_t seen;	    /* hot calls in the windows */
	int64_t missed;	    /* those outside, estimated; less than 0: see error2 */
	uint64_t missed_by; /* how far that may be off for the price alone */
	uint64_t whole;	    /* EXACT: hot calls outside of windows that were watched as well */
	/* The square of how far by chance, as one standard deviation; of a row, what that adds to
	 * others, which is less than 0 where they were told too much. */
	int64_t error2;
};

/* What watching costs a process: more time that it needs, in parts per million. Numbers are
 * stored. */
/* EXACT: CUPTI and the probes. STACKS: what of either part goes for stacks that the kernel's
 * programs walk, and STACKS_INSIDE: for those that our library in the process does. */
#define PRICE_PARTS(X)                                                                             \
	X(1, PROBES, "probes")                                                                     \
	X(2, EXACT, "exact")                                                                       \
	X(3, STACKS, "stacks")                                                                     \
	X(4, STACKS_INSIDE, "stacks-inside")
enum price_part {
#define X(number, name, text) PRICE_##name = number,
	PRICE_PARTS(X)
#undef X
};
struct core_price {
	uint32_t process;
	uint8_t part;	     /* enum price_part */
	bool measured;	     /* within the process; else estimated, and without an interval */
	uint32_t turns;	     /* that it was measured in */
	uint32_t budget_ppm; /* 0: none */
	uint32_t share_ppm;  /* of the time that it is watched */
	/* Watched all the time, and as it is, with the ends of the interval of 90 %. */
	int32_t whole_ppm, whole_low_ppm, whole_high_ppm;
	int32_t cost_ppm, cost_low_ppm, cost_high_ppm;
	int32_t cold_ppm;     /* the part of both for calls that are always watched */
	bool over;	      /* the budget is out of reach */
	uint64_t until_ns;    /* end of this budget, 0: it stays */
	uint64_t turned_ns;   /* the last turn, 0: none */
	uint64_t calls_per_s; /* while watched; with `hit_ns` each, what an estimate rests on */
	uint64_t hit_ns;
	uint64_t cpu_ppm; /* CPU time as it is watched, of one core */
	uint64_t told_ns;
};

/* A pool that memory is allocated from. */
/* ALLOCATOR: of a framework, which keeps what it got from the driver. */
enum core_pool_kind { CORE_POOL_OWN = 1, CORE_POOL_IMPORTED = 2, CORE_POOL_ALLOCATOR = 3 };
struct core_pool {
	uint32_t process;
	int16_t device;
	uint8_t kind;
	bool gone;		  /* destroyed: its row is to be deleted */
	uint64_t address;	  /* CUPTI's: practically a number; an allocator's: 1 + device, and
				   2^16 times the number of the library's copy */
	uint64_t bytes;		  /* held from the device; 0: unknown, for an imported one */
	uint64_t used_bytes;	  /* of it allocated */
	uint64_t threshold_bytes; /* free memory above this is returned at a synchronization */
	uint64_t peak_bytes, peak_used_bytes;
	uint64_t told_ns; /* when that was so */
};

struct core_device {
	uint32_t process;
	int16_t ordinal;
	uint8_t uuid[16]; /* 0: only its memory is known */
	uint64_t memory_bytes;
	uint64_t name; /* id of a name, 0: none */
	uint32_t multiprocessors;
	uint32_t clock_khz;
};

/* How a process is recorded in the exact tier. */
struct core_collect {
	uint32_t process;
	uint32_t state; /* enum ts_collect_state */
	uint32_t records, left_out;
	uint32_t cupti_version;
	uint32_t budget_ppm;
	uint64_t since_ns;   /* when it started */
	uint64_t changed_ns; /* when this state started */
	uint64_t until_ns;   /* 0: it continues */
	/* Since recording started: */
	uint64_t busy_ns, own_ns,
		wall_ns;      /* see struct ts_cost; wall_ns: the time that it covers */
	uint64_t taken;	      /* records */
	uint32_t busiest_ppm; /* lately */
	uint32_t cycles;      /* how often CUPTI was taken out of the process in all */
};

/* A stack as it was walked, without names. */
struct core_stack {
	const struct core_process *process;
	const struct ts_stack *stack;
};

/* In PyTorch's backward pass, launches have the stack of both: of their own, and behind that of the
 * launch in the forward pass that they belong to. */
struct core_backward {
	uint64_t id; /* of both */
	uint32_t process;
	uint64_t stack_id, forward_id;
	uint8_t passed; /* 1: it belongs to a call before that launch, which launched nothing */
};

/* A name that is used without being recorded (collect) is told again after this time at most, so a
 * store keeps names that much longer than what has them. */
#define CORE_NAME_AGAIN_NS 60000000000ull

/* A text behind an id that ops, devices or work name, handed over before the first of them.
 * Ids are hashes of the text, the same in every process and after a restart. */
struct core_name {
	uint64_t id;
	const char *text; /* ends with no NUL */
	size_t length;
	uint32_t process; /* who handed it over first */
};

/* What a sink gets besides ops: each row is a struct core_<name>. core/store/row.c describes how it
 * is stored. At a checkpoint: device, pool, collect (if only the cost has changed), work, busy,
 * rollup, collective, memory, growth, allocation, loss. */
#define CORE_ROWS(X)                                                                               \
	X(PROCESS, process) /* new, announced again, runs another program, or has ended */         \
	X(STREAM, stream)   /* new or changed */                                                   \
	X(STACK, stack)                                                                            \
	X(BACKWARD, backward)                                                                      \
	X(ALLOCATION, allocation) /* live or gone */                                               \
	X(MEMORY, memory)                                                                          \
	X(GROWTH, growth) /* changed */                                                            \
	X(ROLLUP, rollup)                                                                          \
	X(LOSS, loss)                                                                              \
	X(NAME, name)                                                                              \
	X(WORK, work)                                                                              \
	X(BUSY, busy)                                                                              \
	X(DEVICE, device)                                                                          \
	X(COLLECT, collect) /* new or changed */                                                   \
	X(POOL, pool)	    /* changed or gone */                                                  \
	X(WATCH, watch)                                                                            \
	X(PRICE, price) /* changed */                                                              \
	X(OOM, oom)	/* changed */                                                              \
	X(OOM_MEMORY, oom_memory)                                                                  \
	X(OOM_STACK, oom_stack)                                                                    \
	X(COMMUNICATOR, communicator) /* new or changed */                                         \
	X(COLLECTIVE, collective)

enum core_row {
#define X(identifier, name) CORE_ROW_##identifier,
	CORE_ROWS(X)
#undef X
		CORE_ROW_COUNT
};

/* Of a pointer to the struct of a row. */
#define core_row_type(...) _Generic((__VA_ARGS__)CORE_ROWS(CORE_ROW_OF))
#define CORE_ROW_OF(identifier, name)                                                              \
	, struct core_##name * : CORE_ROW_##identifier,                                            \
				 const struct core_##name * : CORE_ROW_##identifier

/* Members must not be NULL. */
struct core_sink {
	void (*op)(void *data, const struct op *op);
	void (*row)(void *data, enum core_row type, const void *row);
};

struct core_config {
	struct function_table functions;
	struct core_sink sink;
	void *data;
	uint32_t next_process, next_stream; /* first ids to use, 0 counts as 1 */
	uint64_t next_allocation;
	uint32_t next_oom;
	bool one_device;	 /* the host has one: it is the device of every context */
	uint64_t bounds_wait_ns; /* how long an op waits for a synchronization that bounds it */
	/* Limits on what other processes can make the model hold; none may be 0. */
	uint32_t max_processes, max_threads, max_streams, max_events, max_pending, max_rollups;
	uint32_t max_waiting; /* exact records and calls waiting for their other half */
	uint32_t max_names;   /* of one process */
	uint32_t max_edges;   /* starts and ends waiting to be applied to the state machines */
	uint64_t max_allocations;
	uint32_t max_growths; /* stacks with a verdict; 0: none */
};

/* Who handed a record in, according to the kernel. */
struct core_origin {
	uint32_t pid; /* 0: BPF, which speaks for every process */
	bool calls;   /* it may hand in calls of hot functions */
};

enum ingest_result {
	INGEST_OK = 0,
	INGEST_BAD = 1,	  /* malformed; counted */
	INGEST_STRAY = 2, /* of an unknown process; counted */
	INGEST_LIMIT = 3, /* a limit was reached; counted */
};

/* -EINVAL: a limit is 0, or a function has an unknown effect or kind of memory. */
int core_new(const struct core_config *config, struct core **ret);
struct core *core_free(struct core *core);

/* Takes one record (struct ts_event or struct ts_stack) that no other process can change any more.
 * `size` is what the transport says; larger than the record is fine, smaller is bad. Returns an
 * ingest_result. Failure to allocate counts as a limit that was reached. */
int core_ingest(struct core *core, const struct core_origin *origin, const void *record,
		size_t size);

/* Lets time pass: ops that waited long enough for their bounds leave. Call about every 100 ms. */
void core_tick(struct core *core, uint64_t now_ns);
/* Frees memory that was not needed since the last call. */
void core_trim(struct core *core);

/* Hands over what has changed since the last one: allocations, memory, rollups, losses. */
void core_checkpoint(struct core *core, uint64_t now_ns);

/* Hands over everything that is still held (at the daemon's end), then checkpoints. */
void core_flush(struct core *core, uint64_t now_ns);

/* Reports a loss that happened outside the model, at once. */
void core_lose(struct core *core, const struct core_loss *loss);
/* Frees may be among what was lost, of a loss that usually has none. */
void core_miss_frees(struct core *core, const struct core_loss *loss);

/* Restores what a former daemon knew of a process that is still running; before any event, and the
 * process before what it has. The sink is not called. -EINVAL: invalid; -ENOENT: no such process;
 * -EEXIST: already known; -ENOSPC: a limit is reached. */
int core_restore_process(struct core *core, const struct core_process *process);
int core_restore_stream(struct core *core, const struct core_stream *stream);
int core_restore_communicator(struct core *core, const struct core_communicator *communicator);
int core_restore_allocation(struct core *core, const struct core_allocation *allocation);
/* Before the allocations of the process. */
int core_restore_growth(struct core *core, const struct core_growth *growth);
int core_restore_peak(struct core *core, const struct core_memory *memory);

/* The process that runs under a host pid now, or NULL. Valid until the next call into core. */
const struct core_process *core_process_by_pid(const struct core *core, uint32_t pid);
const struct core_process *core_process_by_id(const struct core *core, uint32_t id);

/* A restored process was being recorded when a former daemon ended, and its data is complete up to
 * `since_ns`. What is missing until recording resumes is a loss. */
int core_restore_collect(struct core *core, uint32_t process, uint64_t since_ns);
int core_restore_cycles(struct core *core, uint32_t process, uint32_t cycles);
/* How often CUPTI was taken out of it, in all its recordings. */
uint32_t core_collect_cycles(const struct core *core, uint32_t pid);

/* What a framework's allocator said last of itself, of blocks that are no events. */
struct core_sums {
	uint32_t pid;
	int16_t device;
	uint64_t copy; /* of its library */
	uint64_t bytes, used_bytes, peak_bytes, peak_used_bytes;
	uint64_t told_ns;
};
/* False: there is no such process. */
bool core_allocator_told(struct core *core, const struct core_sums *sums);
/* The blocks of the process's allocators are not reported from now on, or again: until they are,
 * what is reported all the same counts in the sums only. Those that are known are unknown from now
 * on. */
void core_follow_blocks(struct core *core, uint32_t pid, bool follow);
/* Reports of them may have been missed; of all processes (0). */
void core_forget_blocks(struct core *core, uint32_t pid);

/* Whether hot calls of the process are reported by our library in it. */
void core_set_light(struct core *core, uint32_t pid, bool light);
/* When the first call was made of those that it has been seen to make with success, before which no
 * hot call can succeed; 0: none was seen. */
uint64_t core_used_ns(const struct core *core, uint32_t pid);

/* No more records come from the process's library: its connection has ended and its ring is empty.
 * Without a COLLECT record that announced this, the time since is a gap. */
void core_collect_gone(struct core *core, uint32_t pid, uint64_t now_ns);

/* A process is known to be gone (without an EXIT event). Its last events, and its EXIT, may still
 * come for a moment. */
void core_process_gone(struct core *core, uint32_t pid, uint64_t now_ns);

/* What the model holds now, for whoever did not see it come: its processes, each followed by its
 * memory, how it is recorded, and the devices that its library reported. */
typedef void core_row_fn(void *data, enum core_row type, const void *row);
void core_look(const struct core *core, core_row_fn *row, void *data);

/* What a device is doing for a process, or a stream of it, since when. */
struct core_doing {
	uint32_t process;
	uint32_t stream; /* 0: the device */
	int16_t device;
	uint8_t state; /* enum op_state */
	bool exact;    /* known from records, which the rows of core_busy add up */
	uint64_t since_ns;
	uint64_t until_ns; /* of a stream: up to where this is known */
};
void core_look_devices(const struct core *core,
		       void (*device)(void *data, const struct core_doing *doing), void *data);
/* Streams that are not idle. */
void core_look_streams(const struct core *core, uint64_t now_ns,
		       void (*stream)(void *data, const struct core_doing *doing), void *data);

struct core_stats {
	uint64_t events, ops, bad, stray, limited;
	uint64_t processes, streams, allocations, pending;
	uint64_t exact;	 /* ops with exact times */
	uint64_t joined; /* those with a known call */
	uint64_t waiting, edges;
	uint64_t oldest_pending_ns; /* its start, 0: none; see timeline_oldest_ns */
	uint64_t ending;	    /* ended processes that still have records to come */
};
void core_stats(const struct core *core, struct core_stats *ret);

/* The bucket of a duration: 16 of equal width from each power of two to the next. */
static inline uint16_t work_bucket(uint64_t ns)
{
	unsigned int power;

	if (ns < 32)
		return (uint16_t)ns;
	power = 63 - (unsigned int)__builtin_clzll(ns);
	return (uint16_t)((power - 4) * 16 + (ns >> (power - 4)));
}

/* The smallest duration in it. */
static inline uint64_t work_bucket_ns(uint16_t bucket)
{
	unsigned int power = bucket / 16;

	return power < 2 ? bucket : (uint64_t)(bucket % 16 + 16) << (power - 1);
}

/* The bucket of a delay: below 4 us, then up to four times as much each, from 1 s on the last. */
static inline unsigned int work_delay(uint64_t ns)
{
	const unsigned int bucket = ns >> 12 ? (63 - (unsigned int)__builtin_clzll(ns)) / 2 - 5 : 0;

	return bucket < WORK_DELAYS ? bucket : WORK_DELAYS - 1;
}

/* The power of two of nanoseconds that a delay in it has at least; 0: it may be below 4 us. */
static inline unsigned int work_delay_power(unsigned int bucket)
{
	return bucket ? 10 + 2 * bucket : 0;
}

#endif
