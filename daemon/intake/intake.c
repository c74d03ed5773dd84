/* Intake: who may go. For each input stands the time up to which its records may leave at once
 * (`sure_ns`): it changes only when lanes do, so that most records cost a comparison and are never
 * copied. */
#include "daemon/intake/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"

#define ROUNDS_MAX 16 /* of a turn: one for each record that held up a lane */
#define GETS_ON	   2  /* turns without a record of a lane that gets on */

struct input {
	intake_drain *drain; /* or NULL */
	void *data;
	uint64_t hold_ns;
	struct list lanes;
	uint64_t before_ns; /* all that is earlier was put */
	uint64_t sure_ns;   /* its records up to here may go */
	uint64_t given_ns;  /* the latest record that has left */
};

struct intake {
	struct intake_config config;
	struct input input[INTAKE_INPUTS_MAX];
	uint32_t inputs;
	uint64_t now_ns, slack_ns, turn;
	uint32_t reading;     /* the input that is read */
	bool turning, let_go; /* the latter: a lane that this round has passed may be read on */
	struct intake_stats stats;
};

const struct intake_input intake_sources[INTAKE_SOURCES] = {
	[INTAKE_LIBRARIES] = { "libraries", LIMIT_INTAKE_LIBRARIES_HOLD_NS },
	[INTAKE_PROBES] = { "probes", LIMIT_INTAKE_PROBES_HOLD_NS },
};

struct intake *intake_free(struct intake *intake)
{
	free(intake);
	return NULL;
}

void intake_wake(const struct intake *intake)
{
	intake->config.wake(intake->config.data);
}

static uint64_t lane_before_ns(const struct intake *intake, const struct intake_lane *lane)
{
	uint64_t reached_ns = lane->done_ns > lane->last_ns ? lane->done_ns : lane->last_ns;

	if (lane->size)
		return lane->last_ns;
	return reached_ns > intake->slack_ns ? reached_ns - intake->slack_ns : 0;
}

static uint64_t input_before_ns(const struct intake *intake, const struct input *input)
{
	uint64_t before_ns = UINT64_MAX;
	struct intake_lane *lane;

	list_for_each(lane, &input->lanes, link) {
		uint64_t ns = lane_before_ns(intake, lane);

		if (ns < before_ns)
			before_ns = ns;
	}
	return before_ns;
}

/* Of two at the same time the input of the first row goes first. */
static void intake_find_sure(struct intake *intake)
{
	for (uint32_t i = 0; i < intake->inputs; i++) {
		uint64_t sure_ns = UINT64_MAX;

		for (uint32_t k = 0; k < intake->inputs; k++) {
			uint64_t ns = intake->input[k].before_ns;

			if (k < i && ns && ns < UINT64_MAX)
				ns--;
			if (k != i && ns < sure_ns)
				sure_ns = ns;
		}
		intake->input[i].sure_ns = sure_ns;
	}
}

static void intake_look(struct intake *intake, uint32_t input)
{
	intake->input[input].before_ns = input_before_ns(intake, &intake->input[input]);
	intake_find_sure(intake);
}

int intake_new(const struct intake_config *config, struct intake **ret)
{
	struct intake *intake;

	if (config->inputs > INTAKE_INPUTS_MAX)
		return -EINVAL;
	intake = calloc(1, sizeof(*intake));
	if (!intake)
		return -ENOMEM;
	intake->config = *config;
	intake->slack_ns = LIMIT_INTAKE_SLACK_NS;
	intake->inputs = config->inputs;
	for (uint32_t i = 0; i < intake->inputs; i++) {
		list_init(&intake->input[i].lanes);
		intake->input[i].hold_ns = config->input[i].hold_ns;
		intake->input[i].before_ns = UINT64_MAX;
	}
	intake_find_sure(intake);
	*ret = intake;
	return 0;
}

void intake_attach(struct intake *intake, uint32_t input, intake_drain *drain, void *data)
{
	intake->input[input].drain = drain;
	intake->input[input].data = data;
}

/* Another input's record of after `time_ns` has left. */
static bool intake_is_past(const struct intake *intake, uint32_t input, uint64_t time_ns)
{
	for (uint32_t k = 0; k < intake->inputs; k++)
		if (k != input && intake->input[k].given_ns > time_ns)
			return true;
	return false;
}

static void intake_give(struct intake_lane *lane, const void *record, size_t size)
{
	struct intake *intake = lane->intake;
	struct input *input = &intake->input[lane->input];

	intake->stats.given++;
	if (lane->last_ns > input->given_ns)
		input->given_ns = lane->last_ns;
	lane->give(lane->data, record, size);
}

/* -ENOMEM: it must go as it is. */
static int lane_hold(struct intake_lane *lane, const void *record, size_t size)
{
	struct intake *intake = lane->intake;

	if (lane->room < size) {
		uint8_t *larger = realloc(lane->record, size);

		if (!larger)
			return -ENOMEM;
		lane->record = larger;
		lane->room = size;
	}
	memcpy(lane->record, record, size);
	lane->size = size;
	lane->held_ns = intake->now_ns;
	intake->stats.held++;
	intake->stats.holding++;
	return 0;
}

static void lane_let_go(struct intake_lane *lane)
{
	struct intake *intake = lane->intake;
	uint64_t waited_ns = intake->now_ns - lane->held_ns;
	size_t size = lane->size;

	if (waited_ns > intake->stats.longest_hold_ns)
		intake->stats.longest_hold_ns = waited_ns;
	intake->stats.holding--;
	intake->let_go |= lane->input < intake->reading;
	lane->size = 0;
	intake_give(lane, lane->record, size);
}

/* How the other inputs stand that have not come to that time. */
enum others {
	OTHERS_HOLD, /* their records only wait for their turn, however late the daemon is */
	OTHERS_GET_ON,
	OTHERS_STAND,
};

static enum others intake_others(const struct intake *intake, uint32_t input, uint64_t time_ns)
{
	enum others found = OTHERS_HOLD;
	const struct intake_lane *lane;

	for (uint32_t k = 0; k < intake->inputs; k++) {
		if (k == input)
			continue;
		list_for_each(lane, &intake->input[k].lanes, link) {
			if (lane->size || lane_before_ns(intake, lane) > time_ns)
				continue;
			if (!lane->stalled && lane->put_turn + GETS_ON < intake->turn)
				return OTHERS_STAND;
			found = OTHERS_GET_ON;
		}
	}
	return found;
}

/* Where there is room, what is stuck is waited for: a thread that lost its processor while it wrote
 * may take long to get one, on a host with many. */
static uint64_t lane_hold_ns(const struct intake_lane *lane, enum others others)
{
	uint64_t hold_ns = lane->intake->input[lane->input].hold_ns;

	if (others == OTHERS_GET_ON)
		hold_ns *= INTAKE_HOLDS;
	return lane->roomy && hold_ns < LIMIT_INTAKE_ROOMY_HOLD_NS ? LIMIT_INTAKE_ROOMY_HOLD_NS
								   : hold_ns;
}

/* It has waited long enough, in the ring or held; `time_ns` may be anything. */
static bool lane_is_due(const struct intake_lane *lane, uint64_t time_ns)
{
	const struct intake *intake = lane->intake;
	uint64_t since_ns = lane->size && lane->held_ns < time_ns ? lane->held_ns : time_ns;
	enum others others;

	if (intake->now_ns < since_ns ||
	    intake->now_ns - since_ns < intake->input[lane->input].hold_ns)
		return false;
	others = intake_others(intake, lane->input, time_ns);
	return others != OTHERS_HOLD && intake->now_ns - since_ns >= lane_hold_ns(lane, others);
}

static bool lane_goes_before(const struct intake_lane *a, const struct intake_lane *b)
{
	return a->last_ns != b->last_ns ? a->last_ns < b->last_ns : a->input < b->input;
}

/* The record that is held and goes first. */
static struct intake_lane *intake_first(const struct intake *intake)
{
	struct intake_lane *first = NULL, *lane;

	for (uint32_t i = 0; i < intake->inputs && intake->stats.holding; i++) {
		list_for_each(lane, &intake->input[i].lanes, link) {
			if (lane->size && (!first || lane_goes_before(lane, first)))
				first = lane;
		}
	}
	return first;
}

/* Lets go who may. Only the first can: it is earlier than all that the other lanes hold. */
static void intake_release(struct intake *intake)
{
	struct intake_lane *lane;
	uint32_t input;

	while ((lane = intake_first(intake))) {
		if (lane->last_ns > intake->input[lane->input].sure_ns) {
			if (!lane_is_due(lane, lane->last_ns))
				return;
			intake->stats.unordered++;
		}
		input = lane->input;
		lane_let_go(lane);
		intake_look(intake, input);
	}
}

/* The record would be held. It is later than something that is still to come, or that another lane
 * holds: that may go now, as this input has come so far. */
static bool intake_put_slowly(struct intake_lane *lane, const void *record, size_t size)
{
	struct intake *intake = lane->intake;

	if (!lane->straight && !lane_is_due(lane, lane->last_ns) &&
	    lane_hold(lane, record, size) == 0) {
		intake_look(intake, lane->input);
		intake_release(intake);
		return !lane->size;
	}
	intake->stats.unordered += !lane->straight;
	intake_give(lane, record, size);
	return true;
}

bool intake_put(struct intake_lane *lane, uint64_t time_ns, const void *record, size_t size)
{
	struct intake *intake = lane->intake;

	lane->put_turn = intake->turn;
	if (time_ns > lane->last_ns)
		lane->last_ns = time_ns;
	if (time_ns && intake_is_past(intake, lane->input, lane->last_ns))
		intake->stats.late++;
	if (lane->last_ns > intake->input[lane->input].sure_ns)
		return intake_put_slowly(lane, record, size);
	intake_give(lane, record, size);
	return true;
}

void intake_lane_open(struct intake_lane *lane, struct intake *intake, uint32_t input,
		      uint64_t now_ns)
{
	lane->intake = intake;
	lane->input = input;
	lane->done_ns = now_ns;
	list_append(&intake->input[input].lanes, &lane->link);
	intake_look(intake, input);
}

void intake_lane_close(struct intake_lane *lane)
{
	struct intake *intake = lane->intake;

	if (!intake)
		return;
	if (lane->size)
		lane_let_go(lane);
	list_remove(&lane->link);
	free(TAKE(lane->record));
	lane->room = 0;
	lane->intake = NULL;
	intake_look(intake, lane->input);
}

void intake_lane_done(struct intake_lane *lane)
{
	if (!lane->size && lane->intake->now_ns > lane->done_ns)
		lane->done_ns = lane->intake->now_ns;
}

void intake_lane_stall(struct intake_lane *lane, bool stalled)
{
	lane->stalled = stalled;
}

void intake_lane_roomy(struct intake_lane *lane, bool roomy)
{
	lane->roomy = roomy;
}

static bool intake_is_stalled(const struct intake *intake)
{
	const struct intake_lane *lane;

	for (uint32_t i = 0; i < intake->inputs; i++)
		list_for_each(lane, &intake->input[i].lanes, link)
			if (lane->stalled)
				return true;
	return false;
}

void intake_lane_straight(struct intake_lane *lane)
{
	lane->straight = true;
	if (lane->size)
		lane_let_go(lane);
	intake_look(lane->intake, lane->input);
}

bool intake_lane_passed(const struct intake_lane *lane, uint64_t time_ns)
{
	const struct intake *intake = lane->intake;

	return lane->straight || (!lane->size && (time_ns <= intake->input[lane->input].sure_ns ||
						  lane_is_due(lane, time_ns)));
}

static enum intake_state intake_round(struct intake *intake, uint32_t budget)
{
	enum intake_state most = INTAKE_ASLEEP;

	intake->let_go = false;
	for (uint32_t i = 0; i < intake->inputs; i++) {
		struct input *input = &intake->input[i];
		enum intake_state state = INTAKE_ASLEEP;

		intake->reading = i;
		if (input->drain)
			state = input->drain(input->data, intake->now_ns, budget);
		if (state > most)
			most = state;
		intake_look(intake, i);
		intake_release(intake);
	}
	intake->reading = 0;
	return most;
}

/* At least so many rounds, and until nothing that was passed may be read on. */
static enum intake_state intake_rounds(struct intake *intake, uint64_t now_ns, int least,
				       uint32_t budget)
{
	enum intake_state most = INTAKE_ASLEEP;

	intake->turning = true;
	intake->now_ns = now_ns;
	intake->turn++;
	for (int i = 0; i < least || (intake->let_go && i < ROUNDS_MAX); i++) {
		enum intake_state state = intake_round(intake, budget);

		if (state > most)
			most = state;
	}
	intake->turning = false;
	if (intake->let_go)
		return INTAKE_MORE;
	return most < INTAKE_AWAKE && intake->stats.holding ? INTAKE_AWAKE : most;
}

enum intake_state intake_turn(struct intake *intake, uint64_t now_ns)
{
	if (intake->turning)
		return INTAKE_AWAKE;
	return intake_rounds(intake, now_ns, 1, LIMIT_EVENTS_PER_TURN);
}

/* Without the slack a lane that was read has come to `now_ns`, so all of before may leave. The
 * second round is for those that wait for all others to come so far. */
static enum intake_state intake_empty(struct intake *intake, uint64_t now_ns)
{
	enum intake_state state;

	intake->slack_ns = 0;
	state = intake_rounds(intake, now_ns, 2, LIMIT_EVENTS_PER_TURN);
	intake->slack_ns = LIMIT_INTAKE_SLACK_NS;
	for (uint32_t i = 0; i < intake->inputs; i++)
		intake_look(intake, i);
	return state;
}

bool intake_is_turning(const struct intake *intake)
{
	return intake->turning;
}

uint64_t intake_reach(struct intake *intake, uint64_t now_ns)
{
	uint64_t reached_ns = now_ns;
	enum intake_state state;

	if (intake->turning)
		return 0;
	state = intake_turn(intake, now_ns);
	if (state != INTAKE_MORE)
		state = intake_empty(intake, now_ns);
	if (state != INTAKE_ASLEEP)
		intake_wake(intake);
	if (state != INTAKE_MORE && !intake->stats.holding && !intake_is_stalled(intake))
		return now_ns;
	for (uint32_t i = 0; i < intake->inputs; i++)
		if (intake->input[i].before_ns < reached_ns)
			reached_ns = intake->input[i].before_ns;
	return reached_ns;
}

void intake_stats(const struct intake *intake, struct intake_stats *ret)
{
	*ret = intake->stats;
}
