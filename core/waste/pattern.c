/* Pattern: the names of patterns and certainties. */
#include "core/waste/pattern.h"

const char *waste_pattern_name(uint8_t pattern)
{
	static const char *const names[] = {
#define X(number, identifier, name, advice) [number] = name,
		WASTE_PATTERNS(X)
#undef X
	};

	return pattern <= WASTE_MAX ? names[pattern] : NULL;
}

const char *waste_pattern_advice(uint8_t pattern)
{
	static const char *const advices[] = {
#define X(number, identifier, name, advice) [number] = advice,
		WASTE_PATTERNS(X)
#undef X
	};

	return pattern <= WASTE_MAX ? advices[pattern] : NULL;
}

const char *certainty_name(uint8_t certainty)
{
	static const char *const names[] = {
#define X(number, identifier, name) [number] = name,
		CERTAINTIES(X)
#undef X
	};

	return certainty <= CERTAINTY_MAX ? names[certainty] : NULL;
}
