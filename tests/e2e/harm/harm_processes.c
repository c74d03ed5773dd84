#include "harm.h"
const struct harm_case harm_processes[] = { { NULL, NULL } };
