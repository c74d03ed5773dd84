/* Priced: hands what the probes cost each process, and what windows missed, to the model and the
 * store. */
#include "core/base/time.h"
#include "core/price/row.h"
#include "daemon/daemon_internal.h"

#define PPM 1e6

static int32_t ppm(double share)
{
	double value = share * PPM;

	return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

static void on_catch_up(void *data)
{
	struct daemon *daemon = data;

	turn_look(&daemon->turn);
}

static void on_tier(void *data, uint32_t pid, struct price_tier *ret)
{
	struct daemon *daemon = data;
	struct exact_tier tier = { 0 };

	if (daemon->exact)
		exact_tier(daemon->exact, pid, &tier);
	*ret = (struct price_tier){
		.exact = tier.carries,
		.recording = tier.recording,
		.windows = tier.windows,
		.rests = tier.rests,
		.cycles = tier.cycles,
		.inside = tier.inside,
		.walk_ns = tier.walk_ns,
		.budget = tier.budget_ppm / PPM,
	};
}

static void on_window(void *data, uint32_t pid, enum ts_window_how how, uint64_t at_ns)
{
	struct daemon *daemon = data;

	if (daemon->exact)
		exact_window(daemon->exact, pid, how, at_ns);
}

static void on_cycle(void *data, uint32_t pid, enum price_part part,
		     const struct watch_cycle *cycle)
{
	struct daemon *daemon = data;
	const struct core_process *process = core_process_by_pid(daemon->core, pid);
	struct core_watch row;

	if (!process)
		return;
	row = row_of_cycle(cycle, process->id, part);
	store_add(daemon->store, &row);
}

static void on_parted(void *data, uint32_t pid, enum price_part part, uint64_t since_ns)
{
	struct daemon *daemon = data;

	ledger_open(&daemon->ledger, pid, LOSS_WINDOWS, LEDGER_PRICE, since_ns);
	if (part == PRICE_EXACT)
		ledger_open(&daemon->ledger, pid, LOSS_EXACT_WINDOWS, LEDGER_PRICE, since_ns);
}

static void on_whole_again(void *data, uint32_t pid, enum price_part part, uint64_t now_ns)
{
	struct daemon *daemon = data;

	ledger_close(&daemon->ledger, pid, LOSS_WINDOWS, LEDGER_PRICE, now_ns);
	if (part == PRICE_EXACT)
		ledger_close(&daemon->ledger, pid, LOSS_EXACT_WINDOWS, LEDGER_PRICE, now_ns);
}

/* Who may attach to it is its owner: for us too. */
static void on_windows(void *data, uint32_t pid)
{
	struct daemon *daemon = data;
	const struct core_process *process = core_process_by_pid(daemon->core, pid);

	if (process && daemon->exact && daemon->config->light >= LIGHT_AUTO)
		exact_lighten(daemon->exact, pid, process->started_ticks, process->uid);
}

/* It was recorded whole lately, and made that many hot calls. */
static void on_whole(void *data, uint32_t pid, uint64_t now_ns, uint64_t hits)
{
	struct daemon *daemon = data;
	const struct core_process *process = core_process_by_pid(daemon->core, pid);
	struct core_watch row = {
		.second = now_ns / (uint64_t)NS_PER_S,
		.part = PRICE_EXACT,
		.whole = hits,
	};

	if (!process)
		return;
	row.process = process->id;
	store_add(daemon->store, &row);
}

/* What the hits take at least, of one core: as if they all came in a loop. */
static double cpu_share(const struct daemon *daemon, const struct price_told *told)
{
	const struct watch_price *price = &told->price;
	struct calibration calibration;
	double hot_ns, cold_ns;

	calibrate_result(daemon->calibrate, &calibration);
	cold_ns = (double)calibration.hot_ns;
	hot_ns = told->inside_ns ? (double)told->inside_ns : cold_ns;
	return (price->rate * price->share * hot_ns + price->cold_rate * cold_ns) / NS_PER_S;
}

static bool is_of_stacks(enum price_part part)
{
	return part == PRICE_STACKS || part == PRICE_STACKS_INSIDE;
}

static void on_price(void *data, uint32_t pid, const struct price_told *told)
{
	const struct watch_price *price = &told->price;
	struct daemon *daemon = data;
	const struct core_process *process = core_process_by_pid(daemon->core, pid);
	struct core_price row = {
		.part = (uint8_t)told->part,
		.measured = price->basis == WATCH_MEASURED,
		.turns = price->pairs,
		.budget_ppm = (uint32_t)ppm(told->budget),
		.share_ppm = (uint32_t)ppm(price->share),
		.whole_ppm = ppm(price->whole),
		.whole_low_ppm = ppm(price->whole_low),
		.whole_high_ppm = ppm(price->whole_high),
		.cost_ppm = ppm(price->now),
		.cost_low_ppm = ppm(price->now_low),
		.cost_high_ppm = ppm(price->now_high),
		.cold_ppm = ppm(price->cold),
		.over = price->over,
		.until_ns = told->until_ns,
		.turned_ns = price->turned_ns,
		.calls_per_s = (uint64_t)price->rate,
		.hit_ns = told->hit_ns,
		.cpu_ppm = (uint64_t)ppm(is_of_stacks(told->part) ? price->now
								  : cpu_share(daemon, told)),
		.told_ns = uv_hrtime(),
	};

	if (!process)
		return;
	row.process = process->id;
	store_add(daemon->store, &row);
}

uint64_t daemon_hit_ns(const struct daemon *daemon)
{
	struct calibration calibration;

	calibrate_result(daemon->calibrate, &calibration);
	return calibration.hit_ns;
}

static struct price_config price_config(const struct daemon *daemon)
{
	struct probe_stats stats;

	probe_stats(daemon->probe, &stats, NULL, 0);
	return (struct price_config){
		.budget = (double)daemon->config->budget_ppm / PPM,
		.hit_ns = daemon_hit_ns(daemon),
		.windows = stats.single,
	};
}

static void on_calibrated(void *data)
{
	daemon_configure_price(data);
	daemon_configure_flood(data);
}

int daemon_start_price(struct daemon *daemon)
{
	struct price_callbacks callbacks = {
		.catch_up = on_catch_up,
		.tier = on_tier,
		.window = on_window,
		.parted = on_parted,
		.whole_again = on_whole_again,
		.cycle = on_cycle,
		.whole = on_whole,
		.windows = on_windows,
		.price = on_price,
	};
	struct price_config config = price_config(daemon);
	int r = price_new(&daemon->loop, daemon->libraries, &config, &callbacks, daemon,
			  &daemon->price);

	if (r < 0)
		return r;
	return calibrate_start(&daemon->loop, daemon->probe, libraries_remover(daemon->libraries),
			       on_calibrated, daemon, &daemon->calibrate);
}

bool daemon_price_event(struct daemon *daemon, const struct ts_event *event)
{
	if (calibrate_owns(daemon->calibrate, event) || exact_covers(daemon->exact, event))
		return false;
	if (!(event->flags & TS_EVENT_INSIDE))
		return price_event(daemon->price, event);
	price_inside(daemon->price, event);
	return true;
}

static void on_closed(void *data)
{
}

void daemon_stop_price(struct daemon *daemon)
{
	if (daemon->price)
		price_close(daemon->price, on_closed);
	calibrate_stop(daemon->calibrate);
}

void daemon_configure_price(struct daemon *daemon)
{
	struct price_config config = price_config(daemon);

	price_configure(daemon->price, &config);
}
