/* A config from a few answers, with comments: what `splitc init` writes, and what `splitc train` runs without a CONFIG.
 * Its defaults are the demo's (configs/client-demo.yaml). */
#ifndef SL_CLIENT_CMD_PRESET_H
#define SL_CLIENT_CMD_PRESET_H

#include "common/conf/conf.h"

/* The answers. NULL: the demo's. */
struct sl_preset {
	const char *server; /* tcp://HOST:PORT */
	const char *model;  /* a network's name */
	const char *data;   /* KIND:FOLDER, KIND, or a folder or file */
	const char *label;  /* a column; NULL: that of `user`, or the one that is clearly the label */
	const char *cut;    /* A:-B, or HEAD_END,TAIL_BEGIN */
	const char *log_dir;
	bool lenient;                      /* a label that is not clear is the last column, and not an error */
	const struct sl_conf_client *user; /* with keys that the user has set, which the config keeps; NULL: none */
	struct sl_fail *counted; /* not NULL: gets the names of the data's classes, or why they could not be counted */
	struct sl_preset_found *found; /* not NULL: gets what was found */
};

struct sl_preset_found {
	const char *what;           /* "a table" */
	char columns[SL_FAIL_TEXT]; /* of which one is the label; "": none is asked for */
	char label[SL_CONF_TEXT];   /* the one that is chosen */
	bool unequal;               /* of the classes one is far smaller than another */
};

enum { SL_PRESET_TEXT = 4 * PATH_MAX };

/* Writes the config as text, and loads it to *conf. It is complete and in bounds, and the network has its cut.
 * CONFIG: an answer is invalid, or it is not clear which column is the label; DATA, NOINPUT: there are no data that are
 * read; NOMEM. */
enum sl_err sl_preset_make(char text[SL_PRESET_TEXT], struct sl_conf_client *conf, const struct sl_preset *preset,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
