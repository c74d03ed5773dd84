#include "harm.h"
const struct harm_case harm_loaders[] = { { NULL, NULL } };
