/* Profiler: the program in profiler.c, which is linked directly or comes in a module. */
#pragma once

__attribute__((visibility("default"))) int profiler_main(int argc, char **argv);
