/* What is not certain of predictions: whose word the middle is, and what this process has warned of. */
#ifndef SL_CLIENT_PREDICT_DOUBT_H
#define SL_CLIENT_PREDICT_DOUBT_H

#include <jansson.h>
#include <stdbool.h>

/* Says once that the server's middle is unchecked, unless `local`. Returns a new object with what each JSON object of a
 * prediction has of it: "servers_word", and the ids of "warnings" so far; neither where there is none. */
json_t *sl_doubt(bool local);
/* Its members as text, with "," in front; "": there are none. NULL: no memory. Takes the object; the caller frees the
 * text. */
char *sl_doubt_text(json_t *doubt);

#endif
