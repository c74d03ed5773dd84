/* Short: a process that is over before anybody has looked at it. */
#include "handful.h"

int main(int argc, char **argv)
{
	uint64_t launches = 10;
	const struct option_row options[] = {
		{ "launches", "number of launches (10)", OPTION_NUMBER, &launches },
	};

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	handful(launches, NULL);
	tally_print();
	return 0;
}
