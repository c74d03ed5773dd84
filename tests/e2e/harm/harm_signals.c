#include "harm.h"
const struct harm_case harm_signals[] = { { NULL, NULL } };
