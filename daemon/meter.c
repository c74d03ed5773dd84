/* Meter: looks at the clocks once a turn, before the loop waits; the wait does not count. */
#include "daemon/meter.h"

#include "core/base/clock.h"

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct meter *meter = prepare->data;
	uint64_t now_ns = uv_hrtime(), idle_ns = uv_metrics_idle_time(prepare->loop);
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t waited_ns = idle_ns - meter->idle_ns, took_ns = now_ns - meter->begun_ns;

	if (meter->begun_ns && took_ns > waited_ns) {
		meter->longest_ns = greater(meter->longest_ns, took_ns - waited_ns);
		meter->longest_cpu_ns = greater(meter->longest_cpu_ns, cpu_ns - meter->cpu_ns);
	}
	meter->begun_ns = now_ns;
	meter->idle_ns = idle_ns;
	meter->cpu_ns = cpu_ns;
}

int meter_start(struct meter *meter, uv_loop_t *loop)
{
	int r = uv_loop_configure(loop, UV_METRICS_IDLE_TIME);

	if (r < 0)
		return r;
	uv_prepare_init(loop, &meter->prepare);
	meter->prepare.data = meter;
	uv_prepare_start(&meter->prepare, on_prepare);
	uv_unref((uv_handle_t *)&meter->prepare);
	return 0;
}

void meter_close(struct meter *meter)
{
	if (meter->prepare.loop)
		uv_close((uv_handle_t *)&meter->prepare, NULL);
}
