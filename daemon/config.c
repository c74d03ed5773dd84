/* Config: reads the settings file. One row per setting: its section, type, limits and default.
 * The file is checked before the daemon does anything else. */
#include "daemon/config.h"

#include <errno.h>
#include <grp.h>
#include <ini.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "core/model/frame.h"
#include "daemon/library/library.h"
#include "proto/paths.h"
#include "proto/ring.h"

struct choice {
	const char *name;
	uint64_t value;
};

static const struct choice levels[] = {
	{ "error", LOG_LEVEL_ERROR },
	{ "warning", LOG_LEVEL_WARNING },
	{ "info", LOG_LEVEL_INFO },
	{ "debug", LOG_LEVEL_DEBUG },
	{ NULL, 0 },
};

static const struct choice ways[] = {
	{ "auto", PROBE_WAY_AUTO },
	{ "multi", PROBE_WAY_MULTI },
	{ "perf", PROBE_WAY_PERF },
	{ NULL, 0 },
};

static const struct choice unwinds[] = { { "frame-pointers", 0 }, { "eh-frame", 1 }, { NULL, 0 } };
static const struct choice tensors[] = {
	{ "no", TENSORS_NO }, { "auto", TENSORS_WITHIN_BUDGET }, { "yes", TENSORS_YES }, { NULL, 0 }
};
static const struct choice others[] = { { "all", 0 }, { "own", 1 }, { NULL, 0 } };
static const struct choice answers[] = { { "no", 0 }, { "yes", 1 }, { NULL, 0 } };
static const struct choice lights[] = { { "never", LIGHT_NEVER },
					{ "request", LIGHT_ON_REQUEST },
					{ "exact", LIGHT_IN_EXACT },
					{ "auto", LIGHT_AUTO },
					{ NULL, 0 } };

/* FILES, PLACES: texts whose defaults the library table has. */
enum setting_type { TEXT, GROUP, FILES, PLACES, COUNT, SIZE, DURATION, SHARE, CHOICE };

struct setting {
	const char *section, *key;
	enum setting_type type;
	size_t offset;
	const char *value; /* default */
	uint64_t min, max; /* of numbers */
	const struct choice *choice;
	const char *text; /* in lines */
};

#define AT(field) offsetof(struct config, field)

/* clang-format off */
static const struct setting settings[] = {
	{ "daemon", "control_socket", TEXT, AT(control_socket), TS_PATH_CONTROL_SOCKET, 0, 0, NULL,
	  "Socket that tsctl connects to. A socket from systemd takes precedence." },
	{ "daemon", "control_group", GROUP, AT(control_group), TS_GROUP, 0, 0, NULL,
	  "Group whose members may use the control socket, in addition to root." },
	{ "daemon", "inject_socket", TEXT, AT(inject_socket), TS_PATH_INJECT_SOCKET, 0, 0, NULL,
	  "Socket that injected libraries connect to. A socket from systemd takes precedence." },
	{ "daemon", "state_dir", TEXT, AT(state_dir), TS_PATH_STATE, 0, 0, NULL,
	  "Database directory." },
	{ "daemon", "log_level", CHOICE, AT(log_level), "info", 0, 0, levels,
	  "How much to log: error, warning, info or debug." },

	{ "access", "others", CHOICE, AT(others), "all", 0, 0, others,
	  "Whose processes a member of the group sees who is not root: those of all users (all),\n"
	  "or his own (own)." },

	{ "probe", "libraries", FILES, AT(libraries), NULL, 0, 0, NULL,
	  "File names of driver libraries; shell patterns separated by spaces." },
	{ "probe", "standing", PLACES, AT(standing), NULL, 0, 0, NULL,
	  "Driver libraries that keep their probes while no process maps them, so that the first\n"
	  "call of a new process is traced; shell patterns separated by spaces." },
	{ "probe", "attach", CHOICE, AT(way), "auto", 0, 0, ways,
	  "How to attach probes: multi (Linux 6.6 or newer), perf or auto." },
	{ "probe", "returns", TEXT, AT(returns), "yes", 0, 0, NULL,
	  "Whether functions are probed at their return, too: yes, no (their calls have no result\n"
	  "and duration then, and what they allocate is not known), or all but those that are\n"
	  "named (all but cuStreamSynchronize cuEvent*); takes effect when the daemon starts." },
	{ "probe", "ring_size", SIZE, AT(ring_bytes), "8MiB", 65536, 1 << 30, NULL,
	  "Size of the ring buffer from the probes to the daemon; a power of two." },
	{ "probe", "stack_depth", COUNT, AT(stack_depth), "127", 2, TS_STACK_FRAMES_MAX, NULL,
	  "Maximum number of frames per call stack." },
	{ "probe", "unwind", CHOICE, AT(unwind), "eh-frame", 0, 0, unwinds,
	  "How callers are found: by the call frame information that libraries carry (eh-frame),\n"
	  "or by frame-pointers only, which much code is built without." },
	{ "probe", "python", CHOICE, AT(python), "yes", 0, 0, answers,
	  "Whether stacks have the functions and lines of Python programs." },
	{ "probe", "python_depth", COUNT, AT(python_depth), "64", 1, TS_STACK_PYTHON_MAX, NULL,
	  "Maximum number of Python's frames per call stack." },
	{ "probe", "backward", CHOICE, AT(backward), "yes", 0, 0, answers,
	  "Whether calls of PyTorch's backward pass have the stack of their forward pass, too." },
	{ "probe", "tensors", CHOICE, AT(tensors), "auto", 0, 0, tensors,
	  "Whether the blocks of PyTorch's allocator are followed, with a stack each: in programs\n"
	  "that this costs half of the budget at most (auto), whatever it costs (yes), or no." },
	{ "probe", "tensor_size", SIZE, AT(tensor_bytes), "0B", 0, 1ull << 40, NULL,
	  "Smaller blocks of PyTorch's allocator have no stack and are in its sums only, at half\n"
	  "of the price; takes effect when the daemon starts." },
	{ "probe", "tensor_requests", CHOICE, AT(tensor_requests), "no", 0, 0, answers,
	  "Whether the size that was asked for is known of them, too, where PyTorch has probes of\n"
	  "its own: at half of the price again." },
	{ "probe", "nccl", CHOICE, AT(nccl), "yes", 0, 0, answers,
	  "Whether calls of NCCL are followed, where it is a library of its own: communicators,\n"
	  "and what each collective moves." },
	{ "probe", "launch_stacks", COUNT, AT(launch_stacks_per_s), "20", 0, 1000000000, NULL,
	  "Stacks sampled per thread and second, of launches, copies, sets and waits." },
	{ "probe", "rate_limit", COUNT, AT(events_per_s), "0", 0, 1000000000, NULL,
	  "Maximum events per second on the host; 0 means no limit. Allocations always pass." },

	{ "probe", "budget", SHARE, AT(budget_ppm), "1%", 0, 999999, NULL,
	  "How much slower the probes may make a process: frequent calls of one that would pay\n"
	  "more are watched in windows and estimated; none means no limit." },

	{ "probe", "trap_limit", SHARE, AT(trap_limit_ppm), "50%", 0, 1000000, NULL,
	  "How much of one CPU a process may spend in probes: beyond that it is left out for some\n"
	  "time, so that no program can slow the host down through them; none means no limit." },

	{ "probe", "light", CHOICE, AT(light), "request", 0, 0, lights,
	  "Which processes report frequent calls from inside: none (never), those that were\n"
	  "asked to with 'tsctl attach --light' or 'tsctl run --light', and of the exact tier\n"
	  "those that trap_limit would leave out (request), all others of that tier without a\n"
	  "budget (exact), or also those that their budget would have watched in windows (auto):\n"
	  "the daemon then attaches to them by itself." },

	{ "exact", "attach_library", TEXT, AT(attach_library), "", 0, 0, NULL,
	  "Library that 'tsctl attach' loads into a process; if empty, the one installed with the\n"
	  "daemon." },
	{ "exact", "budget", SHARE, AT(exact_budget_ppm), "none", 0, 999999, NULL,
	  "How much of its speed recording may take of a process that is attached or run without\n"
	  "--budget: one that would pay more is recorded in windows; none records everything." },
	{ "exact", "ring_records", COUNT, AT(exact_slots), "65536", TS_RING_SLOTS_MIN,
	  TS_RING_SLOTS_MAX, NULL,
	  "Size of each process's ring, in records of 128 bytes; a power of two." },

	{ "filter", "pids", TEXT, AT(filter_pids), "", 0, 0, NULL,
	  "Trace only these processes; pids separated by spaces." },
	{ "filter", "uids", TEXT, AT(filter_uids), "", 0, 0, NULL,
	  "Trace only processes of these users; names or uids separated by spaces." },
	{ "filter", "cgroups", TEXT, AT(filter_cgroups), "", 0, 0, NULL,
	  "Trace only processes in or below these cgroups (v2); paths separated by spaces." },

	{ "store", "keep_age", DURATION, AT(keep_ns), "7d", 0, INT64_MAX, NULL,
	  "How long to keep operations while the host is up; 0 means forever." },
	{ "store", "keep_size", SIZE, AT(keep_bytes), "2GiB", 0, INT64_MAX, NULL,
	  "Maximum size of the database; 0 means no limit." },
	{ "store", "library_code", TEXT, AT(library_code), FRAME_LIBRARY_CODE, 0, 0, NULL,
	  "Code that is not the user's own, which column 'where' passes over: parts of the paths\n"
	  "of mapped and Python files, with * and ?, separated by spaces. The last one found in\n"
	  "a path counts; ! makes it an exception." },
	{ "store", "bounds_wait", DURATION, AT(bounds_wait_ns), "2s", 0, 60000000000, NULL,
	  "How long to wait for a synchronization that shows when an operation ended." },
};
/* clang-format on */

#define SETTING_COUNT ARRAY_SIZE(settings)

static int setting_parse_choice(const struct choice *choice, const char *value, uint64_t *ret)
{
	for (; choice->name; choice++) {
		if (strcmp(choice->name, value))
			continue;
		*ret = choice->value;
		return 0;
	}
	return -EINVAL;
}

/* A bound of nothing is a mistake, and must not be read as no bound. */
static int setting_parse_share(const char *value, uint64_t *ret_ppm)
{
	int r = units_parse_share(value, ret_ppm);

	return r == 0 && *ret_ppm == 0 && strcmp(value, "none") != 0 ? -ERANGE : r;
}

static int setting_parse(const struct setting *setting, const char *value, uint64_t *ret)
{
	switch (setting->type) {
	case COUNT:
		return units_parse_count(value, ret);
	case SIZE:
		return units_parse_size(value, ret);
	case DURATION:
		return units_parse_duration(value, ret);
	case SHARE:
		return setting_parse_share(value, ret);
	case CHOICE:
		return setting_parse_choice(setting->choice, value, ret);
	default:
		return -EINVAL;
	}
}

static bool setting_is_text(const struct setting *setting)
{
	return setting->type < COUNT;
}

/* To be freed; NULL: no memory. */
static char *setting_default(const struct setting *setting)
{
	if (setting->type == FILES)
		return library_files();
	if (setting->type == PLACES)
		return library_places();
	return strdup(setting->value);
}

static int setting_put(struct config *config, const struct setting *setting, const char *value)
{
	void *place = (char *)config + setting->offset;
	uint64_t number;
	char *text;
	int r;

	if (setting_is_text(setting)) {
		text = strdup(value);
		if (!text)
			return -ENOMEM;
		free(*(char **)place);
		*(char **)place = text;
		return 0;
	}
	r = setting_parse(setting, value, &number);
	if (r < 0)
		return r;
	if (setting->type != CHOICE && (number < setting->min || number > setting->max))
		return -ERANGE;
	*(uint64_t *)place = number;
	return 0;
}

int config_new(struct config **ret)
{
	struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		_cleanup_(freep) char *value = setting_default(&settings[i]);
		int r = value ? setting_put(config, &settings[i], value) : -ENOMEM;

		if (r < 0) {
			config_free(config);
			return r;
		}
	}
	*ret = config;
	return 0;
}

struct config *config_free(struct config *config)
{
	if (!config)
		return NULL;
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (setting_is_text(&settings[i]))
			free(*(char **)((char *)config + settings[i].offset));
	free(config);
	return NULL;
}

struct reading {
	struct config *config;
	const char *path;
	FILE *file;
	int line, faults, error;       /* the last: of reading it */
	bool indented;		       /* the line is */
	const struct setting *setting; /* the last one */
};

static const char *const examples[] = {
	[TEXT] = "",
	[COUNT] = " Use a number.",
	[SIZE] = " Use a size such as " UNITS_SIZE_EXAMPLES ".",
	[DURATION] = " Use a duration such as " UNITS_DURATION_EXAMPLES ".",
	[SHARE] = " Use a share such as " UNITS_SHARE_EXAMPLES ".",
	[CHOICE] = "",
};

static void setting_refuse(const struct reading *reading, const struct setting *setting,
			   const char *value, int error)
{
	_cleanup_(freep) char *text = strdup(setting->text);

	for (char *end = text ? strchr(text, '\n') : NULL; end; end = strchr(end, '\n'))
		*end = ' ';
	log_error("%s: '%s' is %s for '%s' in [%s]: %s%s", reading->path, value,
		  error == -ERANGE ? "out of range" : "invalid", setting->key, setting->section,
		  text ?: "", error == -ERANGE ? "" : examples[setting->type]);
}

/* A value goes on in lines that begin with a space. */
static int setting_take(const struct reading *reading, const struct setting *setting,
			const char *value)
{
	char *const *before = (char **)((char *)reading->config + setting->offset);
	_cleanup_(freep) char *both = NULL;

	if (!reading->indented || reading->setting != setting || !setting_is_text(setting))
		return setting_put(reading->config, setting, value);
	if (asprintf(&both, "%s %s", *before, value) < 0) {
		both = NULL;
		return -ENOMEM;
	}
	return setting_put(reading->config, setting, both);
}

static int config_line(void *data, const char *section, const char *key, const char *value)
{
	struct reading *reading = data;
	const struct setting *setting = NULL;
	int r;

	for (size_t i = 0; i < SETTING_COUNT && !setting; i++)
		if (!strcmp(settings[i].section, section) && !strcmp(settings[i].key, key))
			setting = &settings[i];
	if (!setting) {
		log_error("%s: unknown setting '%s' in section [%s]", reading->path, key, section);
		reading->faults++;
		return 1;
	}
	/* The default group need not exist: then only root may use the socket. */
	if (setting->type == GROUP && *value && strcmp(value, setting->value) && !getgrnam(value)) {
		log_error("%s: unknown group '%s' for '%s' in [%s]", reading->path, value, key,
			  section);
		reading->faults++;
		return 1;
	}
	r = setting_take(reading, setting, value);
	if (r < 0) {
		setting_refuse(reading, setting, value, r);
		reading->faults++;
	}
	reading->setting = setting;
	return 1;
}

/* The parser takes what is too long for a line for the next one. */
static char *config_read_line(char *line, int size, void *data)
{
	struct reading *reading = data;
	char *got = fgets(line, size, reading->file);

	if (!got && ferror(reading->file))
		reading->error = -errno;
	reading->line++;
	reading->indented = got && (*line == ' ' || *line == '\t');
	if (!got || strchr(line, '\n') || feof(reading->file))
		return got;
	log_error("%s:%d: a line of more than %d bytes: let the value go on in the next one, with "
		  "a space at its start",
		  reading->path, reading->line, size - 2);
	reading->faults++;
	return NULL;
}

static int config_add_library(struct config *config, const char *files)
{
	char *all;

	if (strstr(config->libraries, files))
		return 0;
	if (asprintf(&all, "%s %s", config->libraries, files) < 0)
		return -ENOMEM;
	free(config->libraries);
	config->libraries = all;
	return 0;
}

static int config_read_file(struct config *config, const char *path, bool may_miss)
{
	struct reading reading = { .config = config, .path = path, .file = fopen(path, "re") };
	int r;

	if (!reading.file && errno == ENOENT && may_miss)
		return 0;
	if (!reading.file)
		return log_error_errno(-errno, "Cannot read the settings file '%s'", path);
	ini_max_line = LINE_MAX; /* not the default of 200: a list of paths is longer */
	r = ini_parse_stream(config_read_line, &reading, config_line, &reading);
	fclose(reading.file);
	if (r < 0 || reading.error < 0)
		return log_error_errno(r < 0 ? -ENOMEM : reading.error,
				       "Cannot read the settings file '%s'", path);
	if (r > 0) {
		log_error("%s:%d: expected a [section] or setting = value", path, r);
		return -EINVAL;
	}
	if (config->ring_bytes & (config->ring_bytes - 1)) {
		log_error("%s: ring_size must be a power of two, such as 8MiB", path);
		reading.faults++;
	}
	return reading.faults ? -EINVAL : 0;
}

int config_read(struct config *config, const char *path, bool may_miss)
{
	int r = config_read_file(config, path, may_miss);

	if (r == 0 && config->tensors)
		r = config_add_library(config, library_torch.files);
	if (r == 0 && config->tensors && config->tensor_requests)
		r = config_add_library(config, library_torch_cuda.files);
	if (r == 0 && config->nccl)
		r = config_add_library(config, library_nccl.files);
	return r;
}

/* Calls `put` for each word. Returns their number, or -EINVAL; `put` logs what is wrong. */
static int config_words(const char *text, const char *what, uint32_t max,
			int (*put)(const char *word, uint32_t n, struct probe_config *config),
			struct probe_config *config)
{
	_cleanup_(freep) char *copy = strdup(text);
	char *state = NULL;
	uint32_t n = 0;

	if (!copy)
		return -ENOMEM;
	for (char *word = strtok_r(copy, " ,\t", &state); word;
	     word = strtok_r(NULL, " ,\t", &state)) {
		if (n == max) {
			log_error("[filter] %s: at most %u are allowed", what, max);
			return -EINVAL;
		}
		if (put(word, n++, config) < 0)
			return -EINVAL;
	}
	return (int)n;
}

static int config_put_pid(const char *word, uint32_t n, struct probe_config *config)
{
	uint64_t number;

	if (units_parse_count(word, &number) < 0 || number > INT32_MAX) {
		log_error("[filter] pids: invalid pid '%s'", word);
		return -EINVAL;
	}
	config->pid[n] = (uint32_t)number;
	return 0;
}

static int config_put_uid(const char *word, uint32_t n, struct probe_config *config)
{
	struct passwd entry, *user = NULL;
	char room[4096];
	uint64_t number;

	if (getpwnam_r(word, &entry, room, sizeof(room), &user) == 0 && user) {
		config->uid[n] = user->pw_uid;
		return 0;
	}
	if (units_parse_count(word, &number) < 0 || number > UINT32_MAX) {
		log_error("[filter] uids: unknown user '%s'", word);
		return -EINVAL;
	}
	config->uid[n] = (uint32_t)number;
	return 0;
}

/* The id of a cgroup v2 is the inode number of its directory. */
static int config_put_cgroup(const char *word, uint32_t n, struct probe_config *config)
{
	static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "" };
	const char *why = "is not a cgroup: use a path below /sys/fs/cgroup";
	char path[4096];
	struct statfs fs;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		snprintf(path, sizeof(path), "%s/%s", roots[i], word);
		if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) || statfs(path, &fs) < 0)
			continue;
		if (fs.f_type == CGROUP2_SUPER_MAGIC) {
			config->cgroup[n] = st.st_ino;
			return 0;
		}
		if (fs.f_type == CGROUP_SUPER_MAGIC)
			why = "is a v1 cgroup: only v2 cgroups can be filtered";
	}
	log_error("[filter] cgroups: '%s' %s", word, why);
	return -EINVAL;
}

int config_returns(const struct config *config, struct returns *ret)
{
	char unknown[RETURNS_NAME_SIZE];
	int r = returns_parse(config->returns, ret, unknown);

	if (r < 0 && *unknown)
		log_error("[probe] returns: no function that is probed at its return is called "
			  "'%s'",
			  unknown);
	else if (r < 0)
		log_error("[probe] returns: '%s' is invalid: use yes, no, or all but and names of "
			  "functions",
			  config->returns);
	return r;
}

int config_probe(const struct config *config, struct probe_config *ret)
{
	struct probe_config probe = {
		.way = (enum probe_way)config->way,
		.ring_bytes = config->ring_bytes,
		.stack_depth = (uint32_t)config->stack_depth,
		.unwind = config->unwind,
		.python_depth = config->python ? (uint32_t)config->python_depth : 0,
		.backward = config->backward,
		.tensor_bytes = config->tensor_bytes,
		.samples_per_s = (uint32_t)config->launch_stacks_per_s,
		.events_per_s = config->events_per_s,
	};
	int pids, uids, cgroups;

	if (config_returns(config, &probe.returns) < 0)
		return -EINVAL;
	pids = config_words(config->filter_pids, "pids", PROBE_FILTER_MAX, config_put_pid, &probe);
	uids = config_words(config->filter_uids, "uids", PROBE_FILTER_MAX, config_put_uid, &probe);
	cgroups = config_words(config->filter_cgroups, "cgroups", PROBE_FILTER_MAX,
			       config_put_cgroup, &probe);
	if (pids < 0 || uids < 0 || cgroups < 0)
		return -EINVAL;
	probe.pid_count = (uint32_t)pids;
	probe.uid_count = (uint32_t)uids;
	probe.cgroup_count = (uint32_t)cgroups;
	*ret = probe;
	return 0;
}

static void print_comment(FILE *file, const char *text)
{
	fputs("# ", file);
	for (; *text; text++) {
		fputc(*text, file);
		if (*text == '\n')
			fputs("# ", file);
	}
	fputc('\n', file);
}

void config_print(FILE *file)
{
	const char *section = "";

	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *setting = &settings[i];
		_cleanup_(freep) char *value = setting_default(setting);

		if (strcmp(section, setting->section))
			fprintf(file, "%s[%s]\n", i ? "\n" : "", setting->section);
		section = setting->section;
		print_comment(file, setting->text);
		fprintf(file, "#%s = %s\n", setting->key, value ?: "");
	}
}
