/* Profiler direct: the profiler in a program that is linked to libcupti. */
#include "profiler.h"

int main(int argc, char **argv)
{
	return profiler_main(argc, argv);
}
