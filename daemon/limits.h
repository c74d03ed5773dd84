/* limits.h: every limit on what others can make the daemon hold, with its reason. */
#ifndef TS_LIMITS_H
#define TS_LIMITS_H

#include "core/limits.h"

/* The next ones are shared out: one user has half of them at most (core/base/quota.h). */

/* Processes that use CUDA at one time or did recently. A host runs tens; a fork bomb does not
 * count, because only processes that call the driver are followed. */
#define LIMIT_PROCESSES 8192
/* Threads whose current context is remembered. */
#define LIMIT_THREADS 131072
/* Streams and events that live at one time, of all processes. PyTorch creates 32 streams per device
 * and tens of thousands of events. */
#define LIMIT_STREAMS 131072
#define LIMIT_EVENTS  524288
/* Live allocations, of all processes: 128 bytes each, so 256 MiB at most. */
#define LIMIT_ALLOCATIONS 2097152
/* Stacks whose blocks are followed for a verdict: half a kilobyte each, and up to 3 KiB more, with
 * what happens in how many parts of their life. PyTorch allocates from some hundreds. */
#define LIMIT_GROWTHS 8192
/* Rows of one second's rollup; beyond it calls are counted without stack and stream, in as many
 * rows again. */
#define LIMIT_ROLLUPS 32768

/* Ops that wait for a synchronization to bound them or, in the exact tier, for their record, which
 * comes within a second: two seconds of the fastest possible launches. 344 bytes each. At the limit
 * whoever has most loses the oldest. */
#define LIMIT_PENDING 524288
/* Exact records and calls that wait for their other half, and correlation ids that are kept for
 * further records, of all processes; one has at most half of it. 200 bytes each. */
#define LIMIT_WAITING 524288
/* Texts that one process may name: kernels and NVTX ranges. All have 16 times as many, 24 bytes
 * each, and one user half of that. */
#define LIMIT_NAMES 65536
/* Starts and ends of work that wait for late arrivals: 24 bytes each, three per launch, for a few
 * seconds. One process has at most half of it. */
#define LIMIT_EDGES 4194304

/* How long a query waits for earlier data: until the rings are read that far, which takes a second
 * for a large one that is full, and a commit is written, for which a disk may take as long; and in
 * between, for the last records of a program that has just ended, and for names of stacks. */
#define LIMIT_QUERY_READ_MS 10000
#define LIMIT_QUERY_WAIT_MS 300
/* In all for `ps` and `query list`, whose answers are to be there within 100 ms. */
#define LIMIT_PROMPT_WAIT_MS 60

/* Events taken from one source per iteration of the loop, so that no source starves the others. */
#define LIMIT_EVENTS_PER_TURN 4096

/* How often inputs are read while records come: each time costs some 50 us. Where few come, rarely;
 * their source says at once when more do. */
#define LIMIT_INTAKE_LOOK_MS 10
#define LIMIT_INTAKE_CALM_MS 40

/* A record is stamped, and then it is in its ring: within this time, or it comes as late and is
 * counted. Everything that goes in order of time is this much older at least. */
#define LIMIT_INTAKE_SLACK_NS 1000000ull
/* How long a record waits for an input that does not get on: a thread that lost its processor while
 * it wrote into its ring may take that long to get one. What the probes see stays in their ring
 * meanwhile, which has room for 100 ms at 600,000 calls a second, and three times as long while the
 * daemon itself is late; a library's start or end waits until the probes' ring, were it full, has
 * been read. */
#define LIMIT_INTAKE_PROBES_HOLD_NS    100000000ull
#define LIMIT_INTAKE_LIBRARIES_HOLD_NS 500000000ull
/* Instead, while three quarters of its ring are free: by then a slot that its writer left is passed
 * over. Out of order, calls within a capture are taken for others, and calls miss their records. */
#define LIMIT_INTAKE_ROOMY_HOLD_NS 2000000000ull

/* Processes that carry the library, and their connections: three descriptors and a ring each. One
 * user has half of them at most. */
#define LIMIT_INJECT_PROCESSES 1024
/* Slots of a ring, 136 bytes each: 4 MiB. Read every 10 ms, it holds three million records a
 * second. A library may touch all of it and hand in nothing, and the memory counts as ours. */
#define LIMIT_INJECT_SLOTS 32768
/* All rings together, half of it for one user at most. A ring takes no more than such a part of
 * what its user may still have, and becomes smaller, down to a sixteenth: so 86 processes of one
 * user have whole rings, and 248 have one. */
#define LIMIT_INJECT_RING_BYTES (1ull << 30)
#define LIMIT_INJECT_RING_PART	32
#define LIMIT_INJECT_SLOTS_MIN	2048
/* A library says hello within this time, and then sends a few messages a minute. */
#define LIMIT_INJECT_HELLO_MS	    5000
#define LIMIT_INJECT_MESSAGES_PER_S 64

/* Processes that look into others for us (2 MiB each), in all, and for one kind of task and the
 * processes of one user: some of them may hang. Tasks that wait for one, in all and of one kind for
 * the processes of one user: 1 KiB each. */
#define LIMIT_HELPERS		   48
#define LIMIT_HELPERS_PER_UID	   4
#define LIMIT_HELPER_TASKS	   16384
#define LIMIT_HELPER_TASKS_PER_UID 4096

/* Executable mappings per process, and files held open, for symbolization. */
#define LIMIT_MAPPINGS 2048
#define LIMIT_FILES    1024
/* Executable mappings of all processes: 32 bytes each. */
#define LIMIT_MAPPINGS_TOTAL 262144
/* Programs that have ended, whose mappings are kept until their last stacks have names, and for how
 * long. Probes stay just as long on a library that no process maps, for the next process of a
 * series. Not longer: an open file keeps the file system of an ended container alive. */
#define LIMIT_MAPS_ENDED    256
#define LIMIT_MAPS_GRACE_MS 5000
/* Bytes of the last mappings of processes that are not followed (twice), for one that is gone
 * before we look at it: a few hundred exec. */
#define LIMIT_MAPS_HISTORY (128 << 10)
/* Files that stay known for that time when nobody maps them: a process may map them in turns. */
#define LIMIT_MAPS_RECENT 64
/* How long a helper may take for the mappings of a process: the kernel holds the lock that it waits
 * for while a large process forks, for seconds. */
#define LIMIT_MAPS_LOOK_MS 3000
/* If records come faster than this, the rings are read once in this time. */
#define LIMIT_MAPS_REST_MS 1
/* Copies of driver libraries with probes on them. One user's processes have half of them at most
 * (core/base/quota.h). */
#define LIMIT_LIBRARIES 64
/* Dynamic symbols of one, and bytes of their names: libcuda has 1,500 in 40 KiB; and of its notes:
 * libc10_cuda has a few hundred. */
#define LIMIT_LIBRARY_SYMBOLS	    65536
#define LIMIT_LIBRARY_NAMES	    (4 << 20)
#define LIMIT_LIBRARY_NOTES	    (1 << 20)
#define LIMIT_LIBRARIES_PER_PROCESS 8
/* An attachment takes up to 16 s until it is rolled back. */
#define LIMIT_ATTACH_MS 20000

/* How long a stopping daemon waits for its threads: systemd waits for 30 s (TimeoutStopSec). And
 * for probes that are taken off: not longer, because the kernel takes off the rest when the process
 * ends. */
#define LIMIT_STOP_MS	     20000
#define LIMIT_STOP_READ_MS   5000 /* of it, for what is in the rings */
#define LIMIT_STOP_PROBES_MS 2000
/* Stacks that wait for names. */
#define LIMIT_SYMBOL_JOBS 4096
/* Remembered names, of about 100 bytes; a symbol table, and its section headers: the file is
 * untrusted. */
#define LIMIT_SYMBOL_CACHE 16384
#define LIMIT_ELF_SYMBOLS  (4 << 20)
#define LIMIT_ELF_SECTIONS 65280
#define LIMIT_ELF_SEGMENTS 128
/* The symbolizer collects addresses for at least this long, because a big table costs the same for
 * one as for a thousand, and at most. */
#define LIMIT_SYMBOL_WAIT_MIN_MS 20
#define LIMIT_SYMBOL_WAIT_MAX_MS 500
/* Stacks that wait for lines, each with a reference to its files, and helpers that find them. What
 * one may take for up to 128 addresses of a file: time, memory (the file is mapped), and the size
 * of the file. PyTorch's, built with debug information, is too large. */
#define LIMIT_LINES_JOBS    1024
#define LIMIT_LINES_HELPERS 2
#define LIMIT_LINES_MS	    5000
#define LIMIT_LINES_MEMORY  (512ull << 20)
#define LIMIT_LINES_FILE    (1ll << 30)
/* A file whose look-up did not end gets so many in all, the second one after that pause, each
 * further one after four times the last: 21 minutes for a slow file system or a busy host to
 * recover. Stacks that wait for it keep their files open. */
#define LIMIT_LINES_TRIES    4
#define LIMIT_LINES_PAUSE_MS 60000
#define LIMIT_LINES_LATE     1024 /* such files */
#define LIMIT_LINES_PARKED   256  /* such stacks */
/* Offsets whose lines are remembered, and the texts of these. */
#define LIMIT_PLACES	   65536
#define LIMIT_PLACES_BYTES (16 << 20)
/* Stacks of a process that its library may name: several times what a large program has. */
#define LIMIT_KNOWN_STACKS 32768
/* Calls under way whose stack the daemon has unwound. */
#define LIMIT_UNWIND_CALLS 16384
/* What follows in the ring waits this long for a stack to be unwound, or it ends where it is: its
 * file may be on a network, or in the hands of a user. And how many threads may then be left alone
 * until their file answers, each with another file system. */
#define LIMIT_UNWIND_WAIT_MS 200
#define LIMIT_UNWIND_HUNG    8
/* Bytes of what waits so, in memory, for the ring would soon be full: as much as a process that
 * starts sends in 60 ms. */
#define LIMIT_PROBE_BACKLOG (32 << 20)
/* Processes whose records wait for their mappings, for how long, and the bytes of these, of which
 * one user has half (core/base/quota.h): PROBE_MISSES_MAX of the largest stacks. What libraries say
 * waits for them, to keep the order: no longer than for each other (LIMIT_INTAKE_*). */
#define LIMIT_PROBE_PARKED	 64
#define LIMIT_PROBE_PARKED_MS	 1000
#define LIMIT_PROBE_PARKED_BYTES (112 << 20)
/* How long the ring may wait for the stacks of one process, at once and then in each second; and
 * for those of all. */
#define LIMIT_UNWIND_OWN_MS	  1000
#define LIMIT_UNWIND_OWN_MS_PER_S 100
#define LIMIT_UNWIND_ALL_MS	  2000
#define LIMIT_UNWIND_ALL_MS_PER_S 500
/* Files whose place of .eh_frame is remembered: 600 bytes each, 150 KiB. A process with PyTorch
 * maps 300, few of which are ever on a stack. */
#define LIMIT_UNWIND_FILES 256
/* Of .eh_frame, which is untrusted: bytes of one entry (a function of 1 MiB has 10 KiB), of a
 * common one, and of what is searched through where nothing is sorted. Loadable segments; states
 * that instructions may put aside; values that an expression may have on its stack. */
#define LIMIT_UNWIND_ENTRY    65536
#define LIMIT_UNWIND_COMMON   512
#define LIMIT_UNWIND_SCAN     (8 << 20)
#define LIMIT_UNWIND_SEGMENTS 16
/* And of what is searched through for one stack. */
#define LIMIT_UNWIND_SCANNED (64ull << 20)
#define LIMIT_UNWIND_STATES  16
#define LIMIT_UNWIND_VALUES  8

/* Reads of one process's memory for its stacks in Python, and their bytes: 0.5 s at the most. */
#define LIMIT_PYTHON_READS 500000
#define LIMIT_PYTHON_BYTES (32 << 20)
/* Its interpreters, thread states, and frames of each: Python itself stops recursion at 1,000. */
#define LIMIT_PYTHON_INTERPRETERS 256
#define LIMIT_PYTHON_THREADS	  4096
#define LIMIT_PYTHON_FRAMES	  1024
/* Variables of a frame. */
#define LIMIT_PYTHON_LOCALS 64
/* Characters of a name or path that are shown, and bytes of a function's table of lines: a module
 * of 20,000 lines has 200 KiB. */
#define LIMIT_PYTHON_TEXT  512
#define LIMIT_PYTHON_LINES (1 << 20)
/* Bytes of names and lines that are kept for the next time. */
#define LIMIT_PYTHON_CODES (8 << 20)
/* Processes of a user whose names and lines are kept; stacks that wait for names and looks, 6 KiB
 * each, and how long they do; and how often a process is looked at for a Python, within 25 s. */
#define LIMIT_PYTHONS	     32
#define LIMIT_PYTHON_JOBS    1024
#define LIMIT_PYTHON_NAME_MS 1000
#define LIMIT_PYTHON_LOOKS   8
/* How long the code of an interpreter is searched through for the place where it frees code
 * objects: 2 ms, unless its file comes from afar. */
#define LIMIT_PYTHON_CODE_MS 200
/* A process that frees more of them in a second is not counted for a while, longer each time: each
 * costs it a trap of 0.5 us, so 0.05 % of its time. At first not for long, as to import PyTorch
 * frees thousands. */
#define LIMIT_PYTHON_FREED_PER_S      1000
#define LIMIT_PYTHON_UNCOUNTED_MIN_NS 2000000000ull
#define LIMIT_PYTHON_UNCOUNTED_MAX_NS 600000000000ull
/* No field lies further into a structure of the interpreter: that of an interpreter's state has
 * some 400 KiB. */
#define LIMIT_PYTHON_STRUCTURE (1 << 20)

/* Threads whose native stacks are read at one moment; bytes of each that are, and of all; frames of
 * each; files on them that are open; bytes of names that are kept for the next time; and how long a
 * thread that runs may take to be on a CPU. */
#define LIMIT_NATIVE_THREADS   64
#define LIMIT_NATIVE_STACK     (512 << 10)
#define LIMIT_NATIVE_BYTES     (8 << 20)
#define LIMIT_NATIVE_FRAMES    1024
#define LIMIT_NATIVE_FILES     256
#define LIMIT_NATIVE_NAMES     (8 << 20)
#define LIMIT_NATIVE_SAMPLE_MS 10
/* How often threads are read that change meanwhile. */
#define LIMIT_NATIVE_ROUNDS 8

/* Processes whose stacks are being read at one time, each by a helper, in shares by the user who
 * asks (core/base/quota.h); how long the asker waits for one whose memory or files do not answer;
 * threads of one; and bytes of an answer, whose message is smaller than that. */
#define LIMIT_STACK_READERS 16
#define LIMIT_STACK_S	    3
#define LIMIT_STACK_THREADS 4096
#define LIMIT_STACK_BYTES   (12 << 20)

/* Processes of which names and lines are kept for the next request, each up to LIMIT_PYTHON_CODES
 * and LIMIT_NATIVE_NAMES, and for how long: --watch asks every second. */
#define LIMIT_STACK_KEPT    4
#define LIMIT_STACK_KEEP_NS 5000000000ull

/* Streams of a process of which it is told what they have to do. */
#define LIMIT_STACK_STREAMS 256

/* Clients of control.sock at one time, of whom one user has half at most, and with many users each
 * as many as LENT while there are any; requests per client. */
#define LIMIT_CLIENTS	      512
#define LIMIT_CLIENTS_LENT    4
#define LIMIT_CLIENT_REQUESTS 16
/* Bytes of replies that wait for a slow reader before its query waits too. */
#define LIMIT_CLIENT_QUEUE (1 << 20)
/* A client that has sent half a message must send the rest in this time. */
#define LIMIT_CLIENT_HALF_MS 10000
/* A client with waiting replies that reads nothing for this long counts as gone. */
#define LIMIT_CLIENT_STALL_MS 30000
/* Requests that another part of the daemon answers (attach, detach), including abandoned ones: each
 * may take a thread of the uv pool for seconds. One user has half of them at most. */
#define LIMIT_TICKETS 64
/* Queries that run at one time, in all, per user and per connection: each takes a thread of the uv
 * pool and a process. Others wait. */
#define LIMIT_QUERIES		 8
#define LIMIT_QUERIES_PER_UID	 6
#define LIMIT_QUERIES_PER_CLIENT 2
/* Quick ones in addition: each takes a thread and a SQLite connection for some milliseconds. */
#define LIMIT_QUICK_QUERIES 4
/* A query whose process does not notice that its time is over is killed this much later. */
#define LIMIT_QUERY_GRACE_MS 500
/* How long a query may wait for its reader while others wait for its place. */
#define LIMIT_QUERY_UNREAD_MS 1000

/* Those who watch (SubscribeRequest) at one time, of whom one user has half at most: each costs a
 * message a second. Processes and devices in one: 200 bytes each. And bytes of messages that one
 * has not read, before it misses some. */
#define LIMIT_VIEWERS	     128
#define LIMIT_LIVE_PROCESSES 512
#define LIMIT_LIVE_DEVICES   128
#define LIMIT_LIVE_STREAMS   16 /* of a process */
#define LIMIT_LIVE_QUEUE     (256 << 10)
#define LIMIT_LIVE_BEAT_MS   1000
/* Processes of which it is looked up in one message in which container they run: three small files
 * of /proc each. */
#define LIMIT_LIVE_LOOKS 16

/* How long a process that calls probed functions too often is left out: at first, and at most, when
 * it has gone on each time. */
#define LIMIT_LEFT_OUT_MIN_NS 5000000000ull
#define LIMIT_LEFT_OUT_MAX_NS 600000000000ull
/* It may owe what its limit is worth in this time. */
#define LIMIT_LEFT_OUT_BURST_NS 1000000000ull
/* Of a process that is recorded exactly, hot calls do not count for this long: then its library
 * reports them, unless the process lets nobody stop it. */
#define LIMIT_RELIEF_NS 5000000000ull

/* The same for reports of its framework's allocator. Meanwhile its sums are as old as this at most;
 * and a model of 100,000 blocks is loaded within the burst. */
#define LIMIT_REPORTS_OUT_MIN_NS 10000000000ull
#define LIMIT_REPORTS_OUT_MAX_NS 60000000000ull
#define LIMIT_REPORTS_BURST_NS	 20000000000ull

/* How long the broker's child may take to call a function with a return probe: a millisecond, but
 * for a host that is very busy. */
#define LIMIT_TRIAL_S 5

/* So long after a fork a child that still runs its parent's program has a link of its own, where
 * each process has one: making and closing one takes the kernel 50 ms. */
#define LIMIT_FORKED_NS 100000000ull

/* Processes whose user's name waits for the name service: 8 bytes each. */
#define LIMIT_USER_QUESTIONS 4096

#endif
